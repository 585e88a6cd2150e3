#include "link/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/poll_ms.h"
#include "base/system_calls.h"
#include "descriptor/descriptor.h"

// libc's syscall() reports through errno, which belongs to the program: it is put back.
#define CALL(...)                           \
    ({                                      \
        int saved = errno;                  \
        long result = syscall(__VA_ARGS__); \
        if (result < 0) {                   \
            result = -errno;                \
            errno = saved;                  \
        }                                   \
        result;                             \
    })

// Of a call that makes one.
static int placed(long fd)
{
    const int saved = errno;
    const int ret = descriptor_above_standard((int)fd);
    if (fd >= 0 && ret < 0) {
        fd = -errno;
        errno = saved;
        return (int)fd;
    }
    return ret;
}

// Of a call that makes two.
static int both_placed(int error, int fds[2])
{
    for (unsigned i = 0; error == 0 && i < 2; i++) {
        fds[i] = placed(fds[i]);
        if (fds[i] < 0) {
            error = fds[i];
            sys_close(fds[1 - i]);
        }
    }
    return error;
}

// Descriptors that have come with a message.
static void rights_place(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        const bool is_rights = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
        for (size_t at = CMSG_LEN(0); is_rights && at + sizeof(int) <= c->cmsg_len;
             at += sizeof(int)) {
            int fd;
            memcpy(&fd, (uint8_t *)c + at, sizeof fd);
            fd = placed(fd);
            memcpy((uint8_t *)c + at, &fd, sizeof fd);
        }
    }
}

int sys_socket(int family, int type, int protocol)
{
    return placed(CALL(SYS_socket, family, type, protocol));
}

int sys_socketpair(int family, int type, int ret[2])
{
    return both_placed((int)CALL(SYS_socketpair, family, type, 0, ret), ret);
}

int sys_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    return (int)CALL(SYS_bind, fd, addr, len);
}

int sys_listen(int fd, int backlog)
{
    return (int)CALL(SYS_listen, fd, backlog);
}

int sys_accept(int fd, int flags)
{
    return placed(CALL(SYS_accept4, fd, NULL, NULL, flags));
}

int sys_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    return (int)CALL(SYS_connect, fd, addr, len);
}

int sys_shutdown(int fd, int how)
{
    return (int)CALL(SYS_shutdown, fd, how);
}

int sys_close(int fd)
{
    return (int)CALL(SYS_close, fd);
}

void sys_close_fd(int *fd)
{
    if (*fd >= 0) {
        sys_close(*fd);
    }
    *fd = -1;
}

void sys_close_fds(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sys_close(fds[i]);
    }
}

int sys_dup(int fd)
{
    return placed(CALL(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0));
}

ssize_t sys_recv(int fd, void *buf, size_t len, int flags)
{
    return CALL(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
}

ssize_t sys_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
                   socklen_t to_len)
{
    return CALL(SYS_sendto, fd, buf, len, flags, to, to_len);
}

ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return CALL(SYS_sendmsg, fd, msg, flags);
}

int sys_sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags)
{
    return (int)CALL(SYS_sendmmsg, fd, msgs, count, flags);
}

ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
    const ssize_t len = CALL(SYS_recvmsg, fd, msg, flags);
    if (len >= 0 && msg->msg_controllen > 0) {
        rights_place(msg);
    }
    return len;
}

int sys_recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags)
{
    return (int)CALL(SYS_recvmmsg, fd, msgs, count, flags, NULL);
}

int sys_getsockname(int fd, struct sockaddr_storage *ret)
{
    socklen_t len = sizeof *ret;
    return (int)CALL(SYS_getsockname, fd, ret, &len);
}

int sys_getpeername(int fd, struct sockaddr_storage *ret)
{
    socklen_t len = sizeof *ret;
    return (int)CALL(SYS_getpeername, fd, ret, &len);
}

int sys_setsockopt_int(int fd, int level, int option, int value)
{
    return sys_setsockopt(fd, level, option, &value, sizeof value);
}

int sys_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    return (int)CALL(SYS_setsockopt, fd, level, option, value, len);
}

int sys_getsockopt(int fd, int level, int option, void *ret, socklen_t *len)
{
    return (int)CALL(SYS_getsockopt, fd, level, option, ret, len);
}

int sys_getsockopt_int(int fd, int level, int option, int *ret)
{
    socklen_t len = sizeof *ret;
    return sys_getsockopt(fd, level, option, ret, &len);
}

bool sys_is_socket_of_host(int fd)
{
    int domain = 0;
    return sys_getsockopt_int(fd, SOL_SOCKET, SO_DOMAIN, &domain) == 0 && domain == AF_UNIX;
}

int sys_eventfd(unsigned value, int flags)
{
    return placed(CALL(SYS_eventfd2, value, flags));
}

ssize_t sys_read(int fd, void *buf, size_t len)
{
    return CALL(SYS_read, fd, buf, len);
}

ssize_t sys_write(int fd, const void *buf, size_t len)
{
    return CALL(SYS_write, fd, buf, len);
}

ssize_t sys_readv(int fd, const struct iovec *iov, unsigned count)
{
    return CALL(SYS_readv, fd, iov, count);
}

ssize_t sys_writev(int fd, const struct iovec *iov, unsigned count)
{
    return CALL(SYS_writev, fd, iov, count);
}

int sys_ioctl(int fd, unsigned long request, void *argument)
{
    return (int)CALL(SYS_ioctl, fd, request, argument);
}

int sys_open(const char *path, int flags, unsigned mode)
{
    return placed(CALL(SYS_openat, AT_FDCWD, path, flags, mode));
}

int sys_flock(int fd, int operation)
{
    return (int)CALL(SYS_flock, fd, operation);
}

int sys_ftruncate(int fd, uint64_t len)
{
    return (int)CALL(SYS_ftruncate, fd, len);
}

int sys_fcntl(int fd, int command, int argument)
{
    return (int)CALL(SYS_fcntl, fd, command, argument);
}

int64_t sys_file_len(int fd)
{
    return CALL(SYS_lseek, fd, 0, SEEK_END);
}

ssize_t sys_pread(int fd, void *buf, size_t len, uint64_t at)
{
    return CALL(SYS_pread64, fd, buf, len, at);
}

ssize_t sys_pwrite(int fd, const void *buf, size_t len, uint64_t at)
{
    return CALL(SYS_pwrite64, fd, buf, len, at);
}

int sys_pipe(int ret_fds[2], int flags)
{
    return both_placed((int)CALL(SYS_pipe2, ret_fds, flags), ret_fds);
}

int sys_memfd_create(const char *name, unsigned flags)
{
    return placed(CALL(SYS_memfd_create, name, flags));
}

// No child of a fork has it.
static int map_of_file(int fd, size_t len, int protection, void **ret)
{
    int saved = errno;
    int error = 0;
    void *at = mmap(NULL, len, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        error = -errno;
    } else if (madvise(at, len, MADV_DONTFORK) != 0) {
        error = -errno;
        munmap(at, len);
    }
    errno = saved;
    *ret = at;
    return error;
}

int sys_map_shared(int fd, size_t len, void **ret)
{
    return map_of_file(fd, len, PROT_READ | PROT_WRITE, ret);
}

int sys_map_foreign(int fd, size_t len, const void **ret)
{
    void *at;
    int error = map_of_file(fd, len, PROT_READ, &at);
    *ret = at;
    return error;
}

pid_t sys_gettid(void)
{
    return (pid_t)CALL(SYS_gettid);
}

ssize_t sys_process_vm_writev(pid_t pid, const struct iovec *local, unsigned local_count,
                              const struct iovec *remote, unsigned remote_count)
{
    return CALL(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, 0);
}

ssize_t sys_process_vm_readv(pid_t pid, const struct iovec *local, unsigned local_count,
                             const struct iovec *remote, unsigned remote_count)
{
    return CALL(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, 0);
}

int sys_pidfd_open(pid_t pid)
{
    return placed(CALL(SYS_pidfd_open, pid, 0));
}

int sys_pidfd_getfd(int pidfd, int fd)
{
    return placed(CALL(CALL_PIDFD_GETFD, pidfd, fd, 0));
}

int sys_thread_look(pid_t pid, pid_t thread)
{
    return (int)CALL(SYS_tgkill, pid, thread, 0);
}

ssize_t sys_readlink(const char *path, char *ret, size_t len)
{
    return CALL(SYS_readlinkat, AT_FDCWD, path, ret, len);
}

void sys_nap(duration_ns time_ns)
{
    struct timespec t = {.tv_sec = (time_t)(time_ns / NS_PER_S),
                         .tv_nsec = (long)(time_ns % NS_PER_S)};
    CALL(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
}

bool sys_wait_in(int fd, duration_ns timeout_ns)
{
    return sys_wait_in_left(fd, &timeout_ns);
}

// Linux itself says in the time what is left of it; it is the C library that does not.
bool sys_wait_in_left(int fd, duration_ns *left_ns)
{
    struct pollfd it = {.fd = fd, .events = POLLIN};
    struct timespec t = {.tv_sec = (time_t)(*left_ns / NS_PER_S),
                         .tv_nsec = (long)(*left_ns % NS_PER_S)};
    const bool is_there = CALL(SYS_ppoll, &it, 1, &t, NULL, 0) > 0;
    *left_ns = (duration_ns)t.tv_sec * NS_PER_S + (duration_ns)t.tv_nsec;
    return is_there;
}

bool sys_has_hung_up(int fd)
{
    struct pollfd it = {.fd = fd};
    const struct timespec now = {0};
    return CALL(SYS_ppoll, &it, 1, &now, NULL, 0) > 0 && (it.revents & POLLHUP) != 0;
}

int sys_epoll_create(int flags)
{
    return placed(CALL(SYS_epoll_create1, flags));
}

int sys_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    return (int)CALL(SYS_epoll_ctl, epoll_fd, op, fd, event);
}

// Kernels before 5.11 do not know the call, nor do filters and emulators of their time, which
// answer EPERM too. Who has said so once is not asked again.
static atomic_bool is_pwait2_refused;

static long epoll_pwait2_if_known(int epoll_fd, struct epoll_event *ret, int max,
                                  duration_ns timeout_ns)
{
    struct timespec t = {.tv_sec = (time_t)(timeout_ns / NS_PER_S),
                         .tv_nsec = (long)(timeout_ns % NS_PER_S)};
    const struct timespec *limit = timeout_ns == INSTANT_NEVER ? NULL : &t;
    if (atomic_load_explicit(&is_pwait2_refused, memory_order_relaxed)) {
        return -ENOSYS;
    }
    long count = CALL(CALL_EPOLL_PWAIT2, epoll_fd, ret, max, limit, NULL, 0);
    if (count == -ENOSYS || count == -EPERM) {
        atomic_store_explicit(&is_pwait2_refused, true, memory_order_relaxed);
        return -ENOSYS;
    }
    return count;
}

int sys_epoll_wait(int epoll_fd, struct epoll_event *ret, int max, duration_ns timeout_ns)
{
    long count = epoll_pwait2_if_known(epoll_fd, ret, max, timeout_ns);
    if (count != -ENOSYS) {
        return (int)count;
    }
    return (int)CALL(SYS_epoll_pwait, epoll_fd, ret, max, poll_ms(0, timeout_ns), NULL, 0);
}

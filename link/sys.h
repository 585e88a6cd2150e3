// The system calls of the links, past libc: preload libraries such as librspreload put their
// own socket, connect, send, epoll … in libc's place, for programs that run on this very device.
//
// All return a value >= 0 or a negative errno; none is a cancellation point. Arguments as in the
// calls' own man pages. What they make never has the number of a standard descriptor
// (descriptor/descriptor.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/time.h"

int sys_socket(int family, int type, int protocol);
int sys_socketpair(int family, int type, int ret[2]);
int sys_bind(int fd, const struct sockaddr *addr, socklen_t len);
int sys_listen(int fd, int backlog);
int sys_accept(int fd, int flags);
int sys_connect(int fd, const struct sockaddr *addr, socklen_t len);
int sys_shutdown(int fd, int how);
int sys_close(int fd);
void sys_close_fd(int *fd); // if it is one; -1 afterwards
void sys_close_fds(const int *fds, unsigned count);
int sys_dup(int fd); // close-on-exec

ssize_t sys_recv(int fd, void *buf, size_t len, int flags);
ssize_t sys_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
                   socklen_t to_len);
ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags);
// Sends the messages one after the other and stops behind the first that was not taken whole.
int sys_sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags);

ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags);
int sys_recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags);

int sys_getsockname(int fd, struct sockaddr_storage *ret);
int sys_getpeername(int fd, struct sockaddr_storage *ret);
int sys_setsockopt_int(int fd, int level, int option, int value);
int sys_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int sys_getsockopt(int fd, int level, int option, void *ret, socklen_t *len);
int sys_getsockopt_int(int fd, int level, int option, int *ret);
// Whether it is a socket between processes of this host: what wakes by it is read and written
// without waiting, whatever a peer has handed over.
bool sys_is_socket_of_host(int fd);

int sys_eventfd(unsigned value, int flags);
ssize_t sys_read(int fd, void *buf, size_t len);
ssize_t sys_write(int fd, const void *buf, size_t len);
ssize_t sys_readv(int fd, const struct iovec *iov, unsigned count);
ssize_t sys_writev(int fd, const struct iovec *iov, unsigned count);
int sys_ioctl(int fd, unsigned long request, void *argument);

int sys_open(const char *path, int flags, unsigned mode);
int sys_flock(int fd, int operation);
int sys_ftruncate(int fd, uint64_t len);
int sys_fcntl(int fd, int command, int argument);
int64_t sys_file_len(int fd);

ssize_t sys_pread(int fd, void *buf, size_t len, uint64_t at);
ssize_t sys_pwrite(int fd, const void *buf, size_t len, uint64_t at);
int sys_pipe(int ret_fds[2], int flags);
int sys_memfd_create(const char *name, unsigned flags);
// All of the file's `len` octets, to be read and written, and not for the children of a fork.
int sys_map_shared(int fd, size_t len, void **ret);

// The same for reading alone, of a file that another process made.
int sys_map_foreign(int fd, size_t len, const void **ret);

// Other processes. A push or look into one's memory takes the leave to trace it (ptrace(2)).
pid_t sys_gettid(void);
ssize_t sys_process_vm_writev(pid_t pid, const struct iovec *local, unsigned local_count,
                              const struct iovec *remote, unsigned remote_count);
ssize_t sys_process_vm_readv(pid_t pid, const struct iovec *local, unsigned local_count,
                             const struct iovec *remote, unsigned remote_count);
int sys_pidfd_open(pid_t pid);
int sys_pidfd_getfd(int pidfd, int fd); // a descriptor of that process, as our own
// 0: the process has such a thread. -ESRCH: it has none any more.
int sys_thread_look(pid_t pid, pid_t thread);
ssize_t sys_readlink(const char *path, char *ret, size_t len);
void sys_nap(duration_ns time_ns);

// Whether there is something to read within `timeout_ns`.
bool sys_wait_in(int fd, duration_ns timeout_ns);
// The same within `*left_ns`, of which is taken how long that was.
bool sys_wait_in_left(int fd, duration_ns *left_ns);

// Whether nobody has the other end of a pipe any more.
bool sys_has_hung_up(int fd);

int sys_epoll_create(int flags);
int sys_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
// Waits `timeout_ns` (INSTANT_NEVER: without end). Kernels before 5.11 round up to milliseconds.
int sys_epoll_wait(int epoll_fd, struct epoll_event *ret, int max, duration_ns timeout_ns);

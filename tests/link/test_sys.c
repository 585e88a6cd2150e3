// System calls past libc: what they answer, and that errno stays the program's.

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "link/sys.h"

enum { NO_FD = 1 << 20, OF_THE_PROGRAM = 4711 };

// A busy host may make a short wait one of seconds.
#define PATIENCE_NS (60 * NS_PER_S)

static char folder[64];

static int begin(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/weft-sys.XXXXXX");
    errno = OF_THE_PROGRAM;
    return mkdtemp(folder) == NULL;
}

static int end(void **state)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-r", folder, (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    return status;
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static instant_ns clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

/* ---- what fails ------------------------------------------------------------------------------ */

static void failures_are_numbers_and_leave_errno_alone(void **state)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_storage addr = {0};
    struct iovec iov = {&addr, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct mmsghdr msgs = {.msg_hdr = msg};
    int value;
    void *at;
    const long results[] = {
        sys_bind(NO_FD, (struct sockaddr *)&addr, sizeof addr),
        sys_listen(NO_FD, 1),
        sys_accept(NO_FD, 0),
        sys_connect(NO_FD, (struct sockaddr *)&addr, sizeof addr),
        sys_shutdown(NO_FD, SHUT_RD),
        sys_close(NO_FD),
        sys_dup(NO_FD),
        sys_recv(NO_FD, &addr, 1, 0),
        sys_sendto(NO_FD, &addr, 1, 0, NULL, 0),
        sys_sendmsg(NO_FD, &msg, 0),
        sys_sendmmsg(NO_FD, &msgs, 1, 0),
        sys_recvmsg(NO_FD, &msg, 0),
        sys_recvmmsg(NO_FD, &msgs, 1, 0),
        sys_getsockname(NO_FD, &addr),
        sys_getpeername(NO_FD, &addr),
        sys_setsockopt_int(NO_FD, SOL_SOCKET, SO_REUSEADDR, 1),
        sys_getsockopt_int(NO_FD, SOL_SOCKET, SO_TYPE, &value),
        sys_read(NO_FD, &addr, 1),
        sys_write(NO_FD, &addr, 1),
        sys_readv(NO_FD, &iov, 1),
        sys_writev(NO_FD, &iov, 1),
        sys_ioctl(NO_FD, 0, NULL),
        sys_flock(NO_FD, LOCK_SH),
        sys_ftruncate(NO_FD, 0),
        sys_fcntl(NO_FD, F_GETFL, 0),
        sys_file_len(NO_FD),
        sys_pread(NO_FD, &addr, 1, 0),
        sys_pwrite(NO_FD, &addr, 1, 0),
        sys_map_shared(NO_FD, 1, &at),
        sys_epoll_ctl(NO_FD, EPOLL_CTL_ADD, 0, &event),
        sys_epoll_wait(NO_FD, &event, 1, 0),
    };
    for (unsigned i = 0; i < sizeof results / sizeof results[0]; i++) {
        assert_int_equal(results[i], -EBADF);
    }
    assert_int_equal(sys_open("/nowhere/at/all", O_RDONLY, 0), -ENOENT);
    assert_int_equal(sys_readlink("/nowhere/at/all", (char *)&addr, 1), -ENOENT);
    assert_int_equal(sys_socket(AF_INET, -1, 0), -EINVAL);
    assert_int_equal(sys_memfd_create("weft", ~0U), -EINVAL);
    assert_int_equal(sys_eventfd(0, ~0), -EINVAL);
    assert_int_equal(errno, OF_THE_PROGRAM);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void sockets_listen_connect_and_carry(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage name, peer;
    char octets[8] = "";
    int type = 0;
    int listener = sys_socket(AF_INET, SOCK_STREAM, 0),
        client = sys_socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(sys_setsockopt_int(listener, SOL_SOCKET, SO_REUSEADDR, 1), 0);
    assert_int_equal(sys_bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(sys_listen(listener, 1), 0);
    assert_int_equal(sys_getsockname(listener, &name), 0);
    assert_int_equal(sys_connect(client, (struct sockaddr *)&name, sizeof addr), 0);
    int server = sys_accept(listener, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(sys_fcntl(server, F_GETFD, 0), FD_CLOEXEC);
    assert_int_not_equal(sys_fcntl(server, F_GETFL, 0) & O_NONBLOCK, 0);
    assert_int_equal(sys_getsockname(client, &name), 0);
    assert_int_equal(sys_getpeername(server, &peer), 0);
    assert_memory_equal(&name, &peer, sizeof addr);
    assert_int_equal(sys_getsockopt_int(client, SOL_SOCKET, SO_TYPE, &type), 0);
    assert_int_equal(type, SOCK_STREAM);
    assert_int_equal(sys_sendto(client, "abc", 3, 0, NULL, 0), 3);
    assert_true(sys_wait_in(server, 10 * NS_PER_S));
    assert_int_equal(sys_recv(server, octets, sizeof octets, MSG_PEEK), 3);
    assert_int_equal(sys_recv(server, octets, sizeof octets, 0), 3);
    assert_string_equal(octets, "abc");
    assert_int_equal(sys_recv(server, octets, sizeof octets, 0), -EAGAIN);
    assert_int_equal(sys_shutdown(client, SHUT_WR), 0);
    assert_true(sys_wait_in(server, 10 * NS_PER_S));
    assert_int_equal(sys_recv(server, octets, sizeof octets, 0), 0);
    sys_close_fds((const int[]){listener, client, server}, 3);
    assert_int_equal(sys_fcntl(listener, F_GETFD, 0), -EBADF);
    assert_int_equal(sys_fcntl(server, F_GETFD, 0), -EBADF);
}

static void socket_of_the_host_is_told_from_all_else(void **state)
{
    int pair[2];
    int of_a_net = sys_socket(AF_INET, SOCK_STREAM, 0), no_socket = sys_eventfd(0, 0);
    assert_int_equal(sys_socketpair(AF_UNIX, SOCK_STREAM, pair), 0);
    assert_true(sys_is_socket_of_host(pair[0]));
    assert_false(sys_is_socket_of_host(of_a_net));
    assert_false(sys_is_socket_of_host(no_socket));
    assert_false(sys_is_socket_of_host(-1));
    sys_close_fds((const int[]){pair[0], pair[1], of_a_net, no_socket}, 4);
}

static void datagrams_go_and_come_by_the_dozen(void **state)
{
    int fds[2];
    char text[3][4] = {"one", "two", "six"}, came[4][4] = {""};
    struct iovec out[3], in[4];
    struct mmsghdr sent[3] = {{.msg_len = 0}}, got[4] = {{.msg_len = 0}};
    assert_int_equal(sys_socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, fds), 0);
    for (unsigned i = 0; i < 4; i++) {
        in[i] = (struct iovec){came[i], 3};
        got[i].msg_hdr = (struct msghdr){.msg_iov = &in[i], .msg_iovlen = 1};
    }
    for (unsigned i = 0; i < 3; i++) {
        out[i] = (struct iovec){text[i], 3};
        sent[i].msg_hdr = (struct msghdr){.msg_iov = &out[i], .msg_iovlen = 1};
    }
    assert_int_equal(sys_sendmmsg(fds[0], sent, 3, 0), 3);
    assert_int_equal(sys_recvmmsg(fds[1], got, 4, 0), 3);
    assert_string_equal(came[0], "one");
    assert_string_equal(came[2], "six");
    assert_int_equal(got[1].msg_len, 3);
    assert_int_equal(sys_sendmsg(fds[0], &sent[1].msg_hdr, 0), 3);
    assert_int_equal(sys_recvmsg(fds[1], &got[0].msg_hdr, 0), 3);
    assert_string_equal(came[0], "two");
    sys_close_fds(fds, 2);
}

static void descriptor_is_closed_once(void **state)
{
    int fd = sys_eventfd(0, 0), none = -1;
    sys_close_fd(&fd);
    assert_int_equal(fd, -1);
    sys_close_fd(&none);
    assert_int_equal(none, -1);
    int first = sys_eventfd(0, 0);
    assert_int_equal(dup2(first, 0), 0); // 0 is one too
    int zero = 0;
    sys_close_fd(&zero);
    assert_int_equal(sys_fcntl(0, F_GETFD, 0), -EBADF);
    sys_close(first);
}

static void copies_of_descriptors_do_not_outlive_exec(void **state)
{
    int fd = eventfd(0, 0), copy = sys_dup(fd);
    assert_int_not_equal(copy, fd);
    assert_int_equal(sys_fcntl(copy, F_GETFD, 0), FD_CLOEXEC);
    assert_int_equal(sys_fcntl(fd, F_GETFD, 0), 0);
    sys_close_fds((const int[]){fd, copy}, 2);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void events_are_waited_for(void **state)
{
    int events = sys_eventfd(5, EFD_NONBLOCK), epoll = sys_epoll_create(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77}, got;
    uint64_t count = 0;
    assert_int_equal(sys_fcntl(epoll, F_GETFD, 0), FD_CLOEXEC);
    assert_int_equal(sys_epoll_ctl(epoll, EPOLL_CTL_ADD, events, &event), 0);
    assert_int_equal(sys_epoll_wait(epoll, &got, 1, INSTANT_NEVER), 1);
    assert_int_equal(got.data.u64, 77);
    assert_int_equal(sys_read(events, &count, sizeof count), sizeof count);
    assert_int_equal(count, 5);
    assert_int_equal(sys_read(events, &count, sizeof count), -EAGAIN);
    assert_int_equal(sys_epoll_wait(epoll, &got, 1, 0), 0);
    instant_ns before = clock_now();
    assert_int_equal(sys_epoll_wait(epoll, &got, 1, 3 * NS_PER_MS), 0);
    assert_in_range(clock_now() - before, 3 * NS_PER_MS, PATIENCE_NS);
    sys_close_fds((const int[]){events, epoll}, 2);
}

static void waits_and_naps_last_as_long_as_they_say(void **state)
{
    int fds[2];
    assert_int_equal(sys_pipe(fds, O_CLOEXEC), 0);
    assert_int_equal(sys_fcntl(fds[0], F_GETFD, 0), FD_CLOEXEC);
    instant_ns before = clock_now();
    assert_false(sys_wait_in(fds[0], 3 * NS_PER_MS));
    assert_in_range(clock_now() - before, 3 * NS_PER_MS, PATIENCE_NS);
    duration_ns all_ns = 3 * NS_PER_MS;
    assert_false(sys_wait_in_left(fds[0], &all_ns));
    assert_int_equal(all_ns, 0);
    before = clock_now();
    sys_nap(3 * NS_PER_MS);
    assert_in_range(clock_now() - before, 3 * NS_PER_MS, PATIENCE_NS);
    before = clock_now();
    sys_nap(NS_PER_S + NS_PER_MS);
    assert_in_range(clock_now() - before, NS_PER_S + NS_PER_MS, PATIENCE_NS);
    assert_int_equal(sys_write(fds[1], "x", 1), 1);
    assert_true(sys_wait_in(fds[0], 0));
    duration_ns left_ns = NS_PER_S;
    assert_true(sys_wait_in_left(fds[0], &left_ns));
    assert_in_range(left_ns, 1, NS_PER_S);
    assert_false(sys_has_hung_up(fds[0]));
    sys_close(fds[1]);
    assert_true(sys_has_hung_up(fds[0]));
    sys_close(fds[0]);
}

/* ---- numbers --------------------------------------------------------------------------------- */

enum { STANDARD_COUNT = 3 };

static void standard_close(int kept[STANDARD_COUNT])
{
    fflush(NULL);
    for (int fd = 0; fd < STANDARD_COUNT; fd++) {
        kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        close(fd);
    }
}

// Returns how many of them were open.
static unsigned standard_open(const int kept[STANDARD_COUNT])
{
    unsigned count = 0;
    for (int fd = 0; fd < STANDARD_COUNT; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
        dup2(kept[fd], fd);
        close(kept[fd]);
    }
    return count;
}

// A descriptor through a socket of the process's own.
static int passed(int fd)
{
    union {
        struct cmsghdr head;
        uint8_t octets[CMSG_SPACE(sizeof fd)];
    } out = {.head = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}}, in;
    char octet = 0;
    struct iovec iov = {&octet, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &out, .msg_controllen = sizeof out};
    int ends[2];
    if (sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, ends) != 0) {
        return -1;
    }
    memcpy(CMSG_DATA(&out.head), &fd, sizeof fd);
    sys_sendmsg(ends[0], &msg, 0);
    msg.msg_control = &in;
    sys_recvmsg(ends[1], &msg, MSG_CMSG_CLOEXEC);
    memcpy(&fd, CMSG_DATA(&in.head), sizeof fd);
    sys_close_fds(ends, 2);
    return fd;
}

static void nothing_that_is_made_has_the_number_of_a_standard_descriptor(void **state)
{
    int kept[STANDARD_COUNT], pair[2], pipe[2];
    const int own = sys_pidfd_open(getpid());
    standard_close(kept);
    const int made[] = {
        sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
        sys_eventfd(0, EFD_CLOEXEC),
        sys_open("/dev/null", O_RDONLY | O_CLOEXEC, 0),
        sys_memfd_create("weft-test", MFD_CLOEXEC),
        sys_epoll_create(EPOLL_CLOEXEC),
        sys_pidfd_open(getpid()),
        sys_dup(own),
        passed(own),
        sys_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, pair) == 0 ? pair[0] : -1,
        pair[1],
        sys_pipe(pipe, O_CLOEXEC) == 0 ? pipe[0] : -1,
        pipe[1],
    };
    const unsigned count = standard_open(kept);
    assert_int_equal(count, 0);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_true(made[i] >= STANDARD_COUNT);
        assert_int_equal(sys_fcntl(made[i], F_GETFD, 0), FD_CLOEXEC);
        sys_close(made[i]);
    }
    sys_close(own);
}

static void where_no_other_number_is_free_nothing_is_made(void **state)
{
    struct rlimit before, few;
    int kept[STANDARD_COUNT], ends[2];
    getrlimit(RLIMIT_NOFILE, &before);
    const int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STANDARD_COUNT); // all below it are open
    standard_close(kept);
    few = (struct rlimit){.rlim_cur = (rlim_t)last + 1, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    errno = OF_THE_PROGRAM;
    const int one = sys_eventfd(0, EFD_CLOEXEC), two = sys_pipe(ends, O_CLOEXEC);
    const int seen = errno;
    setrlimit(RLIMIT_NOFILE, &before);
    const unsigned count = standard_open(kept);
    sys_close(last);
    assert_int_equal(one, -EMFILE);
    assert_int_equal(two, -EMFILE);
    assert_int_equal(seen, OF_THE_PROGRAM);
    assert_int_equal(count, 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void files_are_written_read_and_cut(void **state)
{
    char octets[8] = "", more[8] = "";
    struct iovec out[2] = {{"ab", 2}, {"cdef", 4}}, in[2] = {{octets, 1}, {more, 5}};
    int fd = sys_open(path_of("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    struct stat at;
    assert_int_equal(fstat(fd, &at), 0);
    assert_int_equal(at.st_mode & 0740, 0640);
    assert_int_equal(sys_writev(fd, out, 2), 6);
    assert_int_equal(sys_file_len(fd), 6);
    assert_int_equal(sys_pwrite(fd, "XY", 2, 1), 2);
    assert_int_equal(sys_pread(fd, octets, 4, 2), 4);
    assert_memory_equal(octets, "Ydef", 4);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(sys_readv(fd, in, 2), 6);
    assert_int_equal(octets[0], 'a');
    assert_string_equal(more, "XYdef");
    assert_int_equal(sys_ftruncate(fd, 3), 0);
    assert_int_equal(sys_file_len(fd), 3);
    assert_int_equal(sys_flock(fd, LOCK_EX | LOCK_NB), 0);
    int other = sys_open(path_of("file"), O_RDONLY, 0);
    assert_int_equal(sys_flock(other, LOCK_SH | LOCK_NB), -EWOULDBLOCK);
    sys_close_fds((const int[]){fd, other}, 2);
}

static void links_are_read(void **state)
{
    char to[16] = "";
    assert_int_equal(symlink("elsewhere", path_of("link")), 0);
    assert_int_equal(sys_readlink(path_of("link"), to, sizeof to), 9);
    assert_string_equal(to, "elsewhere");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_of_a_file_is_shared_and_foreign_memory_is_read(void **state)
{
    enum { LEN = 8192 };
    void *ours;
    const void *theirs;
    int fd = sys_memfd_create("weft-test", MFD_CLOEXEC);
    assert_int_equal(sys_fcntl(fd, F_GETFD, 0), FD_CLOEXEC);
    assert_int_equal(sys_ftruncate(fd, LEN), 0);
    assert_int_equal(sys_map_shared(fd, LEN, &ours), 0);
    assert_int_equal(sys_map_foreign(fd, LEN, &theirs), 0);
    memcpy((char *)ours + LEN - 8, "hello", sizeof "hello");
    assert_string_equal((const char *)theirs + LEN - 8, "hello");
    pid_t child = fork();
    if (child == 0) { // it has none of it
        char octet;
        struct iovec local = {&octet, 1}, remote = {ours, 1};
        _exit(sys_process_vm_readv(getpid(), &local, 1, &remote, 1) == -EFAULT ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(ours, LEN);
    munmap((void *)(uintptr_t)theirs, LEN);
    sys_close(fd);
}

static void foreign_memory_cannot_be_written(void **state)
{
    const void *theirs;
    char octet = 1;
    int fd = sys_memfd_create("weft-test", 0);
    assert_int_equal(sys_ftruncate(fd, 4096), 0);
    assert_int_equal(sys_map_foreign(fd, 4096, &theirs), 0);
    struct iovec local = {&octet, 1}, remote = {(void *)(uintptr_t)theirs, 1};
    assert_int_equal(sys_process_vm_writev(getpid(), &local, 1, &remote, 1), -EFAULT);
    assert_int_equal(sys_process_vm_readv(getpid(), &local, 1, &remote, 1), 1);
    assert_int_equal(octet, 0);
    munmap((void *)(uintptr_t)theirs, 4096);
    sys_close(fd);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void threads_are_there_or_not(void **state)
{
    assert_int_equal(sys_gettid(), getpid()); // the first
    assert_int_equal(sys_thread_look(getpid(), sys_gettid()), 0);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int pidfd = sys_pidfd_open(child);
    assert_true(pidfd >= 0);
    assert_int_equal(sys_thread_look(child, child), 0);
    assert_int_equal(sys_thread_look(getpid(), child), -ESRCH);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(sys_thread_look(child, child), -ESRCH);
    assert_int_equal(sys_pidfd_open(child), -ESRCH);
    sys_close(pidfd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(failures_are_numbers_and_leave_errno_alone),
        TEST(sockets_listen_connect_and_carry),
        TEST(socket_of_the_host_is_told_from_all_else),
        TEST(datagrams_go_and_come_by_the_dozen),
        TEST(descriptor_is_closed_once),
        TEST(copies_of_descriptors_do_not_outlive_exec),
        TEST(events_are_waited_for),
        TEST(waits_and_naps_last_as_long_as_they_say),
        TEST(nothing_that_is_made_has_the_number_of_a_standard_descriptor),
        TEST(where_no_other_number_is_free_nothing_is_made),
        TEST(files_are_written_read_and_cut),
        TEST(links_are_read),
        TEST(memory_of_a_file_is_shared_and_foreign_memory_is_read),
        TEST(foreign_memory_cannot_be_written),
        TEST(threads_are_there_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

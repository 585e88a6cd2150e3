// What each call of a socket over RDMA refuses, and by which name; how the two directions end; what
// its options become.
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/link/descriptors.h"
#include "tests/rsocket/pair.h"

#define assert_refused(call, error)      \
    do {                                 \
        errno = 0;                       \
        assert_int_equal((int)call, -1); \
        assert_int_equal(errno, error);  \
    } while (0)

static struct pair p;

static int open_pair(void **state)
{
    pair_open(&p);
    return 0;
}

static int close_pair(void **state)
{
    pair_close(&p);
    return 0;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

// Descriptors of nobody, or of something else than a socket over RDMA.
static void strange_descriptors_are_ebadf(void **state)
{
    static const int strange[] = {-1, STDIN_FILENO, 1 << 20};
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof addr;
    struct iovec part = {.iov_base = &addr, .iov_len = sizeof addr};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int number = 0;
    for (unsigned i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        int fd = strange[i];
        assert_refused(rbind(fd, (struct sockaddr *)&addr, len), EBADF);
        assert_refused(rlisten(fd, 1), EBADF);
        assert_refused(raccept(fd, NULL, NULL), EBADF);
        assert_refused(rconnect(fd, (struct sockaddr *)&addr, len), EBADF);
        assert_refused(rshutdown(fd, SHUT_RDWR), EBADF);
        assert_refused(rclose(fd), EBADF);
        assert_refused(rrecv(fd, &number, 1, 0), EBADF);
        assert_refused(rreadv(fd, &part, 1), EBADF);
        assert_refused(rrecvmsg(fd, &message, 0), EBADF);
        assert_refused(rsend(fd, &number, 1, 0), EBADF);
        assert_refused(rwritev(fd, &part, 1), EBADF);
        assert_refused(rsendmsg(fd, &message, 0), EBADF);
        assert_refused(rgetpeername(fd, (struct sockaddr *)&addr, &len), EBADF);
        assert_refused(rgetsockname(fd, (struct sockaddr *)&addr, &len), EBADF);
        len = sizeof number;
        assert_refused(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &number, len), EBADF);
        assert_refused(rgetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &number, &len), EBADF);
        assert_refused(rfcntl(fd, F_GETFL), EBADF);
        assert_refused(riomap(fd, &number, sizeof number, PROT_WRITE, 0, 0), EBADF);
        assert_refused(riounmap(fd, &number, sizeof number), EBADF);
        assert_refused(riowrite(fd, &number, sizeof number, 0, 0), EBADF);
    }
}

// The table of them grows at 64, 128 and 256, each of which is somebody's number.
static void as_many_sockets_as_there_are_are_found_by_their_numbers(void **state)
{
    enum { COUNT = 270 };
    static int fds[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        fds[i] = rsocket(AF_INET, SOCK_STREAM, 0);
        assert_true(fds[i] >= 0);
        assert_int_equal(rfcntl(fds[i], F_GETFL), 0);
    }
    assert_true(fds[COUNT - 1] > 256);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(rfcntl(fds[i], F_GETFL), 0);
        assert_int_equal(rclose(fds[i]), 0);
        assert_refused(rfcntl(fds[i], F_GETFL), EBADF);
    }
}

static void descriptors_flags_are_those_of_files(void **state)
{
    assert_int_equal(rfcntl(p.active, F_GETFL), 0);
    assert_refused(rfcntl(p.active, F_GETOWN), ENOTSUP);
    assert_int_equal(rfcntl(p.active, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rfcntl(p.active, F_GETFL), O_NONBLOCK);
    assert_int_equal(rfcntl(p.active, F_SETFL, 0), 0);
}

// librspreload's accept4 asks, and closes the connection where there is no answer.
static void whether_it_is_closed_on_exec_is_kept(void **state)
{
    int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(rfcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(rclose(fd), 0);
    assert_int_equal(rfcntl(p.passive, F_GETFD), 0);
    assert_int_equal(rfcntl(p.passive, F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(rfcntl(p.passive, F_GETFD), FD_CLOEXEC);
    assert_int_equal(rfcntl(p.passive, F_GETFL), 0);
}

/* ---- octets ---------------------------------------------------------------------------------- */

static void who_does_not_wait_is_told_to_come_again(void **state)
{
    char octet;
    assert_refused(rrecv(p.passive, &octet, 1, MSG_DONTWAIT), EAGAIN);
    assert_int_equal(rfcntl(p.passive, F_SETFL, O_NONBLOCK), 0);
    assert_refused(rrecv(p.passive, &octet, 1, 0), EAGAIN);
    assert_int_equal(rfcntl(p.listener, F_SETFL, O_NONBLOCK), 0);
    assert_refused(raccept(p.listener, NULL, NULL), EAGAIN);
}

static void vectors_of_no_count_and_ancillary_data_are_refused(void **state)
{
    char octet = 'x', ancillary[16];
    struct iovec part = {.iov_base = &octet, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = ancillary,
                             .msg_controllen = sizeof ancillary};
    assert_refused(rwritev(p.active, &part, -1), EINVAL);
    assert_refused(rwritev(p.active, &part, IOV_MAX + 1), EINVAL);
    assert_refused(rreadv(p.passive, &part, -1), EINVAL);
    assert_refused(rreadv(p.passive, &part, IOV_MAX + 1), EINVAL);
    assert_refused(rsendmsg(p.active, &message, 0), ENOTSUP);
    assert_refused(rrecvmsg(p.passive, &message, 0), ENOTSUP);
    message.msg_controllen = 0;
    assert_int_equal(rsendmsg(p.active, &message, 0), 1);
    assert_int_equal(rrecvmsg(p.passive, &message, 0), 1);
}

static void datagram_calls_name_the_peer(void **state)
{
    struct sockaddr_in from, own;
    socklen_t len = sizeof from;
    char octet;
    assert_int_equal(rsendto(p.active, "x", 1, 0, NULL, 0), 1);
    assert_refused(rsendto(p.active, "x", 1, 0, NULL, len), EISCONN);
    assert_int_equal(rrecvfrom(p.passive, &octet, 1, 0, (struct sockaddr *)&from, &len), 1);
    assert_int_equal(len, sizeof from);
    assert_int_equal(rgetsockname(p.active, (struct sockaddr *)&own, &len), 0);
    assert_memory_equal(&from, &own, offsetof(struct sockaddr_in, sin_zero));
    len =
        offsetof(struct sockaddr_in, sin_addr); // what has no room is cut off, and its length told
    memset(&own, 0x5a, sizeof own);
    assert_int_equal(rgetsockname(p.active, (struct sockaddr *)&own, &len), 0);
    assert_int_equal(len, sizeof own);
    assert_int_equal(own.sin_port, from.sin_port);
    assert_int_equal(own.sin_addr.s_addr, 0x5a5a5a5a);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void only_what_is_connected_can_be_shut_down(void **state)
{
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_refused(rshutdown(fd, SHUT_RDWR), ENOTCONN);
    assert_int_equal(rclose(fd), 0);
    assert_refused(rshutdown(p.listener, SHUT_RDWR), ENOTCONN);
    assert_refused(rshutdown(p.active, SHUT_RDWR + 1), EINVAL);
    assert_refused(rshutdown(p.active, -1), EINVAL);
}

static void who_reads_no_more_may_still_write(void **state)
{
    char octet;
    assert_int_equal(rshutdown(p.active, SHUT_RD), 0);
    assert_int_equal(rrecv(p.active, &octet, 1, 0), 0);
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 1);
    assert_int_equal(rsend(p.passive, "y", 1, 0), 1); // the peer need not know
}

static void both_directions_end_at_once_or_one_after_the_other(void **state)
{
    static const int hows[][2] = {{SHUT_RDWR, SHUT_RDWR}, {SHUT_WR, SHUT_RD}, {SHUT_RD, SHUT_WR}};
    for (unsigned i = 0; i < sizeof hows / sizeof hows[0]; i++) {
        struct pair q;
        char octet;
        pair_open(&q);
        assert_int_equal(rshutdown(q.active, hows[i][0]), 0);
        assert_int_equal(rshutdown(q.active, hows[i][1]), 0);
        assert_int_equal(rrecv(q.passive, &octet, 1, 0), 0);
        assert_refused(rsend(q.active, "x", 1, 0), EPIPE);
        assert_int_equal(rrecv(q.active, &octet, 1, 0), 0);
        pair_close(&q);
    }
}

/* ---- options --------------------------------------------------------------------------------- */

static void unknown_options_are_refused(void **state)
{
    static const struct {
        int level, name;
    } rows[] = {
        {SOL_SOCKET, SO_PRIORITY},    {IPPROTO_TCP, TCP_CORK}, {IPPROTO_IPV6, IPV6_UNICAST_HOPS},
        {SOL_RDMA, RDMA_ROUTE + 100}, {IPPROTO_IP, IP_TTL},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int number = 1;
        socklen_t len = sizeof number;
        assert_refused(rsetsockopt(p.listener, rows[i].level, rows[i].name, &number, len), ENOTSUP);
        assert_refused(rgetsockopt(p.listener, rows[i].level, rows[i].name, &number, &len),
                       ENOTSUP);
    }
}

static void options_have_their_lengths(void **state)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 5};
    int number = 1;
    socklen_t len = sizeof number - 1;
    assert_refused(rsetsockopt(p.active, SOL_SOCKET, SO_KEEPALIVE, &number, len), EINVAL);
    assert_refused(rsetsockopt(p.active, SOL_SOCKET, SO_KEEPALIVE, NULL, sizeof number), EINVAL);
    assert_refused(rsetsockopt(p.active, SOL_SOCKET, SO_LINGER, &linger, sizeof number), EINVAL);
    assert_int_equal(rsetsockopt(p.active, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    linger.l_onoff = 0;
    len = sizeof linger;
    assert_int_equal(rgetsockopt(p.active, SOL_SOCKET, SO_LINGER, &linger, &len), 0);
    assert_int_equal(linger.l_onoff, 1);
    assert_int_equal(linger.l_linger, 5);
    assert_int_equal(len, sizeof linger);
}

// As of the kernel's sockets: so some programs ask for a switch as one octet.
static void who_has_room_for_less_of_an_option_gets_its_beginning(void **state)
{
    const struct linger said = {.l_onoff = 1, .l_linger = 7};
    struct linger got = {.l_linger = -1};
    uint8_t octets[2] = {0xff, 0xff};
    socklen_t len = 1;
    assert_int_equal(rgetsockopt(p.active, SOL_SOCKET, SO_TYPE, octets, &len), 0);
    assert_int_equal(len, 1);
    assert_int_equal(octets[0], SOCK_STREAM);
    assert_int_equal(octets[1], 0xff);
    assert_int_equal(rsetsockopt(p.active, SOL_SOCKET, SO_LINGER, &said, sizeof said), 0);
    len = sizeof got.l_onoff;
    assert_int_equal(rgetsockopt(p.active, SOL_SOCKET, SO_LINGER, &got, &len), 0);
    assert_int_equal(got.l_onoff, 1);
    assert_int_equal(got.l_linger, -1);
    len = (socklen_t)-1;
    assert_refused(rgetsockopt(p.active, SOL_SOCKET, SO_TYPE, octets, &len), EINVAL);
}

static int option_of(int fd, int level, int name)
{
    int number = -1;
    socklen_t len = sizeof number;
    assert_int_equal(rgetsockopt(fd, level, name, &number, &len), 0);
    return number;
}

static void options_tell_what_a_socket_is(void **state)
{
    int of_6 = rsocket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_DOMAIN), AF_INET);
    assert_int_equal(option_of(p.passive, SOL_SOCKET, SO_DOMAIN), AF_INET);
    assert_int_equal(option_of(of_6, SOL_SOCKET, SO_DOMAIN), AF_INET6);
    rclose(of_6);
    assert_int_equal(option_of(p.listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_ACCEPTCONN), 0);
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_ERROR), 0);
    assert_int_equal(option_of(p.active, IPPROTO_TCP, TCP_KEEPCNT), 1);
    assert_true(option_of(p.active, IPPROTO_TCP, TCP_MAXSEG) > 0);
}

// What programs set of TCP, whether or not it has a meaning here.
static void options_of_newer_programs_are_taken(void **state)
{
    int tos = 0x13;
    char name[16] = "x";
    socklen_t len = sizeof name;
    assert_int_equal(option_of(p.active, IPPROTO_IP, IP_TOS), 0);
    assert_int_equal(rsetsockopt(p.active, IPPROTO_IP, IP_TOS, &tos, sizeof tos), 0);
    assert_int_equal(option_of(p.active, IPPROTO_IP, IP_TOS), 0x10); // the rest is the network's
    assert_int_equal(rsetsockopt(p.active, IPPROTO_IP, IP_TOS, &(uint8_t){0x20}, 1), 0);
    assert_int_equal(option_of(p.active, IPPROTO_IP, IP_TOS), 0x20);
    assert_int_equal(rsetsockopt(p.active, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3), 0);
    assert_refused(rsetsockopt(p.active, IPPROTO_TCP, TCP_CONGESTION, NULL, 3), EINVAL);
    assert_int_equal(rgetsockopt(p.active, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
    assert_int_equal(len, sizeof name);
    assert_string_equal(name, "");
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_BROADCAST), 0);
    assert_refused(rsetsockopt(p.active, SOL_SOCKET, SO_BROADCAST, &tos, sizeof tos), ENOTSUP);
}

static void info_of_tcp_tells_whether_it_is_connected(void **state)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    memset(&info, 0xff, sizeof info);
    assert_int_equal(rgetsockopt(p.active, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    assert_int_equal(len, sizeof info);
    assert_int_equal(info.tcpi_state, TCP_ESTABLISHED);
    assert_true(info.tcpi_snd_cwnd > 0);
    assert_int_equal(info.tcpi_retransmits, 0);
    assert_int_equal(rgetsockopt(p.listener, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    assert_int_equal(info.tcpi_state, TCP_CLOSE);
}

static void switches_go_on_and_off(void **state)
{
    static const struct {
        int level, name;
    } rows[] = {
        {SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_KEEPALIVE},  {SOL_SOCKET, SO_OOBINLINE},
        {IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_IPV6, IPV6_V6ONLY},
    };
    int fd = rsocket(AF_INET6, SOCK_STREAM, 0);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int wanted = 1; wanted >= 0; wanted--) {
            assert_int_equal(rsetsockopt(fd, rows[i].level, rows[i].name, &wanted, sizeof wanted),
                             0);
            assert_int_equal(option_of(fd, rows[i].level, rows[i].name), wanted);
        }
    }
    rclose(fd);
}

static void a_switch_that_is_refused_stays_as_it_was(void **state)
{
    const int on = 1;
    assert_refused(rsetsockopt(p.active, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), EINVAL);
    assert_int_equal(option_of(p.active, IPPROTO_IPV6, IPV6_V6ONLY), 0);
    assert_refused(rsetsockopt(p.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), EINVAL);
    assert_int_equal(option_of(p.listener, SOL_SOCKET, SO_REUSEADDR), 0);
}

static void sizes_are_made_to_fit(void **state)
{
    static const struct {
        int level, name;
        int asked, least, most;
    } rows[] = {
        {SOL_SOCKET, SO_RCVBUF, INT_MAX, 1 << 30, 1 << 30},
        {SOL_SOCKET, SO_SNDBUF, INT_MAX, 1 << 30, 1 << 30},
        {SOL_SOCKET, SO_RCVBUF, 100001, 200002, 200002},
        {SOL_SOCKET, SO_RCVBUF, -1, 1024, 65536},
        {SOL_SOCKET, SO_SNDBUF, 0, 1024, 65536},
        {SOL_RDMA, RDMA_SQSIZE, -1, 0, 0},
        {SOL_RDMA, RDMA_RQSIZE, INT_MAX, 1024, 65535},
        {SOL_RDMA, RDMA_INLINE, INT_MAX, 16, 1024},
        {SOL_RDMA, RDMA_INLINE, -1, 0, 0},
    };
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int asked = rows[i].asked;
        assert_int_equal(rsetsockopt(fd, rows[i].level, rows[i].name, &asked, sizeof asked), 0);
        assert_in_range(option_of(fd, rows[i].level, rows[i].name), rows[i].least, rows[i].most);
    }
    int seconds = 0;
    assert_refused(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds), EINVAL);
    rclose(fd);
}

static void sizes_of_a_connection_stay(void **state)
{
    static const int names[] = {RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE, RDMA_IOMAPSIZE};
    int number = 100, before = option_of(p.active, SOL_SOCKET, SO_RCVBUF);
    assert_int_equal(rsetsockopt(p.active, SOL_SOCKET, SO_RCVBUF, &number, sizeof number), 0);
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_RCVBUF), before);
    before = option_of(p.active, SOL_SOCKET, SO_SNDBUF);
    assert_int_equal(rsetsockopt(p.active, SOL_SOCKET, SO_SNDBUF, &number, sizeof number), 0);
    assert_int_equal(option_of(p.active, SOL_SOCKET, SO_SNDBUF), before);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_refused(rsetsockopt(p.active, SOL_RDMA, names[i], &number, sizeof number), EINVAL);
    }
}

static void error_of_a_connection_is_told_once(void **state)
{
    struct sockaddr_in addr;
    int bound = bound_open(&addr);
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    struct pollfd over = {.fd = fd, .events = POLLOUT};
    assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_refused(rconnect(fd, (struct sockaddr *)&addr, sizeof addr), EINPROGRESS);
    assert_int_equal(rpoll(&over, 1, PATIENCE_MS), 1);
    assert_int_equal(option_of(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    assert_int_equal(option_of(fd, SOL_SOCKET, SO_ERROR), 0);
    rclose(fd);
    rclose(bound);
}

/* ---- rselect --------------------------------------------------------------------------------- */

static void rselect_clears_what_is_not_ready(void **state)
{
    struct timeval at_once = {0};
    struct pollfd ready = {.fd = p.passive, .events = POLLOUT};
    fd_set readable, writable, exceptional;
    // Who accepts may hear of room a moment later.
    assert_int_equal(rpoll(&ready, 1, PATIENCE_MS), 1);
    FD_ZERO(&readable);
    FD_SET(p.passive, &readable);
    exceptional = writable = readable;
    assert_int_equal(rselect(p.passive + 1, &readable, &writable, &exceptional, &at_once), 1);
    assert_false(FD_ISSET(p.passive, &readable));
    assert_true(FD_ISSET(p.passive, &writable));
    assert_false(FD_ISSET(p.passive, &exceptional));
    FD_SET(p.passive, &readable);
    assert_int_equal(rselect(p.passive + 1, &readable, NULL, NULL, &at_once), 0);
    assert_false(FD_ISSET(p.passive, &readable));
    FD_SET(p.passive, &readable);
    assert_int_equal(rselect(p.passive, &readable, NULL, NULL, &at_once), 0); // it is none of them
    assert_refused(rselect(-1, NULL, NULL, NULL, &at_once), EINVAL);
    assert_refused(rselect(FD_SETSIZE + 1, NULL, NULL, NULL, &at_once), EINVAL);
    assert_int_equal(rselect(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = 1}), 0);
}

static void rselect_of_a_descriptor_that_is_closed_is_ebadf(void **state)
{
    struct timeval at_once = {0};
    const int closed = dup(STDERR_FILENO);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(closed, &readable);
    close(closed);
    assert_refused(rselect(closed + 1, &readable, NULL, NULL, &at_once), EBADF);
    assert_true(FD_ISSET(closed, &readable));
}

static short told(int fd, short asked)
{
    struct pollfd it = {.fd = fd, .events = asked};
    assert_int_equal(rpoll(&it, 1, PATIENCE_MS), 1);
    return it.revents;
}

static void the_end_is_told_behind_what_is_left_to_read(void **state)
{
    char octet;
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    assert_int_equal(rshutdown(p.active, SHUT_RDWR), 0);
    assert_int_equal(told(p.passive, 0), POLLHUP); // the end has come
    assert_int_equal(told(p.passive, POLLIN), POLLIN);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 1);
    assert_int_equal(told(p.passive, POLLIN), POLLIN | POLLHUP);
}

static void *send_soon(void *ctx)
{
    usleep(50000);
    rsend(*(int *)ctx, "x", 1, 0);
    return NULL;
}

static void rselect_without_a_limit_waits(void **state)
{
    pthread_t thread;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(p.passive, &readable);
    assert_int_equal(pthread_create(&thread, NULL, send_soon, &p.active), 0);
    assert_int_equal(rselect(p.passive + 1, &readable, NULL, NULL, NULL), 1);
    assert_true(FD_ISSET(p.passive, &readable));
    pthread_join(thread, NULL);
}

/* ---- mapped memory --------------------------------------------------------------------------- */

// How many regions the device has, as `weft stat` asks for it.
static unsigned regions(void)
{
    static char text[1 << 16];
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int name_len = snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "weft.%u.%d",
                            (unsigned)getuid(), (int)getpid());
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)name_len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(send(fd, "stat\n", 5, 0), 5);
    ssize_t got = recv(fd, text, sizeof text - 1, MSG_WAITALL);
    assert_true(got > 0);
    text[got] = '\0';
    close(fd);
    const char *at = strstr(text, "\"regions\":");
    assert_non_null(at);
    return (unsigned)strtoul(at + strlen("\"regions\":"), NULL, 10);
}

static void wrong_mappings_are_refused(void **state)
{
    char memory[64];
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_refused(riomap(fd, memory, sizeof memory, PROT_WRITE, 0, 0), EINVAL); // not connected
    rclose(fd);
    unsigned before = regions();
    assert_refused(riomap(p.active, memory, sizeof memory, PROT_READ, 0, 0), EINVAL);
    assert_refused(riomap(p.active, memory, sizeof memory, PROT_WRITE, 0, 0), ENOMEM); // no table
    assert_int_equal(regions(), before);
}

static void mappings_fill_the_peers_table_and_go_with_the_socket(void **state)
{
    enum { ENTRIES = 8 }; // the least that a table has
    struct pair q;
    char memory[ENTRIES + 1][64];
    unsigned before = regions(), offered = 0;
    pair_open_with(&q, 0, ENTRIES);
    unsigned own = regions();
    while (offered < ENTRIES && riomap(q.active, memory[offered], 64, PROT_WRITE, 0, -1) ==
                                    (off_t)(uintptr_t)memory[offered]) {
        offered++;
    }
    assert_int_equal(offered, ENTRIES);
    assert_refused(riomap(q.active, memory[ENTRIES], 64, PROT_WRITE, 0, -1), ENOMEM);
    assert_int_equal(riomap(q.active, memory[ENTRIES], 64, PROT_NONE, 0, 5), 5); // not offered
    assert_int_equal(regions(), own + ENTRIES + 1);
    assert_refused(riounmap(q.active, memory[1], 63), EINVAL); // all of it or nothing
    assert_int_equal(riounmap(q.active, memory[1], 64), 0);
    assert_int_equal(riomap(q.active, memory[1], 64, PROT_WRITE, 0, 7), 7); // in its place
    pair_close(&q);
    assert_int_equal(regions(), before);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

// In a child they are the parent's, and their numbers free for sockets of its own.
static void sockets_stay_behind_at_a_fork(void **state)
{
    struct sockaddr_in addr;
    int parents = listener_open(&addr), status = -1;
    pid_t child = fork();
    if (child == 0) {
        int number = 0;
        bool is_unknown = rsend(p.active, &number, 1, MSG_DONTWAIT) == -1 && errno == EBADF &&
                          rclose(parents) == -1 && errno == EBADF;
        _exit(is_unknown ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(rclose(parents), 0);
    assert_int_equal(rsend(p.active, "a", 1, 0), 1);
}

// A socket that is closed gives back all that it was made of.
static void descriptors_of_closed_sockets_are_free_again(void **state)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        int first = rsocket(AF_INET, types[i], 0);
        assert_true(first >= 0);
        assert_int_equal(rclose(first), 0);
        descriptors_note(); // the device is open
        for (unsigned k = 0; k < 100; k++) {
            int fd = rsocket(AF_INET, types[i], 0);
            assert_true(fd >= 0);
            assert_int_equal(rclose(fd), 0);
            assert_refused(rclose(fd), EBADF);
        }
        descriptors_check();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(strange_descriptors_are_ebadf),
        CASE(sockets_stay_behind_at_a_fork),
        CASE(descriptors_of_closed_sockets_are_free_again),
        CASE(as_many_sockets_as_there_are_are_found_by_their_numbers),
        CASE(descriptors_flags_are_those_of_files),
        CASE(whether_it_is_closed_on_exec_is_kept),
        CASE(who_does_not_wait_is_told_to_come_again),
        CASE(vectors_of_no_count_and_ancillary_data_are_refused),
        CASE(datagram_calls_name_the_peer),
        CASE(only_what_is_connected_can_be_shut_down),
        CASE(who_reads_no_more_may_still_write),
        CASE(both_directions_end_at_once_or_one_after_the_other),
        CASE(unknown_options_are_refused),
        CASE(options_have_their_lengths),
        CASE(who_has_room_for_less_of_an_option_gets_its_beginning),
        CASE(options_tell_what_a_socket_is),
        CASE(options_of_newer_programs_are_taken),
        CASE(info_of_tcp_tells_whether_it_is_connected),
        CASE(switches_go_on_and_off),
        CASE(a_switch_that_is_refused_stays_as_it_was),
        CASE(sizes_are_made_to_fit),
        CASE(sizes_of_a_connection_stay),
        CASE(error_of_a_connection_is_told_once),
        CASE(rselect_clears_what_is_not_ready),
        CASE(rselect_of_a_descriptor_that_is_closed_is_ebadf),
        CASE(the_end_is_told_behind_what_is_left_to_read),
        CASE(rselect_without_a_limit_waits),
        CASE(wrong_mappings_are_refused),
        CASE(mappings_fill_the_peers_table_and_go_with_the_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

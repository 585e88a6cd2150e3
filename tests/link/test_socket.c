// The kernel's TCP as a link, over loopback.
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/socket.h"
#include "link/socket_stream.h"
#include "tests/link/contract.h"

static int begin(void **state)
{
    struct link_socket_config config = {.peer_timeout_ns = 10 * NS_PER_S};
    descriptors_note();
    return link_socket_create(&config, &the_link);
}

static int end(void **state)
{
    the_link->ops->destroy(the_link);
    descriptors_check();
    return 0;
}

static int fd_of(const struct link_stream *stream)
{
    return socket_stream_of(stream)->fd;
}

static int option_of(const struct link_stream *stream, int level, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd_of(stream), level, option, &value, &len), 0);
    return value;
}

/* ---- octets ---------------------------------------------------------------------------------- */

// Sends all records, each of two elements, as far as they go; returns the octets taken. `skip`
// octets have been taken before.
static ssize_t send_records_from(size_t skip, uint8_t *octets, unsigned records, size_t record_len)
{
    struct iovec iov[400];
    uint16_t ends[200];
    unsigned iov_count = 0, record_count = 0;
    for (unsigned r = 0; r < records; r++) {
        size_t at = r * record_len, half = record_len / 3;
        size_t parts[3] = {at, at + half, at + record_len};
        for (int i = 0; i < 2; i++) {
            size_t from = parts[i] > skip ? parts[i] : skip;
            if (from < parts[i + 1]) {
                iov[iov_count++] = (struct iovec){octets + from, parts[i + 1] - from};
            }
        }
        if (at + record_len > skip) {
            ends[record_count++] = (uint16_t)iov_count;
        }
    }
    struct link_tx tx = {iov, iov_count, ends, record_count};
    return the_link->ops->send(l.active, &tx);
}

static void records_are_taken_to_the_octet_when_room_is_short(void **state)
{
    enum { RECORDS = 200, RECORD_LEN = 9001, LEN = RECORDS * RECORD_LEN };
    uint8_t *sent = malloc(LEN), *got = malloc(LEN);
    for (size_t i = 0; i < LEN; i++) {
        sent[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    loop_open(&l, the_link, AF_INET);
    setsockopt(fd_of(l.active), SOL_SOCKET, SO_SNDBUF, &(int){20000}, sizeof(int));
    setsockopt(fd_of(l.passive), SOL_SOCKET, SO_RCVBUF, &(int){20000}, sizeof(int));
    size_t out = 0, in = 0;
    unsigned full = 0;
    while (in < LEN) {
        ssize_t len = out < LEN ? send_records_from(out, sent, RECORDS, RECORD_LEN) : -EAGAIN;
        full += len == -EAGAIN && out < LEN;
        out += len > 0 ? (size_t)len : 0;
        ssize_t taken = recv_some(l.passive, got + in, 7777 < LEN - in ? 7777 : LEN - in);
        assert_true(taken > 0 || taken == -EAGAIN);
        in += taken > 0 ? (size_t)taken : 0;
        assert_true(in <= out);
    }
    assert_memory_equal(sent, got, LEN);
    assert_true(full > 0);
    free(sent);
    free(got);
}

static void record_ends_a_segment(void **state)
{
    uint8_t octets[40 * 100] = {0};
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(send_records_from(0, octets, 40, 100), sizeof octets);
    for (size_t in = 0; in < sizeof octets;) {
        ssize_t taken = recv_some(l.passive, octets, sizeof octets - in);
        assert_true(taken > 0);
        in += (size_t)taken;
    }
    // The kernel's struct tcp_info is longer than libc's: tcpi_data_segs_out is its 40th word. What
    // is acknowledged late on a busy host is sent again, tcpi_total_retrans, and counted there too.
    enum { TOTAL_RETRANS = 25, DATA_SEGS_OUT = 39 };
    uint32_t info[60];
    socklen_t len = sizeof info;
    assert_int_equal(getsockopt(fd_of(l.active), IPPROTO_TCP, TCP_INFO, info, &len), 0);
    assert_int_equal(info[DATA_SEGS_OUT] - info[TOTAL_RETRANS], 40);
}

/* ---- readiness ------------------------------------------------------------------------------- */

/* ---- connecting ------------------------------------------------------------------------------ */

static void options_reach_both_ends(void **state)
{
    loop_open(&l, the_link, AF_INET);
    struct link_stream *ends[] = {l.active, l.passive};
    for (int i = 0; i < 2; i++) {
        assert_true(option_of(ends[i], IPPROTO_TCP, TCP_NODELAY));
        assert_true(option_of(ends[i], SOL_SOCKET, SO_KEEPALIVE));
        assert_int_equal(option_of(ends[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 10000);
        assert_int_equal(option_of(ends[i], IPPROTO_TCP, TCP_KEEPIDLE), 5);
        assert_int_equal(option_of(ends[i], IPPROTO_TCP, TCP_KEEPINTVL), 1);
    }
}

static bool use_congestion(const struct link_stream *stream, const char *name)
{
    return setsockopt(fd_of(stream), IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) ==
           0;
}

// Both ends by this algorithm, the active one from this address. Skips where the kernel lacks it.
static void connect_under(const char *algorithm, uint32_t own_addr)
{
    struct sockaddr_storage own = loopback(AF_INET), peer;
    ((struct sockaddr_in *)&own)->sin_addr.s_addr = htonl(own_addr);
    loop_listen(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->local_addr(l.listener, &peer), 0);
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&own), 0, NULL, &l.active), 0);
    if (!use_congestion(l.listener, algorithm) || !use_congestion(l.active, algorithm)) {
        printf("SKIP: no %s in this kernel, or not for this user\n", algorithm);
        skip();
    }
    assert_int_equal(the_link->ops->connect(l.active, addr_of(&peer)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    assert_int_equal(the_link->ops->connect_result(l.active), 0);
}

static void assert_congestion(const char *name)
{
    const struct link_stream *ends[] = {l.active, l.passive};
    for (int i = 0; i < 2; i++) {
        char got[16];
        socklen_t len = sizeof got;
        assert_int_equal(getsockopt(fd_of(ends[i]), IPPROTO_TCP, TCP_CONGESTION, got, &len), 0);
        assert_string_equal(got, name);
    }
}

static void nothing_is_paced_between_two_ends_with_one_address(void **state)
{
    connect_under("bbr", INADDR_LOOPBACK);
    assert_congestion("reno");
}

static void another_address_keeps_the_algorithm_that_paces(void **state)
{
    connect_under("bbr", INADDR_LOOPBACK + 1);
    assert_congestion("bbr");
}

static void an_algorithm_that_does_not_pace_is_kept(void **state)
{
    connect_under("cubic", INADDR_LOOPBACK);
    assert_congestion("cubic");
}

static void tos_is_kept_for_a_socket_that_comes_later(void **state)
{
    struct sockaddr_storage addr;
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    the_link->ops->bind(the_link, NULL, 0, NULL, &l.active);
    assert_int_equal(the_link->ops->set_tos(l.active, 0x48), 0);
    the_link->ops->connect(l.active, addr_of(&addr));
    assert_int_equal(option_of(l.active, IPPROTO_IP, IP_TOS), 0x48);
}

static void buffers_are_as_long_as_was_asked_for(void **state)
{
    const struct link_socket_config config = {.sndbuf_len = 30000, .rcvbuf_len = 40000};
    struct link *other;
    struct loop own;
    assert_int_equal(link_socket_create(&config, &other), 0);
    loop_open(&own, other, AF_INET);
    struct link_stream *ends[] = {own.active, own.passive};
    for (unsigned i = 0; i < 2; i++) { // the kernel takes twice as much, for itself
        assert_int_equal(option_of(ends[i], SOL_SOCKET, SO_SNDBUF), 60000);
        assert_int_equal(option_of(ends[i], SOL_SOCKET, SO_RCVBUF), 80000);
    }
    other->ops->destroy(other);
}

static void links_have_a_name(void **state)
{
    assert_string_equal(the_link->ops->name, "socket");
    assert_int_equal(the_link->facts, 0);
}

static void tos_of_both_families_reaches_the_socket(void **state)
{
    loop_open(&l, the_link, AF_INET6);
    assert_int_equal(the_link->ops->set_tos(l.active, 0x48), 0);
    assert_int_equal(option_of(l.active, IPPROTO_IPV6, IPV6_TCLASS), 0x48);
    assert_int_equal(option_of(l.active, IPPROTO_IP, IP_TOS), 0x48); // of a mapped address
}

/* ---- listening ------------------------------------------------------------------------------- */

static unsigned ready_of_now(const struct link_stream *stream)
{
    struct link_ready ready[8];
    int count = the_link->ops->poll(the_link, ready, 8);
    for (int i = 0; i < count; i++) {
        if (ready[i].stream == stream) {
            return ready[i].what;
        }
    }
    return 0;
}

static void listener_without_descriptors_refuses_and_is_silent(void **state)
{
    char got[4];
    struct rlimit before, none;
    struct sockaddr_storage addr;
    struct link_stream *accepted;
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    the_link->ops->bind(the_link, NULL, 0, NULL, &l.active);
    the_link->ops->connect(l.active, addr_of(&addr));
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);

    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    int next = dup(0); // the lowest free number: with this limit there is no other
    close(next);
    none.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &none);
    int error = the_link->ops->accept(l.listener, &accepted);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(error, -EMFILE);

    assert_int_equal(the_link->ops->accept(l.listener, &accepted), -EAGAIN);
    assert_true(ready_of(the_link, l.active) & LINK_READY_ERR);
    assert_int_equal(the_link->ops->recv(l.active, mspan_of(got, 4)), -ECONNRESET);
    assert_quiet(the_link);
}

static void listener_that_could_not_even_refuse_goes_on_when_a_stream_is_closed(void **state)
{
    struct rlimit before, none;
    struct sockaddr_storage addr;
    struct link_stream *other;
    loop_open(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    the_link->ops->bind(the_link, NULL, 0, NULL, &other);
    the_link->ops->connect(other, addr_of(&addr));
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    int error = the_link->ops->accept(l.listener, &l.active);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(error, -EMFILE);
    assert_int_equal(ready_of_now(l.listener), 0); // it rests
    the_link->ops->close(l.passive, true);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
}

/* ---- the process ----------------------------------------------------------------------------- */

static bool is_readable(void)
{
    struct pollfd p = {.fd = the_link->ops->descriptor(the_link), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

// Who comes back from a sleep of its own takes the wake that ended it, and asks the kernel for none
// that nobody sent.
static void who_does_not_wait_takes_a_wake_and_asks_for_no_other(void **state)
{
    const uint64_t once = 1;
    for (unsigned i = 0; i < 2; i++) {
        the_link->ops->wake(the_link);
        assert_true(is_readable());
        the_link->ops->wait(the_link, 0);
        assert_false(is_readable());
    }
    assert_int_equal(write(((struct socket_link *)the_link)->wake_fd, &once, sizeof once), 8);
    the_link->ops->wait(the_link, 0);
    assert_true(is_readable()); // it was not asked for
}

static void child_lets_go_without_touching_the_connection(void **state)
{
    char got[4];
    loop_open(&l, the_link, AF_INET);
    pid_t child = fork();
    if (child == 0) {
        the_link->ops->abandon(the_link);
        the_link->ops->close(l.active, true);
        _exit(fd_of(l.passive) == -1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(send_text(l.active, "here"), 4);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 4);
}

static void close_reaches_the_peer_though_a_child_holds_the_socket(void **state)
{
    char got[4];
    int pipe_fds[2];
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        close(pipe_fds[1]);
        _exit((int)read(pipe_fds[0], got, 1)); // until the parent is done
    }
    the_link->ops->close(l.active, false);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    assert_quiet(the_link);
    close(pipe_fds[1]);
    waitpid(child, NULL, 0);
    close(pipe_fds[0]);
}

static void errno_of_the_program_is_left_alone(void **state)
{
    char got[4];
    loop_open(&l, the_link, AF_INET);
    errno = 12345;
    assert_int_equal(the_link->ops->recv(l.active, mspan_of(got, 4)), -EAGAIN);
    assert_int_equal(errno, 12345);
}

#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
#define X(name) LINK_TEST(name),
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(X) LINK_TEST(records_are_taken_to_the_octet_when_room_is_short),
        LINK_TEST(record_ends_a_segment),
        LINK_TEST(options_reach_both_ends),
        LINK_TEST(nothing_is_paced_between_two_ends_with_one_address),
        LINK_TEST(another_address_keeps_the_algorithm_that_paces),
        LINK_TEST(an_algorithm_that_does_not_pace_is_kept),
        LINK_TEST(tos_is_kept_for_a_socket_that_comes_later),
        LINK_TEST(tos_of_both_families_reaches_the_socket),
        LINK_TEST(buffers_are_as_long_as_was_asked_for),
        LINK_TEST(links_have_a_name),
        LINK_TEST(listener_that_could_not_even_refuse_goes_on_when_a_stream_is_closed),
        LINK_TEST(listener_without_descriptors_refuses_and_is_silent),
        LINK_TEST(who_does_not_wait_takes_a_wake_and_asks_for_no_other),
        LINK_TEST(child_lets_go_without_touching_the_connection),
        LINK_TEST(close_reaches_the_peer_though_a_child_holds_the_socket),
        LINK_TEST(errno_of_the_program_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

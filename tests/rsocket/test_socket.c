// Sockets over RDMA behave as sockets do.

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/rsocket/pair.h"

static void test_octets_arrive_in_both_directions(void **state)
{
    struct pair p;
    char buf[16];
    pair_open(&p);
    assert_int_equal(rsend(p.active, "question", 9, 0), 9);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, 0), 9);
    assert_string_equal(buf, "question");
    assert_int_equal(rwrite(p.passive, "answer", 7), 7);
    assert_int_equal(rread(p.active, buf, sizeof buf), 7);
    assert_string_equal(buf, "answer");
    pair_close(&p);
}

static void test_names(void **state)
{
    struct pair p;
    struct sockaddr_in a, b;
    socklen_t len = sizeof a;
    pair_open(&p);
    assert_int_equal(rgetpeername(p.passive, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(rgetsockname(p.active, (struct sockaddr *)&b, &len), 0);
    assert_int_equal(a.sin_port, b.sin_port);
    assert_int_equal(a.sin_addr.s_addr, b.sin_addr.s_addr);
    assert_int_equal(rgetpeername(p.listener, (struct sockaddr *)&a, &len), -1);
    assert_int_equal(errno, ENOTCONN);
    pair_close(&p);
}

static void test_peek_leaves_what_it_shows(void **state)
{
    struct pair p;
    char buf[8];
    pair_open(&p);
    assert_int_equal(rsend(p.active, "again", 6, 0), 6);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, MSG_PEEK), 6);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, 0), 6);
    assert_string_equal(buf, "again");
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    pair_close(&p);
}

static void test_vectors(void **state)
{
    struct pair p;
    char a[4] = "abc", b[8] = "defghij", c[2], d[16];
    const struct iovec out[] = {{a, 3}, {b, 7}};
    const struct iovec in[] = {{c, 2}, {d, sizeof d}};
    pair_open(&p);
    assert_int_equal(rwritev(p.active, out, 2), 10);
    assert_int_equal(rreadv(p.passive, in, 2), 10);
    assert_memory_equal(c, "ab", 2);
    assert_memory_equal(d, "cdefghij", 8);
    pair_close(&p);
}

// As many as there is room for, and the next look sees them from the first on.
static void test_peek_fills_all_parts(void **state)
{
    struct pair p;
    char a[3], b[2], c[8];
    struct iovec in[] = {{a, sizeof a}, {NULL, 0}, {b, sizeof b}, {c, sizeof c}};
    struct msghdr msg = {.msg_iov = in, .msg_iovlen = 4};
    pair_open(&p);
    assert_int_equal(rsend(p.active, "abcdefghi", 9, 0), 9);
    for (unsigned i = 0; i < 2; i++) {
        memset(b, 0, sizeof b);
        memset(c, 0, sizeof c);
        assert_int_equal(rrecvmsg(p.passive, &msg, MSG_PEEK), 9);
        assert_memory_equal(a, "abc", 3);
        assert_memory_equal(b, "de", 2);
        assert_memory_equal(c, "fghi", 4);
    }
    assert_int_equal(rrecv(p.passive, c, sizeof c, 0), 8);
    assert_memory_equal(c, "abcdefgh", 8);
    pair_close(&p);
}

static void test_waitall_waits_for_all(void **state)
{
    struct pair p;
    char buf[4096], sent[4096] = {1};
    pair_open(&p);
    assert_int_equal(rsend(p.active, sent, 1, 0), 1);
    assert_int_equal(rsend(p.active, sent + 1, sizeof sent - 1, 0), sizeof sent - 1);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, MSG_WAITALL), sizeof buf);
    assert_memory_equal(buf, sent, sizeof sent);
    pair_close(&p);
}

enum { STREAM_LEN = 3 << 20 };

struct stream {
    int fd;
    bool is_good;
};

static uint8_t octet_at(size_t i)
{
    return (uint8_t)(i * 7 + (i >> 9));
}

static void *stream_send(void *ctx)
{
    struct stream *s = ctx;
    uint8_t buf[5003]; // no divisor of anything
    size_t done = 0;
    s->is_good = true;
    while (done < STREAM_LEN && s->is_good) {
        size_t len = STREAM_LEN - done < sizeof buf ? STREAM_LEN - done : sizeof buf;
        for (size_t i = 0; i < len; i++) {
            buf[i] = octet_at(done + i);
        }
        s->is_good = rsend(s->fd, buf, len, 0) == (ssize_t)len;
        done += len;
    }
    return NULL;
}

static void *stream_receive(void *ctx)
{
    struct stream *s = ctx;
    uint8_t buf[7001];
    size_t done = 0;
    s->is_good = true;
    while (done < STREAM_LEN && s->is_good) {
        ssize_t len = rrecv(s->fd, buf, sizeof buf, 0);
        s->is_good = len > 0;
        for (ssize_t i = 0; i < len; i++) {
            s->is_good = s->is_good && buf[i] == octet_at(done + (size_t)i);
        }
        done += len > 0 ? (size_t)len : 0;
    }
    return NULL;
}

// Rings far smaller than the stream, so that places, credits and both ends of the rings come by
// often; both directions at once, with a thread for each side of each socket.
static void test_long_streams_in_both_directions(void **state)
{
    struct pair p;
    pthread_t threads[4];
    pair_open_with(&p, 6000, 0);
    struct stream streams[4] = {
        {.fd = p.active}, {.fd = p.passive}, {.fd = p.active}, {.fd = p.passive}};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < 2 ? stream_send : stream_receive, &streams[i]),
            0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(streams[i].is_good);
    }
    pair_close(&p);
}

static void test_a_peer_that_does_not_read_stops_the_sender(void **state)
{
    struct pair p;
    uint8_t buf[8192] = {0};
    size_t sent = 0, received = 0;
    ssize_t len;
    pair_open_with(&p, 16384, 0);
    while ((len = rsend(p.active, buf, sizeof buf, MSG_DONTWAIT)) > 0) {
        sent += (size_t)len;
        assert_true(sent <= 4 * 32768);
    }
    assert_int_equal(errno, EAGAIN);
    while (received < sent) {
        len = rrecv(p.passive, buf, sizeof buf, 0);
        assert_true(len > 0);
        received += (size_t)len;
    }
    assert_true(rsend(p.active, buf, 1, 0) == 1); // the room came back
    pair_close(&p);
}

static void test_a_half_closed_stream_still_answers(void **state)
{
    struct pair p;
    char buf[8];
    pair_open(&p);
    assert_int_equal(rsend(p.active, "last", 5, 0), 5);
    assert_int_equal(rshutdown(p.active, SHUT_WR), 0);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, 0), 5);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, 0), 0);
    assert_int_equal(rsend(p.passive, "reply", 6, 0), 6);
    assert_int_equal(rrecv(p.active, buf, sizeof buf, 0), 6);
    assert_int_equal(rsend(p.active, "x", 1, 0), -1);
    assert_int_equal(errno, EPIPE);
    pair_close(&p);
}

static void test_what_was_sent_before_the_close_arrives(void **state)
{
    struct pair p;
    pthread_t thread;
    uint8_t buf[60000], sent[60000];
    memset(sent, 0x5a, sizeof sent);
    pair_open(&p);
    assert_int_equal(rsend(p.active, sent, sizeof sent, 0), sizeof sent);
    assert_int_equal(pthread_create(&thread, NULL, close_main, &p.active), 0);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, MSG_WAITALL), sizeof buf);
    assert_memory_equal(buf, sent, sizeof sent);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, 0), 0);
    assert_int_equal(rsend(p.passive, buf, 1, 0), -1);
    rclose(p.passive);
    pthread_join(thread, NULL);
    rclose(p.listener);
}

static void test_connecting_without_waiting(void **state)
{
    struct sockaddr_in addr;
    int listener = listener_open(&addr);
    int active = rsocket(AF_INET, SOCK_STREAM, 0);
    struct pollfd fds[] = {{.fd = listener, .events = POLLIN}, {.fd = active, .events = POLLOUT}};
    int error = -1;
    socklen_t len = sizeof error;
    assert_int_equal(rfcntl(active, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rfcntl(active, F_GETFL), O_NONBLOCK);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, EINPROGRESS);
    assert_int_equal(rpoll(&fds[0], 1, PATIENCE_MS), 1);
    int passive = raccept(listener, NULL, NULL);
    assert_true(passive >= 0);
    assert_int_equal(rpoll(&fds[1], 1, PATIENCE_MS), 1);
    assert_int_equal(fds[1].revents, POLLOUT);
    assert_int_equal(rgetsockopt(active, SOL_SOCKET, SO_ERROR, &error, &len), 0);
    assert_int_equal(error, 0);
    struct pair p = {listener, active, passive};
    pair_close(&p);
}

// It was connected meanwhile, so that its peer reads the end, as from any other.
static void test_who_did_not_look_whether_it_is_connected_closes_in_order(void **state)
{
    struct sockaddr_in addr;
    char octet;
    int listener = listener_open(&addr);
    int active = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(rfcntl(active, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    int passive = raccept(listener, NULL, NULL);
    assert_true(passive >= 0);
    // The number is that of its event channel: the system's poll sees the news and takes none.
    assert_int_equal(poll(&(struct pollfd){.fd = active, .events = POLLIN}, 1, PATIENCE_MS), 1);
    assert_int_equal(rclose(active), 0);
    assert_int_equal(rrecv(passive, &octet, 1, 0), 0);
    rclose(passive);
    rclose(listener);
}

static void test_nobody_listens(void **state)
{
    struct sockaddr_in addr;
    int bound = bound_open(&addr), active = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, ECONNREFUSED);
    rclose(active);
    rclose(bound);
}

// To wait until it is writable and to connect once more is how many programs ask for the outcome.
static void test_who_connects_again_hears_what_has_come_of_it(void **state)
{
    struct sockaddr_in addr;
    int listener = listener_open(&addr);
    int active = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct pollfd writable = {.fd = active, .events = POLLOUT};
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, EINPROGRESS);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, EINPROGRESS);
    int passive = raccept(listener, NULL, NULL);
    // The number is that of its event channel, which the system's poll looks at and leaves.
    assert_int_equal(poll(&(struct pollfd){.fd = active, .events = POLLIN}, 1, PATIENCE_MS), 1);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(rpoll(&writable, 1, PATIENCE_MS), 1);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), 0);
    struct pair p = {listener, active, passive};
    pair_close(&p);
}

static void test_who_connects_again_after_a_refusal_hears_of_it(void **state)
{
    struct sockaddr_in addr;
    int error, active = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    socklen_t len = sizeof error;
    struct pollfd writable = {.fd = active, .events = POLLOUT};
    int bound = bound_open(&addr);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(rpoll(&writable, 1, PATIENCE_MS), 1);
    assert_int_equal(rgetsockopt(active, SOL_SOCKET, SO_ERROR, &error, &len), 0);
    assert_int_equal(error, ECONNREFUSED);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, ECONNABORTED); // it was told by the option
    rclose(active);
    rclose(bound);
}

// How many sockets of this process lead to that port, and leave with this TOS.
static unsigned marked_count(in_port_t port, int tos)
{
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t peer_len = sizeof peer, len = sizeof(int);
        int its_tos = -1;
        count += getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 &&
                 peer.sin_port == port && getsockopt(fd, IPPROTO_IP, IP_TOS, &its_tos, &len) == 0 &&
                 its_tos == tos;
    }
    return count;
}

static void test_what_was_set_goes_with_each_try(void **state)
{
    struct sockaddr_in addr, own;
    int tos = 0x20;
    int listener = bound_open(&addr), active = bound_open(&own);
    struct pollfd writable = {.fd = active, .events = POLLOUT};
    assert_int_equal(rsetsockopt(active, IPPROTO_IP, IP_TOS, &tos, sizeof tos), 0);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(rlisten(listener, 1), 0);
    assert_int_equal(rfcntl(active, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    struct pair p = {listener, active, raccept(listener, NULL, NULL)};
    assert_int_equal(rpoll(&writable, 1, PATIENCE_MS), 1);
    assert_int_equal(marked_count(addr.sin_port, tos), 1);
    pair_close(&p);
}

// As programs do whose server is not there yet, with one socket.
static void test_who_was_refused_connects_when_somebody_listens(void **state)
{
    struct sockaddr_in addr, own, seen;
    socklen_t len = sizeof seen;
    char buf[8];
    int listener = bound_open(&addr), active = bound_open(&own);
    struct pollfd writable = {.fd = active, .events = POLLOUT};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
        assert_int_equal(errno, ECONNREFUSED);
    }
    assert_int_equal(rlisten(listener, 1), 0);
    assert_int_equal(rfcntl(active, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, EINPROGRESS);
    struct pair p = {listener, active, raccept(listener, NULL, NULL)};
    assert_int_equal(rpoll(&writable, 1, PATIENCE_MS), 1);
    assert_int_equal(rgetpeername(p.passive, (struct sockaddr *)&seen, &len), 0);
    assert_int_equal(seen.sin_port, own.sin_port); // it is bound where it was
    assert_int_equal(rsend(p.active, "at last", 8, 0), 8);
    assert_int_equal(rrecv(p.passive, buf, sizeof buf, 0), 8);
    assert_string_equal(buf, "at last");
    pair_close(&p);
}

static void assert_no_peer(int fd)
{
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    assert_int_equal(rgetpeername(fd, (struct sockaddr *)&peer, &len), -1);
    assert_int_equal(errno, ENOTCONN);
}

static void test_there_is_no_peer_before_the_connection(void **state)
{
    struct sockaddr_in addr, peer;
    socklen_t len = sizeof peer;
    struct pollfd writable = {.events = POLLOUT};
    int listener = listener_open(&addr);
    int active = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_no_peer(active);
    struct pair p = {listener, active, raccept(listener, NULL, NULL)};
    // The number is that of its event channel, which the system's poll looks at and leaves.
    assert_int_equal(poll(&(struct pollfd){.fd = active, .events = POLLIN}, 1, PATIENCE_MS), 1);
    assert_int_equal(rgetpeername(active, (struct sockaddr *)&peer, &len), 0);
    assert_int_equal(peer.sin_port, addr.sin_port);
    pair_close(&p);
    writable.fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(rconnect(writable.fd, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(rpoll(&writable, 1, PATIENCE_MS), 1);
    assert_no_peer(writable.fd);
    rclose(writable.fd);
}

static void test_an_address_that_leads_nowhere_leaves_room_for_another(void **state)
{
    struct sockaddr_in addr;
    const struct sockaddr_in6 other = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int listener = listener_open(&addr);
    int active = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(rconnect(active, (struct sockaddr *)&other, sizeof other), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rconnect(active, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, EINPROGRESS);
    struct pair p = {listener, active, raccept(listener, NULL, NULL)};
    assert_true(p.passive >= 0);
    pair_close(&p);
}

static void *send_later(void *ctx)
{
    rsend(*(int *)ctx, "x", 1, 0);
    return NULL;
}

static void test_rpoll_wakes_for_data_and_times_out_without(void **state)
{
    struct pair p;
    pthread_t thread;
    char octet;
    pair_open(&p);
    struct pollfd fd = {.fd = p.passive, .events = POLLIN};
    assert_int_equal(rpoll(&fd, 1, 20), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_later, &p.active), 0);
    assert_int_equal(rpoll(&fd, 1, PATIENCE_MS), 1);
    assert_int_equal(fd.revents, POLLIN);
    pthread_join(thread, NULL);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 1);
    fd.events = POLLIN | POLLOUT;
    assert_int_equal(rpoll(&fd, 1, 0), 1);
    assert_int_equal(fd.revents, POLLOUT);
    pair_close(&p);
}

static short polled(int fd, short events)
{
    struct pollfd pollfd = {.fd = fd, .events = events};
    assert_in_range(rpoll(&pollfd, 1, 0), 0, 1);
    return pollfd.revents;
}

static void test_rpoll_knows_normal_data_by_its_other_name(void **state)
{
    struct pair p;
    struct pollfd readable, writable;
    pair_open(&p);
    readable = (struct pollfd){.fd = p.passive, .events = POLLRDNORM};
    writable = (struct pollfd){.fd = p.passive, .events = POLLWRNORM};
    assert_int_equal(polled(p.passive, POLLRDNORM | POLLIN), 0);
    // The active end may not have gone on yet.
    assert_int_equal(rpoll(&writable, 1, PATIENCE_MS), 1);
    assert_int_equal(writable.revents, POLLWRNORM);
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    assert_int_equal(rpoll(&readable, 1, PATIENCE_MS), 1);
    assert_int_equal(readable.revents, POLLRDNORM);
    assert_int_equal(polled(p.passive, POLLIN), POLLIN);
    pair_close(&p);
}

static void test_rpoll_tells_that_the_peer_sends_no_more(void **state)
{
    struct pair p;
    char octet;
    pair_open(&p);
    struct pollfd end = {.fd = p.passive, .events = POLLRDHUP};
    assert_int_equal(polled(p.passive, POLLRDHUP), 0);
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    assert_int_equal(rshutdown(p.active, SHUT_WR), 0);
    assert_int_equal(rpoll(&end, 1, PATIENCE_MS), 1);
    assert_int_equal(end.revents, POLLRDHUP);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 1);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 0);
    pair_close(&p);
}

static void test_rpoll_takes_other_descriptors_too(void **state)
{
    struct pair p;
    int pipe_fds[2];
    pair_open(&p);
    assert_int_equal(pipe(pipe_fds), 0);
    struct pollfd fds[] = {{.fd = p.passive, .events = POLLIN},
                           {.fd = pipe_fds[0], .events = POLLIN}};
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    assert_int_equal(rpoll(fds, 2, PATIENCE_MS), 1);
    assert_int_equal(fds[0].revents, 0);
    assert_int_equal(fds[1].revents, POLLIN);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    pair_close(&p);
}

static void test_rselect(void **state)
{
    struct pair p;
    fd_set readable, writable;
    struct timeval timeout = {.tv_sec = PATIENCE_MS / 1000};
    pair_open(&p);
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(p.passive, &readable);
    FD_SET(p.listener, &readable);
    assert_int_equal(rselect(p.active + p.passive + 1, &readable, &writable, NULL, &timeout), 1);
    assert_true(FD_ISSET(p.passive, &readable));
    assert_false(FD_ISSET(p.listener, &readable));
    pair_close(&p);
}

static void *send_in_a_while(void *ctx)
{
    usleep(20000); // so that who gives up at once is seen to
    return send_later(ctx);
}

// As much as 2^32 ms, which is none in an int.
static void test_rselect_waits_however_long_it_may(void **state)
{
    struct pair p;
    pthread_t thread;
    fd_set readable;
    struct timeval timeout = {.tv_sec = 4294967, .tv_usec = 296000};
    pair_open(&p);
    FD_ZERO(&readable);
    FD_SET(p.passive, &readable);
    assert_int_equal(pthread_create(&thread, NULL, send_in_a_while, &p.active), 0);
    assert_int_equal(rselect(p.passive + 1, &readable, NULL, NULL, &timeout), 1);
    pthread_join(thread, NULL);
    timeout.tv_sec = -1;
    assert_int_equal(rselect(p.passive + 1, &readable, NULL, NULL, &timeout), -1);
    assert_int_equal(errno, EINVAL);
    pair_close(&p);
}

static void test_mapped_memory_is_written_directly(void **state)
{
    struct pair p;
    char memory[64] = {0}, octet;
    pair_open_with(&p, 0, 4);
    assert_int_equal(riomap(p.passive, memory, sizeof memory, PROT_WRITE, 0, 1000), 1000);
    assert_int_equal(rsend(p.passive, "m", 1, 0), 1); // the mapping goes along
    assert_int_equal(rrecv(p.active, &octet, 1, 0), 1);
    assert_int_equal(riowrite(p.active, "direct", 7, 1010, 0), 7);
    assert_int_equal(rsend(p.active, "w", 1, 0), 1);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 1);
    assert_int_equal(octet, 'w');
    assert_string_equal(memory + 10, "direct");
    assert_int_equal(riowrite(p.active, "x", 1, 1064, 0), 0); // behind the mapping
    assert_int_equal(riounmap(p.passive, memory, sizeof memory), 0);
    assert_int_equal(riounmap(p.passive, memory, sizeof memory), -1);
    assert_int_equal(errno, EINVAL);
    pair_close(&p);
}

// It would have been offered up to what 32 bits leave of its length.
static void test_memory_longer_than_its_entry_can_say_is_not_mapped(void **state)
{
    const size_t len = ((size_t)1 << 32) + 8;
    struct pair p;
    pair_open_with(&p, 0, 4);
    void *memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(riomap(p.passive, memory, len, PROT_WRITE, 0, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(riomap(p.passive, memory, UINT32_MAX, PROT_WRITE, 0, 0), 0);
    assert_int_equal(munmap(memory, len), 0);
    pair_close(&p);
}

static void test_refusals(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    char octet;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(rsocket(AF_INET, SOCK_SEQPACKET, 0), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_int_equal(rsocket(AF_UNIX, SOCK_STREAM, 0), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_int_equal(rsend(fd, &octet, 1, 0), -1);
    assert_int_equal(errno, ENOTCONN);
    assert_int_equal(raccept(fd, NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rsendto(fd, &octet, 1, 0, (struct sockaddr *)&addr, sizeof addr), -1);
    assert_int_equal(errno, EISCONN);
    rclose(fd);
    assert_int_equal(rrecv(fd, &octet, 1, 0), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(rclose(fd), -1);
    assert_int_equal(errno, EBADF);
}

static void test_options_read_back(void **state)
{
    static const struct {
        int level, name, set, get;
    } rows[] = {
        {SOL_SOCKET, SO_REUSEADDR, 1, 1},     {SOL_SOCKET, SO_KEEPALIVE, 1, 1},
        {SOL_SOCKET, SO_RCVBUF, 8192, 16384}, {SOL_SOCKET, SO_SNDBUF, 8192, 16384},
        {IPPROTO_TCP, TCP_NODELAY, 1, 1},     {IPPROTO_TCP, TCP_KEEPIDLE, 5, 5},
        {SOL_RDMA, RDMA_SQSIZE, 100, 100},    {SOL_RDMA, RDMA_RQSIZE, 200, 200},
        {SOL_RDMA, RDMA_INLINE, 32, 32},      {SOL_RDMA, RDMA_IOMAPSIZE, 9, 9},
    };
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int value = rows[i].set;
        socklen_t len = sizeof value;
        assert_int_equal(rsetsockopt(fd, rows[i].level, rows[i].name, &value, len), 0);
        value = -1;
        assert_int_equal(rgetsockopt(fd, rows[i].level, rows[i].name, &value, &len), 0);
        assert_int_equal(value, rows[i].get);
    }
    rclose(fd);
}

static void test_a_size_beyond_the_devices_is_made_to_fit(void **state)
{
    int wanted = 65535;
    socklen_t len = sizeof wanted;
    struct connecting c;
    pthread_t thread;
    int listener = listener_open(&c.addr);
    c.fd = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(rsetsockopt(c.fd, SOL_RDMA, RDMA_SQSIZE, &wanted, len), 0);
    assert_int_equal(rsetsockopt(c.fd, SOL_RDMA, RDMA_RQSIZE, &wanted, len), 0);
    pthread_create(&thread, NULL, connect_main, &c);
    struct pollfd asked = {.fd = listener, .events = POLLIN};
    assert_int_equal(rpoll(&asked, 1, PATIENCE_MS), 1);
    int passive = raccept(listener, NULL, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(c.result, 0);
    assert_int_equal(rgetsockopt(c.fd, SOL_RDMA, RDMA_SQSIZE, &wanted, &len), 0);
    assert_in_range(wanted, 16, 65534);
    rclose(passive);
    rclose(c.fd);
    rclose(listener);
}

static void test_a_parents_sockets_are_not_the_childs(void **state)
{
    char octet = 'x';
    struct pair p;
    int status;
    pair_open(&p);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        bool is_gone = rsend(p.active, &octet, 1, 0) == -1 && errno == EBADF;
        int own = rsocket(AF_INET, SOCK_STREAM, 0);
        _exit(is_gone && own >= 0 && rclose(own) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(rsend(p.active, &octet, 1, 0), 1);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 1);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_octets_arrive_in_both_directions),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_peek_leaves_what_it_shows),
        cmocka_unit_test(test_peek_fills_all_parts),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_waitall_waits_for_all),
        cmocka_unit_test(test_long_streams_in_both_directions),
        cmocka_unit_test(test_a_peer_that_does_not_read_stops_the_sender),
        cmocka_unit_test(test_a_half_closed_stream_still_answers),
        cmocka_unit_test(test_what_was_sent_before_the_close_arrives),
        cmocka_unit_test(test_connecting_without_waiting),
        cmocka_unit_test(test_who_did_not_look_whether_it_is_connected_closes_in_order),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_who_connects_again_hears_what_has_come_of_it),
        cmocka_unit_test(test_who_connects_again_after_a_refusal_hears_of_it),
        cmocka_unit_test(test_what_was_set_goes_with_each_try),
        cmocka_unit_test(test_who_was_refused_connects_when_somebody_listens),
        cmocka_unit_test(test_there_is_no_peer_before_the_connection),
        cmocka_unit_test(test_an_address_that_leads_nowhere_leaves_room_for_another),
        cmocka_unit_test(test_rpoll_wakes_for_data_and_times_out_without),
        cmocka_unit_test(test_rpoll_knows_normal_data_by_its_other_name),
        cmocka_unit_test(test_rpoll_tells_that_the_peer_sends_no_more),
        cmocka_unit_test(test_rpoll_takes_other_descriptors_too),
        cmocka_unit_test(test_rselect),
        cmocka_unit_test(test_rselect_waits_however_long_it_may),
        cmocka_unit_test(test_mapped_memory_is_written_directly),
        cmocka_unit_test(test_memory_longer_than_its_entry_can_say_is_not_mapped),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_options_read_back),
        cmocka_unit_test(test_a_size_beyond_the_devices_is_made_to_fit),
        cmocka_unit_test(test_a_parents_sockets_are_not_the_childs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

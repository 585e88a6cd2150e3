// What processes that share a port say to each other, field by field, and what of it is dropped.
// All ends are of this process: two slots, and a socket that says what no slot would.

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/datagram/share.h"

enum { HEADER_MAX = 512, PATIENCE_MS = 20000 };

static const struct in6_addr here = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
static const struct in6_addr there = {.s6_addr = {0xfe, 0x80, [15] = 7}};

static uint16_t port;
static struct datagram_share a, b;
static struct datagram_share_message m;
static int fds[DATAGRAM_SHARE_FDS];

// Of a port at which nobody else is.
static int begin(void **state)
{
    memset(&m, 0xa5, sizeof m);
    m.fds = fds;
    port = (uint16_t)(40000 + getpid() % 20000);
    for (unsigned i = 0; i < 100; i++, port++) {
        if (datagram_share_init(&a, port) != 0 || datagram_share_init(&b, port) != 0) {
            return -1;
        }
        if (a.slot == 0 && b.slot == 1) {
            return 0;
        }
        datagram_share_fini(&a);
        datagram_share_fini(&b);
    }
    return -1;
}

static int end(void **state)
{
    datagram_share_fini(&a);
    datagram_share_fini(&b);
    return 0;
}

// It has come already: both ends are of this process.
static void take(struct datagram_share *s, enum datagram_share_kind kind)
{
    datagram_share_receive(s, 0, &m);
    assert_int_equal(m.kind, kind);
}

// A pipe whose only end to write to is `ret[1]`: what becomes of that is seen at the other.
static void pipe_open(int ret[2])
{
    assert_int_equal(pipe(ret), 0);
}

static bool is_open(const int ends[2])
{
    struct pollfd at = {.fd = ends[0], .events = POLLIN};
    assert_true(poll(&at, 1, 0) >= 0);
    return (at.revents & POLLHUP) == 0;
}

/* ---- slots and names ------------------------------------------------------------------------- */

static void the_first_free_slot_is_taken(void **state)
{
    struct datagram_share c, other;
    assert_int_equal(a.slot, 0);
    assert_int_equal(b.slot, 1);
    assert_int_equal(a.uid, geteuid());
    assert_int_equal(a.port, port);
    datagram_share_fini(&a);
    assert_int_equal(a.fd, -1);
    datagram_share_fini(&a); // once
    assert_int_equal(datagram_share_init(&a, port), 0);
    assert_int_equal(a.slot, 0);
    assert_int_equal(datagram_share_init(&c, port), 0);
    assert_int_equal(c.slot, 2);
    assert_int_equal(datagram_share_init(&other, (uint16_t)(port + 1)), 0);
    assert_true(other.slot != 3); // whose slots are others
    datagram_share_fini(&other);
    datagram_share_fini(&c);
}

static void one_at_a_time_makes_sockets(void **state)
{
    const int fd = datagram_share_lock(&a);
    assert_true(fd >= 0);
    assert_int_equal(datagram_share_lock(&b), -EAGAIN);
    assert_false(datagram_share_is_locked_out(&b));
    close(fd);
    const int again = datagram_share_lock(&b);
    assert_true(again >= 0);
    close(again);
}

static void a_service_is_served_once_at_an_address(void **state)
{
    static const struct {
        uint64_t service;
        const struct in6_addr *at;
        int error; // of who serves it too
    } rows[] = {{7, &here, -EADDRINUSE}, {7, &there, 0}, {8, &here, 0}, {1ULL << 32 | 7, &here, 0}};
    const int fd = datagram_share_serve(&a, 7, &here);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(datagram_share_is_served(&b, rows[i].service, rows[i].at),
                         rows[i].error != 0);
        const int second = datagram_share_serve(&b, rows[i].service, rows[i].at);
        assert_int_equal(second < 0 ? second : 0, rows[i].error);
        if (second >= 0) {
            close(second);
        }
    }
    close(fd);
    assert_false(datagram_share_is_served(&b, 7, &here));
}

// The number that the next descriptor would have.
static int next_descriptor(void)
{
    const int fd = dup(a.fd);
    assert_int_equal(close(fd), 0);
    return fd;
}

static void who_finds_every_slot_taken_is_told(void **state)
{
    static struct datagram_share more[DATAGRAM_SHARE_SLOTS];
    for (unsigned i = 2; i < DATAGRAM_SHARE_SLOTS; i++) {
        assert_int_equal(datagram_share_init(&more[i], port), 0);
        assert_int_equal(more[i].slot, i);
    }
    const int next = next_descriptor();
    assert_int_equal(datagram_share_init(&more[0], port), -EUSERS);
    assert_int_equal(more[0].fd, -1);
    assert_int_equal(next_descriptor(), next);
    for (unsigned i = 2; i < DATAGRAM_SHARE_SLOTS; i++) {
        datagram_share_fini(&more[i]);
    }
}

static void what_is_refused_leaves_no_descriptor(void **state)
{
    const int lock = datagram_share_lock(&a), service = datagram_share_serve(&a, 7, &here);
    const int next = next_descriptor();
    assert_int_equal(datagram_share_lock(&b), -EAGAIN);
    assert_int_equal(datagram_share_serve(&b, 7, &here), -EADDRINUSE);
    assert_true(datagram_share_is_served(&b, 7, &here));
    assert_false(datagram_share_is_served(&b, 8, &here));
    assert_int_equal(next_descriptor(), next);
    close(lock);
    close(service);
}

static void a_process_without_descriptors_is_told_so(void **state)
{
    struct rlimit before;
    struct datagram_share c;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {(rlim_t)next_descriptor(), before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int made = datagram_share_init(&c, port), lock = datagram_share_lock(&a);
    const int service = datagram_share_serve(&a, 7, &here);
    const bool is_served = datagram_share_is_served(&a, 7, &here);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(made, -EMFILE);
    assert_true(c.fd < 0);
    assert_int_equal(lock, -EMFILE);
    assert_int_equal(service, -EMFILE);
    assert_true(is_served); // as far as is known
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void nothing_is_there_until_something_is_said(void **state)
{
    duration_ns left_ns = 0;
    take(&b, DATAGRAM_SHARE_NOTHING);
    assert_int_equal(m.fd_count, 0);
    datagram_share_receive(&b, 1, &m); // waited for in vain
    assert_int_equal(m.kind, DATAGRAM_SHARE_NOTHING);
    assert_int_equal(datagram_share_come(&a, 1), 0);
    datagram_share_await(&b, &left_ns, &m);
    assert_int_equal(m.kind, DATAGRAM_SHARE_HERE);
    left_ns = (duration_ns)PATIENCE_MS * NS_PER_MS;
    assert_int_equal(datagram_share_come(&a, 1), 0);
    datagram_share_await(&b, &left_ns, &m);
    assert_int_equal(m.kind, DATAGRAM_SHARE_HERE);
    assert_true(left_ns <= (duration_ns)PATIENCE_MS * NS_PER_MS);
    assert_int_equal(m.fd_count, 0);
    assert_int_equal(b.strangers, 0);
}

static void a_question_says_of_what_and_how_many_there_are(void **state)
{
    assert_int_equal(datagram_share_ask(&b, 0, &there, 9, 3), 0);
    take(&a, DATAGRAM_SHARE_ASK);
    assert_int_equal(m.from, 1);
    assert_memory_equal(&m.addr, &there, sizeof there);
    assert_int_equal(m.scope_id, 9);
    assert_int_equal(m.first, 3);
    assert_int_equal(datagram_share_ask(&b, 5, &there, 9, 3), -ECONNREFUSED);
}

static void what_is_given_are_descriptors_from_a_place_on(void **state)
{
    int ends[3][2];
    for (unsigned i = 0; i < 3; i++) {
        pipe_open(ends[i]);
    }
    const int given[] = {ends[0][1], ends[1][1], ends[2][1]};
    assert_int_equal(datagram_share_give(&a, 1, &there, 9, 4, given, 3), 0);
    take(&b, DATAGRAM_SHARE_GIVE);
    assert_int_equal(m.from, 0);
    assert_memory_equal(&m.addr, &there, sizeof there);
    assert_int_equal(m.scope_id, 9);
    assert_int_equal(m.first, 4);
    assert_int_equal(m.count, 3);
    assert_int_equal(m.fd_count, 3);
    for (unsigned i = 0; i < 3; i++) { // in their order
        close(ends[i][1]);
        assert_true(is_open(ends[i]));
        close(m.fds[i]);
        assert_false(is_open(ends[i]));
        close(ends[i][0]);
    }
    assert_int_equal(datagram_share_give(&a, 1, &here, 0, 4, NULL, 0), 0);
    take(&b, DATAGRAM_SHARE_NONE);
    assert_int_equal(m.first, 4);
    assert_int_equal(m.count, 0);
    assert_int_equal(m.fd_count, 0);
}

static void as_many_are_given_as_an_address_has(void **state)
{
    int ends[2], given[DATAGRAM_SHARE_FDS];
    pipe_open(ends);
    for (unsigned i = 0; i < DATAGRAM_SHARE_FDS; i++) {
        given[i] = ends[1];
    }
    assert_int_equal(datagram_share_give(&a, 1, &here, 0, 0, given, DATAGRAM_SHARE_FDS), 0);
    take(&b, DATAGRAM_SHARE_GIVE);
    assert_int_equal(m.fd_count, DATAGRAM_SHARE_FDS);
    for (unsigned i = 0; i < m.fd_count; i++) {
        assert_int_equal(close(m.fds[i]), 0);
    }
    close(ends[1]);
    assert_false(is_open(ends));
    close(ends[0]);
}

static void a_will_and_a_lane_are_two_descriptors(void **state)
{
    for (unsigned is_lane = 0; is_lane < 2; is_lane++) {
        int ends[2][2];
        pipe_open(ends[0]);
        pipe_open(ends[1]);
        const int given[] = {ends[0][1], ends[1][1]};
        assert_int_equal(is_lane ? datagram_share_lane(&a, 1, 77, 5, given)
                                 : datagram_share_show(&a, 1, given),
                         0);
        take(&b, is_lane ? DATAGRAM_SHARE_LANE : DATAGRAM_SHARE_WILL);
        assert_int_equal(m.fd_count, 2);
        assert_int_equal(m.count, is_lane ? 77 : 0);
        assert_int_equal(m.first, is_lane ? 5 : 0);
        for (unsigned i = 0; i < 2; i++) {
            close(ends[i][1]);
            assert_true(is_open(ends[i]));
            close(m.fds[i]);
            assert_false(is_open(ends[i]));
            close(ends[i][0]);
        }
    }
}

static void descriptors_that_nobody_has_room_for_are_closed(void **state)
{
    int ends[2];
    pipe_open(ends);
    m.fds = NULL;
    assert_int_equal(datagram_share_give(&a, 1, &here, 0, 0, &ends[1], 1), 0);
    close(ends[1]);
    assert_true(is_open(ends)); // they are under way
    take(&b, DATAGRAM_SHARE_GIVE);
    assert_int_equal(m.fd_count, 0);
    assert_false(is_open(ends));
    close(ends[0]);
}

static void a_packet_is_handed_on_as_it_came(void **state)
{
    static uint8_t octets[DATAGRAM_LEN_MAX + 1];
    struct datagram_rx rx = {.local = here,
                             .remote = there,
                             .scope_id = 3,
                             .flow_label = 0xabcde,
                             .source_port = 0xc123,
                             .traffic_class = 0x48,
                             .hop_limit = 63,
                             .is_shared = true};
    for (size_t i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)(i * 7);
    }
    for (unsigned i = 0; i < 2; i++) {
        rx.is_checked = i == 1;
        rx.octets = span_of(octets, i == 1 ? DATAGRAM_LEN_MAX : 12);
        assert_int_equal(datagram_share_hand_on(&a, 1, &rx), 0);
        take(&b, DATAGRAM_SHARE_PACKET);
        assert_memory_equal(&m.rx.local, &here, sizeof here);
        assert_memory_equal(&m.rx.remote, &there, sizeof there);
        assert_int_equal(m.rx.scope_id, 3);
        assert_int_equal(m.rx.flow_label, 0xabcde);
        assert_int_equal(m.rx.source_port, 0xc123);
        assert_int_equal(m.rx.traffic_class, 0x48);
        assert_int_equal(m.rx.hop_limit, 63);
        assert_int_equal(m.rx.is_checked, i == 1);
        assert_true(m.rx.is_copy);
        assert_false(m.rx.is_shared);
        assert_int_equal(m.rx.octets.len, rx.octets.len);
        assert_memory_equal(m.rx.octets.ptr, octets, rx.octets.len);
    }
    assert_int_equal(b.strangers, 0);
    rx.octets.len = sizeof octets; // more than a packet has
    assert_int_equal(datagram_share_hand_on(&a, 1, &rx), 0);
    take(&b, DATAGRAM_SHARE_DROPPED);
    assert_int_equal(b.strangers, 1);
}

static void who_does_not_read_is_full_at_last(void **state)
{
    int error = 0;
    for (unsigned i = 0; i < 100000 && error == 0; i++) {
        error = datagram_share_come(&a, 1);
    }
    assert_int_equal(error, -EAGAIN);
    take(&b, DATAGRAM_SHARE_HERE);
    assert_int_equal(datagram_share_come(&a, 1), 0);
}

/* ---- what is dropped ------------------------------------------------------------------------- */

static socklen_t name_make(struct sockaddr_un *ret, const char *what)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "weft-roce.%u.%u.%s",
                             (unsigned)geteuid(), port, what);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

// A socket of this name; the slots' messages can be read from it as they are.
static int socket_named(const char *what)
{
    struct sockaddr_un name;
    const socklen_t len = name_make(&name, what);
    const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
    return fd;
}

static void say(int fd, const uint8_t *octets, size_t len, int descriptor)
{
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(sizeof(int))];
    } control = {.octets = {0}};
    struct sockaddr_un name;
    struct iovec iov = {(void *)(uintptr_t)octets, len};
    struct msghdr msg = {
        .msg_name = &name, .msg_namelen = name_make(&name, "1"), .msg_iov = &iov, .msg_iovlen = 1};
    if (descriptor >= 0) {
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(sizeof descriptor)};
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control;
    }
    assert_int_equal(sendmsg(fd, &msg, 0), len);
}

// Of each octet of a message's beginning: its layout's number, then its kind, in the host's order.
static void what_makes_no_sense_is_dropped_and_counted(void **state)
{
    uint8_t good[HEADER_MAX], bad[HEADER_MAX];
    const int fd = socket_named("2"), stranger = socket_named("64"),
              nameless = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(datagram_share_come(&a, 2), 0);
    const ssize_t len = recv(fd, good, sizeof good, 0);
    assert_true(len > 0);
    uint32_t kind = DATAGRAM_SHARE_HERE;
    assert_memory_equal(good + 4, &kind, sizeof kind);
    for (kind = 0; kind < 12; kind++) {
        const bool is_known = kind >= DATAGRAM_SHARE_ASK && kind <= DATAGRAM_SHARE_TAKEN;
        memcpy(bad, good, (size_t)len);
        memcpy(bad + 4, &kind, sizeof kind);
        say(fd, bad, (size_t)len, -1);
        take(&b, is_known ? (enum datagram_share_kind)kind : DATAGRAM_SHARE_DROPPED);
        assert_int_equal(m.from, 2);
    }
    uint64_t dropped = 4;
    assert_int_equal(b.strangers, dropped);
    for (unsigned i = 0; i < 4; i++) {
        memcpy(bad, good, (size_t)len);
        bad[i] ^= 0x10;
        say(fd, bad, (size_t)len, -1);
        take(&b, DATAGRAM_SHARE_DROPPED);
        assert_int_equal(b.strangers, ++dropped);
    }
    say(fd, good, (size_t)len - 1, -1);
    take(&b, DATAGRAM_SHARE_DROPPED);
    say(stranger, good, (size_t)len, -1); // no slot has that name
    take(&b, DATAGRAM_SHARE_DROPPED);
    say(nameless, good, (size_t)len, -1);
    take(&b, DATAGRAM_SHARE_DROPPED);
    assert_int_equal(b.strangers, dropped + 3);
    say(fd, good, (size_t)len, -1);
    take(&b, DATAGRAM_SHARE_HERE);
    assert_int_equal(b.strangers, dropped + 3);
    close(fd);
    close(stranger);
    close(nameless);
}

static void descriptors_beside_what_has_none_are_closed(void **state)
{
    static const enum datagram_share_kind kinds[] = {
        DATAGRAM_SHARE_ASK,  DATAGRAM_SHARE_GIVE, DATAGRAM_SHARE_NONE, DATAGRAM_SHARE_PACKET,
        DATAGRAM_SHARE_HERE, DATAGRAM_SHARE_WILL, DATAGRAM_SHARE_LANE, DATAGRAM_SHARE_TAKEN};
    uint8_t octets[HEADER_MAX];
    const int fd = socket_named("2");
    assert_int_equal(datagram_share_come(&a, 2), 0);
    const ssize_t len = recv(fd, octets, sizeof octets, 0);
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const uint32_t kind = kinds[i];
        const bool has = kind == DATAGRAM_SHARE_GIVE || kind == DATAGRAM_SHARE_WILL ||
                         kind == DATAGRAM_SHARE_LANE;
        int ends[2];
        pipe_open(ends);
        memcpy(octets + 4, &kind, sizeof kind);
        say(fd, octets, (size_t)len, ends[1]);
        close(ends[1]);
        take(&b, kinds[i]);
        assert_int_equal(m.fd_count, has);
        assert_int_equal(is_open(ends), has);
        if (has) {
            close(m.fds[0]);
        }
        close(ends[0]);
    }
    close(fd);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(the_first_free_slot_is_taken),
        CASE(one_at_a_time_makes_sockets),
        CASE(a_service_is_served_once_at_an_address),
        CASE(who_finds_every_slot_taken_is_told),
        CASE(what_is_refused_leaves_no_descriptor),
        CASE(a_process_without_descriptors_is_told_so),
        CASE(nothing_is_there_until_something_is_said),
        CASE(a_question_says_of_what_and_how_many_there_are),
        CASE(what_is_given_are_descriptors_from_a_place_on),
        CASE(as_many_are_given_as_an_address_has),
        CASE(a_will_and_a_lane_are_two_descriptors),
        CASE(descriptors_that_nobody_has_room_for_are_closed),
        CASE(a_packet_is_handed_on_as_it_came),
        CASE(who_does_not_read_is_full_at_last),
        CASE(what_makes_no_sense_is_dropped_and_counted),
        CASE(descriptors_beside_what_has_none_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

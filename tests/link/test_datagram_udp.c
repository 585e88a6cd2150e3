// Packets over UDP sockets, between two links of one process that share the port.
#include <errno.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/datagram/udp.h"
#include "tests/link/datagram_contract.h"
#include "tests/link/descriptors.h"
#include "tests/own_port.h"
#include "wire/icrc.h"

enum { OLD_BUFFER_LEN = 212992 }; // what older kernels allow
enum { LINKS = 2, SHORT_NS = 10 * NS_PER_MS };

static struct datagram_udp_config config;
static struct got got[4];

/* ---- two links ------------------------------------------------------------------------------- */

void pair_turn(unsigned to)
{
    if ((datagram_poll(pair.link[to], 0) & DATAGRAM_READY_IN) == 0) {
        datagram_wait(pair.link[to], SHORT_NS);
    }
}

instant_ns pair_now(void)
{
    return 0;
}

static atomic_bool is_open;

// As a process does that has nothing else to do. What it was given last it has to find too.
static void *serve(void *link)
{
    bool is_last;
    do {
        struct datagram_rx rx;
        is_last = atomic_load(&is_open);
        datagram_wait(link, NS_PER_MS);
        datagram_poll(link, 0);
        datagram_receive(link, &rx, 1, 0);
    } while (!is_last);
    return NULL;
}

int pair_open_at(unsigned i, const struct in6_addr *local)
{
    pthread_t other;
    atomic_store(&is_open, false);
    assert_int_equal(pthread_create(&other, NULL, serve, pair.link[1 - i]), 0);
    int error = datagram_open(pair.link[i], local, 0);
    atomic_store(&is_open, true);
    pthread_join(other, NULL);
    return error;
}

static int begin(void **state)
{
    config.port = own_port();
    for (unsigned i = 0; i < LINKS; i++) {
        pair.ipv4[i] = ipv4_mapped(INADDR_LOOPBACK + i);
        pair.ipv6[i] = in6addr_loopback;
        assert_int_equal(datagram_udp_create(&config, &pair.link[i]), 0);
    }
    return 0;
}

static int end(void **state)
{
    datagram_destroy(pair.link[0]);
    datagram_destroy(pair.link[1]);
    config = (struct datagram_udp_config){.port = 0};
    return 0;
}

/* ---- a stranger ------------------------------------------------------------------------------ */

// A socket that is none of weft's.
struct stranger {
    int fd;
    struct in6_addr addr;
    uint16_t port;
};

static const struct in6_addr *to_addr(const struct stranger *s)
{
    return IN6_IS_ADDR_V4MAPPED(&s->addr) ? &pair.ipv4[1] : &pair.ipv6[1];
}

static socklen_t name_of(const struct in6_addr *addr, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *addr};
    memcpy(&in.sin_addr, addr->s6_addr + 12, sizeof in.sin_addr);
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(addr);
    memcpy(ret, is_ipv4 ? (void *)&in : (void *)&in6, is_ipv4 ? sizeof in : sizeof in6);
    return is_ipv4 ? sizeof in : sizeof in6;
}

static struct stranger stranger_make(const struct in6_addr *addr)
{
    struct stranger s = {.addr = *addr};
    struct sockaddr_storage name;
    struct sockaddr_in6 got_name; // both families have the port at the same place
    socklen_t len = name_of(addr, 0, &name);
    s.fd = socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s.fd, (struct sockaddr *)&name, len), 0);
    len = sizeof got_name;
    assert_int_equal(getsockname(s.fd, (struct sockaddr *)&got_name, &len), 0);
    s.port = ntohs(got_name.sin6_port);
    return s;
}

// BTH and payload, and the ICRC for an identification.
static size_t stranger_packet(const struct stranger *s, uint32_t qp_num, uint16_t id, size_t len,
                              uint8_t *ret)
{
    memset(ret, 0x5a, len);
    pair_head(ret, 1, 1);
    put_be32(ret + 4, qp_num);
    struct icrc_outer outer = {.src = &s->addr,
                               .dst = to_addr(s),
                               .id = id,
                               .fragment = ICRC_DF,
                               .src_port = s->port,
                               .dst_port = config.port,
                               .udp_len = (uint16_t)(8 + len + ICRC_LEN)};
    icrc_put(ret + len, icrc_finish(icrc_begin(&outer), ret, len));
    return len + ICRC_LEN;
}

static void stranger_send(const struct stranger *s, const uint8_t *packet, size_t len)
{
    struct sockaddr_storage to;
    socklen_t to_len = name_of(to_addr(s), config.port, &to);
    assert_int_equal(sendto(s->fd, packet, len, 0, (struct sockaddr *)&to, to_len), len);
}

static uint8_t packet[8192];

static unsigned stranger_gives(const struct in6_addr *from, uint16_t id, size_t changed)
{
    struct stranger s = stranger_make(from);
    pair_open();
    size_t len = stranger_packet(&s, pair.link[1]->qp_num_first, id, 112, packet);
    packet[changed] ^= changed != 0;
    stranger_send(&s, packet, len);
    close(s.fd);
    return pair_take(1, got, 2);
}

static void icrc_of_weft_is_checked(void **state)
{
    assert_int_equal(stranger_gives(&pair.ipv4[0], 0, 0), 1);
    assert_true(got[0].rx.is_checked);
    assert_int_equal(got[0].rx.octets.len, 112);
    assert_int_equal(datagram_counted(pair.link[1], "icrc_unchecked"), 0);
}

static void identification_of_a_stranger_is_not_known(void **state)
{
    assert_int_equal(stranger_gives(&pair.ipv4[0], 0xbeef, 0), 1);
    assert_false(got[0].rx.is_checked);
    assert_int_equal(datagram_counted(pair.link[1], "icrc_unchecked"), 1);
}

static void wrong_icrc_is_dropped_over_ipv4(void **state)
{
    assert_int_equal(stranger_gives(&pair.ipv4[0], 0, 50), 0);
    assert_int_equal(datagram_counted(pair.link[1], "icrc_wrong"), 1);
}

static void wrong_icrc_is_dropped_over_ipv6(void **state)
{
    assert_int_equal(stranger_gives(&pair.ipv6[0], 0, 50), 0);
    assert_int_equal(datagram_counted(pair.link[1], "icrc_wrong"), 1);
}

// As RoCE cards and rxe send them.
static void packet_without_a_checksum_of_udp_arrives_over_ipv6(void **state)
{
    struct stranger s = stranger_make(&pair.ipv6[0]);
    const int one = 1;
    assert_int_equal(setsockopt(s.fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &one, sizeof one), 0);
    pair_open();
    stranger_send(&s, packet, stranger_packet(&s, pair.link[1]->qp_num_first, 0, 112, packet));
    close(s.fd);
    assert_int_equal(pair_take(1, got, 2), 1);
    assert_true(got[0].rx.is_checked);
}

static void nothing_is_dropped_where_nothing_is_checked(void **state)
{
    end(state);
    config.is_unchecked = true;
    begin(state);
    assert_int_equal(stranger_gives(&pair.ipv4[0], 0, 50), 1);
    assert_false(got[0].rx.is_checked);
}

static void packets_of_a_bad_length_are_dropped(void **state)
{
    struct stranger s = stranger_make(&pair.ipv4[0]);
    pair_open();
    stranger_packet(&s, pair.link[1]->qp_num_first, 0, 4400, packet);
    static const size_t lens[] = {8, 12, 15, 17, 4232, 4396};
    enum { COUNT = sizeof lens / sizeof lens[0] };
    for (unsigned i = 0; i < COUNT; i++) {
        stranger_send(&s, packet, lens[i]);
    }
    assert_int_equal(pair_take(1, got, 2), 0);
    assert_int_equal(datagram_counted(pair.link[1], "bad_lengths"), COUNT);
    close(s.fd);
}

// The filter would read beyond their end: they come to the first socket, which all read.
static void packets_without_a_number_are_counted(void **state)
{
    struct stranger s = stranger_make(&pair.ipv6[0]); // the one address that both have
    pair_open();
    stranger_send(&s, packet, 1);
    stranger_send(&s, packet, 7);
    assert_int_equal(pair_take(0, got, 2), 0);
    assert_int_equal(datagram_counted(pair.link[0], "bad_lengths"), 2);
    close(s.fd);
}

static void numbers_of_no_slot_are_counted(void **state)
{
    struct stranger s = stranger_make(&pair.ipv4[0]);
    pair_open();
    for (unsigned i = 0; i < 40; i++) {
        stranger_send(&s, packet, stranger_packet(&s, 0xff0000 + i, 0, 1024, packet));
    }
    assert_int_equal(pair_take(1, got, 2), 0);
    assert_true(datagram_counted(pair.link[1], "no_slot") >= 30); // the socket holds a few
    close(s.fd);
}

static void group_number_at_an_address_of_the_host_is_refused(void **state)
{
    struct stranger s = stranger_make(&pair.ipv4[0]);
    uint64_t before;
    pair_open();
    before = datagram_counted(pair.link[1], "no_slot");
    stranger_send(&s, packet, stranger_packet(&s, 0xffffff, 0, 64, packet));
    stranger_send(&s, packet, stranger_packet(&s, 0, 0, 64, packet));
    assert_int_equal(pair_take(1, got, 2), 0);
    assert_true(datagram_counted(pair.link[1], "no_slot") >= before);
    close(s.fd);
}

/* ---- bursts ---------------------------------------------------------------------------------- */

static void equal_packets_leave_and_come_together(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    for (unsigned i = 0; i < 30; i++) {
        assert_true(pair_put(&path, i, span_of(packet, 1024)));
    }
    assert_true(datagram_flush(pair.link[0]));
    unsigned count = 0;
    while (count < 30) {
        unsigned some = pair_take(1, got, 4);
        assert_true(some > 0);
        count += some;
    }
    assert_int_equal(datagram_counted(pair.link[0], "packets_out"), 30);
    assert_int_equal(datagram_counted(pair.link[0], "trains_out"), 1);
    assert_true(datagram_counted(pair.link[1], "trains_in") < 30);
}

// A burst has as many octets, whatever the path MTU.
static void burst_leaves_while_the_next_one_is_made(void **state)
{
    static const struct {
        size_t len;
        unsigned count;
    } bursts[] = {{1024, 60}, {2048, 30}, {4096, 15}};
    struct datagram_path path = pair_path(AF_INET);
    uint64_t before = 0;
    pair_open();
    for (unsigned i = 0; i < sizeof bursts / sizeof bursts[0]; i++) {
        for (unsigned j = 0; j < bursts[i].count; j++) {
            assert_true(pair_put(&path, j, span_of(packet, bursts[i].len)));
        }
        assert_int_equal(datagram_counted(pair.link[0], "packets_out"), before);
        assert_true(pair_put(&path, bursts[i].count, span_of(packet, bursts[i].len)));
        before += bursts[i].count;
        assert_int_equal(datagram_counted(pair.link[0], "packets_out"), before);
        assert_true(datagram_flush(pair.link[0]));
        before++;
    }
}

static void bursts_can_be_forbidden(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    end(state);
    config.is_single = true;
    begin(state);
    pair_open();
    for (unsigned i = 0; i < 3; i++) {
        assert_true(pair_put(&path, i, span_of(packet, 1024)));
    }
    assert_true(datagram_flush(pair.link[0]));
    assert_int_equal(pair_take(1, got, 4), 3);
    assert_int_equal(datagram_counted(pair.link[0], "trains_out"), 3);
    assert_true(got[0].rx.is_checked && got[1].rx.is_checked && got[2].rx.is_checked);
}

static void burst_is_of_one_queue_pair(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    for (unsigned i = 0; i < 4; i++) {
        uint8_t head[PAIR_HEAD_LEN];
        pair_head(head, 1, i);
        put_be32(head + 4, pair.link[1]->qp_num_first + i / 2);
        struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
        assert_true(datagram_put(pair.link[0], &tx));
    }
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 4), 4);
    assert_int_equal(datagram_counted(pair.link[0], "trains_out"), 2);
}

static void packet_longer_than_its_path_is_counted(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    path.remote = ipv4_mapped(0xcb007101); // 203.0.113.1: not of this host
    path.local = pair.ipv4[0];
    pair_open();
    assert_true(pair_put(&path, 0, span_of(packet, 8)));
    assert_true(datagram_flush(pair.link[0])); // whether there is a way or not
    assert_int_equal(datagram_counted(pair.link[0], "packets_out") +
                         datagram_counted(pair.link[0], "not_sent"),
                     1);
}

static void packet_from_an_address_that_is_not_open_is_lost(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    assert_true(pair_put(&path, 0, span_of(packet, 8)));
    assert_true(datagram_flush(pair.link[0]));
    assert_int_equal(datagram_counted(pair.link[0], "not_open"), 1);
}

static void buffer_that_is_full_drops_and_counts(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    end(state);
    config.rcvbuf_len = 16384;
    begin(state);
    pair_open();
    assert_in_range(datagram_receive_buffer_len(pair.link[1]), 8192, 32768);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(pair_put(&path, i, span_of(packet, 4096)));
    }
    assert_true(datagram_flush(pair.link[0]));
    unsigned count = 0, some;
    while ((some = pair_take(1, got, 4)) > 0) {
        count += some;
    }
    assert_true(count < 100);
    assert_true(pair_put(&path, 0, span_of(packet, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 4), 1); // the kernel tells with the next
    assert_true(datagram_counted(pair.link[1], "buffer_overflows") > 0);
}

// Nobody reads meanwhile.
static unsigned many_cross(size_t len, bool is_single)
{
    struct datagram_path path = pair_path(AF_INET);
    end(NULL);
    config.rcvbuf_len = OLD_BUFFER_LEN / 2; // the kernel doubles it
    config.is_single = is_single;
    begin(NULL);
    pair_open();
    unsigned sent = (unsigned)(datagram_receive_buffer_len(pair.link[1]) / (len + PAIR_HEAD_LEN));
    for (unsigned i = 0; i < sent; i++) {
        assert_true(pair_put(&path, i, span_of(packet, len)));
    }
    assert_true(datagram_flush(pair.link[0]));
    unsigned count = 0, some;
    while ((some = pair_take(1, got, 4)) > 0) {
        count += some;
    }
    assert_true(sent > 0);
    return sent - count;
}

static void buffer_holds_as_much_as_it_says(void **state)
{
    for (size_t len = 1024; len <= 4096; len *= 2) {
        assert_int_equal(many_cross(len, true), 0);
        assert_int_equal(many_cross(len, false), 0);
    }
}

/* ---- receivers of this host ------------------------------------------------------------------ */

static bool has_room(const struct datagram_path *path, size_t len)
{
    uint8_t head[PAIR_HEAD_LEN];
    pair_head(head, 1, 0);
    const struct span payload = span_of(packet, len);
    const struct datagram_tx tx = {.path = path,
                                   .head = span_of(head, sizeof head),
                                   .pieces = &payload,
                                   .piece_count = 1,
                                   .is_sent_once = true};
    return datagram_has_room(pair.link[0], &tx);
}

// Puts packets until the receiver's buffer is said to be full, or so many.
static unsigned put_while_there_is_room(const struct datagram_path *path, size_t len, unsigned most)
{
    unsigned count = 0;
    while (count < most && has_room(path, len)) {
        assert_true(pair_put(path, count++, span_of(packet, len)));
    }
    assert_true(datagram_flush(pair.link[0]));
    return count;
}

static void open_with_the_old_buffer(void)
{
    end(NULL);
    config.rcvbuf_len = OLD_BUFFER_LEN / 2; // the kernel doubles it
    begin(NULL);
    pair_open();
}

static void receiver_at_an_address_of_ours_has_room_until_it_is_full(void **state)
{
    struct datagram_path path = pair_path(AF_INET6); // the one address that both have
    open_with_the_old_buffer();
    for (size_t len = 64; len <= 4096; len *= 4) {
        unsigned sent = put_while_there_is_room(&path, len, 10000), count = 0, some;
        assert_in_range(sent, 8, 9999);
        while ((some = pair_take(1, got, 4)) > 0) {
            count += some;
        }
        assert_int_equal(count, sent);
    }
    assert_true(has_room(&path, 4096));
    assert_int_equal(datagram_counted(pair.link[1], "buffer_overflows"), 0);
}

static void receiver_that_takes_nothing_is_not_waited_for_for_ever(void **state)
{
    struct datagram_path path = pair_path(AF_INET6);
    open_with_the_old_buffer();
    assert_in_range(put_while_there_is_room(&path, 4096, 10000), 8, 9999);
    for (unsigned i = 0; i < 10000; i++) {
        datagram_poll(pair.link[0], NS_PER_MS);
        assert_false(has_room(&path, 4096));
    }
    datagram_poll(pair.link[0], NS_PER_S);
    assert_true(has_room(&path, 4096));
}

static void receiver_at_another_address_is_not_known(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    open_with_the_old_buffer();
    assert_int_equal(put_while_there_is_room(&path, 4096, 100), 100);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void packets_end_a_wait_and_so_does_a_wake(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    assert_true(pair_put(&path, 0, span_of(packet, 8)));
    datagram_flush(pair.link[0]);
    datagram_wait(pair.link[1], INSTANT_NEVER);
    assert_int_equal(pair_take(1, got, 1), 1);
    datagram_wake(pair.link[1]);
    datagram_wait(pair.link[1], INSTANT_NEVER);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void port_of_somebody_else_is_named(void **state)
{
    struct sockaddr_storage name;
    struct in6_addr addr = ipv4_mapped(INADDR_LOOPBACK + 5);
    socklen_t len = name_of(&addr, config.port, &name);
    struct why why;
    char expected[64];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
    assert_int_equal(datagram_open(pair.link[0], &addr, 0), -EADDRINUSE);
    datagram_udp_holder(&addr, config.port, &why);
    snprintf(expected, sizeof expected, "at 127.0.0.6 is held by user %u, which is you", geteuid());
    assert_non_null(strstr(why.text, expected));
    assert_non_null(strstr(why.text, " is free"));
    assert_null(strstr(why.text, "127.0.0.6 is free"));
    close(fd);
    assert_int_equal(datagram_open(pair.link[0], &addr, 0), 0);
}

// One packet of management for the first process, which gives it to `slot`. Whether that is there.
static bool manage(struct stranger *s, unsigned slot)
{
    struct datagram_rx rx;
    unsigned count = 0;
    stranger_send(s, packet, stranger_packet(s, 1, 0, 256 + 20, packet));
    for (unsigned turn = 0; turn < 100 && count == 0; turn++) {
        datagram_wait(pair.link[0], SHORT_NS);
        datagram_poll(pair.link[0], 0);
        count = datagram_receive(pair.link[0], &rx, 1, 0);
    }
    assert_int_equal(count, 1);
    assert_true(rx.is_shared);
    assert_false(rx.is_copy);
    return datagram_hand_on(pair.link[0], &rx, slot);
}

static void packet_of_management_is_handed_on(void **state)
{
    struct stranger s = stranger_make(&pair.ipv6[0]); // the one address that both have
    const unsigned other = pair.link[1]->qp_num_first >> 16;
    const unsigned slots[] = {DATAGRAM_SLOT_ALL, other};
    pair_open();
    for (unsigned i = 0; i < 2; i++) {
        assert_true(manage(&s, slots[i]));
        assert_int_equal(pair_take(1, got, 2), 1);
        assert_true(got[0].rx.is_copy);
        assert_int_equal(got[0].rx.source_port, s.port);
        assert_int_equal(got[0].rx.octets.len, 276);
        assert_int_equal(datagram_counted(pair.link[0], "handed_on"), i + 1);
        assert_int_equal(datagram_counted(pair.link[1], "handed_in"), i + 1);
    }
    assert_false(manage(&s, other + 1));
    assert_int_equal(datagram_counted(pair.link[0], "not_ours"), 1);
    assert_int_equal(pair_take(1, got, 2), 0);
    close(s.fd);
}

// The second process looks where something was the last time, before it asks what else there is.
static void what_another_process_read_before_comes_first(void **state)
{
    struct stranger s = stranger_make(&pair.ipv6[0]);
    pair_open();
    stranger_send(&s, packet, stranger_packet(&s, 1, 0, 256 + 20, packet));
    assert_int_equal(pair_take(1, got, 1), 1);
    assert_true(manage(&s, pair.link[1]->qp_num_first >> 16));
    stranger_send(&s, packet, stranger_packet(&s, 1, 0, 256 + 24, packet));
    assert_int_equal(pair_take(1, got, 2), 2);
    assert_true(got[0].rx.is_copy);
    assert_false(got[1].rx.is_copy);
    close(s.fd);
}

static void what_a_process_serves_the_others_find_out(void **state)
{
    static const struct in6_addr any, elsewhere = {.s6_addr = {0xfd, [15] = 9}};
    const struct in6_addr *here = &pair.ipv6[0];
    pair_open();
    assert_false(datagram_is_served(pair.link[1], 7, here));
    assert_int_equal(datagram_serve(pair.link[0], 7, here), 0);
    assert_true(datagram_is_served(pair.link[1], 7, here));
    assert_false(datagram_is_served(pair.link[1], 7, &elsewhere));
    assert_false(datagram_is_served(pair.link[1], 8, here));
    assert_int_equal(datagram_serve(pair.link[1], 7, here), -EADDRINUSE);
    datagram_unserve(pair.link[0], 7, here);
    assert_false(datagram_is_served(pair.link[1], 7, here));
    assert_int_equal(datagram_serve(pair.link[0], 7, &any), 0);
    assert_true(datagram_is_served(pair.link[1], 7, here));
    datagram_destroy(pair.link[0]); // or the process ends, however it ends
    assert_false(datagram_is_served(pair.link[1], 7, here));
    assert_int_equal(datagram_udp_create(&config, &pair.link[0]), 0);
}

// All are looked for now and then: until then a packet costs no search.
static void process_that_is_new_is_found_in_time(void **state)
{
    struct stranger s = stranger_make(&pair.ipv6[0]);
    assert_int_equal(pair_open_at(0, &pair.ipv6[0]), 0);
    size_t len = stranger_packet(&s, 1, 0, 256 + 20, packet);
    datagram_destroy(pair.link[1]);
    for (unsigned turn = 0; turn < 3; turn++) {
        struct datagram_rx rx;
        instant_ns now = turn * 6 * NS_PER_MS;
        stranger_send(&s, packet, len);
        unsigned count = 0;
        for (unsigned i = 0; i < 100 && count == 0; i++) {
            datagram_wait(pair.link[0], SHORT_NS);
            datagram_poll(pair.link[0], now);
            count = datagram_receive(pair.link[0], &rx, 1, now);
        }
        assert_int_equal(count, 1);
        datagram_hand_on(pair.link[0], &rx, DATAGRAM_SLOT_ALL);
        assert_int_equal(datagram_counted(pair.link[0], "handed_on"), turn == 2);
        if (turn == 0) {
            assert_int_equal(datagram_udp_create(&config, &pair.link[1]), 0);
        }
    }
    close(s.fd);
}

// A hundred who connect at a time, and leave at once, send more than the socket between two
// processes holds, and than a hundred messages.
static void what_is_handed_on_waits_until_the_other_process_reads(void **state)
{
    enum { COUNT = 300 };
    struct stranger s = stranger_make(&pair.ipv6[0]);
    const unsigned slots[] = {DATAGRAM_SLOT_ALL, pair.link[1]->qp_num_first >> 16};
    unsigned taken = 0;
    pair_open();
    for (unsigned i = 0; i < COUNT; i++) {
        manage(&s, slots[i % 2]);
    }
    assert_true(datagram_next_deadline(pair.link[0]) < NS_PER_MS);
    for (unsigned turn = 1; taken < COUNT && turn <= 2 * COUNT; turn++) {
        datagram_poll(pair.link[0], turn * NS_PER_S);
        taken += pair_take(1, got, 2);
    }
    assert_int_equal(taken, COUNT);
    assert_int_equal(datagram_counted(pair.link[0], "handed_on_lost"), 0);
    assert_int_equal(datagram_next_deadline(pair.link[0]), INSTANT_NEVER);
    close(s.fd);
}

// What waits for a process that ends is dropped.
static void what_is_handed_on_does_not_wait_for_who_is_gone(void **state)
{
    struct stranger s = stranger_make(&pair.ipv6[0]);
    pair_open();
    for (unsigned i = 0; i < 20; i++) {
        manage(&s, DATAGRAM_SLOT_ALL);
    }
    datagram_destroy(pair.link[1]);
    datagram_poll(pair.link[0], NS_PER_S);
    assert_int_equal(datagram_next_deadline(pair.link[0]), INSTANT_NEVER);
    assert_int_equal(datagram_udp_create(&config, &pair.link[1]), 0);
    close(s.fd);
}

static void process_that_does_not_read_loses_what_is_handed_on(void **state)
{
    struct stranger s = stranger_make(&pair.ipv6[0]);
    pair_open();
    for (unsigned i = 0; i < 1000; i++) {
        manage(&s, DATAGRAM_SLOT_ALL);
    }
    assert_true(datagram_counted(pair.link[0], "handed_on_lost") > 0);
    close(s.fd);
}

/* ---- groups ---------------------------------------------------------------------------------- */

// ff01:: and ff02:: mean something on one interface alone: that of the address.
static void group_of_a_scope_is_joined_where_the_address_is(void **state)
{
    const struct in6_addr group = {.s6_addr = {0xff, 0x02, [14] = 0x12, [15] = 0x07}};
    assert_int_equal(datagram_open(pair.link[0], &pair.ipv6[0], 0), 0);
    assert_int_equal(datagram_join(pair.link[0], &group, &pair.ipv6[0], 0), 0);
    datagram_leave(pair.link[0], &group, &pair.ipv6[0], 0);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void abandoned_link_of_packets_holds_no_descriptor(void **state)
{
    struct in6_addr group = ipv4_mapped(0xefff1207);
    datagram_destroy(pair.link[0]);
    descriptors_note();
    unsigned inherited = descriptors_inherited();
    assert_int_equal(datagram_udp_create(&config, &pair.link[0]), 0);
    assert_int_equal(datagram_open(pair.link[0], &pair.ipv4[0], 0), 0);
    assert_int_equal(datagram_join(pair.link[0], &group, &pair.ipv4[0], 0), 0);
    assert_int_equal(descriptors_inherited(), inherited);
    assert_true(descriptors_more() > 0);
    datagram_abandon(pair.link[0]);
    descriptors_check();
}

static void address_that_is_closed_leaves_no_descriptor(void **state)
{
    descriptors_note();
    assert_int_equal(datagram_open(pair.link[0], &pair.ipv4[0], 0), 0);
    datagram_close(pair.link[0], &pair.ipv4[0], 0);
    descriptors_check();
}

// Sockets for management, for numbers of no slot, for its own slot, and to send from.
static void first_process_of_an_address_has_four_descriptors(void **state)
{
    descriptors_note();
    assert_int_equal(datagram_open(pair.link[0], &pair.ipv4[0], 0), 0);
    assert_int_equal(descriptors_more(), 4);
}

// The other one has taken what the first time was made for the newcomer's slot.
static void open_and_close_once(void)
{
    assert_int_equal(pair_open_at(0, &pair.ipv6[0]), 0);
    assert_int_equal(pair_open_at(1, &pair.ipv6[1]), 0);
    datagram_close(pair.link[1], &pair.ipv6[1], 0);
    assert_int_equal(pair_take(0, got, 1), 0);
}

// But for what it has made itself: that stays with the others.
static void what_another_process_gave_is_closed_too(void **state)
{
    open_and_close_once();
    descriptors_note();
    assert_int_equal(pair_open_at(1, &pair.ipv6[1]), 0);
    datagram_close(pair.link[1], &pair.ipv6[1], 0);
    descriptors_check();
}

static void too_few_descriptors_are_named_and_none_is_kept(void **state)
{
    struct rlimit before, few;
    open_and_close_once();
    descriptors_note();
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    int next = dup(0);
    close(next);
    for (unsigned more = 0; more < 5; more++) {
        few.rlim_cur = (rlim_t)next + more;
        setrlimit(RLIMIT_NOFILE, &few);
        int of_another = pair_open_at(1, &pair.ipv6[1]);
        int new = datagram_open(pair.link[1], &pair.ipv4[1], 0);
        setrlimit(RLIMIT_NOFILE, &before);
        assert_int_equal(of_another, -EMFILE);
        assert_int_equal(new, -EMFILE);
        descriptors_check();
    }
    assert_int_equal(pair_open_at(1, &pair.ipv6[1]), 0);
}

int main(void)
{
#define UDP_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)        UDP_TEST(name),
    const struct CMUnitTest tests[] = {
        DATAGRAM_CONTRACT_TESTS(X) UDP_TEST(icrc_of_weft_is_checked),
        UDP_TEST(identification_of_a_stranger_is_not_known),
        UDP_TEST(wrong_icrc_is_dropped_over_ipv4),
        UDP_TEST(wrong_icrc_is_dropped_over_ipv6),
        UDP_TEST(packet_without_a_checksum_of_udp_arrives_over_ipv6),
        UDP_TEST(nothing_is_dropped_where_nothing_is_checked),
        UDP_TEST(packets_of_a_bad_length_are_dropped),
        UDP_TEST(packets_without_a_number_are_counted),
        UDP_TEST(numbers_of_no_slot_are_counted),
        UDP_TEST(group_number_at_an_address_of_the_host_is_refused),
        UDP_TEST(equal_packets_leave_and_come_together),
        UDP_TEST(burst_leaves_while_the_next_one_is_made),
        UDP_TEST(bursts_can_be_forbidden),
        UDP_TEST(burst_is_of_one_queue_pair),
        UDP_TEST(packet_longer_than_its_path_is_counted),
        UDP_TEST(packet_from_an_address_that_is_not_open_is_lost),
        UDP_TEST(buffer_that_is_full_drops_and_counts),
        UDP_TEST(buffer_holds_as_much_as_it_says),
        UDP_TEST(receiver_at_an_address_of_ours_has_room_until_it_is_full),
        UDP_TEST(receiver_that_takes_nothing_is_not_waited_for_for_ever),
        UDP_TEST(receiver_at_another_address_is_not_known),
        UDP_TEST(packets_end_a_wait_and_so_does_a_wake),
        UDP_TEST(port_of_somebody_else_is_named),
        UDP_TEST(packet_of_management_is_handed_on),
        UDP_TEST(what_another_process_read_before_comes_first),
        UDP_TEST(what_a_process_serves_the_others_find_out),
        UDP_TEST(process_that_is_new_is_found_in_time),
        UDP_TEST(what_is_handed_on_waits_until_the_other_process_reads),
        UDP_TEST(what_is_handed_on_does_not_wait_for_who_is_gone),
        UDP_TEST(process_that_does_not_read_loses_what_is_handed_on),
        UDP_TEST(group_of_a_scope_is_joined_where_the_address_is),
        UDP_TEST(abandoned_link_of_packets_holds_no_descriptor),
        UDP_TEST(address_that_is_closed_leaves_no_descriptor),
        UDP_TEST(first_process_of_an_address_has_four_descriptors),
        UDP_TEST(what_another_process_gave_is_closed_too),
        UDP_TEST(too_few_descriptors_are_named_and_none_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

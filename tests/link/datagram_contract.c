#include "tests/link/datagram_contract.h"

#include <errno.h>

#include "base/bytes.h"
#include "wire/bth.h"

enum { MANY = 150, OFF_DEST_QP = 4, OFF_PSN = 8, LOW_24_BITS = 0xffffff };

struct datagram_pair pair;
static struct got got[MANY + 1];
static uint8_t payload[4096];

/* ---- what the tests are made of -------------------------------------------------------------- */

struct datagram_path pair_path(int family)
{
    const struct in6_addr *addrs = family == AF_INET ? pair.ipv4 : pair.ipv6;
    return (struct datagram_path){
        .local = addrs[0], .remote = addrs[1], .source_port = PAIR_SOURCE_PORT};
}

void pair_open(void)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pair_open_at(i, &pair.ipv4[i]), 0);
        assert_int_equal(pair_open_at(i, &pair.ipv6[i]), 0);
    }
}

void pair_head(uint8_t head[PAIR_HEAD_LEN], unsigned to, uint32_t psn)
{
    memset(head, 0, PAIR_HEAD_LEN);
    head[0] = 0x64;
    put_be32(head + OFF_DEST_QP, pair.link[to]->qp_num_first + 7);
    put_be32(head + OFF_PSN, psn);
}

bool pair_put(const struct datagram_path *path, uint32_t psn, struct span octets)
{
    uint8_t head[PAIR_HEAD_LEN];
    pair_head(head, 1, psn);
    if (path->remote.s6_addr[12] >> 4 == 0xe && IN6_IS_ADDR_V4MAPPED(&path->remote)) {
        put_be32(head + OFF_DEST_QP, BTH_QP_MULTICAST);
    }
    struct datagram_tx tx = {.path = path,
                             .head = span_of(head, sizeof head),
                             .pieces = &octets,
                             .piece_count = octets.len > 0,
                             .pad_len = -octets.len & 3};
    return datagram_put(pair.link[0], &tx);
}

static void keep(struct got *g, const struct datagram_rx *rx)
{
    assert_true(rx->octets.len <= sizeof g->octets);
    g->rx = *rx;
    memcpy(g->octets, rx->octets.ptr, rx->octets.len);
    g->rx.octets.ptr = g->octets;
}

unsigned pair_take(unsigned to, struct got *ret, unsigned max)
{
    struct datagram_rx rx[8];
    unsigned count = 0;
    for (unsigned quiet = 0; quiet < 3 && count < max; quiet++) {
        pair_turn(to);
        while (count < max && (datagram_poll(pair.link[to], pair_now()) & DATAGRAM_READY_IN) != 0) {
            unsigned want = max - count < 8 ? max - count : 8;
            unsigned some = datagram_receive(pair.link[to], rx, want, pair_now());
            for (unsigned i = 0; i < some; i++) {
                keep(&ret[count++], &rx[i]);
            }
            quiet = 0;
        }
    }
    return count;
}

uint32_t pair_psn(const struct got *g)
{
    return get_be32(g->octets + OFF_PSN) & LOW_24_BITS;
}

struct counted_datagrams {
    const char *name;
    uint64_t value;
    unsigned found;
};

static void count_take(void *ctx, const char *name, uint64_t value)
{
    struct counted_datagrams *c = ctx;
    if (strcmp(name, c->name) == 0) {
        c->value = value;
        c->found++;
    }
}

uint64_t datagram_counted(const struct datagram_link *link, const char *name)
{
    struct counted_datagrams c = {.name = name};
    datagram_counters(link, count_take, &c);
    assert_int_equal(c.found, 1);
    return c.value;
}

static void payload_draw(void)
{
    struct prng rng;
    prng_init(&rng, 7);
    for (size_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)prng_next(&rng);
    }
}

static void assert_payload(const struct got *g, size_t len)
{
    static const uint8_t zeros[3];
    assert_int_equal(g->rx.octets.len, PAIR_HEAD_LEN + len + (-len & 3));
    assert_memory_equal(g->octets + PAIR_HEAD_LEN, payload, len);
    assert_memory_equal(g->octets + PAIR_HEAD_LEN + len, zeros, -len & 3);
}

static void assert_crosses(int family, const struct in6_addr *addrs)
{
    struct datagram_path path = pair_path(family);
    pair_open();
    payload_draw();
    assert_true(pair_put(&path, 1, span_of(payload, 100)));
    assert_true(datagram_flush(pair.link[0]));
    assert_int_equal(pair_take(1, got, 2), 1);
    assert_payload(&got[0], 100);
    assert_memory_equal(&got[0].rx.local, &addrs[1], sizeof *addrs);
    assert_memory_equal(&got[0].rx.remote, &addrs[0], sizeof *addrs);
    assert_true(got[0].rx.is_checked);
}

/* ---- the tests ------------------------------------------------------------------------------- */

void every_operation_of_packets_is_there(void **state)
{
    const void *const *ops = (const void *const *)pair.link[0]->ops;
    for (size_t i = 0; i < sizeof *pair.link[0]->ops / sizeof *ops; i++) {
        assert_non_null(ops[i]);
    }
}

void packet_crosses_over_ipv4(void **state)
{
    assert_crosses(AF_INET, pair.ipv4);
}

void packet_crosses_over_ipv6(void **state)
{
    assert_crosses(AF_INET6, pair.ipv6);
}

void head_pieces_and_pad_arrive_in_one(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    uint8_t head[PAIR_HEAD_LEN];
    pair_open();
    payload_draw();
    pair_head(head, 1, 5);
    struct span pieces[] = {span_of(payload, 1), span_of(payload + 1, 0), span_of(payload + 1, 700),
                            span_of(payload + 701, 56)};
    struct datagram_tx tx = {.path = &path,
                             .head = span_of(head, sizeof head),
                             .pieces = pieces,
                             .piece_count = 4,
                             .pad_len = 3};
    assert_true(datagram_put(pair.link[0], &tx));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 2), 1);
    assert_memory_equal(got[0].octets, head, sizeof head);
    assert_payload(&got[0], 757);
}

void what_was_put_may_change_at_once(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    payload_draw();
    assert_true(pair_put(&path, 1, span_of(payload, 1024)));
    memset(payload, 0xee, sizeof payload);
    path = (struct datagram_path){0};
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 2), 1);
    payload_draw();
    assert_payload(&got[0], 1024);
}

void packets_of_every_length_cross(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    payload_draw();
    for (size_t len = 0; len <= sizeof payload; len += len < 9 || len > 4088 ? 1 : 227) {
        assert_true(pair_put(&path, (uint32_t)len, span_of(payload, len)));
        assert_true(datagram_flush(pair.link[0]));
        assert_int_equal(pair_take(1, got, 1), 1);
        assert_int_equal(pair_psn(&got[0]), len);
        assert_payload(&got[0], len);
        assert_true(got[0].rx.is_checked);
    }
}

static void assert_in_order(unsigned count)
{
    assert_int_equal(pair_take(1, got, count + 1), count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pair_psn(&got[i]), i);
        assert_true(got[i].rx.is_checked);
    }
}

void burst_of_equal_packets_keeps_its_order(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    payload_draw();
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(pair_put(&path, i, span_of(payload, 256)));
    }
    assert_true(datagram_flush(pair.link[0]));
    assert_in_order(MANY);
}

void lengths_may_change_within_a_burst(void **state)
{
    static const size_t lens[] = {512, 512, 512, 100, 512, 512, 1024, 1024, 0, 4, 4, 4};
    enum { COUNT = sizeof lens / sizeof lens[0] };
    struct datagram_path path = pair_path(AF_INET6);
    pair_open();
    payload_draw();
    for (unsigned i = 0; i < COUNT; i++) {
        assert_true(pair_put(&path, i, span_of(payload, lens[i])));
    }
    assert_true(datagram_flush(pair.link[0]));
    assert_in_order(COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_payload(&got[i], lens[i]);
    }
}

void two_paths_in_turn_keep_their_order(void **state)
{
    struct datagram_path paths[2] = {pair_path(AF_INET), pair_path(AF_INET6)};
    uint32_t next[2] = {0, 1};
    pair_open();
    for (unsigned i = 0; i < 40; i++) {
        assert_true(pair_put(&paths[i % 2], i, span_of(payload, 64)));
    }
    assert_true(datagram_flush(pair.link[0]));
    assert_int_equal(pair_take(1, got, 41), 40);
    for (unsigned i = 0; i < 40; i++) {
        unsigned path = IN6_IS_ADDR_V4MAPPED(&got[i].rx.local) ? 0 : 1;
        assert_int_equal(pair_psn(&got[i]), next[path]);
        next[path] += 2;
    }
}

// Answers with the hops that are told.
static uint8_t cross_with_class_and_hops(struct datagram_path path, uint8_t traffic_class,
                                         uint8_t hop_limit)
{
    path.traffic_class = traffic_class;
    path.hop_limit = hop_limit;
    assert_true(pair_put(&path, 0, span_of(payload, 8)));
    assert_true(datagram_flush(pair.link[0]));
    assert_int_equal(pair_take(1, got, 1), 1);
    assert_int_equal(got[0].rx.traffic_class, traffic_class);
    return got[0].rx.hop_limit;
}

static void assert_class_and_hops(int family, uint8_t traffic_class, uint8_t hop_limit)
{
    uint8_t hops = cross_with_class_and_hops(pair_path(family), traffic_class, hop_limit);
    if (hop_limit != 0) {
        assert_int_equal(hops, hop_limit);
    } else {
        struct datagram_path path = pair_path(family);
        path.hop_limit = 0;
        assert_true(hops > 0);
        assert_int_equal(hops, datagram_hop_limit(pair.link[0], &path));
    }
}

void class_and_hops_arrive_as_they_were_sent(void **state)
{
    pair_open();
    assert_class_and_hops(AF_INET, 0x6a, 5);
    assert_class_and_hops(AF_INET, 2, 255);
    assert_class_and_hops(AF_INET, 0, 0);
    assert_class_and_hops(AF_INET6, 0x6a, 5);
    assert_class_and_hops(AF_INET6, 2, 255);
    assert_class_and_hops(AF_INET6, 0, 0);
}

static void assert_others_have_their_own(int family)
{
    const struct datagram_path path = pair_path(family);
    const uint8_t of_system = cross_with_class_and_hops(path, 0, 0);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < MANY; i++) {
            assert_class_and_hops(family, 2, 33);
        }
        assert_class_and_hops(family, 0x6a, 33);
        assert_class_and_hops(family, 0, 33);
        assert_class_and_hops(family, 2, 9);
        assert_int_equal(cross_with_class_and_hops(path, 0, 0), of_system);
    }
}

void class_and_hops_of_many_are_not_those_of_others(void **state)
{
    pair_open();
    assert_others_have_their_own(AF_INET);
    assert_others_have_their_own(AF_INET6);
}

void packets_of_a_path_have_one_source_port(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    for (unsigned i = 0; i < 3; i++) {
        assert_true(pair_put(&path, i, span_of(payload, 100 * i)));
    }
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 4), 3);
    assert_true(got[0].rx.source_port >= 0xc000);
    assert_int_equal(got[1].rx.source_port, got[0].rx.source_port);
    assert_int_equal(got[2].rx.source_port, got[0].rx.source_port);
}

void nothing_leaves_before_the_flush(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    assert_true(pair_put(&path, 0, span_of(payload, 8)));
    assert_int_equal(pair_take(1, got, 1), 0);
    assert_true(datagram_flush(pair.link[0]));
    assert_int_equal(pair_take(1, got, 1), 1);
}

void no_more_is_received_than_asked_for(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    struct datagram_rx rx[4];
    pair_open();
    for (unsigned i = 0; i < 10; i++) {
        assert_true(pair_put(&path, i, span_of(payload, 64)));
    }
    datagram_flush(pair.link[0]);
    for (unsigned i = 0; i < 10;) {
        pair_turn(1);
        assert_true((datagram_poll(pair.link[1], pair_now()) & DATAGRAM_READY_IN) != 0);
        unsigned some = datagram_receive(pair.link[1], rx, 3, pair_now());
        assert_true(some > 0 && some <= 3);
        for (unsigned j = 0; j < some; j++) {
            assert_int_equal(get_be32(rx[j].octets.ptr + OFF_PSN), i++);
        }
    }
    assert_int_equal(datagram_receive(pair.link[1], rx, 4, pair_now()), 0);
}

void nothing_comes_to_an_address_that_is_closed(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    datagram_close(pair.link[1], &pair.ipv4[1], 0);
    assert_true(pair_put(&path, 0, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 1), 0);
}

void address_opened_twice_is_closed_twice(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    assert_int_equal(datagram_open(pair.link[1], &pair.ipv4[1], 0), 0);
    datagram_close(pair.link[1], &pair.ipv4[1], 0);
    assert_true(pair_put(&path, 0, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 1), 1);
}

void address_of_nobody_cannot_be_opened(void **state)
{
    struct in6_addr nobody = ipv4_mapped(0xcb007101); // 203.0.113.1 (RFC 5737)
    assert_int_equal(datagram_open(pair.link[0], &nobody, 0), -EADDRNOTAVAIL);
}

void route_stays_at_home_for_an_address_of_its_own(void **state)
{
    struct in6_addr local;
    assert_int_equal(datagram_route(pair.link[0], &pair.ipv4[0], 0, &local), 0);
    assert_memory_equal(&local, &pair.ipv4[0], sizeof local);
    assert_int_equal(datagram_route(pair.link[0], &pair.ipv6[0], 0, &local), 0);
    assert_memory_equal(&local, &pair.ipv6[0], sizeof local);
}

void longest_packet_is_at_least_a_path_mtu_of_1024(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    assert_in_range(datagram_len_max(pair.link[0], &path), 1024 + 32, DATAGRAM_LEN_MAX + 4);
}

static struct datagram_path group_path(void)
{
    struct datagram_path path = pair_path(AF_INET);
    path.remote = ipv4_mapped(0xefff1207); // 239.255.18.7: of an organisation (RFC 2365)
    return path;
}

void members_of_a_group_get_a_copy(void **state)
{
    struct datagram_path path = group_path();
    pair_open();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(datagram_join(pair.link[i], &path.remote, &pair.ipv4[i], 0), 0);
    }
    assert_true(pair_put(&path, 9, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pair_take(i, got, 2), 1);
        assert_int_equal(pair_psn(&got[0]), 9);
        assert_memory_equal(&got[0].rx.local, &path.remote, sizeof path.remote);
        assert_memory_equal(&got[0].rx.remote, &pair.ipv4[0], sizeof path.local);
    }
}

void group_has_hops_of_its_own(void **state)
{
    const struct datagram_path path = group_path();
    pair_open();
    assert_int_equal(datagram_join(pair.link[1], &path.remote, &pair.ipv4[1], 0), 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_class_and_hops(AF_INET, 2, 33);
    }
    assert_int_equal(cross_with_class_and_hops(path, 2, 33), 33);
    assert_int_equal(cross_with_class_and_hops(path, 2, 9), 9);
    assert_class_and_hops(AF_INET, 2, 33);
}

void who_left_a_group_gets_nothing(void **state)
{
    struct datagram_path path = group_path();
    pair_open();
    assert_int_equal(datagram_join(pair.link[1], &path.remote, &pair.ipv4[1], 0), 0);
    assert_int_equal(datagram_join(pair.link[1], &path.remote, &pair.ipv4[1], 0), 0);
    datagram_leave(pair.link[1], &path.remote, &pair.ipv4[1], 0);
    assert_true(pair_put(&path, 0, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 2), 1);
    datagram_leave(pair.link[1], &path.remote, &pair.ipv4[1], 0);
    assert_true(pair_put(&path, 0, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 2), 0);
}

void numbers_of_a_link_are_none_of_managements(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct datagram_link *link = pair.link[i];
        assert_true(link->qp_num_first >= 2);
        assert_true(link->qp_num_count >= 1024);
        assert_true(link->qp_num_first + link->qp_num_count <= LOW_24_BITS);
    }
}

void packets_and_what_came_of_them_are_counted(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    for (unsigned i = 0; i < 5; i++) {
        assert_true(pair_put(&path, i, span_of(payload, 64)));
    }
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 6), 5);
    assert_int_equal(datagram_counted(pair.link[0], "packets_out"), 5);
    assert_int_equal(datagram_counted(pair.link[1], "packets_in"), 5);
}

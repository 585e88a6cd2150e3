// Packets over a TUN/TAP interface: the contract with the kernel's sockets at the other end, in
// both directions, and packets that no socket would send, written to the interface as a stranger
// writes them.
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/datagram/tap.h"
#include "link/datagram/udp.h"
#include "tests/link/datagram_contract.h"
#include "tests/link/descriptors.h"
#include "tests/own_network.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum { LEN = 256, SOURCE_PORT = 0xd00d, QUIET_TURNS = 5, MANY = 300 };

static const char *why_not; // no namespace or no device here
static unsigned tap_at;     // which end of the pair the tap link is
static int wire = -1;       // what a stranger writes to
static const uint8_t payload[4096];
static struct got got[4];

instant_ns pair_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static instant_ns clock_of_tap(void *ctx)
{
    return pair_now();
}

// The tap link finds out about others' addresses as it receives.
void pair_turn(unsigned to)
{
    struct datagram_rx rx;
    if (to != tap_at && tap_at == 0) {
        datagram_poll(pair.link[0], pair_now());
        datagram_receive(pair.link[0], &rx, 1, pair_now());
    }
    if ((datagram_poll(pair.link[to], pair_now()) & DATAGRAM_READY_IN) == 0) {
        datagram_wait(pair.link[to], 30 * NS_PER_MS);
    }
}

int pair_open_at(unsigned i, const struct in6_addr *local)
{
    return datagram_open(pair.link[i], local, 0);
}

/* ---- the namespace --------------------------------------------------------------------------- */

#define ADDRESSES "10.9.0.2/24,fd09::2/64,mtu=4400"

static struct in6_addr ipv6_host(uint8_t host)
{
    return (struct in6_addr){.s6_addr = {0xfd, 0x09, [15] = host}};
}

// The kernel takes an IPv6 address in its own time: what comes for it before there is a route to it
// is nobody's.
static void await_ipv6(void)
{
    static const char route[] = "fd090000000000000000000000000001 80";
    bool is_there = false;
    for (unsigned turn = 0; turn < 5000 && !is_there; turn++) {
        char text[16384] = "";
        int fd = open("/proc/self/net/ipv6_route", O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0 && read(fd, text, sizeof text - 1) >= 0);
        close(fd);
        is_there = strstr(text, route) != NULL;
        usleep(is_there ? 0 : 1000);
    }
    assert_true(is_there);
}

// The tap link is 10.9.0.2 and fd09::2, the kernel 10.9.0.1 and fd09::1.
static void tap_make(const char *kind, const struct datagram_tap_config *wish)
{
    char text[100];
    struct datagram_tap_config config = *wish;
    snprintf(text, sizeof text, "%s:weft0," ADDRESSES, kind);
    assert_true(device_tap_config_parse(text, &config.interface));
    config.interface.ttl = wish->interface.ttl;
    config.interface.seed = 0x1234567;
    config.clock = clock_of_tap;
    assert_int_equal(datagram_tap_create(&config, &pair.link[tap_at]), 0);
    pair.ipv4[tap_at] = ipv4_mapped(0x0a090002);
    pair.ipv6[tap_at] = ipv6_host(2);
    pair.ipv4[1 - tap_at] = ipv4_mapped(0x0a090001);
    pair.ipv6[1 - tap_at] = ipv6_host(1);
    assert_true(own_network_ips("link set weft0 mtu 4400 multicast on up\n"
                                "addr add 10.9.0.1/24 dev weft0\n"
                                "addr add fd09::1/64 dev weft0 nodad\n"));
    await_ipv6();
}

/* ---- the contract ---------------------------------------------------------------------------- */

static int begin_pair(unsigned at, const char *kind)
{
    const struct datagram_udp_config sockets = {.port = 0};
    if (why_not == NULL) {
        descriptors_note();
        tap_at = at;
        tap_make(kind, &(struct datagram_tap_config){.port = 0});
        assert_int_equal(datagram_udp_create(&sockets, &pair.link[1 - at]), 0);
    }
    return 0;
}

static int begin_from_tap(void **state)
{
    return begin_pair(0, "tap");
}

static int begin_to_tap(void **state)
{
    return begin_pair(1, "tap");
}

static int begin_from_tun(void **state)
{
    return begin_pair(0, "tun");
}

static int end_pair(void **state)
{
    if (why_not == NULL) {
        datagram_destroy(pair.link[0]);
        datagram_destroy(pair.link[1]);
        descriptors_check();
    }
    return 0;
}

#define X(name)                          \
    static void tap_##name(void **state) \
    {                                    \
        own_network_skip(why_not);       \
        name(state);                     \
    }
DATAGRAM_CONTRACT_TESTS(X)
#undef X

/* ---- a stranger at the wire ------------------------------------------------------------------ */

static struct datagram_link *the_link; // pair.link[0], alone, on a tun interface: no Ethernet

static int begin_alone(void **state)
{
    const struct datagram_tap_config *wish = *state;
    const struct sockaddr_ll name = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    struct sockaddr_ll own = name;
    if (why_not != NULL) {
        return 0;
    }
    tap_at = 0;
    tap_make("tun", wish != NULL ? wish : &(struct datagram_tap_config){.port = 0});
    the_link = pair.link[0];
    assert_int_equal(datagram_open(the_link, &pair.ipv4[0], 0), 0);
    assert_int_equal(datagram_open(the_link, &pair.ipv6[0], 0), 0);
    wire = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
    own.sll_protocol = htons(ETH_P_ALL);
    own.sll_ifindex = (int)if_nametoindex("weft0");
    assert_int_equal(bind(wire, (struct sockaddr *)&own, sizeof own), 0);
    return 0;
}

static int end_alone(void **state)
{
    if (why_not == NULL) {
        close(wire);
        datagram_destroy(the_link);
    }
    return 0;
}

// A packet of a stranger's, and what is unusual about it.
struct strange {
    bool is_ipv6;
    uint16_t id; // IPv4
    uint16_t dst_port;
    uint32_t qp_num;
    const struct in6_addr *to; // NULL: the link's
    unsigned len;              // of what follows the BTH
    size_t damaged_at;         // counted from the IP header; 0: nowhere
    bool has_wrong_checksum;   // of UDP
};

static size_t strange_write(const struct strange *s, uint8_t *packet)
{
    const struct in6_addr *from = s->is_ipv6 ? &pair.ipv6[1] : &pair.ipv4[1];
    const struct in6_addr *to = s->to != NULL ? s->to : s->is_ipv6 ? &pair.ipv6[0] : &pair.ipv4[0];
    const size_t ip_len = s->is_ipv6 ? IPV6_HEADER_LEN : IPV4_HEADER_LEN;
    const size_t udp_len = UDP_HEADER_LEN + PAIR_HEAD_LEN + s->len + ICRC_LEN;
    const size_t len = ip_len + udp_len;
    uint8_t *udp = packet + ip_len;
    uint32_t icrc;
    struct ipv4_header v4 = {
        .total_len = (uint16_t)len, .id = s->id, .ttl = 33, .tos = 2, .protocol = IP_PROTOCOL_UDP};
    struct ipv6_header v6 = {.payload_len = (uint16_t)udp_len,
                             .hop_limit = 33,
                             .traffic_class = 2,
                             .flow_label = 0x12345,
                             .next_header = IP_PROTOCOL_UDP};
    memset(packet, 0, len);
    memcpy(v4.src, from->s6_addr + 12, sizeof v4.src);
    memcpy(v4.dst, to->s6_addr + 12, sizeof v4.dst);
    memcpy(v6.src, from->s6_addr, sizeof v6.src);
    memcpy(v6.dst, to->s6_addr, sizeof v6.dst);
    s->is_ipv6 ? ipv6_header_emit(&v6, packet) : ipv4_header_emit(&v4, packet);
    put_be16(udp + UDP_OFF_SRC_PORT, SOURCE_PORT);
    put_be16(udp + UDP_OFF_DST_PORT, s->dst_port != 0 ? s->dst_port : DATAGRAM_UDP_PORT);
    put_be16(udp + UDP_OFF_LEN, (uint16_t)udp_len);
    udp[UDP_HEADER_LEN] = 0x64;
    put_be32(udp + UDP_HEADER_LEN + 4, s->qp_num != 0 ? s->qp_num : the_link->qp_num_first);
    assert_true(icrc_of_packet(span_of(packet, len - ICRC_LEN), &icrc));
    icrc_put(packet + len - ICRC_LEN, icrc);
    put_be16(udp + UDP_OFF_CHECKSUM, s->has_wrong_checksum ? 0x1234 : 0);
    packet[s->damaged_at] ^= s->damaged_at != 0;
    return len;
}

static void strange_send(const struct strange *s)
{
    uint8_t packet[1000];
    size_t len = strange_write(s, packet);
    assert_int_equal(send(wire, packet, len, 0), len);
}

static unsigned take(struct got *ret)
{
    unsigned count = 0;
    for (unsigned quiet = 0; quiet < QUIET_TURNS && count == 0; quiet++) {
        struct datagram_rx rx;
        datagram_wait(the_link, 30 * NS_PER_MS);
        if ((datagram_poll(the_link, pair_now()) & DATAGRAM_READY_IN) != 0) {
            count = datagram_receive(the_link, &rx, 1, pair_now());
        }
        if (count > 0) {
            ret->rx = rx;
            memcpy(ret->octets, rx.octets.ptr, rx.octets.len);
        }
    }
    return count;
}

static void assert_refused(const struct strange *s, const char *counter)
{
    own_network_skip(why_not);
    uint64_t before = datagram_counted(the_link, counter);
    strange_send(s);
    assert_int_equal(take(&got[0]), 0);
    assert_int_equal(datagram_counted(the_link, counter), before + 1);
    strange_send(&(struct strange){.len = LEN}); // a right one comes behind it
    assert_int_equal(take(&got[0]), 1);
}

static void packet_of_a_card_is_checked_whatever_its_identification(void **state)
{
    own_network_skip(why_not);
    strange_send(&(struct strange){.id = 0xbeef, .len = LEN});
    assert_int_equal(take(&got[0]), 1);
    assert_true(got[0].rx.is_checked);
    assert_int_equal(got[0].rx.octets.len, PAIR_HEAD_LEN + LEN);
    assert_int_equal(got[0].rx.hop_limit, 33);
    assert_int_equal(got[0].rx.traffic_class, 2);
    assert_int_equal(got[0].rx.source_port, SOURCE_PORT);
    assert_memory_equal(&got[0].rx.remote, &pair.ipv4[1], sizeof pair.ipv4[1]);
}

static void packet_without_a_checksum_is_taken_over_ipv6(void **state)
{
    own_network_skip(why_not);
    strange_send(&(struct strange){.is_ipv6 = true, .len = LEN});
    assert_int_equal(take(&got[0]), 1);
    assert_true(got[0].rx.is_checked);
    assert_int_equal(got[0].rx.flow_label, 0x12345);
}

static void damaged_packet_is_dropped(void **state)
{
    assert_refused(&(struct strange){.id = 7, .len = LEN, .damaged_at = 100}, "icrc_wrong");
}

static void damaged_identification_is_seen(void **state)
{
    uint8_t packet[1000];
    own_network_skip(why_not);
    size_t len = strange_write(&(struct strange){.id = 7, .len = LEN}, packet);
    struct ipv4_header h;
    struct span body;
    assert_int_equal(ipv4_header_parse(span_of(packet, len), &h, &body), IP_PARSE_OK);
    h.id = 8; // its header's checksum is right, its ICRC is not
    ipv4_header_emit(&h, packet);
    assert_int_equal(send(wire, packet, len, 0), len);
    assert_int_equal(take(&got[0]), 0);
    assert_int_equal(datagram_counted(the_link, "icrc_wrong"), 1);
}

static void wrong_checksum_of_udp_is_seen(void **state)
{
    assert_refused(&(struct strange){.is_ipv6 = true, .len = LEN, .has_wrong_checksum = true},
                   "bad_checksums");
}

static void datagram_to_another_port_is_none_of_ours(void **state)
{
    assert_refused(&(struct strange){.dst_port = 4792, .len = LEN}, "other_ports");
}

static void packet_to_a_number_of_no_slot_of_ours_is_dropped(void **state)
{
    own_network_skip(why_not);
    assert_refused(&(struct strange){.qp_num = the_link->qp_num_first ^ 0x800000, .len = LEN},
                   "not_ours");
}

static void packet_to_a_group_that_is_not_joined_is_dropped(void **state)
{
    const struct in6_addr group = ipv4_mapped(0xefff1207);
    assert_refused(&(struct strange){.to = &group, .qp_num = BTH_QP_MULTICAST, .len = LEN},
                   "not_open");
}

static void packet_that_is_not_padded_is_dropped(void **state)
{
    assert_refused(&(struct strange){.len = LEN + 1}, "bad_lengths");
}

static void udp_that_is_longer_than_its_packet_is_dropped(void **state)
{
    uint8_t packet[1000];
    own_network_skip(why_not);
    size_t len = strange_write(&(struct strange){.len = LEN}, packet);
    put_be16(packet + IPV4_HEADER_LEN + UDP_OFF_LEN, 1000);
    assert_int_equal(send(wire, packet, len, 0), len);
    assert_int_equal(take(&got[0]), 0);
    assert_int_equal(datagram_counted(the_link, "bad_packets"), 1);
}

static void what_is_not_to_be_checked_is_not(void **state)
{
    own_network_skip(why_not);
    strange_send(&(struct strange){.len = LEN, .damaged_at = 100});
    assert_int_equal(take(&got[0]), 1);
    assert_false(got[0].rx.is_checked);
}

static void faults_change_what_arrives(void **state)
{
    own_network_skip(why_not);
    for (unsigned i = 0; i < 20; i++) {
        strange_send(&(struct strange){.len = LEN});
        take(&got[0]);
    }
    uint64_t seen = datagram_counted(the_link, "icrc_wrong") +
                    datagram_counted(the_link, "bad_packets") +
                    datagram_counted(the_link, "of_others");
    assert_true(seen > 0);
}

/* ---- out ------------------------------------------------------------------------------------- */

static bool put_to(const struct in6_addr *remote, uint32_t psn, size_t len)
{
    const struct datagram_path path = {.local = IN6_IS_ADDR_V4MAPPED(remote) ? pair.ipv4[tap_at]
                                                                             : pair.ipv6[tap_at],
                                       .remote = *remote,
                                       .source_port = PAIR_SOURCE_PORT,
                                       .flow_label = 0xabcde};
    struct span piece = span_of(payload, len);
    uint8_t head[PAIR_HEAD_LEN] = {0x64};
    put_be32(head + 4, pair.link[tap_at]->qp_num_first + 7);
    put_be32(head + 8, psn);
    struct datagram_tx tx = {
        .path = &path, .head = span_of(head, sizeof head), .pieces = &piece, .piece_count = 1};
    return datagram_put(pair.link[tap_at], &tx);
}

// The next packet of ours on the wire; its length.
static size_t see(uint8_t *ret, size_t capacity, int patience_ms)
{
    struct pollfd it = {.fd = wire, .events = POLLIN};
    while (poll(&it, 1, patience_ms) > 0) {
        ssize_t len = recv(wire, ret, capacity, 0);
        size_t ip_len = ret[0] >> 4 == 4 ? IPV4_HEADER_LEN : IPV6_HEADER_LEN;
        if (len > (ssize_t)(ip_len + UDP_HEADER_LEN) &&
            get_be16(ret + ip_len + UDP_OFF_DST_PORT) == DATAGRAM_UDP_PORT) {
            return (size_t)len;
        }
    }
    return 0;
}

static void assert_sent_right(const struct in6_addr *remote)
{
    uint8_t packet[2000];
    uint32_t icrc;
    assert_true(put_to(remote, 1, 1024));
    assert_true(datagram_flush(the_link));
    size_t len = see(packet, sizeof packet, 2000);
    assert_true(len > 1024);
    assert_true(icrc_of_packet(span_of(packet, len - ICRC_LEN), &icrc));
    assert_int_equal(icrc_get(packet + len - ICRC_LEN), icrc);
    if (IN6_IS_ADDR_V4MAPPED(remote)) {
        assert_int_equal(get_be16(packet + IPV4_OFF_ID), 0);
        assert_int_equal(get_be16(packet + IPV4_OFF_FLAGS), ICRC_DF);
    } else {
        assert_int_equal(get_be32(packet) & 0xfffff, 0xabcde);
        assert_int_not_equal(get_be16(packet + IPV6_HEADER_LEN + UDP_OFF_CHECKSUM), 0);
    }
}

static void what_leaves_has_a_right_icrc(void **state)
{
    own_network_skip(why_not);
    assert_sent_right(&pair.ipv4[1]);
    assert_sent_right(&pair.ipv6[1]);
}

static void what_is_longer_than_the_interface_takes_is_dropped(void **state)
{
    own_network_skip(why_not);
    assert_true(own_network_ip("link set weft0 mtu 4400"));
    const struct datagram_path path = {.local = pair.ipv6[0], .remote = pair.ipv6[1]};
    assert_int_equal(datagram_len_max(the_link, &path), DATAGRAM_LEN_MAX + ICRC_LEN);
    assert_int_equal(datagram_tap_path_mtu(the_link), 4096);
    datagram_destroy(the_link);
    struct datagram_tap_config config = {.clock = clock_of_tap};
    assert_true(device_tap_config_parse("tun:weft0,10.9.0.2/24,mtu=1280", &config.interface));
    assert_int_equal(datagram_tap_create(&config, &pair.link[0]), 0);
    the_link = pair.link[0];
    const struct datagram_path shorter = {.local = pair.ipv4[0], .remote = pair.ipv4[1]};
    assert_int_equal(datagram_len_max(the_link, &shorter), 1280 - 28);
    assert_int_equal(datagram_tap_path_mtu(the_link), 1024);
    assert_true(put_to(&pair.ipv4[1], 1, 1280));
    assert_true(datagram_flush(the_link));
    assert_int_equal(datagram_counted(the_link, "too_long"), 1);
}

static void expect_lifetime(uint8_t ttl)
{
    uint8_t packet[2000];
    own_network_skip(why_not);
    assert_true(put_to(&pair.ipv4[1], 1, 64));
    assert_true(datagram_flush(the_link));
    assert_true(see(packet, sizeof packet, 2000) > 0);
    assert_int_equal(packet[IPV4_OFF_TTL], ttl);
}

static void lifetime_of_packets_is_64(void **state)
{
    expect_lifetime(64);
}

static void lifetime_of_packets_is_what_the_interface_is_to_have(void **state)
{
    expect_lifetime(3);
}

static void packet_to_an_address_of_our_own_is_on_no_wire(void **state)
{
    uint8_t packet[2000];
    own_network_skip(why_not);
    assert_true(put_to(&pair.ipv4[0], 9, 64));
    assert_true(datagram_flush(the_link));
    assert_int_equal(take(&got[0]), 1);
    assert_true(got[0].rx.is_checked);
    assert_memory_equal(&got[0].rx.remote, &pair.ipv4[0], sizeof pair.ipv4[0]);
    assert_int_equal(datagram_counted(the_link, "looped"), 1);
    assert_int_equal(see(packet, sizeof packet, 0), 0);
}

static void member_of_a_group_gets_its_own_copy(void **state)
{
    const struct in6_addr group = ipv4_mapped(0xefff1207);
    own_network_skip(why_not);
    assert_int_equal(datagram_join(the_link, &group, &pair.ipv4[0], 0), 0);
    assert_true(put_to(&group, 9, 64));
    assert_true(datagram_flush(the_link));
    assert_int_equal(take(&got[0]), 1);
    assert_memory_equal(&got[0].rx.local, &group, sizeof group);
    datagram_leave(the_link, &group, &pair.ipv4[0], 0);
    assert_true(put_to(&group, 9, 64));
    assert_true(datagram_flush(the_link));
    assert_int_equal(take(&got[0]), 0);
}

// Nobody answers for 10.9.0.77; what goes to the kernel's end goes on.
static void neighbour_that_does_not_answer_holds_up_nobody(void **state)
{
    const struct in6_addr nobody = ipv4_mapped(0x0a09004d);
    own_network_skip(why_not);
    pair_open();
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(put_to(&nobody, i, 64));
    }
    datagram_flush(pair.link[0]);
    assert_true(datagram_counted(pair.link[0], "not_resolved") >= MANY - 192);
    const struct datagram_path path = pair_path(AF_INET);
    assert_true(pair_put(&path, 5, span_of(payload, 64)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 1), 1);
    assert_int_equal(pair_psn(&got[0]), 5);
    assert_int_equal(datagram_counted(pair.link[0], "waits"), 0);
}

static void what_waits_for_a_neighbour_leaves_when_it_is_found(void **state)
{
    own_network_skip(why_not);
    pair_open();
    const struct datagram_path path = pair_path(AF_INET);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(pair_put(&path, i, span_of(payload, 64)));
        assert_true(datagram_flush(pair.link[0])); // asks for it at the first
    }
    assert_int_equal(pair_take(1, got, 4), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pair_psn(&got[i]), i);
    }
}

static void who_has_put_too_much_is_told_of_room(void **state)
{
    own_network_skip(why_not);
    unsigned count = 0;
    while (put_to(&pair.ipv4[1], count, 64)) {
        count++;
    }
    assert_true(count >= MANY);
    assert_true(datagram_flush(the_link));
    assert_true((datagram_poll(the_link, pair_now()) & DATAGRAM_READY_ROOM) != 0);
    assert_true((datagram_poll(the_link, pair_now()) & DATAGRAM_READY_ROOM) == 0);
    assert_true(put_to(&pair.ipv4[1], 0, 64));
}

static void interface_of_somebody_else_cannot_be_had(void **state)
{
    struct datagram_link *other;
    struct datagram_tap_config config = {.clock = clock_of_tap};
    own_network_skip(why_not);
    assert_true(device_tap_config_parse("tun:weft0,10.9.0.3/24", &config.interface));
    assert_int_equal(datagram_tap_create(&config, &other), -EBUSY);
}

int main(void)
{
    static struct datagram_tap_config hasty = {.interface = {.ttl = 3}};
    static struct datagram_tap_config unchecked = {.is_unchecked = true};
    static struct datagram_tap_config corrupt;
    fault_config_parse("corrupt=50%,seed=3", &corrupt.corrupt);
#define X(name)     {"from_tap: " #name, tap_##name, begin_from_tap, end_pair, NULL},
#define Y(name)     {"to_tap: " #name, tap_##name, begin_to_tap, end_pair, NULL},
#define Z(name)     {"from_tun: " #name, tap_##name, begin_from_tun, end_pair, NULL},
#define ALONE(name) cmocka_unit_test_setup_teardown(name, begin_alone, end_alone)
    const struct CMUnitTest tests[] = {
        DATAGRAM_CONTRACT_TESTS(X) DATAGRAM_CONTRACT_TESTS(Z)
#undef X
#define X(name) Y(name)
            DATAGRAM_CONTRACT_TESTS(X)
#undef X
                ALONE(packet_of_a_card_is_checked_whatever_its_identification),
        ALONE(packet_without_a_checksum_is_taken_over_ipv6),
        ALONE(damaged_packet_is_dropped),
        ALONE(damaged_identification_is_seen),
        ALONE(wrong_checksum_of_udp_is_seen),
        ALONE(datagram_to_another_port_is_none_of_ours),
        ALONE(packet_to_a_number_of_no_slot_of_ours_is_dropped),
        ALONE(packet_to_a_group_that_is_not_joined_is_dropped),
        ALONE(packet_that_is_not_padded_is_dropped),
        ALONE(udp_that_is_longer_than_its_packet_is_dropped),
        cmocka_unit_test_prestate_setup_teardown(what_is_not_to_be_checked_is_not, begin_alone,
                                                 end_alone, &unchecked),
        cmocka_unit_test_prestate_setup_teardown(faults_change_what_arrives, begin_alone, end_alone,
                                                 &corrupt),
        ALONE(what_leaves_has_a_right_icrc),
        ALONE(what_is_longer_than_the_interface_takes_is_dropped),
        ALONE(lifetime_of_packets_is_64),
        cmocka_unit_test_prestate_setup_teardown(
            lifetime_of_packets_is_what_the_interface_is_to_have, begin_alone, end_alone, &hasty),
        ALONE(packet_to_an_address_of_our_own_is_on_no_wire),
        ALONE(member_of_a_group_gets_its_own_copy),
        cmocka_unit_test_setup_teardown(neighbour_that_does_not_answer_holds_up_nobody,
                                        begin_from_tap, end_pair),
        cmocka_unit_test_setup_teardown(what_waits_for_a_neighbour_leaves_when_it_is_found,
                                        begin_from_tap, end_pair),
        ALONE(who_has_put_too_much_is_told_of_room),
        ALONE(interface_of_somebody_else_cannot_be_had),
    };
    why_not = own_network_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

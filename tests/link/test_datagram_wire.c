// What really stands on the wire: packets of the UDP datagram link read from a network interface of
// a namespace, and packets of a stranger written to it. Here the identification is seen that the
// sender's ICRC stands on, and that no socket shows.
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/datagram/udp.h"
#include "tests/link/datagram_contract.h"
#include "tests/own_network.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum { PACKET_MAX = 9000, PATIENCE_MS = 20000, QUIET_MS = 300, SOURCE_PORT = 0xd00d, LEN = 256 };

static const char *why_not; // no namespace or no device here
static int tun;
static struct datagram_link *the_link;
static struct in6_addr here, there, here6, there6;
static uint8_t seen[PACKET_MAX];
static const uint8_t payload[4096];

// Of the contract, whose tests are not run here.
void pair_turn(unsigned to)
{
}

int pair_open_at(unsigned i, const struct in6_addr *local)
{
    return 0;
}

instant_ns pair_now(void)
{
    return 0;
}

/* ---- the namespace --------------------------------------------------------------------------- */

static void enter_namespace(void)
{
    struct ifreq request = {.ifr_name = "weft0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    why_not = own_network_enter();
    if (why_not != NULL) {
        return;
    }
    tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request) != 0) {
        why_not = "no TUN device";
    } else if (!own_network_ip("addr add 10.9.0.1/24 dev weft0") ||
               !own_network_ip("link set weft0 mtu 4400 multicast on up")) {
        why_not = "no program ip, or not allowed to use it";
    } else {
        own_network_ip("addr add fd09::1/64 dev weft0 nodad");
    }
}

static int begin(void **state)
{
    struct datagram_udp_config config = {.port = 0};
    if (why_not != NULL) {
        return 0;
    }
    here = ipv4_mapped(0x0a090001);
    there = ipv4_mapped(0x0a090002);
    here6 = (struct in6_addr){.s6_addr = {0xfd, 0x09, [15] = 1}};
    there6 = (struct in6_addr){.s6_addr = {0xfd, 0x09, [15] = 2}};
    assert_int_equal(datagram_udp_create(&config, &the_link), 0);
    assert_int_equal(datagram_open(the_link, &here, 0), 0);
    assert_int_equal(datagram_open(the_link, &here6, 0), 0);
    while (read(tun, seen, sizeof seen) > 0) {
    }
    return 0;
}

static int end(void **state)
{
    if (why_not == NULL) {
        datagram_destroy(the_link);
    }
    return 0;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void put(const struct datagram_path *path, uint32_t psn, size_t len)
{
    uint8_t head[PAIR_HEAD_LEN] = {0x64};
    struct span piece = span_of(payload, len);
    put_be32(head + 8, psn);
    struct datagram_tx tx = {
        .path = path, .head = span_of(head, sizeof head), .pieces = &piece, .piece_count = 1};
    assert_true(datagram_put(the_link, &tx));
}

// The next packet to port 4791, from IP header to ICRC; its length.
static size_t see(void)
{
    struct pollfd it = {.fd = tun, .events = POLLIN};
    while (poll(&it, 1, PATIENCE_MS) > 0) {
        ssize_t len = read(tun, seen, sizeof seen);
        size_t ip_len = seen[0] >> 4 == 4 ? IPV4_HEADER_LEN : IPV6_HEADER_LEN;
        if (len > (ssize_t)(ip_len + UDP_HEADER_LEN) &&
            get_be16(seen + ip_len + UDP_OFF_DST_PORT) == DATAGRAM_UDP_PORT) {
            return (size_t)len;
        }
    }
    return 0;
}

static void assert_icrc(size_t len)
{
    uint32_t icrc;
    assert_true(len > 0);
    assert_true(icrc_of_packet(span_of(seen, len - ICRC_LEN), &icrc));
    assert_int_equal(icrc_get(seen + len - ICRC_LEN), icrc);
}

static void icrc_of_a_packet_is_right(void **state)
{
    own_network_skip(why_not);
    struct datagram_path path = {
        .local = here, .remote = there, .hop_limit = 9, .traffic_class = 0x2a};
    put(&path, 1, 1024);
    assert_true(datagram_flush(the_link));
    assert_icrc(see());
    assert_int_equal(seen[IPV4_OFF_TOS], 0x2a);
    assert_int_equal(seen[IPV4_OFF_TTL], 9);
    assert_int_equal(get_be16(seen + IPV4_OFF_FLAGS), ICRC_DF);
    assert_true(get_be16(seen + IPV4_HEADER_LEN + UDP_OFF_SRC_PORT) >= 0xc000);
}

static void icrc_of_each_packet_of_a_burst_is_right(void **state)
{
    enum { COUNT = 30 };
    own_network_skip(why_not);
    struct datagram_path path = {.local = here, .remote = there};
    for (uint32_t i = 0; i < COUNT; i++) {
        put(&path, i, i + 1 < COUNT ? 1024 : 100); // the last is shorter
    }
    assert_true(datagram_flush(the_link));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_icrc(see());
        assert_int_equal(get_be32(seen + IPV4_HEADER_LEN + UDP_HEADER_LEN + 8), i);
    }
    assert_int_equal(datagram_counted(the_link, "trains_out"), 1);
}

static void icrc_over_ipv6_is_right(void **state)
{
    own_network_skip(why_not);
    struct datagram_path path = {
        .local = here6, .remote = there6, .hop_limit = 9, .traffic_class = 0x2a};
    own_network_ip("neigh replace fd09::2 dev weft0");
    put(&path, 1, 1024);
    put(&path, 2, 1024);
    assert_true(datagram_flush(the_link));
    assert_icrc(see());
    assert_icrc(see());
    assert_int_equal(get_be32(seen) >> 20 & 0xff, 0x2a);
    assert_int_equal(seen[IPV6_OFF_HOP_LIMIT], 9);
}

static void icrc_to_a_group_is_right(void **state)
{
    own_network_skip(why_not);
    struct datagram_path path = {.local = here, .remote = ipv4_mapped(0xefff1207), .hop_limit = 3};
    put(&path, 1, 256);
    assert_true(datagram_flush(the_link));
    assert_icrc(see());
    assert_int_equal(seen[IPV4_OFF_TTL], 3);
}

static void longest_packet_is_what_fits_the_path(void **state)
{
    own_network_skip(why_not);
    struct datagram_path path = {.local = here, .remote = there};
    assert_int_equal(datagram_len_max(the_link, &path), DATAGRAM_LEN_MAX + ICRC_LEN);
    assert_true(own_network_ip("link set weft0 mtu 1500"));
    assert_int_equal(datagram_len_max(the_link, &path), 1500 - 28);
    path = (struct datagram_path){.local = here6, .remote = there6};
    assert_int_equal(datagram_len_max(the_link, &path), 1500 - 48);
    path = (struct datagram_path){.local = here, .remote = there};
    put(&path, 1, 1500);
    assert_true(datagram_flush(the_link));
    assert_int_equal(datagram_counted(the_link, "too_long"), 1);
    assert_true(own_network_ip("link set weft0 mtu 4400"));
}

static void path_leaves_from_the_address_of_its_interface(void **state)
{
    struct in6_addr local, nowhere = ipv4_mapped(0xcb007101);
    own_network_skip(why_not);
    assert_int_equal(datagram_route(the_link, &there, 0, &local), 0);
    assert_memory_equal(&local, &here, sizeof local);
    assert_int_equal(datagram_route(the_link, &there6, 0, &local), 0);
    assert_memory_equal(&local, &here6, sizeof local);
    assert_int_equal(datagram_route(the_link, &nowhere, 0, &local), -ENETUNREACH);
}

/* ---- in -------------------------------------------------------------------------------------- */

// A packet of a stranger, as a RoCE card sends it: with an identification of its own, and without
// UDP's checksum. `damage`: of which octet, counted from the IP header; 0: none.
static void stranger_sends(uint16_t id, const struct in6_addr *to, uint32_t qp_num, size_t damage)
{
    uint8_t packet[IPV4_HEADER_LEN + UDP_HEADER_LEN + PAIR_HEAD_LEN + LEN + ICRC_LEN] = {0};
    uint8_t *udp = packet + IPV4_HEADER_LEN;
    struct ipv4_header ip = {
        .total_len = sizeof packet, .id = id, .ttl = 33, .tos = 0x02, .protocol = IP_PROTOCOL_UDP};
    uint32_t icrc;
    memcpy(ip.src, there.s6_addr + 12, sizeof ip.src);
    memcpy(ip.dst, to->s6_addr + 12, sizeof ip.dst);
    ipv4_header_emit(&ip, packet);
    put_be16(udp + UDP_OFF_SRC_PORT, SOURCE_PORT);
    put_be16(udp + UDP_OFF_DST_PORT, DATAGRAM_UDP_PORT);
    put_be16(udp + UDP_OFF_LEN, sizeof packet - IPV4_HEADER_LEN);
    udp[UDP_HEADER_LEN] = 0x64;
    put_be32(udp + UDP_HEADER_LEN + 4, qp_num);
    assert_true(icrc_of_packet(span_of(packet, sizeof packet - ICRC_LEN), &icrc));
    icrc_put(packet + sizeof packet - ICRC_LEN, icrc);
    packet[damage] ^= damage != 0;
    assert_int_equal(write(tun, packet, sizeof packet), sizeof packet);
}

static unsigned take(struct datagram_rx *ret, unsigned within_ms)
{
    for (unsigned turn = 0; turn < within_ms / 10; turn++) {
        if ((datagram_poll(the_link, 0) & DATAGRAM_READY_IN) != 0) {
            unsigned count = datagram_receive(the_link, ret, 1, 0);
            if (count > 0) {
                return count;
            }
        }
        datagram_wait(the_link, 10 * NS_PER_MS);
    }
    return 0;
}

static void packet_of_a_card_is_received(void **state)
{
    struct datagram_rx rx;
    own_network_skip(why_not);
    stranger_sends(0xbeef, &here, the_link->qp_num_first, 0);
    assert_int_equal(take(&rx, PATIENCE_MS), 1);
    assert_false(rx.is_checked);
    assert_int_equal(rx.octets.len, PAIR_HEAD_LEN + LEN);
    assert_int_equal(rx.hop_limit, 33);
    assert_int_equal(rx.traffic_class, 2);
    assert_int_equal(rx.source_port, SOURCE_PORT);
    assert_memory_equal(&rx.remote, &there, sizeof there);
}

static void packet_with_identification_0_is_checked(void **state)
{
    struct datagram_rx rx;
    own_network_skip(why_not);
    stranger_sends(0, &here, the_link->qp_num_first, 0);
    assert_int_equal(take(&rx, PATIENCE_MS), 1);
    assert_true(rx.is_checked);
}

static void damaged_packet_of_a_card_is_dropped(void **state)
{
    struct datagram_rx rx;
    own_network_skip(why_not);
    stranger_sends(0xbeef, &here, the_link->qp_num_first, 100);
    assert_int_equal(take(&rx, QUIET_MS), 0);
    assert_int_equal(datagram_counted(the_link, "icrc_wrong"), 1);
}

static void group_has_its_packets_and_nobody_else(void **state)
{
    struct datagram_rx rx;
    struct in6_addr group = ipv4_mapped(0xefff1207), other = ipv4_mapped(0xefff1208);
    own_network_skip(why_not);
    assert_int_equal(datagram_join(the_link, &group, &here, 0), 0);
    stranger_sends(1, &other, BTH_QP_MULTICAST, 0);
    stranger_sends(1, &group, the_link->qp_num_first, 0); // a group has no queue pairs' numbers
    stranger_sends(1, &group, BTH_QP_MULTICAST, 0);
    assert_int_equal(take(&rx, PATIENCE_MS), 1);
    assert_memory_equal(&rx.local, &group, sizeof group);
    assert_false(rx.is_shared);
    assert_int_equal(take(&rx, QUIET_MS), 0);
    assert_int_equal(datagram_counted(the_link, "not_ours"), 1);
    datagram_leave(the_link, &group, &here, 0);
}

static void group_of_ipv6_is_joined_at_the_interface_of_the_address(void **state)
{
    struct datagram_rx rx;
    struct in6_addr group = {.s6_addr = {0xff, 0x18, [15] = 7}};
    struct datagram_path path = {.local = here6, .remote = group, .hop_limit = 3};
    uint8_t head[PAIR_HEAD_LEN] = {0x64};
    own_network_skip(why_not);
    put_be32(head + 4, BTH_QP_MULTICAST);
    struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    assert_true(datagram_put(the_link, &tx));
    assert_true(datagram_flush(the_link));
    assert_int_equal(take(&rx, QUIET_MS), 0); // not joined
    assert_int_equal(datagram_join(the_link, &group, &here6, 0), 0);
    assert_true(datagram_put(the_link, &tx));
    assert_true(datagram_flush(the_link));
    assert_int_equal(take(&rx, PATIENCE_MS), 1);
    assert_true(rx.is_checked);
    assert_int_equal(rx.hop_limit, 3);
    assert_memory_equal(&rx.local, &group, sizeof group);
    assert_memory_equal(&rx.remote, &here6, sizeof here6);
    datagram_leave(the_link, &group, &here6, 0);
}

int main(void)
{
#define WIRE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        WIRE_TEST(icrc_of_a_packet_is_right),
        WIRE_TEST(icrc_of_each_packet_of_a_burst_is_right),
        WIRE_TEST(icrc_over_ipv6_is_right),
        WIRE_TEST(icrc_to_a_group_is_right),
        WIRE_TEST(longest_packet_is_what_fits_the_path),
        WIRE_TEST(path_leaves_from_the_address_of_its_interface),
        WIRE_TEST(packet_of_a_card_is_received),
        WIRE_TEST(packet_with_identification_0_is_checked),
        WIRE_TEST(damaged_packet_of_a_card_is_dropped),
        WIRE_TEST(group_has_its_packets_and_nobody_else),
        WIRE_TEST(group_of_ipv6_is_joined_at_the_interface_of_the_address),
    };
    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/grh.h"

static struct datagram_rx packet(bool is_ipv4)
{
    static const uint8_t octets[276];
    const struct in6_addr ipv6 = {.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    const struct in6_addr ipv4 = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 17, 1}};
    struct datagram_rx rx = {.local = is_ipv4 ? ipv4 : ipv6,
                             .remote = is_ipv4 ? ipv4 : ipv6,
                             .flow_label = 0xabcde,
                             .traffic_class = 0xc2,
                             .hop_limit = 63,
                             .octets = span_of(octets, sizeof octets)};
    rx.local.s6_addr[15] = 2;
    return rx;
}

static void ipv4_header_stands_in_the_last_twenty_octets(void **state)
{
    struct datagram_rx rx = packet(true);
    // 20 + 8 + 276 + 4 octets, TTL 63, UDP; the checksum by hand.
    const uint8_t expected[IPV4_HEADER_LEN] = {0x45, 0xc2, 0x01, 0x34, 0,  0, 0x40, 0, 63, 17,
                                               0x03, 0xf5, 10,   0,    17, 1, 10,   0, 17, 2};
    static const uint8_t zero[GRH_OFF_IPV4];
    uint8_t out[GRH_LEN];
    memset(out, 0xee, sizeof out);
    grh_emit(&rx, out);
    assert_memory_equal(out, zero, sizeof zero);
    assert_memory_equal(out + GRH_OFF_IPV4, expected, sizeof expected);
}

static void ipv6_header_takes_all_forty_octets(void **state)
{
    struct datagram_rx rx = packet(false);
    const uint8_t expected[GRH_LEN] = {
        0x6c, 0x2a, 0xbc, 0xde,     0x01, 0x20, 17,   63,   0x20,
        0x01, 0x0d, 0xb8, [23] = 1, 0x20, 0x01, 0x0d, 0xb8, [39] = 2};
    uint8_t out[GRH_LEN];
    grh_emit(&rx, out);
    assert_memory_equal(out, expected, sizeof expected);
}

static void what_was_written_is_read(void **state)
{
    for (unsigned is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
        struct datagram_rx rx = packet(is_ipv4);
        uint8_t out[GRH_LEN];
        struct grh grh;
        grh_emit(&rx, out);
        assert_true(grh_parse(out, &grh));
        assert_memory_equal(&grh.src, &rx.remote, 16);
        assert_memory_equal(&grh.dst, &rx.local, 16);
        assert_int_equal(grh.flow_label, is_ipv4 ? 0 : 0xabcde);
        assert_int_equal(grh.traffic_class, 0xc2);
        assert_int_equal(grh.hop_limit, 63);
    }
}

static void ipv4_header_with_a_wrong_checksum_is_none(void **state)
{
    struct datagram_rx rx = packet(true);
    uint8_t out[GRH_LEN];
    struct grh grh;
    grh_emit(&rx, out);
    out[GRH_LEN - 1] ^= 1;
    assert_false(grh_parse(out, &grh));
}

// An IPv6 header may have octets that look like an IPv4 header, but for the checksum.
static void ipv6_header_that_looks_like_ipv4_is_ipv6(void **state)
{
    struct datagram_rx rx = packet(false);
    rx.remote.s6_addr[12] = 0x45;
    uint8_t out[GRH_LEN];
    struct grh grh;
    grh_emit(&rx, out);
    assert_int_equal(out[GRH_OFF_IPV4], 0x45);
    assert_true(grh_parse(out, &grh));
    assert_memory_equal(&grh.src, &rx.remote, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_header_stands_in_the_last_twenty_octets),
        cmocka_unit_test(ipv6_header_takes_all_forty_octets),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(ipv4_header_with_a_wrong_checksum_is_none),
        cmocka_unit_test(ipv6_header_that_looks_like_ipv4_is_ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/eth.h"

// Who has 10.0.0.2? Tell 10.0.0.1.
static const uint8_t request[ETH_HEADER_LEN + ARP_LEN] = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,  1, 0x08, 0x06, //
    0,    1,    0x08, 0x00, 6,    4,    0, 1, 2, 0, 0,  0, 0,    1,    //
    10,   0,    0,    1,    0,    0,    0, 0, 0, 0, 10, 0, 0,    2,
};

static void arp_request_reads_as_it_is_written(void **state)
{
    struct eth_header eth;
    struct arp_packet arp;
    struct span body;
    uint8_t again[sizeof request];
    assert_true(eth_header_parse(span_of(request, sizeof request), &eth, &body));
    assert_true(eth_addr_equal(&eth.dst, &eth_broadcast));
    assert_int_equal(eth.type, ETH_TYPE_ARP);
    assert_int_equal(arp_packet_parse(body, &arp), ARP_PARSE_OK);
    assert_int_equal(arp.operation, ARP_REQUEST);
    assert_int_equal(arp.sender_ip[3], 1);
    assert_int_equal(arp.target_ip[3], 2);
    assert_true(eth_addr_equal(&eth.src, &arp.sender_eth));
    assert_int_equal(eth_header_emit(&eth, again), ETH_HEADER_LEN);
    assert_int_equal(arp_packet_emit(&arp, again + ETH_HEADER_LEN), ARP_LEN);
    assert_memory_equal(again, request, sizeof request);
}

static void frames_that_end_early_are_refused(void **state)
{
    struct eth_header eth;
    struct arp_packet arp;
    struct span body;
    for (size_t len = 0; len < ETH_HEADER_LEN; len++) {
        assert_false(eth_header_parse(span_of(request, len), &eth, &body));
    }
    for (size_t len = 0; len < ARP_LEN; len++) {
        assert_int_equal(arp_packet_parse(span_of(request + ETH_HEADER_LEN, len), &arp),
                         ARP_PARSE_TOO_SHORT);
    }
}

static void arp_of_other_kinds_is_refused(void **state)
{
    static const size_t kinds[] = {ARP_OFF_HARDWARE, ARP_OFF_PROTOCOL, ARP_OFF_HARDWARE_LEN,
                                   ARP_OFF_PROTOCOL_LEN};
    for (unsigned i = 0; i < 4; i++) {
        uint8_t other[ARP_LEN];
        struct arp_packet arp;
        memcpy(other, request + ETH_HEADER_LEN, ARP_LEN);
        other[kinds[i]] ^= 0x40;
        assert_int_equal(arp_packet_parse(span_of(other, ARP_LEN), &arp), ARP_PARSE_KIND);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arp_request_reads_as_it_is_written),
        cmocka_unit_test(frames_that_end_early_are_refused),
        cmocka_unit_test(arp_of_other_kinds_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

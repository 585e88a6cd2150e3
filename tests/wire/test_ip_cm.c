// The header by which IP addresses travel in private data, and the service ids of ports.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/wire/ibcm_samples.h"
#include "wire/ip_cm.h"

static const uint8_t golden_ipv4[IP_CM_HEADER_LEN] = {
    0x00, 0x40, 0x9c, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   0, 192, 0,
    2,    1,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2,   2,
};

static void the_service_id_of_a_port_is_as_annex_a11_has_it(void **state)
{
    assert_int_equal(ip_cm_service_id(IP_CM_PS_TCP, 4420), 0x0000000001061144);
    assert_int_equal(ip_cm_service_id(IP_CM_PS_UDP, 5000), 0x0000000001111388);
    assert_int_equal(ip_cm_port(0x0000000001061144), 4420);
}

static void ipv4_addresses_stand_behind_zeros(void **state)
{
    uint8_t buf[IP_CM_HEADER_LEN];
    const struct ip_cm_header h = {
        .source_port = 40000,
        .source = ibcm_sample_address("::ffff:192.0.2.1"),
        .destination = ibcm_sample_address("::ffff:192.0.2.2"),
    };
    memset(buf, 0xee, sizeof buf);
    assert_int_equal(ip_cm_header_emit(&h, buf), sizeof buf);
    assert_memory_equal(buf, golden_ipv4, sizeof buf);
}

static void ipv4_addresses_are_parsed_as_mapped_ones(void **state)
{
    struct ip_cm_header h;
    char line[120];
    assert_int_equal(ip_cm_header_parse(span_of(golden_ipv4, sizeof golden_ipv4), &h), IP_CM_OK);
    struct in6_addr source = ibcm_sample_address("::ffff:192.0.2.1");
    assert_false(h.is_ipv6);
    assert_memory_equal(&h.source, &source, sizeof source);
    assert_string_equal(ip_cm_header_format(&h, line, sizeof line),
                        "192.0.2.1 port 40000 > 192.0.2.2");
}

static void ipv6_addresses_come_back(void **state)
{
    uint8_t buf[IP_CM_HEADER_LEN];
    struct ip_cm_header back;
    char line[120];
    const struct ip_cm_header h = {
        .is_ipv6 = true,
        .source_port = 1,
        .source = ibcm_sample_address("2001:db8::1"),
        .destination = ibcm_sample_address("2001:db8::2"),
    };
    ip_cm_header_emit(&h, buf);
    assert_int_equal(ip_cm_header_parse(span_of(buf, sizeof buf), &back), IP_CM_OK);
    assert_true(back.is_ipv6);
    assert_memory_equal(&back.source, &h.source, sizeof h.source);
    assert_memory_equal(&back.destination, &h.destination, sizeof h.destination);
    assert_string_equal(ip_cm_header_format(&back, line, sizeof line),
                        "2001:db8::1 port 1 > 2001:db8::2");
}

static void what_is_no_header_is_refused_by_name(void **state)
{
    struct ip_cm_header h;
    uint8_t other[IP_CM_HEADER_LEN];
    for (size_t len = 0; len < IP_CM_HEADER_LEN; len++) {
        assert_int_equal(ip_cm_header_parse(span_of(golden_ipv4, len), &h), IP_CM_TOO_SHORT);
    }
    memcpy(other, golden_ipv4, sizeof other);
    other[IP_CM_OFF_VERSION] = 0x10;
    assert_int_equal(ip_cm_header_parse(span_of(other, sizeof other), &h), IP_CM_VERSION);
    memcpy(other, golden_ipv4, sizeof other);
    for (unsigned version = 0; version < 16; version++) {
        other[IP_CM_OFF_IP_VERSION] = (uint8_t)(version << 4);
        assert_int_equal(ip_cm_header_parse(span_of(other, sizeof other), &h),
                         version == 4 || version == 6 ? IP_CM_OK : IP_CM_IP_VERSION);
    }
    for (unsigned v = 0; v < IP_CM_VERDICT_COUNT; v++) {
        assert_non_null(ip_cm_verdict_name((enum ip_cm_verdict)v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_service_id_of_a_port_is_as_annex_a11_has_it),
        cmocka_unit_test(ipv4_addresses_stand_behind_zeros),
        cmocka_unit_test(ipv4_addresses_are_parsed_as_mapped_ones),
        cmocka_unit_test(ipv6_addresses_come_back),
        cmocka_unit_test(what_is_no_header_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

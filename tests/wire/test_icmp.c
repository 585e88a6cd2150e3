#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "wire/icmp.h"

// An echo request of `ping -c 1 -s 4`, its data 0 1 2 3: the checksum added up by hand is
// ~(0800 + 1234 + 0001 + 0001 + 0203) = e3c6.
static const uint8_t echo[] = {8, 0, 0xe3, 0xc6, 0x12, 0x34, 0, 1, 0, 1, 2, 3};

static void echo_reads_as_it_is_written(void **state)
{
    struct icmp_header h;
    struct span body;
    uint8_t again[sizeof echo];
    assert_int_equal(icmp_header_parse(span_of(echo, sizeof echo), 0, &h, &body), ICMP_PARSE_OK);
    assert_int_equal(h.type, ICMP_ECHO_REQUEST);
    assert_int_equal(h.rest, 0x12340001);
    assert_int_equal(body.len, 4);
    memcpy(again + ICMP_HEADER_LEN, body.ptr, body.len);
    assert_int_equal(icmp_header_emit(&h, body, 0, again), ICMP_HEADER_LEN);
    assert_memory_equal(again, echo, sizeof echo);
}

static void messages_are_refused_that_end_early_or_changed(void **state)
{
    struct icmp_header h;
    struct span body;
    uint8_t other[sizeof echo];
    for (size_t len = 0; len < ICMP_HEADER_LEN; len++) {
        assert_int_equal(icmp_header_parse(span_of(echo, len), 0, &h, &body), ICMP_PARSE_TOO_SHORT);
    }
    memcpy(other, echo, sizeof echo);
    other[9] ^= 1;
    assert_int_equal(icmp_header_parse(span_of(other, sizeof other), 0, &h, &body),
                     ICMP_PARSE_CHECKSUM);
}

static struct nd_message advertisement(void)
{
    return (struct nd_message){.type = ICMPV6_NEIGHBOUR_ADVERTISEMENT,
                               .flags = ND_SOLICITED | ND_OVERRIDE,
                               .target = {0xfe, 0x80, [15] = 9},
                               .has_eth = true,
                               .eth = {{2, 0, 0, 0, 0, 7}}};
}

static void neighbour_messages_read_as_they_are_written(void **state)
{
    static const uint8_t types[] = {ICMPV6_NEIGHBOUR_SOLICITATION, ICMPV6_NEIGHBOUR_ADVERTISEMENT};
    for (unsigned i = 0; i < 4; i++) {
        struct nd_message m = advertisement(), got;
        struct icmp_header h;
        struct span body;
        uint8_t buf[ND_LEN];
        m.type = types[i % 2];
        m.has_eth = i < 2;
        size_t len = nd_message_emit(&m, 99, buf);
        assert_int_equal(len, m.has_eth ? ND_LEN : ND_OFF_OPTIONS);
        assert_int_equal(buf[4], 0x60); // RFC 4861 section 4.4: Router, Solicited, Override
        assert_int_equal(icmp_header_parse(span_of(buf, len), 99, &h, &body), ICMP_PARSE_OK);
        assert_int_equal(nd_message_parse(span_of(buf, len), &got), ICMP_PARSE_OK);
        assert_int_equal(got.type, m.type);
        assert_int_equal(got.flags, m.flags);
        assert_memory_equal(got.target, m.target, IPV6_ADDR_LEN);
        assert_int_equal(got.has_eth, m.has_eth);
        assert_true(!m.has_eth || eth_addr_equal(&got.eth, &m.eth));
    }
}

static void neighbour_options_must_end_where_the_message_ends(void **state)
{
    struct nd_message m = advertisement(), got;
    uint8_t buf[ND_LEN];
    nd_message_emit(&m, 0, buf);
    for (size_t len = 0; len < ND_LEN; len++) {
        assert_int_equal(nd_message_parse(span_of(buf, len), &got),
                         len < ND_OFF_OPTIONS    ? ICMP_PARSE_TOO_SHORT
                         : len == ND_OFF_OPTIONS ? ICMP_PARSE_OK
                                                 : ICMP_PARSE_OPTION);
    }
    buf[ND_OFF_OPTIONS + 1] = 0;
    assert_int_equal(nd_message_parse(span_of(buf, ND_LEN), &got), ICMP_PARSE_OPTION);
}

// A nonce is as long as the address, and so is the address of the other direction.
static void other_neighbour_options_are_no_address(void **state)
{
    static const uint8_t kinds[] = {1, 14, 0, 255};
    struct nd_message m = advertisement(), got;
    uint8_t buf[ND_LEN];
    nd_message_emit(&m, 0, buf);
    assert_int_equal(buf[ND_OFF_OPTIONS], 2); // RFC 4861: target; 1 is the source
    for (unsigned i = 0; i < sizeof kinds; i++) {
        buf[ND_OFF_OPTIONS] = kinds[i];
        assert_int_equal(nd_message_parse(span_of(buf, ND_LEN), &got), ICMP_PARSE_OK);
        assert_false(got.has_eth);
    }
}

static void a_solicitation_names_who_asks(void **state)
{
    struct nd_message m = advertisement(), got;
    uint8_t buf[ND_LEN];
    m.type = ICMPV6_NEIGHBOUR_SOLICITATION;
    nd_message_emit(&m, 0, buf);
    assert_int_equal(buf[ND_OFF_OPTIONS], 1); // RFC 4861 section 4.6.1: the source
    buf[ND_OFF_OPTIONS] = 2;
    assert_int_equal(nd_message_parse(span_of(buf, ND_LEN), &got), ICMP_PARSE_OK);
    assert_false(got.has_eth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echo_reads_as_it_is_written),
        cmocka_unit_test(messages_are_refused_that_end_early_or_changed),
        cmocka_unit_test(neighbour_messages_read_as_they_are_written),
        cmocka_unit_test(neighbour_options_must_end_where_the_message_ends),
        cmocka_unit_test(other_neighbour_options_are_no_address),
        cmocka_unit_test(a_solicitation_names_who_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

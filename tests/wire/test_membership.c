// Queries of all versions, read; reports, written.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "wire/membership.h"

enum { LEN_MAX = 64 };

static struct membership_query q;
static uint8_t message[LEN_MAX];

static enum membership_parse_verdict igmp(const uint8_t *octets, size_t len)
{
    memcpy(message, octets, len);
    put_be16(message + IGMP_OFF_CHECKSUM, 0);
    put_be16(message + IGMP_OFF_CHECKSUM, inet_sum_fold(inet_sum_add(0, span_of(message, len))));
    return igmp_query_parse(span_of(message, len), &q);
}

static enum membership_parse_verdict mld(const uint8_t *octets, size_t len)
{
    return mld_query_parse(span_of(octets, len), &q);
}

static void igmp_query_tells_its_version_by_length_and_code(void **state)
{
    static const uint8_t first[] = {0x11, 0, 0, 0, 239, 1, 2, 3};
    static const uint8_t all[IPV4_ADDR_LEN] = {0};
    static const uint8_t second[] = {0x11, 25, 0, 0, 239, 1, 2, 3};
    static const uint8_t third[] = {0x11, 0, 0, 0, 0, 0, 0, 0, 0x0b, 125, 0, 0};
    assert_int_equal(igmp(first, sizeof first), MEMBERSHIP_PARSE_OK);
    assert_int_equal(q.version, 1);
    assert_int_equal(q.max_resp_ms, 10000);
    assert_memory_equal(q.group, all, sizeof all);
    assert_int_equal(igmp(second, sizeof second), MEMBERSHIP_PARSE_OK);
    assert_int_equal(q.version, 2);
    assert_int_equal(q.max_resp_ms, 2500);
    assert_memory_equal(q.group, second + 4, IPV4_ADDR_LEN);
    assert_int_equal(igmp(third, sizeof third), MEMBERSHIP_PARSE_OK);
    assert_int_equal(q.version, 3);
    assert_int_equal(q.max_resp_ms, 0);
    assert_int_equal(q.robustness, 3);
    assert_int_equal(q.interval_s, 125);
}

// RFC 3376 section 4.1.1: 0x80 is 128, and 0xff 31744.
static void igmp_codes_above_127_have_an_exponent(void **state)
{
    static const struct {
        uint8_t code;
        uint32_t number;
    } known[] = {{127, 127}, {0x80, 128}, {0x8f, 248}, {0x90, 256}, {0xff, 31744}};
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint8_t octets[] = {0x11, known[i].code, 0, 0, 0, 0, 0, 0, 2, known[i].code, 0, 0};
        assert_int_equal(igmp(octets, sizeof octets), MEMBERSHIP_PARSE_OK);
        assert_int_equal(q.max_resp_ms, known[i].number * 100);
        assert_int_equal(q.interval_s, known[i].number);
        // Version 2 knows no exponent.
        assert_int_equal(igmp(octets, IGMP_LEN), MEMBERSHIP_PARSE_OK);
        assert_int_equal(q.max_resp_ms, known[i].code * 100U);
    }
}

static void igmp_that_is_no_query_has_a_verdict_each(void **state)
{
    static const uint8_t query[] = {0x11, 10, 0,  0, 239, 1, 2,  3, 2, 125,
                                    0,    2,  10, 0, 0,   1, 10, 0, 0, 2};
    uint8_t octets[sizeof query];
    for (size_t len = 0; len < sizeof query; len++) {
        const bool is_second = len == IGMP_LEN;
        assert_int_equal(len < IGMP_LEN ? igmp_query_parse(span_of(query, len), &q)
                                        : igmp(query, len),
                         is_second ? MEMBERSHIP_PARSE_OK : MEMBERSHIP_PARSE_LEN);
    }
    assert_int_equal(igmp(query, sizeof query), MEMBERSHIP_PARSE_OK);
    message[1]++;
    assert_int_equal(igmp_query_parse(span_of(message, sizeof query), &q),
                     MEMBERSHIP_PARSE_CHECKSUM);
    memcpy(octets, query, sizeof query);
    octets[0] = IGMP_REPORT_2;
    assert_int_equal(igmp(octets, sizeof octets), MEMBERSHIP_PARSE_NO_QUERY);
}

static void mld_query_tells_its_version_by_length(void **state)
{
    static const uint8_t query[] = {130, 0, 0, 0, 0x27, 0x10, 0, 0, 0xff, 0x0e, 0,    0,    0, 0,
                                    0,   0, 0, 0, 0,    0,    0, 0, 1,    2,    0x0a, 0x90, 0, 0};
    assert_int_equal(mld(query, MLD_LEN), MEMBERSHIP_PARSE_OK);
    assert_int_equal(q.version, 1);
    assert_int_equal(q.max_resp_ms, 10000);
    assert_memory_equal(q.group, query + 8, IPV6_ADDR_LEN);
    assert_int_equal(mld(query, sizeof query), MEMBERSHIP_PARSE_OK);
    assert_int_equal(q.version, 2);
    assert_int_equal(q.max_resp_ms, 10000);
    assert_int_equal(q.robustness, 2);
    assert_int_equal(q.interval_s, 256);
    for (size_t len = 0; len < sizeof query; len++) {
        assert_int_equal(mld(query, len),
                         len == MLD_LEN ? MEMBERSHIP_PARSE_OK : MEMBERSHIP_PARSE_LEN);
    }
}

// RFC 3810 section 5.1.3: 0x8000 is 32768, and 0xffff 8387584.
static void mld_codes_above_32767_have_an_exponent(void **state)
{
    static const struct {
        uint16_t code;
        uint32_t number;
    } known[] = {{0x7fff, 32767}, {0x8000, 32768}, {0x9000, 65536}, {0xffff, 8387584}};
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint8_t octets[MLD_OFF_SOURCES] = {130};
        put_be16(octets + MLD_OFF_MAX_RESP, known[i].code);
        assert_int_equal(mld(octets, sizeof octets), MEMBERSHIP_PARSE_OK);
        assert_int_equal(q.max_resp_ms, known[i].number);
    }
}

static void mld_that_is_no_query_has_a_verdict_each(void **state)
{
    uint8_t octets[MLD_OFF_SOURCES + IPV6_ADDR_LEN] = {130};
    octets[MLD_OFF_SOURCE_COUNT + 1] = 2;
    assert_int_equal(mld(octets, sizeof octets), MEMBERSHIP_PARSE_LEN);
    octets[MLD_OFF_SOURCE_COUNT + 1] = 1;
    assert_int_equal(mld(octets, sizeof octets), MEMBERSHIP_PARSE_OK);
    octets[0] = ICMPV6_LISTENER_REPORT;
    assert_int_equal(mld(octets, sizeof octets), MEMBERSHIP_PARSE_NO_QUERY);
}

// The checksum added up by hand: ~(1600 + ef01 + 0203) = f8fa with its carry.
static void report_of_one_group_is_written(void **state)
{
    static const uint8_t group[] = {239, 1, 2, 3};
    static const uint8_t known[] = {0x16, 0, 0xf8, 0xfa, 239, 1, 2, 3};
    assert_int_equal(igmp_message_emit(IGMP_REPORT_2, group, message), sizeof known);
    assert_memory_equal(message, known, sizeof known);
}

// ~(2200 + 0002 + 0400 + ef01 + 0203 + 0300 + ef01 + 0204) = f3f4 - 2, carries added.
static void records_are_written(void **state)
{
    static const struct membership_record records[] = {
        {.kind = RECORD_TO_EXCLUDE, .group = {239, 1, 2, 3}},
        {.kind = RECORD_TO_INCLUDE, .group = {239, 1, 2, 4}}};
    static const uint8_t known[] = {0x22, 0, 0, 0, 0, 0, 0, 2, 4,   0, 0, 0,
                                    239,  1, 2, 3, 3, 0, 0, 0, 239, 1, 2, 4};
    assert_int_equal(igmp_records_emit(records, 2, message), igmp_records_len(2));
    assert_int_equal(igmp_records_len(2), sizeof known);
    assert_int_equal(inet_sum_fold(inet_sum_add(0, span_of(message, sizeof known))), 0);
    put_be16(message + IGMP_OFF_CHECKSUM, 0);
    assert_memory_equal(message, known, sizeof known);
}

static void listeners_messages_are_written_under_the_pseudo_header(void **state)
{
    static const struct membership_record record = {.kind = RECORD_IS_EXCLUDE,
                                                    .group = {0xff, 0x0e, [15] = 9}};
    static const uint8_t known[] = {143, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0xff, 0x0e,
                                    0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    9};
    const uint64_t sum = 0x1234;
    assert_int_equal(mld_records_emit(&record, 1, sum, message), sizeof known);
    assert_int_equal(mld_records_len(1), sizeof known);
    assert_int_equal(inet_sum_fold(inet_sum_add(sum, span_of(message, sizeof known))), 0);
    put_be16(message + ICMP_OFF_CHECKSUM, 0);
    assert_memory_equal(message, known, sizeof known);
    assert_int_equal(mld_message_emit(ICMPV6_LISTENER_DONE, record.group, sum, message), MLD_LEN);
    assert_int_equal(inet_sum_fold(inet_sum_add(sum, span_of(message, MLD_LEN))), 0);
    assert_int_equal(message[0], 132);
    assert_memory_equal(message + MLD_OFF_GROUP, record.group, IPV6_ADDR_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(igmp_query_tells_its_version_by_length_and_code),
        cmocka_unit_test(igmp_codes_above_127_have_an_exponent),
        cmocka_unit_test(igmp_that_is_no_query_has_a_verdict_each),
        cmocka_unit_test(mld_query_tells_its_version_by_length),
        cmocka_unit_test(mld_codes_above_32767_have_an_exponent),
        cmocka_unit_test(mld_that_is_no_query_has_a_verdict_each),
        cmocka_unit_test(report_of_one_group_is_written),
        cmocka_unit_test(records_are_written),
        cmocka_unit_test(listeners_messages_are_written_under_the_pseudo_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

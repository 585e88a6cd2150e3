// Records of a capture: what stands where, and what is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/journal.h"

static const struct journal_record posted = {.kind = JOURNAL_SEND_POSTED,
                                             .qp_num = 0x010203,
                                             .opcode = 4,
                                             .status = 5,
                                             .key = 0xa1b2c3d4,
                                             .wr_id = 0x1122334455667788,
                                             .len = 4096};
static const instant_ns when = 0x0102030405060708;

// These are in files: whoever changes them changes the version.
static void each_field_stands_at_its_offset(void **state)
{
    static const uint8_t expected[JOURNAL_LEN] = {
        'w',  'e',  'f',  't',  1,    2,    4,    5,    0,    1,    2, 3, 0xa1, 0xb2,
        0xc3, 0xd4, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0,    0,
        0,    0,    0x10, 0,    1,    2,    3,    4,    5,    6,    7, 8};
    uint8_t octets[JOURNAL_MAX_LEN];
    assert_int_equal(journal_emit(&posted, when, octets), JOURNAL_LEN);
    assert_memory_equal(octets, expected, sizeof expected);
}

static void what_is_written_is_read(void **state)
{
    struct journal_record carried = {.kind = JOURNAL_CARRIED, .qp_num = 7}, r;
    uint8_t octets[JOURNAL_MAX_LEN];
    instant_ns at;
    memset(&carried.carried.local, 1, sizeof carried.carried.local);
    memset(&carried.carried.remote, 2, sizeof carried.carried.remote);
    carried.carried.local_port = 0x3344;
    carried.carried.remote_port = 0x5566;
    carried.carried.remote_qp_num = 0x778899;
    size_t len = journal_emit(&carried, when, octets);
    assert_int_equal(len, JOURNAL_MAX_LEN);
    assert_int_equal(journal_parse(span_of(octets, len), &r, &at), JOURNAL_PARSE_OK);
    assert_int_equal(at, when);
    assert_int_equal(r.kind, JOURNAL_CARRIED);
    assert_int_equal(r.qp_num, 7);
    assert_memory_equal(&r.carried.local, &carried.carried.local, 16);
    assert_memory_equal(&r.carried.remote, &carried.carried.remote, 16);
    assert_int_equal(r.carried.local_port, 0x3344);
    assert_int_equal(r.carried.remote_port, 0x5566);
    assert_int_equal(r.carried.remote_qp_num, 0x778899);

    len = journal_emit(&posted, when, octets);
    assert_int_equal(journal_parse(span_of(octets, len), &r, &at), JOURNAL_PARSE_OK);
    assert_int_equal(r.opcode, posted.opcode);
    assert_int_equal(r.status, posted.status);
    assert_int_equal(r.key, posted.key);
    assert_int_equal(r.wr_id, posted.wr_id);
    assert_int_equal(r.len, posted.len);
}

static void what_is_none_has_a_reason(void **state)
{
    static const struct {
        size_t at;
        uint8_t octet;
        enum journal_parse_verdict verdict;
    } rows[] = {
        {JOURNAL_OFF_MAGIC + 3, 'T', JOURNAL_PARSE_FOREIGN},
        {JOURNAL_OFF_VERSION, 2, JOURNAL_PARSE_VERSION},
        {JOURNAL_OFF_KIND, 0, JOURNAL_PARSE_KIND},
        {JOURNAL_OFF_KIND, JOURNAL_KIND_COUNT, JOURNAL_PARSE_KIND},
        {JOURNAL_OFF_KIND, JOURNAL_CARRIED, JOURNAL_PARSE_LEN},
        {JOURNAL_OFF_KIND, JOURNAL_KIND_COUNT - 1, JOURNAL_PARSE_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct journal_record r;
        uint8_t octets[JOURNAL_MAX_LEN];
        instant_ns at;
        size_t len = journal_emit(&posted, when, octets);
        octets[rows[i].at] = rows[i].octet;
        assert_int_equal(journal_parse(span_of(octets, len), &r, &at), rows[i].verdict);
        assert_non_null(journal_parse_verdict_text(rows[i].verdict));
    }
}

static void no_other_length_is_read(void **state)
{
    struct journal_record r;
    uint8_t octets[JOURNAL_MAX_LEN] = {0};
    instant_ns at;
    journal_emit(&posted, when, octets);
    for (size_t len = 0; len <= sizeof octets; len++) {
        enum journal_parse_verdict expected = len < JOURNAL_OFF_OPCODE ? JOURNAL_PARSE_FOREIGN
                                              : len == JOURNAL_LEN     ? JOURNAL_PARSE_OK
                                                                       : JOURNAL_PARSE_LEN;
        assert_int_equal(journal_parse(span_of(octets, len), &r, &at), expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_stands_at_its_offset),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_none_has_a_reason),
        cmocka_unit_test(no_other_length_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

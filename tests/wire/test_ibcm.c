// The connection manager's messages: octet for octet as the golden file has them, and back again.
#include "base/bytes.h"
#include "tests/golden.h"
#include "tests/wire/ibcm_samples.h"
#include "wire/ibcm.h"
#include "wire/mad.h"

static char text[1 << 14];

// Rows of 16 octets; those of zeros are left out.
static size_t dump(const uint8_t *mad, char *to, size_t len)
{
    static const uint8_t zeros[16];
    size_t at = 0;
    for (size_t row = 0; row < MAD_LEN; row += 16) {
        if (memcmp(mad + row, zeros, 16) == 0) {
            continue;
        }
        at += (size_t)snprintf(to + at, len - at, "%4zu ", row);
        for (size_t i = 0; i < 16; i++) {
            at += (size_t)snprintf(to + at, len - at, " %02x", mad[row + i]);
        }
        at += (size_t)snprintf(to + at, len - at, "\n");
    }
    return at;
}

// The trace line, folded where it would be too long for a page.
static size_t fold(char *line, char *to, size_t len)
{
    size_t at = 0, column = 0;
    char *save;
    for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        bool is_over = column + strlen(word) > 90;
        const char *gap = is_over ? "\n    " : column > 0 ? " " : "";
        at += (size_t)snprintf(to + at, len - at, "%s%s", gap, word);
        column = is_over ? strlen(word) : column + 1 + strlen(word);
    }
    return at + (size_t)snprintf(to + at, len - at, "\n");
}

static void each_message_is_emitted_and_told_as_written_down(void **state)
{
    size_t at = 0;
    for (int kind = 0; kind < IBCM_KIND_COUNT; kind++) {
        struct ibcm_message m = ibcm_sample((enum ibcm_kind)kind);
        uint8_t mad[MAD_LEN];
        char line[400];
        memset(mad, 0xee, sizeof mad);
        assert_int_equal(ibcm_message_emit(&m, mad), MAD_LEN);
        ibcm_message_format(&m, line, sizeof line);
        at += fold(line, text + at, sizeof text - at);
        at += dump(mad, text + at, sizeof text - at);
    }
    golden_compare("wire/golden/ibcm.txt", text);
}

static void each_message_comes_back_as_it_was(void **state)
{
    for (int kind = 0; kind < IBCM_KIND_COUNT; kind++) {
        struct ibcm_message m = ibcm_sample((enum ibcm_kind)kind), back;
        uint8_t mad[MAD_LEN], again[MAD_LEN];
        char line[400], line_back[400];
        ibcm_message_emit(&m, mad);
        assert_int_equal(ibcm_message_parse(span_of(mad, sizeof mad), &back), IBCM_PARSE_OK);
        assert_int_equal(back.kind, m.kind);
        assert_int_equal(back.transaction_id, m.transaction_id);
        assert_string_equal(ibcm_message_format(&back, line_back, sizeof line_back),
                            ibcm_message_format(&m, line, sizeof line));
        ibcm_message_emit(&back, again);
        assert_memory_equal(again, mad, sizeof mad);
    }
}

static void private_data_have_the_length_of_their_field(void **state)
{
    static const size_t lens[IBCM_KIND_COUNT] = {
        [IBCM_REQ] = 92,   [IBCM_MRA] = 222,      [IBCM_REJ] = 148,
        [IBCM_REP] = 196,  [IBCM_RTU] = 224,      [IBCM_DREQ] = 220,
        [IBCM_DREP] = 224, [IBCM_SIDR_REQ] = 216, [IBCM_SIDR_REP] = 136,
    };
    for (int kind = 0; kind < IBCM_KIND_COUNT; kind++) {
        struct ibcm_message m = ibcm_sample((enum ibcm_kind)kind);
        uint8_t mad[MAD_LEN];
        ibcm_message_emit(&m, mad);
        assert_int_equal(ibcm_message_parse(span_of(mad, sizeof mad), &m), IBCM_PARSE_OK);
        const struct span private_data[IBCM_KIND_COUNT] = {
            [IBCM_REQ] = m.req.private_data,           [IBCM_MRA] = m.mra.private_data,
            [IBCM_REJ] = m.rej.private_data,           [IBCM_REP] = m.rep.private_data,
            [IBCM_RTU] = m.ids.private_data,           [IBCM_DREQ] = m.dreq.private_data,
            [IBCM_DREP] = m.ids.private_data,          [IBCM_SIDR_REQ] = m.sidr_req.private_data,
            [IBCM_SIDR_REP] = m.sidr_rep.private_data,
        };
        assert_int_equal(private_data[kind].len, lens[kind]);
        assert_ptr_equal(private_data[kind].ptr + lens[kind], mad + MAD_LEN);
    }
}

static enum ibcm_parse_verdict verdict_with(enum ibcm_kind kind, size_t offset, uint8_t octet)
{
    struct ibcm_message m = ibcm_sample(kind), back;
    uint8_t mad[MAD_LEN];
    ibcm_message_emit(&m, mad);
    mad[offset] = octet;
    return ibcm_message_parse(span_of(mad, sizeof mad), &back);
}

static void what_is_no_message_is_refused_by_name(void **state)
{
    enum { RESPONSE = 0x81, LAP = 0x19, APR = 0x1a, INFO_LEN = MAD_HEADER_LEN };
    struct ibcm_message m;
    uint8_t zeros[MAD_LEN] = {0};
    assert_int_equal(ibcm_message_parse(span_of(zeros, MAD_LEN - 1), &m), IBCM_PARSE_BAD_LEN);
    assert_int_equal(ibcm_message_parse(span_of(zeros, MAD_LEN), &m), IBCM_PARSE_BASE_VERSION);
    assert_int_equal(verdict_with(IBCM_RTU, MAD_OFF_CLASS, 0x03), IBCM_PARSE_CLASS);
    assert_int_equal(verdict_with(IBCM_RTU, MAD_OFF_CLASS_VERSION, 1), IBCM_PARSE_CLASS_VERSION);
    assert_int_equal(verdict_with(IBCM_RTU, MAD_OFF_METHOD, RESPONSE), IBCM_PARSE_METHOD);
    assert_int_equal(verdict_with(IBCM_RTU, MAD_OFF_ATTRIBUTE + 1, LAP), IBCM_PARSE_ALTERNATE_PATH);
    assert_int_equal(verdict_with(IBCM_RTU, MAD_OFF_ATTRIBUTE + 1, APR), IBCM_PARSE_ALTERNATE_PATH);
    assert_int_equal(verdict_with(IBCM_RTU, MAD_OFF_ATTRIBUTE + 1, 0x1b), IBCM_PARSE_ATTRIBUTE);
    assert_int_equal(verdict_with(IBCM_REJ, INFO_LEN + IBCM_REJ_OFF_INFO_LEN, 72 << 1),
                     IBCM_PARSE_OK);
    assert_int_equal(verdict_with(IBCM_REJ, INFO_LEN + IBCM_REJ_OFF_INFO_LEN, 73 << 1),
                     IBCM_PARSE_INFO_LEN);
    assert_int_equal(verdict_with(IBCM_SIDR_REP, INFO_LEN + IBCM_SIDR_REP_OFF_INFO_LEN, 72),
                     IBCM_PARSE_OK);
    assert_int_equal(verdict_with(IBCM_SIDR_REP, INFO_LEN + IBCM_SIDR_REP_OFF_INFO_LEN, 73),
                     IBCM_PARSE_INFO_LEN);
    for (int v = 0; v < IBCM_PARSE_VERDICT_COUNT; v++) {
        assert_non_null(ibcm_parse_verdict_name((enum ibcm_parse_verdict)v));
    }
}

static void reasons_have_the_numbers_of_the_architecture(void **state)
{
    assert_int_equal(IBCM_REASON_INVALID_SERVICE_ID, 8);
    assert_int_equal(IBCM_REASON_STALE, 10);
    assert_int_equal(IBCM_REASON_CONSUMER, 28);
    assert_string_equal(ibcm_reason_name(8), "invalid service id: nobody listens");
    assert_string_equal(ibcm_reason_name(0), "unknown reason");
    assert_string_equal(ibcm_reason_name(25), "unknown reason");
    assert_string_equal(ibcm_reason_name(65535), "unknown reason");
    assert_string_equal(ibcm_sidr_status_name(3), "no queue pair");
    assert_string_equal(ibcm_sidr_status_name(6), "unknown status");
}

static void times_are_powers_of_two_of_4_096_microseconds(void **state)
{
    assert_int_equal(ib_time_ns(0), 4096);
    assert_int_equal(ib_time_ns(20), 4294967296);
    assert_int_equal(ib_time_ns(31), UINT64_C(4096) << 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_is_emitted_and_told_as_written_down),
        cmocka_unit_test(each_message_comes_back_as_it_was),
        cmocka_unit_test(private_data_have_the_length_of_their_field),
        cmocka_unit_test(what_is_no_message_is_refused_by_name),
        cmocka_unit_test(reasons_have_the_numbers_of_the_architecture),
        cmocka_unit_test(times_are_powers_of_two_of_4_096_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

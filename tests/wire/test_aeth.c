// AETH: every syndrome, in golden/syndromes.txt.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/golden.h"
#include "wire/aeth.h"

static void acknowledgement_is_read_and_written(void **state)
{
    const uint8_t in[AETH_LEN] = {0x1f, 0x01, 0x02, 0x03};
    struct aeth h;
    uint8_t out[AETH_LEN];
    assert_int_equal(aeth_parse(span_of(in, sizeof in), &h), ROCE_PARSE_OK);
    assert_int_equal(h.syndrome, AETH_SYNDROME_ACK);
    assert_int_equal(h.msn, 0x010203);
    assert_int_equal(aeth_emit(&h, out), AETH_LEN);
    assert_memory_equal(out, in, AETH_LEN);
}

static void header_that_ends_early_is_too_short(void **state)
{
    const uint8_t in[AETH_LEN] = {0x1f};
    struct aeth h;
    for (size_t cut = 0; cut < AETH_LEN; cut++) {
        assert_int_equal(aeth_parse(span_of(in, cut), &h), ROCE_PARSE_TOO_SHORT);
    }
}

static void refusals_have_the_syndromes_of_the_book(void **state)
{
    assert_int_equal(aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE), 0x60);
    assert_int_equal(aeth_syndrome_nak(AETH_NAK_INVALID_REQUEST), 0x61);
    assert_int_equal(aeth_syndrome_nak(AETH_NAK_REMOTE_ACCESS), 0x62);
    assert_int_equal(aeth_syndrome_nak(AETH_NAK_REMOTE_OPERATIONAL), 0x63);
    assert_int_equal(aeth_syndrome_rnr(12), 0x2c);
}

static void of_receives_the_next_number_below_that_has_a_code_is_told(void **state)
{
    for (uint32_t count = 0; count < 70000; count++) {
        const uint8_t syndrome = aeth_syndrome_ack(count);
        const uint8_t code = aeth_value(syndrome);
        assert_int_equal(aeth_kind(syndrome), AETH_ACK);
        assert_true(code < AETH_CREDITS_NONE && aeth_credits(code) <= count);
        assert_true(code + 1 == AETH_CREDITS_NONE || aeth_credits(code + 1) > count);
    }
    assert_int_equal(aeth_syndrome_ack(UINT32_MAX), AETH_CREDITS_NONE - 1);
}

static size_t describe(uint8_t syndrome, char *text, size_t len)
{
    char line[80];
    struct aeth h = {.syndrome = syndrome};
    enum aeth_kind kind = aeth_kind(syndrome);
    int at = snprintf(text, len, "0x%02x %s", syndrome, aeth_format(&h, line, sizeof line));
    if (kind == AETH_RNR_NAK) {
        at += snprintf(text + at, len - (size_t)at, ": %u us",
                       (unsigned)(aeth_rnr_timer_ns(aeth_value(syndrome)) / NS_PER_US));
    } else if (kind == AETH_ACK) {
        at += snprintf(text + at, len - (size_t)at, ": %u messages",
                       aeth_credits(aeth_value(syndrome)));
    }
    return (size_t)at + (size_t)snprintf(text + at, len - (size_t)at, "\n");
}

static void every_syndrome_is_known(void **state)
{
    static char text[1 << 15];
    size_t at = 0;
    for (unsigned syndrome = 0; syndrome < 256; syndrome++) {
        at += describe((uint8_t)syndrome, text + at, sizeof text - at);
    }
    golden_compare("wire/golden/syndromes.txt", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledgement_is_read_and_written),
        cmocka_unit_test(header_that_ends_early_is_too_short),
        cmocka_unit_test(refusals_have_the_syndromes_of_the_book),
        cmocka_unit_test(of_receives_the_next_number_below_that_has_a_code_is_told),
        cmocka_unit_test(every_syndrome_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

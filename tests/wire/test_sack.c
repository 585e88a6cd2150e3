#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/sack.h"

// Behind the missing packet the first three are here, the fourth and fifth are not, the sixth is;
// and so is the 33rd.
static const uint8_t golden[] = {1, 2, 0, 0, 0xe4, 0, 0, 0, 0x80, 0, 0, 0};

static struct sack of_golden(void)
{
    struct sack s = {.bit_count = 0};
    static const uint32_t here[] = {0, 1, 2, 5, 32};
    for (unsigned i = 0; i < sizeof here / sizeof here[0]; i++) {
        sack_set(&s, here[i]);
    }
    return s;
}

static void every_bit_has_its_place(void **state)
{
    struct sack s = of_golden(), back;
    uint8_t out[SACK_LEN_MAX];
    assert_int_equal(sack_emit(&s, out), sizeof golden);
    assert_memory_equal(out, golden, sizeof golden);
    assert_int_equal(sack_parse(span_of(golden, sizeof golden), &back), SACK_OK);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(sack_has(&back, i), i < 3 || i == 5 || i == 32);
    }
}

static void bits_come_in_any_order(void **state)
{
    struct sack s = {.bit_count = 0}, t = {.bit_count = 0};
    for (uint32_t i = 0; i < SACK_BITS_MAX; i += 3) {
        sack_set(&s, i);
    }
    for (uint32_t i = (SACK_BITS_MAX - 1) / 3 + 1; i > 0; i--) {
        sack_set(&t, 3 * (i - 1));
    }
    uint8_t a[SACK_LEN_MAX], b[SACK_LEN_MAX];
    assert_int_equal(sack_emit(&s, a), SACK_LEN_MAX);
    assert_int_equal(sack_emit(&t, b), SACK_LEN_MAX);
    assert_memory_equal(a, b, SACK_LEN_MAX);
}

static void what_is_none_is_refused_by_name(void **state)
{
    struct sack s;
    uint8_t in[SACK_LEN_MAX + 4] = {0};
    memcpy(in, golden, sizeof golden);
    for (size_t len = 0; len < SACK_OFF_BITS; len++) {
        assert_int_equal(sack_parse(span_of(in, len), &s), SACK_TOO_SHORT);
    }
    for (size_t len = SACK_OFF_BITS; len < sizeof in; len++) {
        assert_int_equal(sack_parse(span_of(in, len), &s),
                         len == sizeof golden ? SACK_OK : SACK_BAD_WORDS);
    }
    in[SACK_OFF_WORDS] = 0;
    assert_int_equal(sack_parse(span_of(in, SACK_OFF_BITS), &s), SACK_BAD_WORDS);
    in[SACK_OFF_WORDS] = SACK_WORDS_MAX + 1;
    assert_int_equal(sack_parse(span_of(in, sizeof in), &s), SACK_BAD_WORDS);
    in[SACK_OFF_VERSION] = 2;
    assert_int_equal(sack_parse(span_of(in, sizeof golden), &s), SACK_VERSION_OTHER);
    for (enum sack_verdict v = SACK_OK; v < SACK_VERDICT_COUNT; v++) {
        assert_true(strlen(sack_verdict_name(v)) > 0);
    }
}

static void format_says_runs(void **state)
{
    struct sack s = of_golden();
    char line[80];
    assert_string_equal(sack_format(&s, line, sizeof line), "here +1..3 +6 +33");
    for (size_t len = 1; len < 20; len++) {
        assert_true(strlen(sack_format(&s, line, len)) < len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_has_its_place),
        cmocka_unit_test(bits_come_in_any_order),
        cmocka_unit_test(what_is_none_is_refused_by_name),
        cmocka_unit_test(format_says_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

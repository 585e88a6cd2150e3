// Numbers, sizes and durations: what is taken, what is not, how sizes are shown.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "text/quantity.h"

static void a_number_is_digits_within_its_range(void **state)
{
    uint64_t got = 0;
    assert_true(text_number_parse("0", 0, 9, &got));
    assert_int_equal(got, 0);
    assert_true(text_number_parse("18446744073709551615", 0, UINT64_MAX, &got));
    assert_int_equal(got, UINT64_MAX);
    assert_true(text_number_parse("007", 7, 7, &got));
    assert_int_equal(got, 7);
}

static void what_is_no_number_leaves_the_old_one(void **state)
{
    static const char *const texts[] = {"",   " 1", "1 ", "+1", "-1",
                                        "1x", "0x", "4",  "11", "18446744073709551616"};
    uint64_t got = 42;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(text_number_parse(texts[i], 5, 10, &got));
    }
    assert_false(text_number_parse("18446744073709551616", 0, UINT64_MAX, &got));
    assert_false(text_number_parse("99999999999999999999", 0, UINT64_MAX, &got));
    assert_int_equal(got, 42);
}

static void a_size_has_a_unit_of_1024(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
    } table[] = {{"0", 0},           {"4096", 4096},
                 {"64K", 64 << 10},  {"3M", 3 << 20},
                 {"1G", 1 << 30},    {"1T", 1ULL << 40},
                 {"7P", 7ULL << 50}, {"9223372036854775807", INT64_MAX}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t got;
        assert_true(text_size_parse(table[i].text, &got));
        assert_int_equal(got, table[i].size);
    }
}

static void what_is_no_size_leaves_the_old_one(void **state)
{
    static const char *const texts[] = {"",   "K",  "1k",    "1KB",    "1.5K",
                                        "-1", " 1", "8192P", "16384P", "18446744073709551615K"};
    uint64_t got = 42;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(text_size_parse(texts[i], &got));
    }
    assert_int_equal(got, 42);
}

static void a_size_is_shown_in_whole_units(void **state)
{
    static const struct {
        uint64_t size;
        const char *text;
    } table[] = {
        {0, "0"},           {1023, "1023"},        {1024, "1K"},          {10239, "10239"},
        {10241, "10K"},     {16 << 20, "16M"},     {1 << 30, "1G"},       {5000000, "4882K"},
        {3ULL << 40, "3T"}, {1ULL << 60, "1024P"}, {UINT64_MAX, "16383P"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char got[TEXT_SIZE_MAX];
        assert_string_equal(text_size_format(table[i].size, got), table[i].text);
    }
}

static void an_exact_size_loses_no_digit(void **state)
{
    static const struct {
        uint64_t size;
        const char *text;
    } table[] = {{0, "0"},
                 {1023, "1023"},
                 {16000, "16000"},
                 {16 << 10, "16K"},
                 {3 << 20, "3M"},
                 {(3 << 20) + 1, "3145729"},
                 {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char got[TEXT_SIZE_MAX];
        assert_string_equal(text_size_format_exactly(table[i].size, got), table[i].text);
    }
}

static void a_duration_has_a_unit_or_is_seconds(void **state)
{
    static const struct {
        const char *text;
        duration_ns ns;
    } table[] = {{"2", 2 * NS_PER_S},    {"2s", 2 * NS_PER_S}, {"10ms", 10 * NS_PER_MS},
                 {"5us", 5 * NS_PER_US}, {"100ns", 100},       {"0", 0}};
    duration_ns got;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_true(text_duration_parse(table[i].text, &got));
        assert_int_equal(got, table[i].ns);
    }
    assert_false(text_duration_parse("2m", &got));
    assert_false(text_duration_parse("ms", &got));
    assert_false(text_duration_parse("18446744073709551615s", &got));
    assert_int_equal(got, 0);
}

static void a_duration_is_shown_with_three_digits(void **state)
{
    static const struct {
        duration_ns duration;
        const char *text;
    } rows[] = {
        {0, "0ns"},
        {999, "999ns"},
        {1000, "1.00us"},
        {4479, "4.47us"},
        {9999, "9.99us"},
        {10000, "10.0us"},
        {99999, "99.9us"},
        {100000, "100us"},
        {999999, "999us"},
        {1000000, "1.00ms"},
        {640000000, "640ms"},
        {1500000000, "1.50s"},
        {3600000000000, "3600s"},
        {UINT64_MAX, "18446744073s"},
    };
    char text[TEXT_DURATION_MAX];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(text_duration_format(rows[i].duration, text), rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_digits_within_its_range),
        cmocka_unit_test(what_is_no_number_leaves_the_old_one),
        cmocka_unit_test(a_size_has_a_unit_of_1024),
        cmocka_unit_test(what_is_no_size_leaves_the_old_one),
        cmocka_unit_test(a_size_is_shown_in_whole_units),
        cmocka_unit_test(an_exact_size_loses_no_digit),
        cmocka_unit_test(a_duration_has_a_unit_or_is_seconds),
        cmocka_unit_test(a_duration_is_shown_with_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// A histogram against the numbers themselves, sorted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/histogram.h"
#include "base/prng.h"

enum { NUMBER_COUNT = 20000, ERROR_MAX_PERCENT = 6 };

static struct histogram h, other;
static uint64_t numbers[NUMBER_COUNT];

static int setup(void **state)
{
    memset(&h, 0, sizeof h);
    memset(&other, 0, sizeof other);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

// The definition: the least number that `permille` of a thousand do not exceed.
static uint64_t exact(unsigned permille)
{
    return numbers[((uint64_t)NUMBER_COUNT * permille + 999) / 1000 - 1];
}

static void expect_near(uint64_t shown, uint64_t value)
{
    const uint64_t distance = shown > value ? shown - value : value - shown;
    if (distance * 100 > value * ERROR_MAX_PERCENT) {
        fail_msg("%llu stands for %llu", (unsigned long long)shown, (unsigned long long)value);
    }
}

static void buckets_follow_each_other_without_gap_or_overlap(void **state)
{
    uint64_t next = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        assert_true(histogram_bucket_first(i) == next);
        assert_int_equal(histogram_bucket_of(histogram_bucket_first(i)), i);
        assert_int_equal(histogram_bucket_of(histogram_bucket_last(i)), i);
        next = histogram_bucket_last(i) + 1;
    }
    assert_true(next == 0); // behind UINT64_MAX
}

static void a_bucket_is_no_wider_than_a_sixteenth_of_its_values(void **state)
{
    for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKET_COUNT; i++) {
        const uint64_t first = histogram_bucket_first(i);
        const uint64_t width = histogram_bucket_last(i) - first + 1;
        assert_true(width == 1 || width * 16 <= first);
    }
}

static void percentiles_are_near_the_exact_ones(void **state)
{
    static const unsigned permilles[] = {1, 10, 250, 500, 900, 990, 999, 1000};
    for (unsigned spread = 4; spread <= HISTOGRAM_LOG2; spread += 6) {
        struct prng p;
        prng_init(&p, spread);
        setup(state);
        for (unsigned i = 0; i < NUMBER_COUNT; i++) { // as many in each power of two
            numbers[i] = prng_next(&p) >> (64 - spread) >> prng_below(&p, spread);
            histogram_add(&h, numbers[i]);
        }
        qsort(numbers, NUMBER_COUNT, sizeof numbers[0], by_value);
        for (unsigned i = 0; i < sizeof permilles / sizeof permilles[0]; i++) {
            expect_near(histogram_percentile(&h, permilles[i]), exact(permilles[i]));
        }
        assert_true(h.max == numbers[NUMBER_COUNT - 1]);
    }
}

static void of_nothing_every_percentile_is_0(void **state)
{
    assert_true(histogram_percentile(&h, 1) == 0);
    assert_true(histogram_percentile(&h, 1000) == 0);
    assert_true(histogram_count_to(&h, UINT64_MAX) == 0);
}

static void no_percentile_is_above_the_greatest_number(void **state)
{
    histogram_add(&h, 1025);
    assert_true(histogram_percentile(&h, 500) == 1025);
    histogram_add(&h, UINT64_MAX / 2); // beyond the last power of two
    assert_true(histogram_percentile(&h, 1000) == UINT64_MAX / 2);
}

static void nothing_in_a_bucket_is_above_the_greatest_number(void **state)
{
    histogram_add(&h, 100);
    histogram_add(&h, 1025);
    assert_true(histogram_bucket_most(&h, histogram_bucket_of(100)) ==
                histogram_bucket_last(histogram_bucket_of(100)));
    assert_true(histogram_bucket_most(&h, histogram_bucket_of(1025)) == 1025);
}

static void what_is_merged_is_what_one_would_have_counted(void **state)
{
    struct histogram whole = {0};
    struct prng p;
    prng_init(&p, 1);
    for (unsigned i = 0; i < NUMBER_COUNT; i++) {
        const uint64_t number = prng_below(&p, 1 << 30);
        histogram_add(&whole, number);
        histogram_add(i % 3 == 0 ? &h : &other, number);
    }
    histogram_add(&whole, UINT64_C(1) << 31); // the greatest is in the one that is added
    histogram_add(&other, UINT64_C(1) << 31);
    histogram_merge(&h, &other);
    assert_memory_equal(&h, &whole, sizeof h);
}

static void counts_up_to_a_power_of_two_are_exact(void **state)
{
    struct prng p;
    prng_init(&p, 1);
    unsigned below[HISTOGRAM_LOG2 + 1] = {0};
    for (unsigned i = 0; i < NUMBER_COUNT; i++) {
        const uint64_t number = prng_next(&p) >> (64 - HISTOGRAM_LOG2) >> prng_below(&p, 30);
        histogram_add(&h, number);
        for (unsigned n = 0; n <= HISTOGRAM_LOG2; n++) {
            below[n] += number < 1ULL << n;
        }
    }
    for (unsigned n = 0; n < HISTOGRAM_LOG2; n++) {
        assert_true(histogram_count_to(&h, (1ULL << n) - 1) == below[n]);
    }
    assert_true(histogram_count_to(&h, UINT64_MAX) == NUMBER_COUNT);
}

static void add_of(uint64_t value, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        histogram_add(&h, value);
    }
}

// Small values have buckets of their own: so many of 1, then of 2.
static void the_rank_of_a_percentile_is_rounded_up(void **state)
{
    static const struct {
        unsigned ones, twos, permille;
        uint64_t value;
    } rows[] = {{1, 0, 1, 1},        {1, 0, 1000, 1},      {5, 5, 500, 1},
                {5, 5, 501, 2},      {1, 9, 100, 1},       {1, 9, 101, 2},
                {998, 1, 1000, 2},   {998, 1, 998, 1},     {1000, 999, 500, 1},
                {1000, 999, 501, 2}, {1000, 1000, 500, 1}, {1000, 1000, 501, 2},
                {3000, 1, 999, 1},   {3000, 1, 1000, 2}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(state);
        add_of(1, rows[i].ones);
        add_of(2, rows[i].twos);
        assert_int_equal(histogram_percentile(&h, rows[i].permille), rows[i].value);
    }
}

static void a_percentile_is_the_middle_of_its_bucket(void **state)
{
    add_of(1024, 3);
    add_of(5000, 1);
    assert_int_equal(histogram_bucket_last(histogram_bucket_of(1024)), 1087);
    assert_int_equal(histogram_percentile(&h, 500), 1024 + 63 / 2);
    setup(state);
    add_of(UINT64_MAX - 1, 2); // in the last bucket, which has no end
    assert_true(histogram_percentile(&h, 500) == UINT64_MAX - 1);
}

static void four_percentiles_are_shown(void **state)
{
    static const struct histogram_shown shown[] = {
        {500, "p50_ns"}, {900, "p90_ns"}, {990, "p99_ns"}, {999, "p999_ns"}};
    for (unsigned i = 0; i < HISTOGRAM_SHOWN_COUNT; i++) {
        assert_int_equal(histogram_shown[i].permille, shown[i].permille);
        assert_string_equal(histogram_shown[i].name, shown[i].name);
    }
}

static void counts_are_of_buckets_that_end_before(void **state)
{
    add_of(0, 1);
    add_of(7, 2);
    add_of(1030, 4); // 1024 to 1087
    static const struct {
        uint64_t limit, count;
    } rows[] = {{0, 1}, {6, 1}, {7, 3}, {1023, 3}, {1086, 3}, {1087, 7}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(histogram_count_to(&h, rows[i].limit), rows[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buckets_follow_each_other_without_gap_or_overlap, setup),
        cmocka_unit_test_setup(a_bucket_is_no_wider_than_a_sixteenth_of_its_values, setup),
        cmocka_unit_test_setup(percentiles_are_near_the_exact_ones, setup),
        cmocka_unit_test_setup(of_nothing_every_percentile_is_0, setup),
        cmocka_unit_test_setup(no_percentile_is_above_the_greatest_number, setup),
        cmocka_unit_test_setup(nothing_in_a_bucket_is_above_the_greatest_number, setup),
        cmocka_unit_test_setup(what_is_merged_is_what_one_would_have_counted, setup),
        cmocka_unit_test_setup(counts_up_to_a_power_of_two_are_exact, setup),
        cmocka_unit_test_setup(the_rank_of_a_percentile_is_rounded_up, setup),
        cmocka_unit_test_setup(a_percentile_is_the_middle_of_its_bucket, setup),
        cmocka_unit_test_setup(four_percentiles_are_shown, setup),
        cmocka_unit_test_setup(counts_are_of_buckets_that_end_before, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Which work requests are measured, and under which operation they are counted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wq/latency.h"

enum { POST_COUNT = 1 << 20, PERIOD = 16 };

// A program that does the same again and again, PERIOD work requests each time: every one of them
// is measured about as often as the others.
static void no_place_of_a_period_is_left_out(void **state)
{
    struct latency_sampler sampler;
    unsigned sampled[PERIOD] = {0}, total = 0;
    latency_sampler_init(&sampler, 7);
    for (unsigned i = 0; i < POST_COUNT; i++) {
        const bool is_sampled = latency_sampler_next(&sampler);
        sampled[i % PERIOD] += is_sampled;
        total += is_sampled;
    }
    assert_in_range(total, POST_COUNT / LATENCY_SAMPLE_MEAN * 98 / 100,
                    POST_COUNT / LATENCY_SAMPLE_MEAN * 102 / 100);
    for (unsigned i = 0; i < PERIOD; i++) {
        assert_in_range(sampled[i], total / PERIOD * 9 / 10, total / PERIOD * 11 / 10);
    }
}

static void every_gap_up_to_twice_the_mean_is_as_likely(void **state)
{
    struct latency_sampler sampler;
    unsigned seen[2 * LATENCY_SAMPLE_MEAN] = {0};
    latency_sampler_init(&sampler, 1);
    for (unsigned i = 0; i < 31 * 4096; i++) {
        const uint32_t gap = latency_gap(&sampler);
        assert_in_range(gap, 1, 2 * LATENCY_SAMPLE_MEAN - 1);
        seen[gap]++;
    }
    for (unsigned gap = 1; gap < 2 * LATENCY_SAMPLE_MEAN; gap++) {
        assert_in_range(seen[gap], 4096 * 9 / 10, 4096 * 11 / 10);
    }
}

static void each_operation_has_a_histogram(void **state)
{
    static const uint64_t counts[LATENCY_OPERATION_COUNT] = {
        [LATENCY_SEND] = 3, [LATENCY_WRITE] = 2, [LATENCY_READ] = 1, [LATENCY_ATOMIC] = 2};
    static const char *const names[] = {"send", "write", "read", "atomic"};
    static struct latency latency;
    for (unsigned opcode = 0; opcode < WQE_OPCODE_COUNT; opcode++) {
        latency_note(&latency, opcode, 1000);
    }
    for (unsigned i = 0; i < LATENCY_OPERATION_COUNT; i++) {
        assert_int_equal(latency.of[i].count, counts[i]);
        assert_true(latency.of[i].sum == 1000 * counts[i]);
        assert_string_equal(latency_operation_name((enum latency_operation)i), names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_place_of_a_period_is_left_out),
        cmocka_unit_test(every_gap_up_to_twice_the_mean_is_as_likely),
        cmocka_unit_test(each_operation_has_a_histogram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What queue pairs that have gone have counted, each of it, is kept in the sum of a device.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/rc_counters.h"
#include "roce/unreliable_counters.h"

#define COUNT_OF(type) (sizeof(type) / sizeof(uint64_t))

static void fill(uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = i + 1;
    }
}

static void expect_thrice(const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(values[i], 3 * (i + 1));
    }
}

static void what_several_rc_queue_pairs_counted_is_added(void **state)
{
    union {
        struct rc_counters counters;
        uint64_t value[COUNT_OF(struct rc_counters)];
    } one, total = {.value = {0}};
    fill(one.value, COUNT_OF(struct rc_counters));
    for (unsigned i = 0; i < 3; i++) {
        rc_counters_add(&total.counters, &one.counters);
    }
    expect_thrice(total.value, COUNT_OF(struct rc_counters));
}

static void what_several_unreliable_ones_counted_is_added(void **state)
{
    union {
        struct unreliable_counters counters;
        uint64_t value[COUNT_OF(struct unreliable_counters)];
    } one, total = {.value = {0}};
    fill(one.value, COUNT_OF(struct unreliable_counters));
    for (unsigned i = 0; i < 3; i++) {
        unreliable_counters_sum(&total.counters, &one.counters);
    }
    expect_thrice(total.value, COUNT_OF(struct unreliable_counters));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_several_rc_queue_pairs_counted_is_added),
        cmocka_unit_test(what_several_unreliable_ones_counted_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

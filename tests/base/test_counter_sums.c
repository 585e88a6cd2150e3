#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/counter_sums.h"

struct told {
    char text[128];
    size_t len;
};

static void tell(void *ctx, const char *name, uint64_t value)
{
    struct told *t = ctx;
    t->len +=
        (size_t)snprintf(t->text + t->len, sizeof t->text - t->len, "%s=%d ", name, (int)value);
}

static void same_names_are_added_and_peaks_are_the_highest(void **state)
{
    struct counter_sums sums;
    struct told told = {.len = 0};
    counter_sums_init(&sums);
    for (unsigned i = 1; i <= 3; i++) {
        char name[] = "segments_in"; // it is not kept
        counter_sums_add(&sums, name, i);
        memset(name, 'x', sizeof name - 1);
        counter_sums_add(&sums, "ranges_peak", 4 - i);
        counter_sums_add(&sums, "peak", i); // the word alone is none
    }
    counter_sums_each(&sums, tell, &told);
    assert_string_equal(told.text, "segments_in=6 ranges_peak=3 peak=6 ");
}

static void nothing_was_counted(void **state)
{
    struct counter_sums sums;
    struct told told = {.len = 0};
    counter_sums_init(&sums);
    counter_sums_each(&sums, tell, &told);
    assert_int_equal(told.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_names_are_added_and_peaks_are_the_highest),
        cmocka_unit_test(nothing_was_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

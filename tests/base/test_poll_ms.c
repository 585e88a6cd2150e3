#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/poll_ms.h"

static void what_is_past_is_not_waited_for(void **state)
{
    assert_int_equal(poll_ms(5, 5), 0);
    assert_int_equal(poll_ms(5, 0), 0);
    assert_int_equal(poll_ms(INSTANT_NEVER, 5), 0);
}

static void who_wakes_is_not_early(void **state)
{
    assert_int_equal(poll_ms(5, 6), 1);
    assert_int_equal(poll_ms(5, 5 + NS_PER_MS), 1);
    assert_int_equal(poll_ms(5, 6 + NS_PER_MS), 2);
}

static void what_milliseconds_cannot_count_is_waited_for_as_long_as_they_can(void **state)
{
    assert_int_equal(poll_ms(0, INT_MAX * NS_PER_MS), INT_MAX);
    assert_int_equal(poll_ms(0, INT_MAX * NS_PER_MS + 1), INT_MAX);
    assert_int_equal(poll_ms(0, INSTANT_NEVER - 1), INT_MAX);
}

static void never_is_for_ever(void **state)
{
    assert_int_equal(poll_ms(5, INSTANT_NEVER), -1);
    assert_int_equal(poll_ms(INSTANT_NEVER, INSTANT_NEVER), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_past_is_not_waited_for),
        cmocka_unit_test(who_wakes_is_not_early),
        cmocka_unit_test(what_milliseconds_cannot_count_is_waited_for_as_long_as_they_can),
        cmocka_unit_test(never_is_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

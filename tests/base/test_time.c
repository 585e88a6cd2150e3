// Instants that never come stay where they are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/time.h"

static void sum_stops_at_never(void **state)
{
    assert_true(instant_after(5, 7) == 12);
    assert_true(instant_after(INSTANT_NEVER, 0) == INSTANT_NEVER);
    assert_true(instant_after(INSTANT_NEVER, 1) == INSTANT_NEVER);
    assert_true(instant_after(1, INSTANT_NEVER) == INSTANT_NEVER);
    assert_true(instant_after(INSTANT_NEVER - 3, 3) == INSTANT_NEVER);
    assert_true(instant_after(INSTANT_NEVER - 3, 2) == INSTANT_NEVER - 1);
}

static void never_is_later_than_anything(void **state)
{
    assert_true(instant_min(3, INSTANT_NEVER) == 3);
    assert_true(instant_min(INSTANT_NEVER, 3) == 3);
    assert_true(instant_min(INSTANT_NEVER, INSTANT_NEVER) == INSTANT_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_stops_at_never),
        cmocka_unit_test(never_is_later_than_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

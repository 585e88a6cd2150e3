// Looking on before a sleep: as long as it pays, and now and then.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/lingering.h"

static unsigned worth_of(struct lingering *l, unsigned sleeps, bool has_paid)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sleeps; i++) {
        if (lingering_is_worth_it(l)) {
            lingering_note(l, has_paid);
            count++;
        }
    }
    return count;
}

static void looking_on_in_vain_is_seldom(void **state)
{
    struct lingering lingering = {0};
    assert_int_equal(worth_of(&lingering, 4 + 16 * LINGERING_SLEEPS, false), 4 + 16);
}

static void looking_on_goes_on_once_it_has_paid(void **state)
{
    struct lingering lingering = {0};
    worth_of(&lingering, 4 + LINGERING_SLEEPS - 1, false);
    assert_int_equal(worth_of(&lingering, 100, true), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looking_on_in_vain_is_seldom),
        cmocka_unit_test(looking_on_goes_on_once_it_has_paid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Looking on before a sleep: as long as it pays nearly always, and now and then.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "node/loop/lookout.h"

static unsigned worth_of(struct lookout *l, unsigned sleeps, bool has_paid)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sleeps; i++) {
        if (lookout_is_worth_it(l)) {
            lookout_note(l, has_paid);
            count++;
        }
    }
    return count;
}

static void looking_on_in_vain_is_seldom(void **state)
{
    struct lookout lookout = {0};
    assert_int_equal(worth_of(&lookout, 4 + 16 * LOOKOUT_SLEEPS, false), 4 + 16);
}

static void looking_on_goes_on_once_it_has_paid(void **state)
{
    struct lookout lookout = {0};
    worth_of(&lookout, 4 + LOOKOUT_SLEEPS - 1, false);
    assert_int_equal(worth_of(&lookout, 100, true), 100);
}

static void what_pays_every_other_time_is_given_up(void **state)
{
    struct lookout lookout = {0};
    for (unsigned i = 0; i < LOOKOUT_DOUBT_MAX; i++) {
        lookout_note(&lookout, true);
        lookout_note(&lookout, false);
    }
    assert_false(lookout_is_worth_it(&lookout));
}

static void a_lookout_goes_on_from_one_to_the_next(void **state)
{
    struct lookout lookout = {0};
    for (instant_ns now = 1; now < 100 * LOOKOUT_NS; now += LOOKOUT_NS / 10) {
        assert_true(lookout_goes_on(&lookout, 1 + now / (LOOKOUT_NS / 2), now));
    }
}

static void a_lookout_in_vain_ends_in_a_sleep(void **state)
{
    struct lookout lookout = {0};
    assert_false(lookout_goes_on(&lookout, 0, 1)); // nothing has come: nothing follows
    for (unsigned i = 1; i <= 4; i++) {
        instant_ns begun = 10 * i * LOOKOUT_NS;
        assert_true(lookout_goes_on(&lookout, i, begun));
        assert_true(lookout_goes_on(&lookout, i, begun + LOOKOUT_NS - 1));
        assert_false(lookout_goes_on(&lookout, i, begun + LOOKOUT_NS));
    }
    assert_false(lookout_goes_on(&lookout, 5, 100 * LOOKOUT_NS)); // it has not paid
}

static void who_is_interrupted_gives_it_up_at_once(void **state)
{
    struct lookout lookout = {0};
    assert_true(lookout_goes_on(&lookout, 1, 1));
    assert_false(lookout_is_disturbed(&lookout, 1, LOOKOUT_GAP_NS));
    assert_true(lookout_is_disturbed(&lookout, 1, 1 + LOOKOUT_GAP_NS));
    assert_false(lookout_goes_on(&lookout, 1, 1 + LOOKOUT_GAP_NS));
    assert_false(lookout_is_worth_it(&lookout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looking_on_in_vain_is_seldom),
        cmocka_unit_test(looking_on_goes_on_once_it_has_paid),
        cmocka_unit_test(what_pays_every_other_time_is_given_up),
        cmocka_unit_test(a_lookout_goes_on_from_one_to_the_next),
        cmocka_unit_test(a_lookout_in_vain_ends_in_a_sleep),
        cmocka_unit_test(who_is_interrupted_gives_it_up_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

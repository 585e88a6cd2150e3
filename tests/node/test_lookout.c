// Looking on before a sleep: as long as it pays nearly always, and now and then.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/lookout.h"

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

static void who_looks_on_for_longer_gives_way(void **state)
{
    struct lookout lookout = {0};
    assert_true(lookout_goes_on(&lookout, 1, 1));
    assert_false(lookout_is_to_give_way(&lookout, LOOKOUT_OWN_NS)); // others may have their own
    assert_true(lookout_is_to_give_way(&lookout, 1 + LOOKOUT_OWN_NS));
}

// The other side does its work meanwhile.
static void who_gives_way_bears_a_gap(void **state)
{
    struct lookout lookout = {0};
    assert_true(lookout_goes_on(&lookout, 1, 1));
    assert_true(lookout_note_gap(&lookout, LOOKOUT_TURN_NS - 1));
    assert_true(lookout_goes_on(&lookout, 2, 1));
}

static unsigned stranger_costs(struct lookout *l)
{
    unsigned count = 1;
    l->doubt = 0; // it has paid meanwhile
    lookout_begin(l, 1);
    assert_false(lookout_note_gap(l, LOOKOUT_TURN_NS));
    for (lookout_begin(l, 1); !lookout_gives_way(l); lookout_begin(l, 1)) {
        count++;
    }
    return count;
}

static void a_strangers_turn_ends_the_lookout_and_giving_way_for_a_few_more(void **state)
{
    struct lookout lookout = {0};
    assert_true(lookout_goes_on(&lookout, 1, 1));
    assert_false(lookout_note_gap(&lookout, LOOKOUT_TURN_NS));
    assert_false(lookout_goes_on(&lookout, 1, 1));
    for (unsigned i = 1; i < LOOKOUT_KEPT_MIN; i++) {
        assert_true(lookout_goes_on(&lookout, 1 + i, 1)); // once is no reason to sleep
        assert_false(lookout_gives_way(&lookout));
    }
    assert_true(lookout_goes_on(&lookout, 1 + LOOKOUT_KEPT_MIN, 1));
    assert_true(lookout_gives_way(&lookout));
}

static void strangers_that_come_again_end_giving_way_for_longer_each_time(void **state)
{
    struct lookout lookout = {0};
    for (unsigned len = LOOKOUT_KEPT_MIN; len <= LOOKOUT_KEPT_MAX; len *= 2) {
        assert_int_equal(stranger_costs(&lookout), len);
    }
    assert_int_equal(stranger_costs(&lookout), LOOKOUT_KEPT_MAX);
}

static void strangers_are_forgotten_when_all_was_calm_for_long(void **state)
{
    struct lookout lookout = {0};
    while (stranger_costs(&lookout) < LOOKOUT_KEPT_MAX) {
    }
    lookout.doubt = 0;
    for (unsigned i = 1; i < LOOKOUT_CALM; i++) { // the last one of them meets him
        lookout_begin(&lookout, 1);
    }
    struct lookout later = lookout;
    assert_int_equal(stranger_costs(&later), LOOKOUT_KEPT_MIN);
    lookout.calm--;
    assert_int_equal(stranger_costs(&lookout), LOOKOUT_KEPT_MAX);
}

static void the_third_stranger_in_a_row_makes_it_not_worth_it(void **state)
{
    struct lookout lookout = {0};
    lookout_note_gap(&lookout, LOOKOUT_TURN_NS);
    lookout_note_gap(&lookout, LOOKOUT_TURN_NS);
    assert_true(lookout_is_worth_it(&lookout));
    lookout_note_gap(&lookout, LOOKOUT_TURN_NS);
    assert_false(lookout_is_worth_it(&lookout));
}

static void who_keeps_the_processor_and_is_interrupted_gives_it_up_at_once(void **state)
{
    struct lookout lookout = {.kept = 3, .kept_len = LOOKOUT_KEPT_MAX};
    assert_true(lookout_goes_on(&lookout, 1, 1));
    assert_false(lookout_is_to_give_way(&lookout, 1 + LOOKOUT_OWN_NS));
    assert_true(lookout_note_gap(&lookout, LOOKOUT_GAP_NS - 1));
    assert_false(lookout_note_gap(&lookout, LOOKOUT_GAP_NS));
    assert_false(lookout_goes_on(&lookout, 1, 1));
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
        cmocka_unit_test(who_looks_on_for_longer_gives_way),
        cmocka_unit_test(who_gives_way_bears_a_gap),
        cmocka_unit_test(a_strangers_turn_ends_the_lookout_and_giving_way_for_a_few_more),
        cmocka_unit_test(strangers_that_come_again_end_giving_way_for_longer_each_time),
        cmocka_unit_test(strangers_are_forgotten_when_all_was_calm_for_long),
        cmocka_unit_test(the_third_stranger_in_a_row_makes_it_not_worth_it),
        cmocka_unit_test(who_keeps_the_processor_and_is_interrupted_gives_it_up_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

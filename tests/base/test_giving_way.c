// Giving the processor away: late, or soon where the other side waits for this one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/giving_way.h"

static const duration_ns turn_ns = 100 * NS_PER_US, slice_ns = 3 * NS_PER_MS;
static instant_ns now = NS_PER_S;

// How long it is kept in vain; then it is given away for so long.
static duration_ns kept(struct giving_way *g, duration_ns away_ns)
{
    const instant_ns began = now;
    for (;; now += NS_PER_US) {
        giving_way_on_look(g, now);
        if (giving_way_take(g)) {
            const duration_ns kept_ns = now - began;
            now += away_ns;
            return kept_ns;
        }
    }
}

// ... and the next look finds something.
static duration_ns kept_and_found(struct giving_way *g, duration_ns away_ns)
{
    const duration_ns kept_ns = kept(g, away_ns);
    giving_way_on_look(g, now);
    giving_way_on_found(g);
    return kept_ns;
}

static void is_late_while_nothing_is_known(void **state)
{
    struct giving_way g = {.since_ns = 0};
    assert_int_equal(kept(&g, 0), GIVING_WAY_PATIENCE_NS);
    assert_int_equal(kept(&g, turn_ns), GIVING_WAY_PATIENCE_NS);
}

static void begins_anew_when_something_is_found(void **state)
{
    struct giving_way g = {.since_ns = 0};
    giving_way_on_look(&g, now);
    now += GIVING_WAY_PATIENCE_NS;
    giving_way_on_look(&g, now);
    giving_way_on_found(&g);
    assert_false(giving_way_take(&g));
    assert_int_equal(kept(&g, 0), GIVING_WAY_PATIENCE_NS);
}

static void begins_anew_after_a_rest_and_remembers_the_other_side(void **state)
{
    struct giving_way g = {.since_ns = 0};
    giving_way_on_look(&g, now);
    now += GIVING_WAY_PATIENCE_NS;
    giving_way_on_rest(&g);
    assert_int_equal(kept_and_found(&g, turn_ns), GIVING_WAY_PATIENCE_NS);
    giving_way_on_rest(&g);
    assert_int_equal(kept(&g, turn_ns), GIVING_WAY_SOON_NS);
}

static void is_soon_once_the_other_side_had_it(void **state)
{
    struct giving_way g = {.since_ns = 0};
    kept_and_found(&g, turn_ns);
    giving_way_on_found(&g);
    assert_int_equal(kept_and_found(&g, turn_ns), GIVING_WAY_SOON_NS);
    assert_int_equal(kept(&g, turn_ns), GIVING_WAY_SOON_NS);
}

static void is_late_again_when_nobody_else_wanted_it(void **state)
{
    struct giving_way g = {.since_ns = 0};
    kept_and_found(&g, turn_ns);
    kept_and_found(&g, GIVING_WAY_HELD_NS - 1);
    assert_int_equal(kept(&g, turn_ns), GIVING_WAY_PATIENCE_NS);
}

static void is_late_again_when_a_stranger_had_it(void **state)
{
    struct giving_way g = {.since_ns = 0};
    kept_and_found(&g, turn_ns);
    kept_and_found(&g, slice_ns);
    assert_int_equal(kept(&g, turn_ns), GIVING_WAY_PATIENCE_NS);
}

static void is_late_again_when_nothing_came_of_it_twice(void **state)
{
    struct giving_way g = {.since_ns = 0};
    kept_and_found(&g, turn_ns);
    kept(&g, turn_ns);
    assert_int_equal(kept(&g, turn_ns), GIVING_WAY_SOON_NS);
    assert_int_equal(kept(&g, turn_ns), GIVING_WAY_PATIENCE_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_late_while_nothing_is_known),
        cmocka_unit_test(begins_anew_when_something_is_found),
        cmocka_unit_test(begins_anew_after_a_rest_and_remembers_the_other_side),
        cmocka_unit_test(is_soon_once_the_other_side_had_it),
        cmocka_unit_test(is_late_again_when_nobody_else_wanted_it),
        cmocka_unit_test(is_late_again_when_a_stranger_had_it),
        cmocka_unit_test(is_late_again_when_nothing_came_of_it_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

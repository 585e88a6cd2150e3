#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/deadlines.h"
#include "base/prng.h"

enum { COUNT = 60, TURNS = 20000, INSTANTS = 40 };

// What the heap is to do, by looking through all: instants, and turns in the order of arming.
struct naive {
    instant_ns at_ns[COUNT];
    uint64_t turn[COUNT], last;
};

static void naive_init(struct naive *n)
{
    n->last = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        n->at_ns[i] = INSTANT_NEVER;
        n->turn[i] = 0;
    }
}

static void naive_arm(struct naive *n, unsigned which, instant_ns at_ns)
{
    if (n->at_ns[which] != at_ns) {
        n->at_ns[which] = at_ns;
        n->turn[which] = ++n->last;
    }
}

// COUNT: none is armed.
static unsigned naive_first(const struct naive *n)
{
    unsigned first = COUNT;
    for (unsigned i = 0; i < COUNT; i++) {
        bool is_earlier = first == COUNT || n->at_ns[i] < n->at_ns[first] ||
                          (n->at_ns[i] == n->at_ns[first] && n->turn[i] < n->turn[first]);
        if (n->at_ns[i] != INSTANT_NEVER && is_earlier) {
            first = i;
        }
    }
    return first;
}

static struct deadline *naive_take_due(struct naive *n, struct deadline *d, instant_ns now)
{
    unsigned first = naive_first(n);
    if (first == COUNT || n->at_ns[first] > now) {
        return NULL;
    }
    n->at_ns[first] = INSTANT_NEVER;
    return &d[first];
}

static void whatever_is_armed_moved_and_disarmed_the_earliest_is_taken_first(void **state)
{
    struct deadlines all = {0};
    struct deadline d[COUNT] = {{0}};
    struct naive naive;
    struct prng rng;
    naive_init(&naive);
    prng_init(&rng, 1);
    for (unsigned i = 0; i < TURNS; i++) {
        unsigned which = prng_below(&rng, COUNT);
        instant_ns at_ns = prng_below(&rng, INSTANTS);
        switch (prng_below(&rng, 4)) {
        case 0:
            deadline_disarm(&all, &d[which]);
            naive_arm(&naive, which, INSTANT_NEVER);
            break;
        case 1:
            assert_ptr_equal(deadlines_take_due(&all, at_ns), naive_take_due(&naive, d, at_ns));
            break;
        default:
            deadline_arm(&all, &d[which], at_ns);
            naive_arm(&naive, which, at_ns);
        }
        unsigned first = naive_first(&naive);
        deadlines_check(&all);
        assert_int_equal(deadlines_next(&all), first == COUNT ? INSTANT_NEVER : naive.at_ns[first]);
        assert_int_equal(deadline_at(&d[which]), naive.at_ns[which]);
    }
}

static void deadlines_of_one_instant_come_in_the_order_of_arming(void **state)
{
    struct deadlines all = {0};
    struct deadline d[COUNT] = {{0}};
    for (unsigned i = 0; i < COUNT; i++) {
        deadline_arm(&all, &d[i * 7 % COUNT], 5);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_ptr_equal(deadlines_take_due(&all, 5), &d[i * 7 % COUNT]);
    }
    assert_null(deadlines_take_due(&all, INSTANT_NEVER));
}

static void who_is_armed_again_for_the_same_instant_keeps_its_turn(void **state)
{
    struct deadlines all = {0};
    struct deadline a = {0}, b = {0};
    deadline_arm(&all, &a, 5);
    deadline_arm(&all, &b, 5);
    deadline_arm(&all, &a, 5);
    assert_ptr_equal(deadlines_take_due(&all, 5), &a);
    assert_ptr_equal(deadlines_take_due(&all, 5), &b);
}

static void nothing_is_due_before_its_instant(void **state)
{
    struct deadlines all = {0};
    struct deadline a = {0};
    deadline_arm(&all, &a, 5);
    assert_null(deadlines_take_due(&all, 4));
    assert_true(deadline_is_armed(&a));
    assert_ptr_equal(deadlines_take_due(&all, 5), &a);
    assert_false(deadline_is_armed(&a));
}

static void never_disarms(void **state)
{
    struct deadlines all = {0};
    struct deadline a = {0};
    deadline_arm(&all, &a, 5);
    deadline_arm(&all, &a, INSTANT_NEVER);
    assert_false(deadline_is_armed(&a));
    assert_int_equal(deadlines_next(&all), INSTANT_NEVER);
    deadline_arm(&all, &a, INSTANT_NEVER);
    assert_null(deadlines_take_due(&all, INSTANT_NEVER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_armed_moved_and_disarmed_the_earliest_is_taken_first),
        cmocka_unit_test(deadlines_of_one_instant_come_in_the_order_of_arming),
        cmocka_unit_test(who_is_armed_again_for_the_same_instant_keeps_its_turn),
        cmocka_unit_test(nothing_is_due_before_its_instant),
        cmocka_unit_test(never_disarms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "net/timers.h"

enum { TIMERS = 40, TURNS = 4000 };

static instant_ns earliest(const struct net_timer *timer)
{
    instant_ns at_ns = INSTANT_NEVER;
    for (unsigned i = 0; i < TIMERS; i++) {
        at_ns = timer[i].place != 0 ? instant_min(at_ns, timer[i].at_ns) : at_ns;
    }
    return at_ns;
}

// Against looking through all of them.
static void first_is_the_earliest_whatever_is_set_moved_and_stopped(void **state)
{
    (void)state;
    struct net_timers t;
    struct net_timer timer[TIMERS] = {{0}};
    struct prng rng;
    prng_init(&rng, 1);
    net_timers_init(&t);
    assert_int_equal(net_timers_resize(&t, TIMERS), 0);
    for (unsigned i = 0; i < TURNS; i++) {
        struct net_timer *one = &timer[prng_below(&rng, TIMERS)];
        instant_ns at_ns = prng_below(&rng, 3) == 0 ? INSTANT_NEVER : prng_below(&rng, 100);
        net_timers_set(&t, one, at_ns);
        assert_int_equal(one->place != 0, at_ns != INSTANT_NEVER);
        net_timers_check(&t);
        assert_int_equal(net_timers_next_deadline(&t), earliest(timer));
    }
    for (unsigned i = 0; i < TIMERS; i++) {
        net_timers_set(&t, &timer[i], INSTANT_NEVER);
    }
    assert_null(net_timers_first(&t));
    net_timers_fini(&t);
}

static void room_grows_and_keeps_what_is_set(void **state)
{
    (void)state;
    struct net_timers t;
    static struct net_timer timer[1000];
    net_timers_init(&t);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(net_timers_resize(&t, i + 1), 0);
        net_timers_set(&t, &timer[i], 1000 - i);
    }
    net_timers_check(&t);
    for (unsigned i = 1000; i-- > 0;) {
        assert_ptr_equal(net_timers_first(&t), &timer[i]);
        net_timers_set(&t, &timer[i], INSTANT_NEVER);
    }
    net_timers_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_is_the_earliest_whatever_is_set_moved_and_stopped),
        cmocka_unit_test(room_grows_and_keeps_what_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

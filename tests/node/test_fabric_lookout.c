// When the loop that drives an RNIC sleeps: the RNIC is the test's, and so is the time.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "base/list.h"
#include "base/lookout.h"
#include "base/time.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"

static instant_ns now;
static unsigned passes, waits; // how often the RNIC was looked at, and armed for a sleep

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    *ret = (struct timespec){.tv_sec = (time_t)(now / NS_PER_S), .tv_nsec = (long)(now % NS_PER_S)};
    return 0;
}

static void pass(struct ibv_comp_channel *channel)
{
    passes++;
}

static int event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq, void **ret_context)
{
    errno = EAGAIN;
    return -1;
}

static int may_wait(struct ibv_comp_channel *channel)
{
    waits++;
    return 1;
}

static struct fabric fabric;
static struct fabric_device device;
static int a_watch;

static int set_up(void **state)
{
    now = NS_PER_S;
    passes = waits = 0;
    list_init(&fabric.devices);
    device = (struct fabric_device){.fabric = &fabric,
                                    .may_wait = true,
                                    .drive_watch = (struct loop_watch *)&a_watch,
                                    .drive = {.pass = pass, .event = event, .may_wait = may_wait}};
    list_init(&device.link);
    list_push_tail(&fabric.devices, &device.link);
    return 0;
}

static void who_has_heard_nothing_sleeps(void **state)
{
    assert_true(fabric_devices_may_sleep(&fabric));
    fabric_devices_wake(&fabric);
    assert_int_equal(waits, 1);
    assert_int_equal(passes, 0);
}

static void behind_a_message_the_next_one_is_looked_for(void **state)
{
    device.event_count++;
    for (; now < NS_PER_S + LOOKOUT_NS; now += LOOKOUT_NS / 5) {
        assert_false(fabric_devices_may_sleep(&fabric));
        fabric_devices_wake(&fabric);
    }
    assert_int_equal(passes, 5);
    assert_int_equal(waits, 0); // nobody rings meanwhile
    assert_true(fabric_devices_may_sleep(&fabric));
    assert_int_equal(waits, 1);
}

// Somebody else of the loop had work.
static void an_rnic_that_was_not_asked_is_looked_at(void **state)
{
    assert_true(fabric_devices_may_sleep(&fabric));
    fabric_devices_wake(&fabric);
    fabric_devices_wake(&fabric);
    assert_int_equal(passes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_has_heard_nothing_sleeps, set_up),
        cmocka_unit_test_setup(an_rnic_that_was_not_asked_is_looked_at, set_up),
        cmocka_unit_test_setup(behind_a_message_the_next_one_is_looked_for, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

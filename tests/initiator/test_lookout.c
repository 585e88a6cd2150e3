// When who waits for an answer sleeps: the RNIC and its queues are the test's, and so is the time.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/lookout.h"
#include "base/time.h"
#include "initiator/agent.h"

static instant_ns now;
static duration_ns step;               // between two looks at the clock
static unsigned passes, waits, yields; // how often the RNIC was looked at, and armed for a sleep
static unsigned rises;                 // ... though its descriptor was not readable

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_sched_yield(void);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    now += step;
    *ret = (struct timespec){.tv_sec = (time_t)(now / NS_PER_S), .tv_nsec = (long)(now % NS_PER_S)};
    return 0;
}

int __wrap_sched_yield(void)
{
    yields++;
    return 0;
}

static void pass(struct ibv_comp_channel *channel)
{
    passes++;
}

static void rise(struct ibv_comp_channel *channel)
{
    rises++;
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

static int poll_nothing(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    return 0;
}

static int notify(struct ibv_cq *cq, int solicited_only)
{
    return 0;
}

static struct ibv_context verbs = {.ops = {.poll_cq = poll_nothing, .req_notify_cq = notify}};
static struct ibv_cq cq = {.context = &verbs};
static struct initiator_queue queue;
static struct weft_nvme nvme;

static int set_up(void **state)
{
    now = NS_PER_S;
    step = NS_PER_US;
    passes = waits = yields = rises = 0;
    queue = (struct initiator_queue){.nvme = &nvme};
    nvme = (struct weft_nvme){
        .carrier = &initiator_by_rdma,
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .cq = &cq,
        .send_cq = &cq,
        .drive = {.pass = pass, .rise = rise, .event = event, .may_wait = may_wait},
        .queues = &queue,
        .queue_count = 1};
    return nvme.epoll_fd < 0;
}

static int tear_down(void **state)
{
    return close(nvme.epoll_fd);
}

static void command_sent(void)
{
    queue.taken = 1;
    nvme.counters.commands++;
}

static void who_awaits_nothing_does_not_look_on(void **state)
{
    nvme.counters.commands = 1;
    assert_int_equal(weft_nvme_wait(&nvme, 0), 0);
    assert_int_equal(passes, 0);
    assert_int_equal(waits, 1);
}

static void an_answer_is_looked_for_before_the_link_is_told_of_a_sleep(void **state)
{
    command_sent();
    assert_int_equal(weft_nvme_wait(&nvme, 0), 0);
    assert_in_range(passes, LOOKOUT_NS / (4 * step), LOOKOUT_NS / step);
    assert_in_range(yields, 1, passes);
    assert_int_equal(waits, 1); // behind all that
}

static void who_only_polls_is_not_kept(void **state)
{
    command_sent();
    assert_int_equal(weft_nvme_poll(&nvme), 0);
    assert_int_equal(passes, 0);
    assert_int_equal(waits, 1);
}

// Whoever polls may have been told that the descriptor is readable.
static void who_looks_on_has_not_been_told_of_anything(void **state)
{
    assert_int_equal(weft_nvme_wait(&nvme, 0), 0); // arms
    assert_int_equal(rises, 0);
    passes = 0;
    assert_int_equal(weft_nvme_poll(&nvme), 0);
    assert_int_equal(rises, 0);
    assert_true(passes > 0);
    assert_int_equal(weft_nvme_wait(&nvme, 0), 0);
    assert_int_equal(rises, 1);
}

static void lose_the_processor(void)
{
    step = LOOKOUT_TURN_NS;
    command_sent();
    assert_int_equal(weft_nvme_wait(&nvme, 0), 0);
    step = NS_PER_US;
    passes = waits = 0;
}

// How many commands in a row were not looked for: who is armed asks the RNIC once.
static unsigned commands_asleep(void)
{
    for (unsigned count = 0;; count++) {
        unsigned before = passes;
        command_sent();
        assert_int_equal(weft_nvme_wait(&nvme, 0), 0);
        if (passes > before + 1) {
            return count;
        }
    }
}

static void who_loses_the_processor_to_a_stranger_sleeps_at_once_for_a_while(void **state)
{
    lose_the_processor();
    assert_int_equal(commands_asleep(), LOOKOUT_KEPT_MIN - 1);
    assert_int_equal(waits, LOOKOUT_KEPT_MIN);
}

static void who_loses_it_again_sleeps_for_longer(void **state)
{
    lose_the_processor();
    commands_asleep();
    lose_the_processor();
    assert_in_range(commands_asleep(), 2 * LOOKOUT_KEPT_MIN - 1, LOOKOUT_KEPT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_awaits_nothing_does_not_look_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_is_looked_for_before_the_link_is_told_of_a_sleep,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_only_polls_is_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_looks_on_has_not_been_told_of_anything, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            who_loses_the_processor_to_a_stranger_sleeps_at_once_for_a_while, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_loses_it_again_sleeps_for_longer, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

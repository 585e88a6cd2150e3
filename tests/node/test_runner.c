// An RTA on its loop, when it sleeps: the time is the test's, and so is who stands at the other end
// of the bus. The requests are of a connection that is not there, which the agent answers at once.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/lookout.h"
#include "base/system_calls.h"
#include "base/time.h"
#include "node/interface/cta_rta.h"
#include "node/unit/channel.h"
#include "node/unit/runner.h"
#include "node/unit/segment.h"

enum { REQUESTS = 100, SOON_US = 20, LATE_US = 1000 };

static struct stage {
    struct loop *loop;
    struct runner *runner;
    struct bus_end host;
    int channel, bell;  // the host's ends
    duration_ns thinks; // so long after an answer the next request comes
    duration_ns step;   // between two looks at the clock ...
    duration_ns first;  // ... behind the first request
    instant_ns now, answered_at;
    uint32_t asked, answers;
    eventfd_t rings;       // of the host
    unsigned slept;        // until the next request
    duration_ns looked_on; // between answers and sleeps
} stage;

static void ask(void)
{
    stage.asked++;
    const struct frame frame = {.kind = FRAME_REQUEST,
                                .sequence = stage.asked,
                                .ack = stage.answers,
                                .connection = 1,
                                .transaction = (uint64_t)stage.asked << NODE_TRANSACTION_SLOT_BITS};
    assert_true(bus_send(&stage.host, &frame));
}

// The host, who is asked for the time whenever somebody looks on.
static void host_act(void)
{
    struct frame frame;
    while (bus_receive(&stage.host, &frame)) {
        stage.answers += frame.kind == FRAME_RESULT;
        stage.answered_at = stage.now;
    }
    if (stage.answers == REQUESTS) {
        loop_stop(stage.loop);
    } else if (stage.asked == stage.answers && stage.now - stage.answered_at >= stage.thinks) {
        ask();
    }
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    stage.now += stage.answers == 1 ? stage.first : stage.step;
    if (stage.runner != NULL) {
        host_act();
    }
    *ret = (struct timespec){.tv_sec = (time_t)(stage.now / NS_PER_S),
                             .tv_nsec = (long)(stage.now % NS_PER_S)};
    return 0;
}

// A sleep: it ends by the next request.
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    const struct timespec *timeout = (const struct timespec *)d;
    bool is_look = timeout != NULL && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
    assert_int_equal(number, CALL_EPOLL_PWAIT2);
    if (!is_look) {
        stage.slept++;
        stage.looked_on += stage.now - stage.answered_at;
        assert_true(bus_should_ring(&stage.host));
        instant_ns asks_at = instant_after(stage.answered_at, stage.thinks);
        stage.now = stage.now > asks_at ? stage.now : asks_at;
        host_act();
    }
    return 0;
}

static void on_end(void *ctx)
{
    fail_msg("the RTA has ended");
}

// A client that asks so long after each answer; so long takes a look, and so long behind the first.
static void run_as(bool is_in_host, duration_ns thinks, duration_ns step, duration_ns first)
{
    int pair[2], bell[2];
    struct runner_parts parts = {.on_end = on_end, .is_in_host = is_in_host};
    stage = (struct stage){
        .now = NS_PER_S, .answered_at = NS_PER_S, .thinks = thinks, .step = step, .first = first};
    assert_int_equal(channel_pair(pair), 0);
    assert_int_equal(pipe(bell), 0);
    assert_int_equal(segment_create("test-bus", sizeof(struct bus_memory), &parts.bus), 0);
    assert_int_equal(segment_create("test-pool", 4096, &parts.pool), 0);
    bus_end_init(&stage.host, parts.bus.ptr, true);
    stage.channel = pair[0];
    stage.bell = bell[1];
    parts.loop = stage.loop = loop_create();
    parts.channel = pair[1];
    parts.bell_rta = bell[0];
    parts.bell_cta = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct runner *runner = runner_create(&parts);
    assert_non_null(runner);
    stage.runner = runner;
    assert_true(bus_sleep(&stage.host));
    assert_int_equal(loop_run(stage.loop), 0);
    stage.runner = NULL;
    eventfd_read(parts.bell_cta, &stage.rings);
    assert_int_equal(stage.answers, REQUESTS);
    runner_destroy(runner);
    if (is_in_host) { // whose they are then
        segment_close(&parts.pool);
        segment_close(&parts.bus);
    }
    loop_destroy(stage.loop);
    close(stage.channel);
    close(stage.bell);
}

static void run(duration_ns thinks, duration_ns step, duration_ns first)
{
    run_as(false, thinks, step, first);
}

static void a_host_that_sleeps_is_rung_once(void **state)
{
    run(SOON_US * NS_PER_US, NS_PER_US, NS_PER_US);
    assert_int_equal(stage.rings, 1); // it is awake then
}

static void the_host_of_the_same_loop_is_not_rung(void **state)
{
    run_as(true, SOON_US * NS_PER_US, NS_PER_US, NS_PER_US);
    assert_int_equal(stage.rings, 0);
}

static void who_asks_again_soon_finds_it_awake(void **state)
{
    run(SOON_US * NS_PER_US, NS_PER_US, NS_PER_US);
    assert_true(stage.slept <= 1); // before the first request
}

static void who_asks_again_late_is_seldom_looked_for(void **state)
{
    run(LATE_US * NS_PER_US, NS_PER_US, NS_PER_US);
    assert_true(stage.slept >= REQUESTS - 1);
    unsigned tries = LOOKOUT_DOUBT_MAX / LOOKOUT_LOSS + REQUESTS / LOOKOUT_SLEEPS + 1;
    assert_true(stage.looked_on < tries * LOOKOUT_NS + REQUESTS * 10 * NS_PER_US);
}

// A stranger had it for a whole turn, and then has it half of the time.
static void who_has_no_processor_to_itself_sleeps_until_it_is_tried_again(void **state)
{
    run(SOON_US * NS_PER_US, LOOKOUT_GAP_NS, LOOKOUT_TURN_NS);
    assert_in_range(stage.slept, LOOKOUT_SLEEPS - 1, LOOKOUT_SLEEPS + LOOKOUT_KEPT_MIN);
}

static void a_turn_of_a_stranger_does_not_keep_it_asleep(void **state)
{
    run(SOON_US * NS_PER_US, NS_PER_US, LOOKOUT_TURN_NS);
    assert_true(stage.slept <= 2); // before the first request, and behind that turn
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_that_sleeps_is_rung_once),
        cmocka_unit_test(the_host_of_the_same_loop_is_not_rung),
        cmocka_unit_test(who_asks_again_soon_finds_it_awake),
        cmocka_unit_test(who_asks_again_late_is_seldom_looked_for),
        cmocka_unit_test(who_has_no_processor_to_itself_sleeps_until_it_is_tried_again),
        cmocka_unit_test(a_turn_of_a_stranger_does_not_keep_it_asleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Congestion control where it matters: flows that share a line of 10 Gbit/s whose queue holds one
// bandwidth-delay product and drops the rest. Each verdict is asked for twice: of congestion/,
// which has to pass, and of the same transport with a fixed window, which has to fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/congestion/bottleneck.h"

#define PACKET_NS 880 // 1100 octets at 10 Gbit/s

enum { ROUNDS_BEFORE = 2000, ROUNDS_MEASURED = 5000, RETRIES = 7 };

struct outcome {
    double shares[FLOWS_MAX]; // of the line, by flow
    double goodput;           // of all together
    double jain;
    unsigned timeouts_max; // in a row
};

static const duration_ns timer_slack_ns = 50 * NS_PER_US; // as Linux has it

struct scene {
    unsigned flow_count;
    unsigned tcp_count;
    duration_ns rtt_ns;
    duration_ns late_ns;    // timers
    duration_ns between_ns; // starts of flows
    duration_ns stall_ns;
};

static struct bottleneck line; // too large for the stack

static struct outcome measured(const struct scene *scene, instant_ns since)
{
    struct outcome o = {0};
    double capacity = (double)(line.now - since) / PACKET_NS, squares = 0;
    for (unsigned i = 0; i < line.flow_count; i++) {
        o.shares[i] = (double)bottleneck_goodput(&line, i) / capacity;
        if (i < scene->flow_count) {
            o.goodput += o.shares[i];
            squares += o.shares[i] * o.shares[i];
            unsigned timeouts = line.flows[i].timeouts_max;
            o.timeouts_max = timeouts > o.timeouts_max ? timeouts : o.timeouts_max;
        }
    }
    o.jain = squares > 0 ? o.goodput * o.goodput / (scene->flow_count * squares) : 0;
    return o;
}

static struct outcome play(const struct scene *scene, enum flow_kind kind)
{
    const struct bottleneck_config config = {
        .packet_ns = PACKET_NS,
        .rtt_ns = scene->rtt_ns,
        .queue_max = (unsigned)(scene->rtt_ns / PACKET_NS),
        .stall_ns = scene->stall_ns,
        .late_ns = scene->late_ns,
    };
    bottleneck_init(&line, &config);
    for (unsigned i = 0; i < scene->flow_count; i++) {
        bottleneck_add(&line, kind, NS_PER_US + i * scene->between_ns);
    }
    for (unsigned i = 0; i < scene->tcp_count; i++) {
        bottleneck_add(&line, FLOW_TCP, NS_PER_US);
    }
    bottleneck_run(&line, ROUNDS_BEFORE * scene->rtt_ns);
    bottleneck_mark(&line);
    instant_ns since = line.now;
    bottleneck_run(&line, since + ROUNDS_MEASURED * scene->rtt_ns);
    struct outcome o = measured(scene, since);
    bottleneck_fini(&line);
    return o;
}

// Asks for the verdict of congestion/, and of the fixed window.
static void holds_but_for_a_fixed_window(const struct scene *scene,
                                         bool (*verdict)(const struct outcome *))
{
    struct outcome controlled = play(scene, FLOW_CONTROLLED), fixed = play(scene, FLOW_FIXED);
    print_message("%u flows, %u of TCP, %u us: %.3f of the line, Jain %.3f, %u time-outs in a row; "
                  "fixed window %.3f, %.3f, %u\n",
                  scene->flow_count, scene->tcp_count, (unsigned)(scene->rtt_ns / NS_PER_US),
                  controlled.goodput, controlled.jain, controlled.timeouts_max, fixed.goodput,
                  fixed.jain, fixed.timeouts_max);
    assert_true(verdict(&controlled));
    assert_false(verdict(&fixed));
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static bool is_fair_and_busy(const struct outcome *o)
{
    return o->jain >= 0.9 && o->goodput >= 0.8;
}

static bool carries_on(const struct outcome *o)
{
    return o->goodput >= 0.7 && o->timeouts_max < RETRIES;
}

// Of two flows each has between half and twice its share.
static bool is_shared_with_the_other(const struct outcome *o)
{
    double share = (o->shares[0] + o->shares[1]) / 2;
    return share > 0.4 && o->shares[0] >= share / 2 && o->shares[1] >= share / 2;
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static const duration_ns rtts_ns[] = {50 * NS_PER_US, 100 * NS_PER_US, 200 * NS_PER_US};

static void eight_flows_share_evenly(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct scene scene = {.flow_count = 8, .rtt_ns = rtts_ns[i]};
        holds_but_for_a_fixed_window(&scene, is_fair_and_busy);
    }
}

// Who comes later finds a queue, and knows no shorter round trip.
static void who_comes_later_gets_no_more_and_no_less(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct scene scene = {
            .flow_count = 8, .rtt_ns = rtts_ns[i], .between_ns = 100 * rtts_ns[i]};
        holds_but_for_a_fixed_window(&scene, is_fair_and_busy);
    }
}

static void incast_of_thirty_two_carries_on(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct scene scene = {.flow_count = 32, .rtt_ns = rtts_ns[i]};
        holds_but_for_a_fixed_window(&scene, carries_on);
    }
}

// At 200 us the line and its queue hold more than 128 packets beside a TCP: there is no congestion
// for a fixed window to fail at.
static void tcp_beside_it_has_its_share(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct scene scene = {.flow_count = 1, .tcp_count = 1, .rtt_ns = rtts_ns[i]};
        holds_but_for_a_fixed_window(&scene, is_shared_with_the_other);
    }
}

// A queue of 24 to 35 packets, over whose end an unpaced window falls at once.
static void tcp_beside_it_has_its_share_of_a_short_queue(void **state)
{
    static const duration_ns short_ns[] = {20 * NS_PER_US, 25 * NS_PER_US, 30 * NS_PER_US};
    for (unsigned i = 0; i < 6; i++) {
        const struct scene scene = {.flow_count = 1,
                                    .tcp_count = 1,
                                    .rtt_ns = short_ns[i / 2],
                                    .late_ns = i % 2 * timer_slack_ns};
        holds_but_for_a_fixed_window(&scene, is_shared_with_the_other);
    }
}

// Acknowledgements wake too.
static void timers_that_are_late_do_not_leave_the_line_idle(void **state)
{
    for (duration_ns rtt_ns = 20 * NS_PER_US; rtt_ns <= 50 * NS_PER_US; rtt_ns += 10 * NS_PER_US) {
        const struct scene scene = {.flow_count = 1, .rtt_ns = rtt_ns, .late_ns = timer_slack_ns};
        const double goodput = play(&scene, FLOW_CONTROLLED).goodput;
        print_message("timers late, %u us: %.3f\n", (unsigned)(rtt_ns / NS_PER_US), goodput);
        assert_true(goodput >= 0.8);
    }
}

static void one_flow_has_the_line(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct scene scene = {.flow_count = 1, .rtt_ns = rtts_ns[i]};
        assert_true(play(&scene, FLOW_CONTROLLED).goodput >= 0.9);
    }
}

// One answer in 64 is kept for up to five round trips, and those behind it too.
static void busy_host_is_not_taken_for_a_queue(void **state)
{
    const struct scene scene = {
        .flow_count = 1, .rtt_ns = 100 * NS_PER_US, .stall_ns = 500 * NS_PER_US};
    assert_true(play(&scene, FLOW_CONTROLLED).goodput >= 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_flows_share_evenly),
        cmocka_unit_test(who_comes_later_gets_no_more_and_no_less),
        cmocka_unit_test(incast_of_thirty_two_carries_on),
        cmocka_unit_test(tcp_beside_it_has_its_share),
        cmocka_unit_test(tcp_beside_it_has_its_share_of_a_short_queue),
        cmocka_unit_test(timers_that_are_late_do_not_leave_the_line_idle),
        cmocka_unit_test(one_flow_has_the_line),
        cmocka_unit_test(busy_host_is_not_taken_for_a_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The congestion window over a path that loses: watched after every segment and every timer.
#include "tests/tcp/net.h"

// So many losses it takes until a window that slow start had made is forgotten.
enum { SLOW_START_LOSSES = 10 };

// What the watched side was like before, and what was seen of it.
struct watch {
    bool has_before;
    struct tcp_recovery recovery;
    struct tcp_cc cc;
    struct tcp_counters counters;
    unsigned losses;     // recoveries and time-outs
    uint32_t window_max; // behind the first of them: cwnd and ssthresh
    double multiplier;   // of the window that a loss may leave
    duration_ns srtt_max_ns;
};

// The window that was in force when the loss came to light.
static uint32_t window_before(const struct watch *w)
{
    bool is_shrinking = w->recovery.phase == TCP_PHASE_FAST && w->cc.ssthresh > w->cc.cwnd;
    return is_shrinking ? w->cc.ssthresh : w->cc.cwnd;
}

static void expect_window_to_shrink(const struct watch *w, const struct tcb *tcb)
{
    bool is_new_timeout = tcb->counters.timeouts > w->counters.timeouts;
    bool is_new_recovery = tcb->counters.recoveries > w->counters.recoveries;
    uint32_t least = 2 * tcb->cc.mss;
    double most = w->multiplier * window_before(w);
    if ((is_new_recovery || is_new_timeout) && tcb->cc.ssthresh != w->cc.ssthresh) {
        assert_true(tcb->cc.ssthresh <= (most > least ? most : least));
    }
    if (is_new_timeout) {
        assert_int_equal(tcb->cc.cwnd, tcb->cc.mss);
    }
}

static void on_look(void *ctx, const struct net_side *side)
{
    struct watch *w = ctx;
    const struct tcb *tcb = side->tcb;
    if (side != &side->net->side[0] || !tcp_is_synchronized(tcb) || tcb->snd.is_fin_sent) {
        return;
    }
    if (w->has_before) {
        expect_window_to_shrink(w, tcb);
    }
    w->has_before = true;
    w->recovery = tcb->recovery;
    w->cc = tcb->cc;
    w->counters = tcb->counters;
    w->srtt_max_ns = tcb->rtt.srtt_ns > w->srtt_max_ns ? tcb->rtt.srtt_ns : w->srtt_max_ns;
    w->losses = (unsigned)(tcb->counters.recoveries + tcb->counters.timeouts);
    if (w->losses > SLOW_START_LOSSES) {
        uint32_t window = tcb->cc.cwnd > tcb->cc.ssthresh ? tcb->cc.cwnd : tcb->cc.ssthresh;
        w->window_max = window > w->window_max ? window : w->window_max;
    }
}

// One megabyte from side 0 to side 1, over a path that takes so long.
static void sender_init(struct net *net, uint64_t seed, duration_ns delay_ns,
                        const struct net_faults *faults)
{
    net_init(net, seed);
    net->delay_ns = delay_ns;
    net->faults = *faults;
    net->config.delayed_ack_ns = 0;
    net->config.flight_max = 4096;
    net->side[0].send_len = NET_STREAM_MAX;
    net->side[1].closes_last = true; // its timers bring no ACK meanwhile
}

// `loss` is per 1024.
static struct watch send_over(uint64_t seed, unsigned loss, enum tcp_cc_kind cc,
                              duration_ns delay_ns)
{
    struct net net;
    struct watch w = {.multiplier = cc == TCP_CC_CUBIC ? 0.7 : 0.5};
    sender_init(&net, seed, delay_ns, &(struct net_faults){.loss = loss});
    net.config.cc = cc;
    net.watch = on_look;
    net.watch_ctx = &w;
    net_run(&net, 4000 * NS_PER_S);
    net_fini(&net);
    return w;
}

static void no_loss_makes_the_window_larger(void **state)
{
    static const unsigned losses[] = {10, 31, 51, 102};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        for (unsigned i = 0; i < sizeof losses / sizeof losses[0]; i++) {
            send_over(seed, losses[i], TCP_CC_CUBIC, 50 * NS_PER_US);
            send_over(seed, losses[i], TCP_CC_NEWRENO, 5 * NS_PER_MS);
        }
    }
}

// With one segment in ten lost no window is ever twenty segments long by any of the laws in use:
// Reno's mean is 1.2 / sqrt(0.1), four.
static void heavy_loss_keeps_the_window_at_a_few_segments(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct watch w = send_over(seed, 102, TCP_CC_CUBIC, 50 * NS_PER_US);
        assert_true(w.losses > 20);
        assert_true(w.window_max <= 20 * tcp_config_default.mss);
    }
}

static void waiting_for_a_repair_is_no_part_of_a_round_trip(void **state)
{
    static const unsigned losses[] = {10, 31, 102};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        for (unsigned i = 0; i < sizeof losses / sizeof losses[0]; i++) {
            struct watch w = send_over(seed, losses[i], TCP_CC_CUBIC, 50 * NS_PER_US);
            assert_true(w.srtt_max_ns <= 200 * NS_PER_US); // the path's is 100
        }
    }
}

// A peer that is not run for a while, on a machine that has other work: the time-out sends one
// segment again, and a probe of the tail went before it.
static void path_that_stands_still_costs_neither_octets_nor_the_window(void **state)
{
    struct net net;
    const struct net_faults faults = {.each_ns = 110 * NS_PER_MS, .still_ns = 90 * NS_PER_MS};
    sender_init(&net, 1, 2 * NS_PER_MS, &faults);
    net.config.rto_min_ns = 20 * NS_PER_MS;
    net_run(&net, 4000 * NS_PER_S);
    const struct tcb *tcb = net.side[0].tcb;
    assert_true(tcb->counters.timeouts > 0);
    assert_int_equal(tcb->counters.spurious_timeouts, 1);
    assert_true(tcb->counters.retransmits <= 2);
    assert_int_equal(tcb->cc.ssthresh, TCP_SSTHRESH_NONE);
    net_fini(&net);
}

// 2 MB/s, of which 128 KiB wait at most, behind 10 ms there and back. A start that only a loss ends
// has 143 segments lost; what is lost here is what avoidance finds the queue's end by.
static void first_slow_start_ends_before_a_slow_queue_overflows(void **state)
{
    struct net net;
    const struct net_faults faults = {.octets_per_s = 2000000, .queue_len = 128 * 1024};
    sender_init(&net, 1, 5 * NS_PER_MS, &faults);
    net_run(&net, 4000 * NS_PER_S);
    assert_int_equal(net.side[0].tcb->counters.slow_starts_ended, 1);
    assert_in_range(net.overflows, 0, 40);
    net_fini(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_loss_makes_the_window_larger),
        cmocka_unit_test(heavy_loss_keeps_the_window_at_a_few_segments),
        cmocka_unit_test(waiting_for_a_repair_is_no_part_of_a_round_trip),
        cmocka_unit_test(path_that_stands_still_costs_neither_octets_nor_the_window),
        cmocka_unit_test(first_slow_start_ends_before_a_slow_queue_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

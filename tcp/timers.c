// What makes the timers of a connection wait, and for how long.
#include "tcp/timers.h"

#include "base/check.h"
#include "tcp/internal.h"

static bool is_running(const struct tcb *tcb, enum tcp_timer timer)
{
    return tcb->timers.at[timer] != INSTANT_NEVER;
}

static bool is_waiting_for(const struct tcb *tcb, enum tcp_send_timer what)
{
    return is_running(tcb, TCP_TIMER_SEND) && tcb->timers.send == what;
}

// RFC 8985 section 7.2: not while something else will bring the loss to light.
static bool may_wait_for_probe(const struct tcb *tcb)
{
    return tcb->agreed.sack && !tcp_recovery_repairs(&tcb->recovery) &&
           tcb->scoreboard.sacked_len == 0 && tcp_loss_may_probe(&tcb->loss);
}

static void wait_for_probe_or_rto(struct tcb *tcb, instant_ns now)
{
    if (!may_wait_for_probe(tcb)) {
        tcp_timers_set_send(&tcb->timers, TCP_SEND_RTO, tcb->rto_at);
        return;
    }
    bool is_one = tcb->scoreboard.count == 1;
    instant_ns at = now + tcp_loss_probe_delay(&tcb->rtt, is_one);
    tcp_timers_set_send(&tcb->timers, TCP_SEND_PROBE, instant_min(at, tcb->rto_at));
}

void tcp_timers_on_sent(struct tcb *tcb, bool is_new, instant_ns now)
{
    tcb->sent_at = now;
    if (tcb->rto_at == INSTANT_NEVER) {
        tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    }
    if (!is_running(tcb, TCP_TIMER_USER)) {
        tcb->progress_at = now;
        tcp_timers_set(&tcb->timers, TCP_TIMER_USER,
                       instant_after(now, tcb->config.user_timeout_ns));
    }
    if (!tcp_is_synchronized(tcb)) {
        tcp_timers_set_send(&tcb->timers, TCP_SEND_RTO, tcb->rto_at);
    } else if (is_new && !is_waiting_for(tcb, TCP_SEND_REORDER)) {
        wait_for_probe_or_rto(tcb, now);
    } else if (!is_waiting_for(tcb, TCP_SEND_REORDER)) {
        tcp_timers_set_send(&tcb->timers, TCP_SEND_RTO, tcb->rto_at);
    }
}

void tcp_timers_on_ack(struct tcb *tcb, bool is_una_moved, duration_ns reorder_ns, instant_ns now)
{
    if (tcb->scoreboard.count == 0) {
        tcb->rto_at = INSTANT_NEVER;
        if (!is_waiting_for(tcb, TCP_SEND_PERSIST)) {
            tcp_timers_stop(&tcb->timers, TCP_TIMER_SEND);
            tcp_timers_stop(&tcb->timers, TCP_TIMER_USER);
        }
        return;
    }
    if (is_una_moved) {
        tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    }
    if (reorder_ns > 0) {
        tcp_timers_set_send(&tcb->timers, TCP_SEND_REORDER, now + reorder_ns);
    } else if (is_una_moved) {
        wait_for_probe_or_rto(tcb, now);
    } else if (!is_waiting_for(tcb, TCP_SEND_PROBE) || !may_wait_for_probe(tcb)) {
        tcp_timers_set_send(&tcb->timers, TCP_SEND_RTO, tcb->rto_at);
    }
}

void tcp_timers_on_window_shut(struct tcb *tcb, instant_ns now)
{
    duration_ns wait = tcp_rtt_rto(&tcb->rtt);
    for (unsigned i = 0; i < tcb->persist_backoff && wait < TCP_RTO_MAX_NS; i++) {
        wait *= 2;
    }
    tcp_timers_set_send(&tcb->timers, TCP_SEND_PERSIST,
                        now + (wait < TCP_RTO_MAX_NS ? wait : TCP_RTO_MAX_NS));
    if (!is_running(tcb, TCP_TIMER_USER)) {
        tcb->progress_at = now;
        tcp_timers_set(&tcb->timers, TCP_TIMER_USER,
                       instant_after(now, tcb->config.user_timeout_ns));
    }
}

void tcp_timers_on_time_wait(struct tcb *tcb, instant_ns now)
{
    tcp_timers_stop_all(&tcb->timers);
    tcb->rto_at = INSTANT_NEVER;
    tcp_timers_set(&tcb->timers, TCP_TIMER_TIME_WAIT, instant_after(now, tcb->config.time_wait_ns));
}

#include "tcp/timers.h"

#include <errno.h>

#include "base/check.h"
#include "tcp/internal.h"

static void set(struct tcb *tcb, enum tcp_timer timer, instant_ns at)
{
    tcb->timers.at[timer] = at;
}

static void stop(struct tcb *tcb, enum tcp_timer timer)
{
    tcb->timers.at[timer] = INSTANT_NEVER;
}

static bool is_running(const struct tcb *tcb, enum tcp_timer timer)
{
    return tcb->timers.at[timer] != INSTANT_NEVER;
}

static void set_send(struct tcb *tcb, enum tcp_send_timer what, instant_ns at)
{
    tcb->timers.send = what;
    set(tcb, TCP_TIMER_SEND, at);
}

static bool is_waiting_for(const struct tcb *tcb, enum tcp_send_timer what)
{
    return is_running(tcb, TCP_TIMER_SEND) && tcb->timers.send == what;
}

/* ---- what starts them ------------------------------------------------------------------------ */

// RFC 8985 section 7.2: not while something else will bring the loss to light.
static bool may_wait_for_probe(const struct tcb *tcb)
{
    return tcb->agreed.sack && tcb->recovery.phase == TCP_PHASE_OPEN &&
           tcb->scoreboard.sacked_len == 0 && tcp_loss_may_probe(&tcb->loss);
}

static void wait_for_probe_or_rto(struct tcb *tcb, instant_ns now)
{
    if (!may_wait_for_probe(tcb)) {
        set_send(tcb, TCP_SEND_RTO, tcb->rto_at);
        return;
    }
    bool is_one = tcb->scoreboard.count == 1;
    instant_ns at = now + tcp_loss_probe_delay(&tcb->rtt, is_one);
    set_send(tcb, TCP_SEND_PROBE, instant_min(at, tcb->rto_at));
}

void tcp_timers_on_sent(struct tcb *tcb, bool is_new, instant_ns now)
{
    tcb->sent_at = now;
    if (tcb->rto_at == INSTANT_NEVER) {
        tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    }
    if (!is_running(tcb, TCP_TIMER_USER)) {
        tcb->progress_at = now;
        set(tcb, TCP_TIMER_USER, instant_after(now, tcb->config.user_timeout_ns));
    }
    if (!tcp_is_synchronized(tcb)) {
        set_send(tcb, TCP_SEND_RTO, tcb->rto_at);
    } else if (is_new && !is_waiting_for(tcb, TCP_SEND_REORDER)) {
        wait_for_probe_or_rto(tcb, now);
    } else if (!is_waiting_for(tcb, TCP_SEND_REORDER)) {
        set_send(tcb, TCP_SEND_RTO, tcb->rto_at);
    }
}

void tcp_timers_on_ack(struct tcb *tcb, bool is_una_moved, duration_ns reorder_ns, instant_ns now)
{
    if (tcb->scoreboard.count == 0) {
        tcb->rto_at = INSTANT_NEVER;
        if (!is_waiting_for(tcb, TCP_SEND_PERSIST)) {
            stop(tcb, TCP_TIMER_SEND);
            stop(tcb, TCP_TIMER_USER);
        }
        return;
    }
    if (is_una_moved) {
        tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    }
    if (reorder_ns > 0) {
        set_send(tcb, TCP_SEND_REORDER, now + reorder_ns);
    } else if (is_una_moved) {
        wait_for_probe_or_rto(tcb, now);
    } else if (!is_waiting_for(tcb, TCP_SEND_PROBE) || !may_wait_for_probe(tcb)) {
        set_send(tcb, TCP_SEND_RTO, tcb->rto_at);
    }
}

void tcp_timers_on_window_shut(struct tcb *tcb, instant_ns now)
{
    duration_ns wait = tcp_rtt_rto(&tcb->rtt);
    for (unsigned i = 0; i < tcb->persist_backoff && wait < TCP_RTO_MAX_NS; i++) {
        wait *= 2;
    }
    set_send(tcb, TCP_SEND_PERSIST, now + (wait < TCP_RTO_MAX_NS ? wait : TCP_RTO_MAX_NS));
    if (!is_running(tcb, TCP_TIMER_USER)) {
        tcb->progress_at = now;
        set(tcb, TCP_TIMER_USER, instant_after(now, tcb->config.user_timeout_ns));
    }
}

void tcp_timers_on_time_wait(struct tcb *tcb, instant_ns now)
{
    tcp_timers_stop_all(&tcb->timers);
    tcb->rto_at = INSTANT_NEVER;
    set(tcb, TCP_TIMER_TIME_WAIT, instant_after(now, tcb->config.time_wait_ns));
}

/* ---- what they start ------------------------------------------------------------------------- */

static void give_up(struct tcb *tcb)
{
    if (tcb->state != TCP_STATE_SYN_SENT) {
        tcp_abort(tcb); // the peer, should it be there after all, is told
        tcb->status = tcb->soft_error != 0 ? tcb->soft_error : -ETIMEDOUT;
    } else {
        tcp_end(tcb, TCP_ON_TIMEOUT, tcb->soft_error != 0 ? tcb->soft_error : -ETIMEDOUT);
    }
}

// RFC 6298 section 5.4 to 5.7; RFC 8985 section 6.3.
static void on_rto(struct tcb *tcb, instant_ns now)
{
    struct tcp_scoreboard *sb = &tcb->scoreboard;
    tcb->counters.timeouts++;
    if (!tcp_is_synchronized(tcb)) {
        tcb->due |= TCP_DUE_SYN;
        tcb->is_syn_resent = true;
    } else {
        const struct tcp_sent *first = tcp_scoreboard_at(sb, 0);
        if (first != NULL && first->condition == TCP_SENT_SACKED) {
            tcp_scoreboard_forget_sacks(sb); // RFC 2018 section 8: it has reneged
        }
        tcb->loss.dup_acks = 0;
        tcp_loss_forget_probe(&tcb->loss);
        tcp_loss_on_timeout(&tcb->loss, sb, true, &tcb->rtt, now);
        tcp_recovery_on_timeout(&tcb->recovery, &tcb->cc, tcb->snd.una, tcb->snd.nxt);
        TRACE(tcb->config.trace, TRACE_TCP, "%u-%u time-out, %u of %u octets lost",
              tcb->config.local_port, tcb->config.remote_port, sb->lost_len, sb->flight_len);
    }
    tcp_rtt_back_off(&tcb->rtt);
    tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    set_send(tcb, TCP_SEND_RTO, tcb->rto_at);
}

// RFC 8985 section 7.3: whether a probe may go or not, the time-out runs from here.
static void on_probe(struct tcb *tcb, instant_ns now)
{
    if (tcp_loss_may_probe(&tcb->loss)) {
        tcb->due |= TCP_DUE_LOSS_PROBE;
    }
    tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    set_send(tcb, TCP_SEND_RTO, tcb->rto_at);
}

// RFC 9293 sections 3.8.6.1 and 3.8.6.2.1: asks, or sends less than it would like to.
static void on_persist(struct tcb *tcb)
{
    bool is_shut = tcb->snd.una + tcb->snd.wnd <= tcb->snd.nxt;
    tcb->due |= is_shut ? TCP_DUE_WINDOW_PROBE : TCP_DUE_OVERRIDE;
    tcb->persist_backoff++;
}

static void on_send_timer(struct tcb *tcb, instant_ns now)
{
    enum tcp_send_timer what = tcb->timers.send;
    stop(tcb, TCP_TIMER_SEND);
    switch (what) {
    case TCP_SEND_RTO:
        on_rto(tcb, now);
        break;
    case TCP_SEND_REORDER:
        tcp_on_reorder_timer(tcb, now);
        break;
    case TCP_SEND_PROBE:
        on_probe(tcb, now);
        break;
    case TCP_SEND_PERSIST:
        on_persist(tcb);
        break;
    }
}

static void on_user_timer(struct tcb *tcb, instant_ns now)
{
    instant_ns end = instant_after(tcb->progress_at, tcb->config.user_timeout_ns);
    if (tcp_is_synchronized(tcb) && now < end) {
        set(tcb, TCP_TIMER_USER, end);
    } else {
        give_up(tcb);
    }
}

// A peer that lives may not be run for a while, on a machine that has other work.
#define DOUBT_WAIT_MIN_NS (200 * NS_PER_MS)

// One question more; the first may be answered within a time-out, the next within two, then four.
static void ask_in_doubt(struct tcb *tcb, instant_ns now)
{
    enum { DOUBT_QUESTIONS = 3 };
    struct tcp_rtt rtt = tcb->rtt; // as it was before anything was lost
    tcp_rtt_end_back_off(&rtt);
    duration_ns wait = tcp_rtt_rto(&rtt);
    wait = wait > DOUBT_WAIT_MIN_NS ? wait : DOUBT_WAIT_MIN_NS;
    if (tcb->keepalives >= DOUBT_QUESTIONS) {
        give_up(tcb);
        return;
    }
    set(tcb, TCP_TIMER_KEEPALIVE, now + (wait << tcb->keepalives));
    tcb->keepalives++;
    tcb->due |= TCP_DUE_KEEPALIVE;
}

void tcp_doubt(struct tcb *tcb, instant_ns now)
{
    if (tcp_is_synchronized(tcb) && tcb->state != TCP_STATE_TIME_WAIT && !tcb->is_doubted) {
        tcb->is_doubted = true;
        tcb->keepalives = 0;
        ask_in_doubt(tcb, now);
    }
}

static void on_keepalive_timer(struct tcb *tcb, instant_ns now)
{
    if (tcb->is_doubted) {
        ask_in_doubt(tcb, now);
        return;
    }
    if (tcb->config.keepalive_idle_ns == 0) { // it was doubted, and has answered
        stop(tcb, TCP_TIMER_KEEPALIVE);
        return;
    }
    instant_ns begin = instant_after(tcb->heard_at, tcb->config.keepalive_idle_ns);
    if (now < begin || tcb->scoreboard.count > 0) {
        set(tcb, TCP_TIMER_KEEPALIVE,
            now < begin ? begin : instant_after(now, tcb->config.keepalive_idle_ns));
    } else if (tcb->keepalives >= tcb->config.keepalive_count) {
        give_up(tcb);
    } else {
        tcb->keepalives++;
        tcb->due |= TCP_DUE_KEEPALIVE;
        set(tcb, TCP_TIMER_KEEPALIVE, instant_after(now, tcb->config.keepalive_interval_ns));
    }
}

static bool is_due(const struct tcb *tcb, enum tcp_timer timer, instant_ns now)
{
    return tcb->timers.at[timer] <= now;
}

instant_ns tcp_next_deadline(const struct tcb *tcb)
{
    return tcp_timers_next(&tcb->timers);
}

void tcp_on_deadline(struct tcb *tcb, instant_ns now)
{
    if (is_due(tcb, TCP_TIMER_DELAYED_ACK, now)) {
        stop(tcb, TCP_TIMER_DELAYED_ACK);
        tcb->due |= TCP_DUE_ACK;
    }
    if (is_due(tcb, TCP_TIMER_SEND, now)) {
        on_send_timer(tcb, now);
    }
    if (is_due(tcb, TCP_TIMER_KEEPALIVE, now)) {
        on_keepalive_timer(tcb, now);
    }
    if (is_due(tcb, TCP_TIMER_USER, now)) {
        on_user_timer(tcb, now);
    }
    if (is_due(tcb, TCP_TIMER_TIME_WAIT, now)) {
        tcp_enter(tcb, TCP_ON_2MSL, now);
    }
}

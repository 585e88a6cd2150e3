// What is done when a timer of a connection runs out.
#include <errno.h>

#include "base/check.h"
#include "base/trace.h"
#include "tcp/internal.h"
#include "tcp/state.h"

static void give_up(struct tcb *tcb)
{
    tcp_owe_reset(tcb); // the peer, should it be there after all, is told
    tcp_end(tcb, TCP_ON_TIMEOUT, tcb->soft_error != 0 ? tcb->soft_error : -ETIMEDOUT);
}

// What leaves again is shorter then. Where a message says why nobody answers it is no hole.
static void look_for_black_hole(struct tcb *tcb, instant_ns now)
{
    const struct tcp_sent *first = tcp_scoreboard_at(&tcb->scoreboard, 0);
    if (first == NULL || tcb->soft_error != 0) {
        return;
    }
    uint32_t options_len = tcb->agreed.mss - tcp_emss(tcb);
    uint32_t len = (uint32_t)(first->end - first->seq) + options_len;
    uint16_t mss = tcp_black_hole_on_timeout(&tcb->black_hole, tcb->snd.una, len, tcb->agreed.mss,
                                             tcb->config.mss_unsaid, now);
    if (mss != 0) {
        tcb->counters.black_holes++;
        tcp_lessen_mss(tcb, mss);
        TRACE(tcb->config.trace, TRACE_TCP, "%u-%u segments of %u are swallowed, or all; now of %u",
              tcb->config.local_port, tcb->config.remote_port, len, mss);
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
        look_for_black_hole(tcb, now);
        tcb->loss.dup_acks = 0;
        tcb->due &= ~(unsigned)TCP_DUE_LOSS_PROBE;
        tcp_loss_forget_probe(&tcb->loss);
        tcp_loss_on_timeout(&tcb->loss, sb, &tcb->rtt, now);
        tcp_recovery_on_timeout(&tcb->recovery, &tcb->cc, tcb->snd.una, tcb->snd.nxt);
        tcp_ecn_on_reduced(&tcb->ecn, tcb->snd.nxt);
        TRACE(tcb->config.trace, TRACE_TCP, "%u-%u time-out, %u of %u octets lost",
              tcb->config.local_port, tcb->config.remote_port, sb->lost_len, sb->flight_len);
    }
    tcp_rtt_back_off(&tcb->rtt);
    tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    tcp_timers_set_send(&tcb->timers, TCP_SEND_RTO, tcb->rto_at);
}

// RFC 8985 section 7.3: whether a probe may go or not, the time-out runs from here.
static void on_probe(struct tcb *tcb, instant_ns now)
{
    if (tcp_loss_may_probe(&tcb->loss)) {
        tcb->due |= TCP_DUE_LOSS_PROBE;
    }
    tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    tcp_timers_set_send(&tcb->timers, TCP_SEND_RTO, tcb->rto_at);
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
    tcp_timers_stop(&tcb->timers, TCP_TIMER_SEND);
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
        tcp_timers_set(&tcb->timers, TCP_TIMER_USER, end);
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
    tcp_timers_set(&tcb->timers, TCP_TIMER_KEEPALIVE, now + (wait << tcb->keepalives));
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
        tcp_timers_stop(&tcb->timers, TCP_TIMER_KEEPALIVE);
        return;
    }
    instant_ns begin = instant_after(tcb->heard_at, tcb->config.keepalive_idle_ns);
    if (now < begin || tcb->scoreboard.count > 0) {
        tcp_timers_set(&tcb->timers, TCP_TIMER_KEEPALIVE,
                       now < begin ? begin : instant_after(now, tcb->config.keepalive_idle_ns));
    } else if (tcb->keepalives >= tcb->config.keepalive_count) {
        give_up(tcb);
    } else {
        tcb->keepalives++;
        tcb->due |= TCP_DUE_KEEPALIVE;
        tcp_timers_set(&tcb->timers, TCP_TIMER_KEEPALIVE,
                       instant_after(now, tcb->config.keepalive_interval_ns));
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
        tcp_timers_stop(&tcb->timers, TCP_TIMER_DELAYED_ACK);
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

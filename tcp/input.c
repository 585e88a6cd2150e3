// SEGMENT ARRIVES (RFC 9293 section 3.10.7): one function per step, in the order of the section.
#include <errno.h>

#include "base/check.h"
#include "base/serial.h"
#include "base/trace.h"
#include "tcp/acceptable.h"
#include "tcp/agree.h"
#include "tcp/ecn.h"
#include "tcp/internal.h"
#include "tcp/state.h"
#include "wire/ip.h"
#include "wire/tcp.h"

#define TS_RECENT_MAX_AGE_NS (24 * 24 * 3600 * NS_PER_S) // RFC 7323 section 5.5

static bool has(const struct tcp_segment *segment, uint8_t flag)
{
    return (segment->header.flags & flag) != 0;
}

// SEG.LEN: octets of the sequence space that it takes.
static uint64_t segment_len(const struct tcp_segment *segment)
{
    return segment->payload.len + has(segment, TCP_SYN) + has(segment, TCP_FIN);
}

/* ---- timestamps (RFC 7323 section 5) --------------------------------------------------------- */

static enum tcp_refusal check_timestamp(const struct tcb *tcb, const struct tcp_segment *segment,
                                        instant_ns now)
{
    const struct tcp_options *o = &segment->header.options;
    if (!tcb->agreed.timestamps || has(segment, TCP_RST)) {
        return TCP_TAKEN;
    }
    if (!o->has_timestamps) {
        return TCP_REFUSED_NO_TIMESTAMP;
    }
    bool is_old = serial_before(o->ts_value, tcb->ts.recent) &&
                  now - tcb->ts.recent_at < TS_RECENT_MAX_AGE_NS;
    return is_old ? TCP_REFUSED_OLD_TIMESTAMP : TCP_TAKEN;
}

static void take_timestamp(struct tcb *tcb, const struct tcp_segment *segment, tcp_seq seq,
                           instant_ns now)
{
    const struct tcp_options *o = &segment->header.options;
    if (tcb->agreed.timestamps && o->has_timestamps && seq <= tcb->ts.last_ack_sent) {
        tcb->ts.recent = o->ts_value;
        tcb->ts.recent_at = now;
    }
}

/* ---- octets and FIN -------------------------------------------------------------------------- */

static bool may_receive(enum tcp_state state)
{
    return state == TCP_STATE_ESTABLISHED || state == TCP_STATE_FIN_WAIT_1 ||
           state == TCP_STATE_FIN_WAIT_2;
}

// When to acknowledge (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2): at once what is out of
// order, fills a hole or came twice, and every second segment; else in a moment.
static void owe_ack(struct tcb *tcb, bool is_at_once, instant_ns now)
{
    tcb->unacked_count++;
    if (is_at_once || tcb->unacked_count >= 2 || tcb->config.delayed_ack_ns == 0) {
        tcb->due |= TCP_DUE_ACK;
    } else {
        tcb->timers.at[TCP_TIMER_DELAYED_ACK] =
            instant_min(tcb->timers.at[TCP_TIMER_DELAYED_ACK], now + tcb->config.delayed_ack_ns);
    }
}

// RFC 3168 section 6.1.3. Returns whether the sender should hear of it at once.
static bool take_mark(struct tcb *tcb, const struct tcp_segment *segment)
{
    bool is_marked = segment->ecn == IP_ECN_CE;
    tcb->counters.marks += is_marked;
    return tcp_ecn_on_octets(&tcb->ecn, segment->header.flags, is_marked);
}

// Seventh step.
static enum tcp_refusal take_octets(struct tcb *tcb, const struct tcp_segment *segment, tcp_seq seq,
                                    instant_ns now)
{
    if (segment->payload.len == 0) {
        return TCP_TAKEN;
    }
    if (!may_receive(tcb->state)) {
        tcb->due |= TCP_DUE_ACK;
        return TCP_REFUSED_DATA_AFTER_FIN;
    }
    bool had_holes = tcp_receive_has_holes(&tcb->rcv);
    bool has_ecn_news = take_mark(tcb, segment);
    enum tcp_refusal refusal = tcp_receive_octets(&tcb->rcv, seq, segment->payload);
    bool is_plain = refusal == TCP_TAKEN && !had_holes && !tcp_receive_has_holes(&tcb->rcv) &&
                    tcb->rcv.dsack_count == 0 && !tcb->rcv.is_stalled;
    owe_ack(tcb, !is_plain || has_ecn_news, now);
    return refusal;
}

// Eighth step. A FIN that arrives beyond a hole is held.
static enum tcp_refusal take_fin(struct tcb *tcb, const struct tcp_segment *segment, tcp_seq seq,
                                 instant_ns now)
{
    enum tcp_refusal refusal = TCP_TAKEN;
    tcp_seq fin = seq + segment->payload.len;
    if (has(segment, TCP_FIN)) {
        tcb->due |= TCP_DUE_ACK;
        if (fin <= tcb->rcv.edge) {
            refusal = tcp_receive_fin(&tcb->rcv, fin);
        }
    }
    if (tcp_receive_fin_is_reached(&tcb->rcv) && may_receive(tcb->state)) {
        tcb->due |= TCP_DUE_ACK;
        tcp_enter(tcb, TCP_ON_FIN, now);
        if (tcp_receive_fin_is_handed(&tcb->rcv)) {
            tcb->events |= TCP_EVENT_FIN;
        }
    }
    return refusal;
}

static enum tcp_refusal take_text(struct tcb *tcb, const struct tcp_segment *segment, tcp_seq seq,
                                  instant_ns now)
{
    enum tcp_refusal refusal = take_octets(tcb, segment, seq, now);
    enum tcp_refusal fin_refusal = take_fin(tcb, segment, seq, now);
    return refusal != TCP_TAKEN ? refusal : fin_refusal;
}

/* ---- SYN-SENT (section 3.10.7.3) ------------------------------------------------------------- */

static void take_syn(struct tcb *tcb, const struct tcp_segment *segment, instant_ns now)
{
    const struct tcp_header *h = &segment->header;
    tcb->agreed = tcp_agree(&tcb->config, &h->options);
    tcp_set_mss(tcb, tcb->agreed.mss);
    tcp_receive_begin(&tcb->rcv, h->seq);
    tcp_receive_on_window_sent(&tcb->rcv, tcp_syn_window(&tcb->config));
    tcb->ts.recent = h->options.ts_value;
    tcb->ts.recent_at = now;
    tcb->ts.last_ack_sent = tcb->rcv.nxt;
    tcp_update_window(tcb, h, 0);
}

// Our SYN is acknowledged, by one of theirs or by an ACK.
static void on_syn_acked(struct tcb *tcb, instant_ns now)
{
    tcb->snd.una = tcb->snd.iss + 1;
    tcb->rto_at = tcb->timers.at[TCP_TIMER_SEND] = INSTANT_NEVER;
    tcb->progress_at = now;
    if (tcb->is_syn_resent) {
        tcp_rtt_on_syn_lost(&tcb->rtt);
    } else if (tcb->is_opener) { // a listener has measured already
        tcp_rtt_on_sample(&tcb->rtt, now - tcb->syn_sent_at);
        tcp_rtt_on_least(&tcb->rtt, now - tcb->syn_sent_at, now);
    }
}

static enum tcp_refusal on_segment_syn_sent(struct tcb *tcb, const struct tcp_segment *segment,
                                            instant_ns now)
{
    tcp_seq ack = tcp_seq_near(tcb->snd.una, segment->header.ack);
    if (has(segment, TCP_ACK) && ack != tcb->snd.nxt) {
        tcp_owe_reset_for(tcb, segment);
        return TCP_REFUSED_BAD_SYN_ACK;
    }
    if (has(segment, TCP_RST)) {
        if (has(segment, TCP_ACK)) {
            tcp_end(tcb, TCP_ON_RESET, -ECONNREFUSED);
            return TCP_TAKEN;
        }
        return TCP_REFUSED_BAD_RST;
    }
    if (!has(segment, TCP_SYN)) {
        return TCP_REFUSED_NOT_SYN;
    }
    take_syn(tcb, segment, now);
    bool has_asked = tcp_ecn_syn_flags(&tcb->config, tcb->is_syn_resent) != 0;
    if (!has(segment, TCP_ACK)) { // both opened at the same time
        tcb->ecn.is_agreed =
            has_asked && tcp_ecn_syn_ack_flags(&tcb->config, segment->header.flags) != 0;
        tcb->due |= TCP_DUE_SYN;
        tcp_enter(tcb, TCP_ON_SYN, now);
        return TCP_TAKEN;
    }
    tcb->ecn.is_agreed = has_asked && tcp_ecn_is_syn_ack(segment->header.flags);
    on_syn_acked(tcb, now);
    tcb->due |= TCP_DUE_ACK;
    tcp_enter(tcb, TCP_ON_SYN_ACK, now);
    return take_text(tcb, segment, tcb->rcv.first, now);
}

/* ---- the other states (section 3.10.7.4) ----------------------------------------------------- */

// First step failed, or PAWS. The peer is told where we are; segments without octets are answered a
// few times in a second only, since two who disagree might go on for ever.
static void answer_unacceptable(struct tcb *tcb, const struct tcp_segment *segment, tcp_seq seq,
                                instant_ns now)
{
    if (has(segment, TCP_RST)) {
        return;
    }
    if (segment->payload.len == 0) {
        tcp_owe_challenge(tcb, now);
    } else {
        tcp_receive_note_duplicate(&tcb->rcv, seq, seq + segment->payload.len);
        tcb->due |= TCP_DUE_ACK;
    }
    if (tcb->state == TCP_STATE_TIME_WAIT && has(segment, TCP_FIN)) {
        tcb->due |= TCP_DUE_ACK;
        tcp_timers_on_time_wait(tcb, now); // the ACK of it was lost
    }
}

// Second step (RFC 5961 section 3.2).
static enum tcp_refusal on_rst(struct tcb *tcb, tcp_seq seq, instant_ns now)
{
    if (tcp_rst_judge(seq, tcb->rcv.nxt, tcb->rcv.edge) != TCP_RST_EXACT) {
        tcp_owe_challenge(tcb, now);
        return TCP_REFUSED_BAD_RST;
    }
    bool is_refused = tcb->state == TCP_STATE_SYN_RECEIVED;
    bool is_over_anyway = tcb->state == TCP_STATE_TIME_WAIT;
    tcp_end(tcb, TCP_ON_RESET, is_over_anyway ? 0 : is_refused ? -ECONNREFUSED : -ECONNRESET);
    return TCP_TAKEN;
}

// Fifth step, up to where the ACK is believed (RFC 5961 section 5.2).
static enum tcp_refusal check_ack(struct tcb *tcb, const struct tcp_segment *segment,
                                  instant_ns now)
{
    tcp_seq ack = tcp_seq_near(tcb->snd.una, segment->header.ack);
    if (!has(segment, TCP_ACK)) {
        return TCP_REFUSED_NO_ACK;
    }
    if (tcb->state == TCP_STATE_SYN_RECEIVED) {
        if (ack != tcb->snd.nxt) {
            tcp_owe_reset_for(tcb, segment);
            return TCP_REFUSED_BAD_SYN_ACK;
        }
        on_syn_acked(tcb, now);
        tcp_update_window(tcb, &segment->header, tcb->agreed.snd_scale);
        tcp_enter(tcb, TCP_ON_ACK_OF_SYN, now);
        return TCP_TAKEN;
    }
    switch (tcp_ack_judge(ack, tcb->snd.una, tcb->snd.nxt, tcb->snd.max_wnd)) {
    case TCP_ACK_OLD:
        tcp_owe_challenge(tcb, now);
        return TCP_REFUSED_ACK_TOO_OLD;
    case TCP_ACK_NEW:
        tcp_owe_challenge(tcb, now);
        return TCP_REFUSED_ACK_TOO_NEW;
    default:
        return TCP_TAKEN;
    }
}

static enum tcp_refusal on_segment_other(struct tcb *tcb, const struct tcp_segment *segment,
                                         instant_ns now)
{
    tcp_seq seq = tcp_seq_near(tcb->rcv.nxt, segment->header.seq);
    enum tcp_refusal refusal = check_timestamp(tcb, segment, now);
    if (refusal == TCP_REFUSED_NO_TIMESTAMP) {
        return refusal; // RFC 7323 section 3.2: in silence
    }
    // A shut window admits no octets, but what else the segment that probes it says.
    bool is_probe = tcb->rcv.edge <= tcb->rcv.nxt && seq == tcb->rcv.nxt;
    if (refusal == TCP_TAKEN && !is_probe &&
        !tcp_segment_is_acceptable(seq, segment_len(segment), tcb->rcv.nxt, tcb->rcv.edge)) {
        refusal = TCP_REFUSED_NOT_ACCEPTABLE;
    }
    if (refusal != TCP_TAKEN) {
        answer_unacceptable(tcb, segment, seq, now);
        return refusal;
    }
    tcb->heard_at = now;
    tcb->keepalives = 0;
    tcb->is_doubted = false;
    if (has(segment, TCP_RST)) {
        return on_rst(tcb, seq, now);
    }
    if (has(segment, TCP_SYN)) { // fourth step (RFC 5961 section 4.2)
        tcp_owe_challenge(tcb, now);
        return TCP_REFUSED_BAD_SYN;
    }
    refusal = check_ack(tcb, segment, now);
    if (refusal != TCP_TAKEN) {
        return refusal;
    }
    take_timestamp(tcb, segment, seq, now);
    tcp_on_ack(tcb, segment, now);
    if (tcb->state == TCP_STATE_CLOSED) {
        return TCP_TAKEN;
    }
    return take_text(tcb, segment, seq, now);
}

// Both opened at the same time, and the peer answers our SYN as we answer its own (section 3.5,
// figure 7).
static bool is_crossed_syn_ack(const struct tcb *tcb, const struct tcp_segment *segment)
{
    return tcb->state == TCP_STATE_SYN_RECEIVED && has(segment, TCP_SYN) && has(segment, TCP_ACK) &&
           !has(segment, TCP_RST) && segment->header.ack == tcp_seq_wire(tcb->snd.nxt) &&
           segment->header.seq + 1 == tcp_seq_wire(tcb->rcv.first);
}

// It counts as the ACK of our SYN. The peer gets one in turn: it may wait for that alone.
static enum tcp_refusal on_crossed_syn_ack(struct tcb *tcb, const struct tcp_segment *segment,
                                           instant_ns now)
{
    struct tcp_segment ack = *segment;
    tcb->ecn.is_agreed &= tcp_ecn_is_syn_ack(segment->header.flags);
    ack.header.flags &= (uint8_t) ~(TCP_SYN | TCP_ECE | TCP_CWR);
    ack.header.seq++;
    ack.header.window >>= tcb->agreed.snd_scale; // that of a SYN is not scaled
    tcb->due |= TCP_DUE_ACK;
    return on_segment_other(tcb, &ack, now);
}

enum tcp_refusal tcp_on_segment(struct tcb *tcb, const struct tcp_segment *segment, instant_ns now)
{
    enum tcp_refusal refusal;
    tcb->counters.segments_in++;
    if (tcb->state == TCP_STATE_CLOSED) {
        refusal = TCP_REFUSED_OVER;
    } else if (tcb->state == TCP_STATE_SYN_SENT) {
        refusal = on_segment_syn_sent(tcb, segment, now);
    } else if (is_crossed_syn_ack(tcb, segment)) {
        refusal = on_crossed_syn_ack(tcb, segment, now);
    } else {
        refusal = on_segment_other(tcb, segment, now);
    }
    if (refusal != TCP_TAKEN) {
        tcb->counters.refusals[refusal]++;
        TRACE(tcb->config.trace, TRACE_TCP, "%u-%u refused %s: seq %u ack %u len %zu",
              tcb->config.local_port, tcb->config.remote_port, tcp_refusal_name(refusal),
              segment->header.seq, segment->header.ack, segment->payload.len);
    }
    return refusal;
}

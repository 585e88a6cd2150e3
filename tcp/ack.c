// What an acknowledgement says about the send side: what has arrived, what is lost, how much more
// may go (RFC 9293 section 3.10.7.4, fifth step; RFC 5681, 6675, 8985).
#include "base/check.h"
#include "base/trace.h"
#include "tcp/internal.h"
#include "tcp/rack.h"
#include "tcp/state.h"
#include "wire/tcp.h"

// One ACK, as it is worked through.
struct ack {
    struct tcb *tcb;
    struct tcp_ack_facts facts;
    uint32_t pipe;          // before it
    uint32_t lost_len;      // before it
    uint32_t delivered_len; // newly arrived with it
    bool is_una_moved;
    bool is_duplicate; // in the sense of RFC 5681 section 2
    bool has_echo;     // of a mark (RFC 3168)
    bool has_new_echo; // ... that nothing has been done about
    tcp_seq dsack_left, dsack_right;
};

/* ---- what it says ---------------------------------------------------------------------------- */

// RFC 2883 section 4: the first block repeats what is acknowledged, or lies in the second.
static bool is_dsack(const struct tcp_options *o, tcp_seq left, tcp_seq right, tcp_seq ack)
{
    if (left < ack && right <= ack) {
        return true;
    }
    return o->sack_count > 1 && left >= tcp_seq_near(ack, o->sack[1].left) &&
           right <= tcp_seq_near(ack, o->sack[1].right);
}

static void take_sack(struct ack *a, const struct tcp_delivery_port *port,
                      const struct tcp_options *o, tcp_seq ack)
{
    struct tcb *tcb = a->tcb;
    for (unsigned i = 0; i < o->sack_count; i++) {
        tcp_seq left = tcp_seq_near(ack, o->sack[i].left);
        tcp_seq right = tcp_seq_near(ack, o->sack[i].right);
        if (left >= right || right > tcb->snd.nxt || left <= tcb->snd.iss) {
            tcb->counters.refusals[TCP_REFUSED_BAD_SACK]++;
        } else if (i == 0 && is_dsack(o, left, right, ack)) {
            a->facts.has_dsack = true;
            a->dsack_left = left;
            a->dsack_right = right;
        } else if (right > ack) {
            a->delivered_len +=
                tcp_scoreboard_sack(&tcb->scoreboard, tcp_seq_max(left, ack), right, port);
        }
    }
}

static void advance_una(struct ack *a, const struct tcp_delivery_port *port, tcp_seq ack)
{
    struct tcb *tcb = a->tcb;
    a->delivered_len += tcp_scoreboard_ack(&tcb->scoreboard, ack, port);
    a->is_una_moved = true;
    tcb->snd.una = ack;
    tcp_sendq_ack(&tcb->sendq, tcp_seq_min(ack, tcb->sendq.end));
    tcb->events |= TCP_EVENT_ACKED;
    tcb->progress_at = a->facts.now;
    tcb->soft_error = 0;
}

// A duplicate ACK: something outstanding, no octets, nothing new in it (RFC 5681 section 2).
static bool is_duplicate(const struct tcb *tcb, const struct tcp_segment *segment, tcp_seq ack)
{
    const struct tcp_header *h = &segment->header;
    return tcb->scoreboard.count > 0 && segment->payload.len == 0 &&
           (h->flags & (TCP_SYN | TCP_FIN)) == 0 && ack == tcb->snd.una &&
           (uint32_t)h->window << tcb->agreed.snd_scale == tcb->snd.wnd;
}

// A shut window is no silence (RFC 9293, MUST-37), unless the user bounds it; that it opens is
// progress in any case.
static void note_window_progress(struct tcb *tcb, tcp_seq edge_before, instant_ns now)
{
    const struct tcp_send *snd = &tcb->snd;
    bool has_opened = edge_before <= snd->nxt && snd->una + snd->wnd > edge_before;
    bool is_waited_for = snd->wnd == 0 && !tcb->config.user_timeout_when_shut;
    if (has_opened || is_waited_for) {
        tcb->progress_at = now;
    }
}

void tcp_update_window(struct tcb *tcb, const struct tcp_header *h, uint8_t scale)
{
    struct tcp_send *snd = &tcb->snd;
    tcp_seq seq = tcp_seq_near(tcb->rcv.nxt, h->seq), ack = tcp_seq_near(snd->una, h->ack);
    if (snd->wl1 < seq || (snd->wl1 == seq && snd->wl2 <= ack)) {
        snd->wnd = (uint32_t)h->window << scale;
        snd->wl1 = seq;
        snd->wl2 = ack;
        snd->max_wnd = snd->wnd > snd->max_wnd ? snd->wnd : snd->max_wnd;
    }
}

// What was sent twice is measured with the timestamp that comes back (RFC 7323 section 4), in
// milliseconds: where the round trip is known to be shorter than one, that tells only that there
// was one (0). Returns whether there was.
static bool rtt_by_timestamp(const struct ack *a, duration_ns *ret)
{
    const struct tcb *tcb = a->tcb;
    uint32_t ms = tcp_ts_now(tcb, a->facts.now) - a->facts.ts_echo;
    bool is_finer_known = tcb->rtt.srtt_ns != 0 && tcb->rtt.srtt_ns < NS_PER_MS;
    *ret = ms > 1 ? ms * NS_PER_MS : is_finer_known ? 0 : NS_PER_MS;
    return a->is_una_moved && a->facts.has_ts_echo && *ret <= TCP_RTO_MAX_NS;
}

// Nothing is learned from what waited for a timer of ours: its ACK was lost and comes with a
// probe's, or with a D-SACK for what was sent again in vain.
static bool measure_rtt(const struct ack *a, duration_ns *ret)
{
    if (a->facts.has_waited || a->facts.has_dsack) {
        return false;
    }
    if (!a->facts.has_rtt || a->facts.has_resent) {
        return rtt_by_timestamp(a, ret);
    }
    *ret = a->facts.longest_rtt_ns;
    return true;
}

static void take_rtt(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    const struct tcp_ack_facts *f = &a->facts;
    duration_ns sample;
    if (f->has_rtt) {
        tcp_rtt_on_least(&tcb->rtt, f->shortest_rtt_ns, f->now);
    }
    if (!measure_rtt(a, &sample)) {
        return;
    }
    tcb->loss.tlp.has_new_rtt = true;
    bool is_due = tcb->snd.una > tcb->rtt_sampled_to || tcb->rtt.srtt_ns == 0; // once a round trip
    if (is_due && sample > 0) {
        if (tcp_recovery_on_round_trip(&tcb->recovery, tcb->snd.una)) {
            tcp_rtt_on_spurious_timeout(&tcb->rtt, f->has_rtt ? f->shortest_rtt_ns : sample);
        } else {
            tcp_rtt_on_sample(&tcb->rtt, sample);
        }
        tcb->rtt_sampled_to = tcb->snd.nxt;
    }
    if (a->is_una_moved) {
        tcp_rtt_end_back_off(&tcb->rtt);
    }
}

/* ---- what follows ---------------------------------------------------------------------------- */

// Without SACK (RFC 6582): three duplicates tell of one loss, unless losses are repaired already,
// and each ACK that does not end the recovery of the next.
static void detect_without_sack(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    struct tcp_sent *first = tcp_scoreboard_at(&tcb->scoreboard, 0);
    bool is_third = a->is_duplicate && tcp_loss_on_dup_ack(&tcb->loss);
    bool is_first_lost = is_third && !tcp_recovery_repairs(&tcb->recovery);
    if (a->is_una_moved) {
        unsigned acked = a->delivered_len / tcb->cc.mss;
        bool is_partial = tcb->recovery.phase == TCP_PHASE_FAST; // it would be over otherwise
        tcb->loss.dup_acks -= acked < tcb->loss.dup_acks ? acked : tcb->loss.dup_acks;
        tcb->loss.dup_acks = is_partial ? tcb->loss.dup_acks : 0;
        is_first_lost = is_partial && (first == NULL || !first->was_retransmitted);
    }
    if (is_first_lost && first != NULL && first->condition == TCP_SENT_IN_NETWORK) {
        tcp_scoreboard_mark_lost(&tcb->scoreboard, first);
    }
}

static duration_ns detect(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    if (!tcb->agreed.sack) {
        detect_without_sack(a);
        return 0;
    }
    return tcp_loss_detect(&tcb->loss, &tcb->scoreboard, tcp_recovery_repairs(&tcb->recovery),
                           &tcb->rtt, a->facts.now);
}

// More is lost than `lost_before`: what is to be sent again gets the time it needs (RFC 6675
// section 5), and the first loss of a round trip begins a recovery. `delivered_len` has newly
// arrived.
static void react_to_loss(struct tcb *tcb, uint32_t lost_before, uint32_t delivered_len,
                          instant_ns now)
{
    struct tcp_scoreboard *sb = &tcb->scoreboard;
    if (sb->lost_len <= lost_before) {
        return;
    }
    tcb->rto_at = now + tcp_rtt_rto(&tcb->rtt);
    if (!tcp_recovery_repairs(&tcb->recovery)) {
        tcb->counters.recoveries++;
        tcp_loss_forget_probe(&tcb->loss);
        if (tcp_recovery_enter(&tcb->recovery, &tcb->cc, tcb->snd.una, tcb->snd.nxt,
                               sb->flight_len - sb->sacked_len + delivered_len)) {
            tcp_ecn_on_reduced(&tcb->ecn, tcb->snd.nxt);
        }
        TRACE(tcb->config.trace, TRACE_TCP, "%u-%u fast recovery, %u of %u octets lost",
              tcb->config.local_port, tcb->config.remote_port, sb->lost_len, sb->flight_len);
    }
}

void tcp_note_pipe(struct tcb *tcb)
{
    uint32_t pipe = tcp_pipe(tcb);
    tcb->usage.pipe_max = pipe > tcb->usage.pipe_max ? pipe : tcb->usage.pipe_max;
}

// The most that was in the network at a time, over this round trip and the one before (RFC 7661
// section 4.5.2): the pipe of the moment runs dry while the answer to a burst comes in.
static uint32_t pipe_of_round_trip(struct tcb *tcb)
{
    struct tcp_usage *u = &tcb->usage;
    uint32_t most = u->pipe_max > u->pipe_max_before ? u->pipe_max : u->pipe_max_before;
    if (tcb->snd.una >= u->round_end) {
        u->round_end = tcb->snd.nxt;
        u->pipe_max_before = u->pipe_max;
        u->pipe_max = tcp_pipe(tcb);
    }
    return most;
}

// RFC 9293 section 3.8.5 and RFC 7661: a window that was not used does not grow.
static bool is_cwnd_limited(const struct tcp_cc *cc, uint32_t pipe)
{
    return tcp_cc_is_slow_start(cc) ? 2 * (uint64_t)pipe >= cc->cwnd : pipe + cc->mss > cc->cwnd;
}

static void note_round_trip(struct ack *a, bool is_limited)
{
    struct tcb *tcb = a->tcb;
    if (a->facts.has_rtt && tcp_cc_on_round_trip(&tcb->cc, a->facts.shortest_rtt_ns, is_limited,
                                                 tcb->snd.una, tcb->snd.nxt)) {
        tcb->counters.slow_starts_ended++;
        TRACE(tcb->config.trace, TRACE_TCP, "%u-%u slow start is over at %u octets, by round trips",
              tcb->config.local_port, tcb->config.remote_port, tcb->cc.cwnd);
    }
}

// The ACK that ends a recovery sets the window and does not make it grow.
static void control_congestion(struct ack *a, bool has_ended)
{
    struct tcb *tcb = a->tcb;
    bool has_lost = tcb->scoreboard.lost_len > a->lost_len;
    uint32_t pipe = pipe_of_round_trip(tcb);
    if (tcp_recovery_shrinks(&tcb->recovery)) {
        uint32_t delivered = a->delivered_len;
        if (!tcb->agreed.sack && a->is_duplicate) {
            delivered = tcb->cc.mss;
        }
        tcp_recovery_on_ack(&tcb->recovery, &tcb->cc, delivered, tcp_pipe(tcb),
                            a->is_una_moved && !has_lost);
    } else if (a->is_una_moved && !has_ended) { // RFC 3042: no duplicate ACK makes it grow
        bool is_limited = is_cwnd_limited(&tcb->cc, pipe);
        note_round_trip(a, is_limited);
        tcp_cc_on_ack(&tcb->cc, a->delivered_len, is_limited, tcb->rtt.srtt_ns, a->facts.now);
    }
}

static void take_dsack(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    if (a->facts.has_dsack) {
        tcb->counters.spurious_retransmits++;
        tcp_recovery_on_dsack(&tcb->recovery, &tcb->cc, a->dsack_left, a->dsack_right);
    }
}

// Where the ACK of the original was lost, what was sent again is answered with that one's timestamp
// too, and a D-SACK. A peer that is not known to send any is believed if it waits for more (RFC
// 3522 section 3.2, step 6).
static bool is_of_original(const struct ack *a)
{
    const struct tcb *tcb = a->tcb;
    bool sends_dsack = tcb->counters.spurious_retransmits > 0;
    return !a->facts.has_dsack && (sends_dsack || tcb->scoreboard.count > 0);
}

// What a time-out took for lost turns out to be under way. That the network marks what it carries
// is a reason to leave the window small (RFC 4015 section 3.2, step 9). Returns whether the
// time-out is taken back.
static bool take_back_timeout(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    bool is_earlier = a->is_una_moved &&
                      tcp_recovery_on_echo(&tcb->recovery, a->facts.has_ts_echo, a->facts.ts_echo);
    if (!is_earlier || !is_of_original(a)) {
        return false;
    }
    tcb->counters.spurious_timeouts++;
    tcp_scoreboard_unmark_lost(&tcb->scoreboard);
    tcp_black_hole_on_late(&tcb->black_hole);
    a->lost_len = 0;
    if (a->has_echo) {
        tcp_recovery_keep_window(&tcb->recovery);
    } else {
        tcp_recovery_take_back_timeout(&tcb->recovery, &tcb->cc, a->delivered_len, tcp_pipe(tcb));
    }
    TRACE(tcb->config.trace, TRACE_TCP, "%u-%u time-out for nothing, %u octets outstanding",
          tcb->config.local_port, tcb->config.remote_port, tcb->scoreboard.flight_len);
    return !a->has_echo;
}

static void take_probe_ack(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    bool is_plain_dup = a->is_duplicate && !a->facts.has_dsack && a->delivered_len == 0;
    if (tcp_loss_on_probe_ack(&tcb->loss, tcb->snd.una, a->facts.has_dsack, is_plain_dup) &&
        tcb->recovery.phase == TCP_PHASE_OPEN) {
        tcp_ecn_on_reduced(&tcb->ecn, tcb->snd.nxt);
        tcp_cc_on_loss(&tcb->cc, a->pipe < tcb->cc.cwnd ? a->pipe : tcb->cc.cwnd);
        tcp_cc_on_recovered(&tcb->cc);
    }
}

// The peer echoes a mark: as if something had been lost, but for sending it again (RFC 3168 section
// 6.1.2).
static void react_to_mark(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    const struct tcp_scoreboard *sb = &tcb->scoreboard;
    uint32_t load_len = sb->flight_len - sb->sacked_len + a->delivered_len;
    if (a->has_new_echo && load_len > 0 &&
        tcp_recovery_on_mark(&tcb->recovery, &tcb->cc, tcb->snd.una, tcb->snd.nxt, load_len)) {
        tcb->counters.reductions_by_marks++;
        tcp_ecn_on_reduced(&tcb->ecn, tcb->snd.nxt);
        TRACE(tcb->config.trace, TRACE_TCP, "%u-%u marked, %u octets outstanding",
              tcb->config.local_port, tcb->config.remote_port, sb->flight_len);
    }
}

static void react(struct ack *a)
{
    struct tcb *tcb = a->tcb;
    take_rtt(a);
    take_dsack(a);
    take_probe_ack(a);
    bool has_ended =
        take_back_timeout(a) || tcp_recovery_on_una(&tcb->recovery, &tcb->cc, tcb->snd.una);
    tcp_rack_adapt(&tcb->loss.rack, a->facts.has_dsack, has_ended, tcb->snd.una, tcb->snd.nxt);
    duration_ns reorder_ns = detect(a);
    react_to_loss(tcb, a->lost_len, a->delivered_len, a->facts.now);
    react_to_mark(a);
    control_congestion(a, has_ended);
    tcb->counters.reordering += a->facts.has_reordering;
    tcp_timers_on_ack(tcb, a->is_una_moved, reorder_ns, a->facts.now);
}

void tcp_on_ack(struct tcb *tcb, const struct tcp_segment *segment, instant_ns now)
{
    const struct tcp_header *h = &segment->header;
    tcp_seq ack = tcp_seq_near(tcb->snd.una, h->ack);
    struct ack a = {
        .tcb = tcb,
        .facts = {.rack = &tcb->loss.rack,
                  .now = now,
                  .has_ts_echo = tcb->agreed.timestamps && h->options.has_timestamps,
                  .ts_echo = h->options.ts_echo,
                  .least_rtt_ns = tcp_rtt_least(&tcb->rtt),
                  .probe_number = tcb->loss.probe_number},
        .pipe = tcp_pipe(tcb),
        .is_duplicate = is_duplicate(tcb, segment, ack),
        .has_echo = tcp_ecn_is_echo(&tcb->ecn, h->flags),
        .has_new_echo = tcp_ecn_is_new_echo(&tcb->ecn, h->flags, ack),
    };
    struct tcp_delivery_port port = {.on_delivered = tcp_rack_on_delivered, .ctx = &a.facts};
    tcp_seq edge_before = tcb->snd.una + tcb->snd.wnd;
    tcb->counters.duplicate_acks += a.is_duplicate;
    if (ack >= tcb->snd.una) {
        tcp_update_window(tcb, h, tcb->agreed.snd_scale);
    }
    if (ack > tcb->snd.una) {
        advance_una(&a, &port, ack);
    }
    if (tcb->agreed.sack && h->options.sack_count > 0) {
        take_sack(&a, &port, &h->options, tcb->snd.una);
    }
    a.lost_len = tcb->scoreboard.lost_len;
    react(&a);
    note_window_progress(tcb, edge_before, now);
    if (tcb->snd.is_fin_sent && tcb->snd.una == tcb->snd.nxt) {
        tcp_enter(tcb, TCP_ON_ACK_OF_FIN, now);
    }
}

void tcp_on_reorder_timer(struct tcb *tcb, instant_ns now)
{
    uint32_t lost_before = tcb->scoreboard.lost_len;
    duration_ns reorder_ns = tcp_loss_detect(&tcb->loss, &tcb->scoreboard,
                                             tcp_recovery_repairs(&tcb->recovery), &tcb->rtt, now);
    react_to_loss(tcb, lost_before, 0, now);
    if (tcp_recovery_shrinks(&tcb->recovery)) {
        tcp_recovery_on_ack(&tcb->recovery, &tcb->cc, 0, tcp_pipe(tcb), false);
    }
    tcp_timers_on_ack(tcb, false, reorder_ns, now);
}

// What leaves, and why: resets, SYNs, what was lost, what is new, probes, and ACKs where nothing
// else carried them (RFC 9293 section 3.8; RFC 5681, 6675, 8985).
#include "base/check.h"
#include "tcp/agree.h"
#include "tcp/ecn.h"
#include "tcp/internal.h"
#include "tcp/state.h"
#include "wire/ip.h"
#include "wire/tcp.h"

#define TCP_IDLE_MIN_NS (200 * NS_PER_MS)

/* ---- headers --------------------------------------------------------------------------------- */

static void put_timestamps(const struct tcb *tcb, struct tcp_header *h, instant_ns now)
{
    if (tcb->agreed.timestamps) {
        h->options.has_timestamps = true;
        h->options.ts_value = tcp_ts_now(tcb, now);
        h->options.ts_echo = tcb->ts.recent;
    }
}

static struct tcp_header plain_header(const struct tcb *tcb, tcp_seq seq, uint8_t flags,
                                      instant_ns now)
{
    struct tcp_header h = {
        .src_port = tcb->config.local_port,
        .dst_port = tcb->config.remote_port,
        .seq = tcp_seq_wire(seq),
        .flags = flags,
    };
    if ((flags & TCP_ACK) != 0) {
        uint32_t window = tcp_receive_window(&tcb->rcv, tcp_emss(tcb)) >> tcb->agreed.rcv_scale;
        h.ack = tcp_seq_wire(tcb->rcv.nxt);
        h.flags |= tcb->ecn.is_echoing ? TCP_ECE : 0;
        h.window = window < UINT16_MAX ? (uint16_t)window : UINT16_MAX;
    }
    put_timestamps(tcb, &h, now);
    return h;
}

// RFC 3168 section 6.1.1.
static uint8_t syn_ecn_flags(const struct tcb *tcb)
{
    if (tcb->state == TCP_STATE_SYN_RECEIVED) {
        return tcb->ecn.is_agreed ? TCP_ECE : 0;
    }
    return tcp_ecn_syn_flags(&tcb->config, tcb->is_syn_resent);
}

static struct tcp_header syn_header(const struct tcb *tcb, instant_ns now)
{
    bool is_answer = tcb->state == TCP_STATE_SYN_RECEIVED;
    struct tcp_options o = tcp_syn_options(&tcb->config, NULL);
    if (is_answer) {
        o.sack_permitted = tcb->agreed.sack;
        o.has_timestamps = tcb->agreed.timestamps;
        o.has_scale = tcb->agreed.scale;
        o.ts_echo = tcb->ts.recent;
    }
    o.ts_value = tcp_ts_now(tcb, now);
    return (struct tcp_header){
        .src_port = tcb->config.local_port,
        .dst_port = tcb->config.remote_port,
        .seq = tcp_seq_wire(tcb->snd.iss),
        .ack = is_answer ? tcp_seq_wire(tcb->rcv.nxt) : 0,
        .flags = TCP_SYN | (is_answer ? TCP_ACK : 0) | syn_ecn_flags(tcb),
        .window = tcp_syn_window(&tcb->config),
        .options = o,
    };
}

// SACK blocks, as far as they fit beside `payload_len` octets. Returns whether all that the peer
// should hear is in.
static bool put_sack(const struct tcb *tcb, struct tcp_header *h, uint32_t payload_len)
{
    if (!tcb->agreed.sack || (tcb->rcv.dsack_count == 0 && !tcp_receive_has_holes(&tcb->rcv))) {
        return true;
    }
    unsigned max = tcb->agreed.timestamps ? TCP_SACK_BLOCK_MAX - 1 : TCP_SACK_BLOCK_MAX;
    h->options.sack_count = (uint8_t)tcp_receive_sack(&tcb->rcv, h->options.sack, max);
    if (tcp_options_len(&h->options) + payload_len > tcb->agreed.mss) {
        h->options.sack_count = 0;
        return false;
    }
    return true;
}

/* ---- sending --------------------------------------------------------------------------------- */

// What the peer has now been told with an ACK.
static void on_ack_sent(struct tcb *tcb, const struct tcp_header *h, bool is_sack_in)
{
    uint32_t window = (uint32_t)h->window
                      << ((h->flags & TCP_SYN) != 0 ? 0 : tcb->agreed.rcv_scale);
    tcp_receive_on_window_sent(&tcb->rcv, window);
    tcb->ts.last_ack_sent = tcb->rcv.nxt;
    if (is_sack_in) {
        tcp_receive_on_sack_sent(&tcb->rcv);
        if (!tcb->agreed.sack) { // one ACK is for all: more would be taken for a loss
            tcp_receive_forget_duplicates(&tcb->rcv);
        }
        tcb->due &= ~(unsigned)(TCP_DUE_ACK | TCP_DUE_CHALLENGE);
        tcb->due |= tcb->rcv.dsack_count > 0 ? TCP_DUE_ACK : 0; // each run has one of its own
        tcb->unacked_count = 0;
        tcb->timers.at[TCP_TIMER_DELAYED_ACK] = INSTANT_NEVER;
    }
}

// Hands over a batch. Returns how many of its segments were taken.
static unsigned hand_over(struct tcb *tcb, const struct tcp_port *port,
                          const struct tcp_batch *batch, bool is_sack_in)
{
    unsigned taken = port->send(port->ctx, batch);
    CHECK(taken <= batch->segment_count);
    tcb->counters.segments_out += taken;
    if (taken > 0 && (batch->header.flags & TCP_ACK) != 0) {
        on_ack_sent(tcb, &batch->header, is_sack_in);
    }
    return taken;
}

// A segment without payload that is not kept for sending again.
static bool send_bare(struct tcb *tcb, const struct tcp_port *port, tcp_seq seq,
                      enum tcp_reason reason, instant_ns now)
{
    struct tcp_batch batch = {
        .header = plain_header(tcb, seq, TCP_ACK, now),
        .reason = reason,
        .segment_count = 1,
    };
    bool is_sack_in = put_sack(tcb, &batch.header, 0);
    return hand_over(tcb, port, &batch, is_sack_in) == 1;
}

static bool send_reset(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    struct tcp_batch batch = {.header = tcb->reset, .reason = TCP_REASON_RESET, .segment_count = 1};
    put_timestamps(tcb, &batch.header, now); // RFC 7323 section 3.2: it should have them
    if (port->send(port->ctx, &batch) == 0) {
        return false;
    }
    tcb->counters.segments_out++;
    tcb->due &= ~(unsigned)TCP_DUE_RESET;
    return true;
}

static bool send_syn(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    struct tcp_batch batch = {
        .header = syn_header(tcb, now), .reason = TCP_REASON_SYN, .segment_count = 1};
    if (hand_over(tcb, port, &batch, true) == 0) {
        return false;
    }
    tcb->due &= ~(unsigned)TCP_DUE_SYN;
    tcb->syn_sent_at = tcb->is_syn_resent ? tcb->syn_sent_at : now;
    tcp_timers_on_sent(tcb, true, now);
    return true;
}

/* ---- what was sent before -------------------------------------------------------------------- */

static bool has_room_for_record(const struct tcb *tcb, unsigned count)
{
    return tcb->scoreboard.count + count < tcb->scoreboard.max;
}

// A record is longer than a segment if segments have become shorter, or SACKed ones that were
// joined turned out not to have arrived: its first segment becomes a record of its own. While all
// records are in use it stays whole, and time or what arrives behind it shows that the rest is not
// there.
static uint32_t cut_record(struct tcb *tcb, struct tcp_sent *sent, struct iovec *iov,
                           unsigned *iov_count)
{
    uint32_t len = (uint32_t)(sent->end - sent->seq) - sent->has_fin;
    unsigned hint = TCP_SENDQ_NO_HINT;
    uint32_t cut = len > 0 ? tcp_sendq_cut(&tcb->sendq, sent->seq, tcp_emss(tcb), &hint) : 0;
    uint32_t got = tcp_sendq_gather(&tcb->sendq, sent->seq, len < cut ? len : cut, iov, iov_count);
    if (got < len && has_room_for_record(tcb, 0)) {
        tcp_scoreboard_split(&tcb->scoreboard, sent, sent->seq + got);
    }
    return got;
}

// Sends a record again.
static bool resend(struct tcb *tcb, const struct tcp_port *port, struct tcp_sent *sent,
                   enum tcp_reason reason, instant_ns now)
{
    struct iovec iov[TCP_BATCH_IOV_MAX];
    unsigned iov_count = TCP_BATCH_IOV_MAX;
    tcp_seq end = sent->end;
    uint32_t len = cut_record(tcb, sent, iov, &iov_count);
    struct tcp_batch batch = {
        .header = plain_header(tcb, sent->seq, TCP_ACK, now),
        .reason = reason,
        .segment_count = 1,
        .segment_len = len,
        .payload_len = len,
        .iov = iov,
        .iov_count = iov_count,
    };
    bool is_whole = sent->seq + len + sent->has_fin == end;
    batch.header.flags |= len > 0 && sent->has_psh && is_whole ? TCP_PSH : 0;
    batch.header.flags |= sent->has_fin && is_whole ? TCP_FIN : 0;
    bool is_sack_in = put_sack(tcb, &batch.header, len);
    if (hand_over(tcb, port, &batch, is_sack_in) == 0) {
        return false;
    }
    tcb->counters.retransmits++;
    tcb->counters.octets_retransmitted += len;
    tcp_scoreboard_on_resent(&tcb->scoreboard, sent, now, tcp_ts_now(tcb, now));
    tcp_recovery_on_sent(&tcb->recovery, len);
    tcp_recovery_on_resent(&tcb->recovery, tcp_ts_now(tcb, now));
    tcp_note_pipe(tcb);
    tcp_timers_on_sent(tcb, false, now);
    return true;
}

// The next lost record that congestion control lets go.
static struct tcp_sent *next_lost(const struct tcb *tcb)
{
    struct tcp_sent *sent = tcp_scoreboard_first_lost(&tcb->scoreboard);
    uint32_t pipe = tcp_pipe(tcb), emss = tcp_emss(tcb);
    if (sent == NULL) {
        return NULL;
    }
    uint64_t len = sent->end - sent->seq;
    return pipe == 0 || pipe + (len < emss ? len : emss) <= tcb->cc.cwnd ? sent : NULL;
}

static bool resend_lost(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    struct tcp_sent *sent;
    while ((sent = next_lost(tcb)) != NULL) {
        if (!resend(tcb, port, sent, TCP_REASON_RETRANSMIT, now)) {
            return false;
        }
    }
    return true;
}

/* ---- what is new ----------------------------------------------------------------------------- */

static bool may_send_data(enum tcp_state state)
{
    return state == TCP_STATE_ESTABLISHED || state == TCP_STATE_CLOSE_WAIT ||
           state == TCP_STATE_FIN_WAIT_1 || state == TCP_STATE_CLOSING ||
           state == TCP_STATE_LAST_ACK;
}

// What the peer's window leaves of a segment of `len` octets at `seq` (RFC 9293 section 3.8.6.2.1):
// whole records if some fit; a part only if it is much of what the peer ever takes, or after a
// wait.
static uint32_t fit_window(const struct tcb *tcb, tcp_seq seq, uint32_t len)
{
    const struct tcp_send *snd = &tcb->snd;
    tcp_seq edge = snd->una + snd->wnd;
    uint32_t room = edge > seq ? (uint32_t)(edge - seq) : 0;
    if (len <= room) {
        return len;
    }
    if (room == 0) {
        return 0;
    }
    uint32_t cut = tcp_sendq_cut(&tcb->sendq, seq, room, &(unsigned){TCP_SENDQ_NO_HINT});
    bool is_whole = cut < room;
    bool is_much = room >= snd->max_wnd / 2 || (tcb->due & TCP_DUE_OVERRIDE) != 0;
    return is_whole || is_much ? cut : 0;
}

// The length of a new segment at `seq`, `pipe` octets being in the network; 0: none may go. `hint`
// as for tcp_sendq_cut.
static uint32_t new_segment_len(const struct tcb *tcb, tcp_seq seq, uint32_t pipe, unsigned *hint)
{
    uint32_t emss = tcp_emss(tcb);
    if (seq >= tcb->sendq.end) {
        return 0;
    }
    uint32_t len = fit_window(tcb, seq, tcp_sendq_cut(&tcb->sendq, seq, emss, hint));
    bool is_held_by_nagle = tcb->config.nagle && len < emss && !tcb->snd.is_closing &&
                            tcb->scoreboard.count > 0 && seq + len == tcb->sendq.end;
    if (is_held_by_nagle || (pipe > 0 && (uint64_t)pipe + len > tcb->cc.cwnd)) {
        return 0;
    }
    return len;
}

uint32_t tcp_next_segment_len(const struct tcb *tcb)
{
    if (!may_send_data(tcb->state) || tcb->snd.is_fin_sent || !has_room_for_record(tcb, 0)) {
        return 0;
    }
    return new_segment_len(tcb, tcb->snd.nxt, tcp_pipe(tcb), &(unsigned){TCP_SENDQ_NO_HINT});
}

// As many segments of the first one's length as may go, the last may be shorter.
static void fill_batch(const struct tcb *tcb, uint32_t first_len, struct tcp_batch *batch)
{
    uint32_t pipe = tcp_pipe(tcb), total = first_len, len = first_len;
    unsigned count = 1, hint = TCP_SENDQ_NO_HINT;
    while (len == first_len && count < TCP_BATCH_SEGMENT_MAX && has_room_for_record(tcb, count)) {
        len = new_segment_len(tcb, tcb->snd.nxt + total, pipe + total, &hint);
        if (len == 0 || len > first_len || total + len > TCP_BATCH_LEN_MAX) {
            break;
        }
        total += len;
        count++;
    }
    batch->segment_len = first_len;
    batch->segment_count = count;
    batch->payload_len = total;
}

// Where the batch's payload lies; what does not fit the elements is left for the next.
static void gather(const struct tcb *tcb, struct tcp_batch *batch, struct iovec *iov)
{
    unsigned iov_count = TCP_BATCH_IOV_MAX;
    uint32_t got = tcp_sendq_gather(&tcb->sendq, tcb->snd.nxt, batch->payload_len, iov, &iov_count);
    if (got < batch->payload_len) {
        uint32_t whole = got / batch->segment_len;
        batch->segment_count = whole > 0 ? whole : 1;
        batch->segment_len = whole > 0 ? batch->segment_len : got;
        batch->payload_len = batch->segment_count * batch->segment_len;
        iov_count = TCP_BATCH_IOV_MAX;
        tcp_sendq_gather(&tcb->sendq, tcb->snd.nxt, batch->payload_len, iov, &iov_count);
    }
    batch->iov = iov;
    batch->iov_count = iov_count;
}

static void on_new_sent(struct tcb *tcb, const struct tcp_batch *batch, unsigned taken,
                        instant_ns now)
{
    struct tcp_send *snd = &tcb->snd;
    uint32_t left = batch->payload_len;
    for (unsigned i = 0; i < taken; i++) {
        uint32_t len = left < batch->segment_len ? left : batch->segment_len;
        // Both go with the last only.
        uint8_t flags = i + 1 == batch->segment_count ? batch->header.flags : 0;
        bool is_fin = (flags & TCP_FIN) != 0;
        tcp_scoreboard_on_sent(&tcb->scoreboard, snd->nxt, snd->nxt + len + is_fin, flags, now,
                               batch->header.options.ts_value);
        snd->nxt += len + is_fin;
        snd->is_fin_sent |= is_fin;
        left -= len;
    }
    tcb->counters.octets_out += batch->payload_len - left;
    tcp_ecn_on_sent(&tcb->ecn, batch->header.flags);
    tcp_recovery_on_sent(&tcb->recovery, batch->payload_len - left);
    tcb->persist_backoff = 0;
    tcb->due &= ~(unsigned)TCP_DUE_OVERRIDE;
    tcp_note_pipe(tcb);
    tcp_timers_on_sent(tcb, true, now);
}

// New octets alone may be marked: of what is sent again, and of segments without octets, nobody
// would know that they were lost (RFC 3168 sections 6.1.4 to 6.1.6).
static void put_ecn(const struct tcb *tcb, struct tcp_batch *batch)
{
    if (tcb->ecn.is_agreed && batch->payload_len > 0) {
        batch->ecn = IP_ECN_ECT_0;
        batch->header.flags |= tcb->ecn.is_cwr_due ? TCP_CWR : 0;
    }
}

// Sends the batch that `first_len` octets begin, with the FIN where it is due. Returns whether all
// of it was taken.
static bool send_new(struct tcb *tcb, const struct tcp_port *port, uint32_t first_len,
                     enum tcp_reason reason, unsigned segment_max, instant_ns now)
{
    struct iovec iov[TCP_BATCH_IOV_MAX];
    struct tcp_batch batch = {.reason = reason, .segment_count = 1};
    // CWR goes with the first only, and what came twice is told once.
    bool is_one = segment_max == 1 || tcb->ecn.is_cwr_due || tcb->rcv.dsack_count > 0;
    if (first_len > 0 && !is_one) {
        fill_batch(tcb, first_len, &batch);
    } else {
        batch.segment_len = batch.payload_len = first_len;
    }
    gather(tcb, &batch, iov);
    bool is_end = tcb->snd.nxt + batch.payload_len == tcb->sendq.end;
    batch.header = plain_header(tcb, tcb->snd.nxt, TCP_ACK, now);
    batch.header.flags |= is_end && batch.payload_len > 0 ? TCP_PSH : 0;
    batch.header.flags |= is_end && tcb->snd.is_closing ? TCP_FIN : 0;
    put_ecn(tcb, &batch);
    bool is_sack_in = put_sack(tcb, &batch.header, batch.segment_len);
    unsigned taken = hand_over(tcb, port, &batch, is_sack_in);
    if (taken > 0) {
        on_new_sent(tcb, &batch, taken, now);
    }
    return taken == batch.segment_count;
}

static bool is_bare_fin_due(const struct tcb *tcb)
{
    return tcb->snd.is_closing && !tcb->snd.is_fin_sent && may_send_data(tcb->state) &&
           tcb->snd.nxt == tcb->sendq.end && has_room_for_record(tcb, 0);
}

// RFC 5681 section 4.1: after a time-out's length without sending the path may have changed. A
// time-out of less than what is usual says only that the peer answers at once.
static bool was_idle(const struct tcb *tcb, instant_ns now)
{
    duration_ns rto = tcp_rtt_rto(&tcb->rtt);
    return tcb->scoreboard.count == 0 &&
           now - tcb->sent_at > (rto > TCP_IDLE_MIN_NS ? rto : TCP_IDLE_MIN_NS);
}

static bool send_all_new(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    uint32_t len;
    if (was_idle(tcb, now)) {
        tcp_cc_on_idle(&tcb->cc);
    }
    while ((len = tcp_next_segment_len(tcb)) > 0) {
        if (!send_new(tcb, port, len, TCP_REASON_DATA, TCP_BATCH_SEGMENT_MAX, now)) {
            return false;
        }
    }
    if (is_bare_fin_due(tcb)) {
        return send_new(tcb, port, 0, TCP_REASON_FIN, 1, now);
    }
    return true;
}

/* ---- probes ---------------------------------------------------------------------------------- */

// RFC 8985 section 7.3: new octets if there are any and the peer has room, else the last again. A
// link without room makes it wait: until the time-out nothing else would bring the loss to light.
static bool send_loss_probe(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    struct tcp_sent *last = tcp_scoreboard_last(&tcb->scoreboard);
    bool may_be_new = last != NULL && !tcb->snd.is_fin_sent && has_room_for_record(tcb, 0);
    unsigned hint = TCP_SENDQ_NO_HINT;
    uint32_t len = may_be_new ? new_segment_len(tcb, tcb->snd.nxt, 0, &hint) : 0;
    if (last == NULL || (len == 0 && last->condition == TCP_SENT_SACKED)) {
        tcb->due &= ~(unsigned)TCP_DUE_LOSS_PROBE;
        return true; // that it arrived was heard after the timer and before this
    }
    bool is_sent = len > 0 ? send_new(tcb, port, len, TCP_REASON_LOSS_PROBE, 1, now)
                           : resend(tcb, port, last, TCP_REASON_LOSS_PROBE, now);
    if (!is_sent) {
        return false;
    }
    tcb->due &= ~(unsigned)TCP_DUE_LOSS_PROBE;
    tcb->counters.loss_probes++;
    tcp_loss_on_probe_sent(&tcb->loss, tcb->snd.nxt, tcb->scoreboard.transmissions, len == 0);
    tcb->timers.send = TCP_SEND_RTO;
    tcb->timers.at[TCP_TIMER_SEND] = tcb->rto_at;
    return true;
}

// An old sequence number, which the peer must answer with where it is and what it takes.
static bool send_probe(struct tcb *tcb, const struct tcp_port *port, enum tcp_due due,
                       enum tcp_reason reason, uint64_t *counter, instant_ns now)
{
    if ((tcb->due & due) == 0) {
        return true;
    }
    if (!send_bare(tcb, port, tcb->snd.una - 1, reason, now)) {
        return false;
    }
    tcb->due &= ~(unsigned)due;
    (*counter)++;
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool send_acks(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    if ((tcb->due & TCP_DUE_CHALLENGE) != 0) {
        if (!send_bare(tcb, port, tcb->snd.nxt, TCP_REASON_CHALLENGE_ACK, now)) {
            return false;
        }
        tcb->counters.challenge_acks++;
    }
    while ((tcb->due & TCP_DUE_ACK) != 0) {
        if (!send_bare(tcb, port, tcb->snd.nxt, TCP_REASON_ACK, now)) {
            return false;
        }
    }
    return true;
}

// Octets wait, nothing is outstanding that an ACK could bring, and no timer asks for a window yet.
static bool is_persist_due(const struct tcb *tcb)
{
    return may_send_data(tcb->state) && tcb->scoreboard.count == 0 &&
           tcb->snd.nxt < tcb->sendq.end && tcb->timers.at[TCP_TIMER_SEND] == INSTANT_NEVER &&
           tcp_next_segment_len(tcb) == 0;
}

static bool output_synchronized(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    uint16_t full_mss = tcp_black_hole_raise(&tcb->black_hole, now);
    if (full_mss != 0) {
        tcp_set_mss(tcb, full_mss);
    }
    if ((tcb->due & TCP_DUE_LOSS_PROBE) != 0 && !send_loss_probe(tcb, port, now)) {
        return false;
    }
    if (!resend_lost(tcb, port, now) || !send_all_new(tcb, port, now)) {
        return false;
    }
    if (!send_probe(tcb, port, TCP_DUE_WINDOW_PROBE, TCP_REASON_WINDOW_PROBE,
                    &tcb->counters.window_probes, now) ||
        !send_probe(tcb, port, TCP_DUE_KEEPALIVE, TCP_REASON_KEEPALIVE, &tcb->counters.keepalives,
                    now)) {
        return false;
    }
    tcb->due &= ~(unsigned)TCP_DUE_OVERRIDE;
    if (is_persist_due(tcb)) {
        tcp_timers_on_window_shut(tcb, now);
    }
    return send_acks(tcb, port, now);
}

bool tcp_wants_output(const struct tcb *tcb, instant_ns now)
{
    (void)now;
    if (tcb->due != 0) {
        return true;
    }
    return tcp_is_synchronized(tcb) && (next_lost(tcb) != NULL || tcp_next_segment_len(tcb) > 0 ||
                                        is_bare_fin_due(tcb) || is_persist_due(tcb));
}

bool tcp_output(struct tcb *tcb, const struct tcp_port *port, instant_ns now)
{
    if ((tcb->due & TCP_DUE_RESET) != 0 && !send_reset(tcb, port, now)) {
        return false;
    }
    switch (tcb->state) {
    case TCP_STATE_CLOSED:
        return true;
    case TCP_STATE_SYN_SENT:
        return (tcb->due & TCP_DUE_SYN) == 0 || send_syn(tcb, port, now);
    case TCP_STATE_SYN_RECEIVED:
        return ((tcb->due & TCP_DUE_SYN) == 0 || send_syn(tcb, port, now)) &&
               send_acks(tcb, port, now);
    default:
        return output_synchronized(tcb, port, now);
    }
}

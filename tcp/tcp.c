#include "tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/carve.h"
#include "base/check.h"
#include "base/serial.h"
#include "tcp/agree.h"
#include "tcp/internal.h"
#include "tcp/listen.h"

enum { MSS_ETHERNET = 1460, MSS_UNSAID_IPV4 = 536, WINDOW_MAX = 1 << 30, DELAYED_ACK_MS_MAX = 500 };

const struct tcp_config tcp_config_default = {
    .mss = MSS_ETHERNET,
    .mss_unsaid = MSS_UNSAID_IPV4,
    .wishes = TCP_WISH_ALL,
    .ecn = TCP_ECN_ACCEPT,
    .window_len = 1 << 20,
    .buffer_len = 1 << 20,
    .range_max = 256,
    .send_len = 1 << 20,
    .piece_max = 1024,
    .flight_max = 1024,
    .cc = TCP_CC_CUBIC,
    .delayed_ack_ns = 25 * NS_PER_MS,
    .rto_min_ns = 200 * NS_PER_MS,
    .rto_slack_ns = 1 * NS_PER_US,
    .connect_timeout_ns = 180 * NS_PER_S,
    .user_timeout_ns = 300 * NS_PER_S,
    .keepalive_interval_ns = 75 * NS_PER_S,
    .keepalive_count = 9,
    .time_wait_ns = 60 * NS_PER_S,
    .challenge_max = 10,
};

/* ---- life ------------------------------------------------------------------------------------ */

static void check_config(const struct tcp_config *c)
{
    CHECK(c->mss >= TCP_MSS_MIN);
    CHECK(c->ecn < TCP_ECN_WISH_COUNT);
    CHECK(c->window_len > 0 && c->window_len <= WINDOW_MAX);
    CHECK(c->range_max >= 4);
    CHECK(c->piece_max >= 4);
    CHECK(c->flight_max >= 4);
    CHECK(c->delayed_ack_ns <= DELAYED_ACK_MS_MAX * NS_PER_MS);
    CHECK(c->place.place != NULL);
    CHECK(c->place.on_advance != NULL);
}

static void parts_init(struct tcb *tcb, const struct tcp_config *config, struct carve *memory)
{
    tcp_scoreboard_init(&tcb->scoreboard, config->flight_max, memory);
    tcp_receive_init(&tcb->rcv, config, &tcb->counters, memory);
    tcp_sendq_init(&tcb->sendq, config->send_len, config->piece_max, memory);
}

struct tcb *tcp_create(const struct tcp_config *config)
{
    check_config(config);
    struct tcb measured;
    struct carve memory = {.block = NULL};
    carve(&memory, 1, sizeof measured);
    parts_init(&measured, config, &memory);
    memory = (struct carve){.block = malloc(memory.len)};
    if (memory.block == NULL) {
        return NULL;
    }
    struct tcb *tcb = carve(&memory, 1, sizeof *tcb);
    memset(tcb, 0, sizeof *tcb);
    parts_init(tcb, config, &memory);
    tcb->config = *config;
    tcp_timers_stop_all(&tcb->timers);
    tcb->rto_at = INSTANT_NEVER;
    tcp_rtt_init(&tcb->rtt, config->rto_min_ns, config->rto_slack_ns);
    tcp_cc_init(&tcb->cc, config->cc, config->mss);
    return tcb;
}

void tcp_destroy(struct tcb *tcb)
{
    free(tcb);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void change_state(struct tcb *tcb, enum tcp_input input)
{
    enum tcp_state next = tcp_state_next(tcb->state, input);
    TRACE(tcb->config.trace, TRACE_TCP, "%u-%u %s -> %s: %s", tcb->config.local_port,
          tcb->config.remote_port, tcp_state_name(tcb->state), tcp_state_name(next),
          tcp_input_name(input));
    tcb->state = next;
}

void tcp_end(struct tcb *tcb, enum tcp_input input, int status)
{
    change_state(tcb, input);
    CHECK(tcb->state == TCP_STATE_CLOSED);
    tcb->status = status;
    tcb->events |= TCP_EVENT_OVER;
    tcb->due &= TCP_DUE_RESET;
    tcp_timers_stop_all(&tcb->timers);
}

void tcp_enter(struct tcb *tcb, enum tcp_input input, instant_ns now)
{
    enum tcp_state next = tcp_state_next(tcb->state, input);
    if (next == tcb->state) {
        return;
    }
    if (next == TCP_STATE_CLOSED) {
        tcp_end(tcb, input, 0);
        return;
    }
    change_state(tcb, input);
    if (tcb->state == TCP_STATE_ESTABLISHED) {
        tcb->events |= TCP_EVENT_ESTABLISHED;
        tcb->due &= ~(unsigned)TCP_DUE_SYN;
        tcb->timers.at[TCP_TIMER_USER] = INSTANT_NEVER;
        if (tcb->config.keepalive_idle_ns != 0) {
            tcb->timers.at[TCP_TIMER_KEEPALIVE] = instant_after(now, tcb->config.keepalive_idle_ns);
        }
        if (tcb->snd.is_closing) {
            change_state(tcb, TCP_ON_CLOSE);
        }
    }
    if (tcb->state == TCP_STATE_TIME_WAIT) {
        tcp_timers_on_time_wait(tcb, now);
    }
}

static void begin_sending(struct tcb *tcb, uint32_t iss, instant_ns now)
{
    tcb->snd.iss = tcb->snd.una = tcp_seq_first(iss);
    tcb->snd.nxt = tcb->snd.iss + 1;
    tcp_sendq_begin(&tcb->sendq, tcb->snd.nxt);
    tcp_loss_init(&tcb->loss, tcb->snd.nxt);
    tcb->rtt_sampled_to = tcb->snd.nxt;
    tcb->progress_at = tcb->heard_at = tcb->sent_at = tcb->syn_sent_at = now;
    tcb->timers.at[TCP_TIMER_USER] = instant_after(now, tcb->config.connect_timeout_ns);
}

void tcp_connect(struct tcb *tcb, uint32_t iss, instant_ns now)
{
    CHECK(tcb->state == TCP_STATE_CLOSED && tcb->events == 0);
    begin_sending(tcb, iss, now);
    tcb->is_opener = true;
    tcb->due |= TCP_DUE_SYN;
    change_state(tcb, TCP_ON_ACTIVE_OPEN);
}

void tcp_accept(struct tcb *tcb, const struct tcp_handshake *handshake, instant_ns now)
{
    CHECK(tcb->state == TCP_STATE_CLOSED && tcb->events == 0);
    begin_sending(tcb, handshake->iss, now);
    tcb->config.remote_port = handshake->remote_port;
    tcb->config.timestamp_offset = handshake->timestamp_offset;
    tcb->is_syn_resent = handshake->rtt_ns == 0;
    tcb->agreed = tcp_agree(&tcb->config, &handshake->peer);
    tcb->ecn.is_agreed = handshake->has_ecn;
    tcp_set_mss(tcb, tcb->agreed.mss);
    tcp_receive_begin(&tcb->rcv, handshake->irs);
    tcp_receive_on_window_sent(&tcb->rcv, tcp_syn_window(&tcb->config));
    tcb->snd.wnd = tcb->snd.max_wnd = handshake->snd_wnd;
    tcb->snd.wl1 = tcb->rcv.first;
    tcb->snd.wl2 = tcb->snd.iss;
    tcb->ts.recent = handshake->ts_recent;
    tcb->ts.recent_at = now;
    tcb->ts.last_ack_sent = tcb->rcv.nxt;
    if (handshake->rtt_ns != 0) {
        tcp_rtt_on_sample(&tcb->rtt, handshake->rtt_ns);
        tcp_rtt_on_least(&tcb->rtt, handshake->rtt_ns, now);
    }
    change_state(tcb, TCP_ON_PASSIVE_OPEN);
    change_state(tcb, TCP_ON_SYN);
}

void tcp_close(struct tcb *tcb, instant_ns now)
{
    if (tcb->state == TCP_STATE_CLOSED || tcb->snd.is_closing) {
        return;
    }
    tcb->snd.is_closing = true;
    if (tcp_state_next(tcb->state, TCP_ON_CLOSE) != tcb->state) {
        tcp_enter(tcb, TCP_ON_CLOSE, now);
    }
}

void tcp_abort(struct tcb *tcb)
{
    if (tcb->state != TCP_STATE_CLOSED) {
        tcp_owe_reset(tcb);
        tcp_end(tcb, TCP_ON_ABORT, -ECONNABORTED);
    }
}

/* ---- the next connection (RFC 6191) ---------------------------------------------------------- */

bool tcp_begins_anew(const struct tcb *tcb, const struct tcp_segment *segment)
{
    const struct tcp_header *h = &segment->header;
    const struct tcp_options *o = &h->options;
    bool is_syn = (h->flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
    bool is_beyond = tcp_seq_near(tcb->rcv.nxt, h->seq) >= tcb->rcv.nxt;
    if (tcb->state != TCP_STATE_TIME_WAIT || !is_syn) {
        return false;
    }
    if (!o->has_timestamps || (tcb->config.wishes & TCP_WISH_TIMESTAMPS) == 0) {
        return is_beyond;
    }
    return !tcb->agreed.timestamps || serial_before(tcb->ts.recent, o->ts_value) ||
           (o->ts_value == tcb->ts.recent && is_beyond);
}

uint32_t tcp_unused_number(const struct tcb *tcb)
{
    return tcp_seq_wire(tcb->snd.nxt);
}

void tcp_supersede(struct tcb *tcb, instant_ns now)
{
    CHECK(tcb->state == TCP_STATE_TIME_WAIT);
    tcp_enter(tcb, TCP_ON_2MSL, now);
}

/* ---- what is owed ---------------------------------------------------------------------------- */

void tcp_owe_reset(struct tcb *tcb)
{
    if (tcb->state == TCP_STATE_SYN_SENT || tcb->state == TCP_STATE_TIME_WAIT) {
        return;
    }
    tcb->reset = (struct tcp_header){
        .src_port = tcb->config.local_port,
        .dst_port = tcb->config.remote_port,
        .seq = tcp_seq_wire(tcb->snd.nxt),
        .ack = tcp_seq_wire(tcb->rcv.nxt),
        .flags = TCP_RST | TCP_ACK,
    };
    tcb->due |= TCP_DUE_RESET;
}

bool tcp_reset_for(const struct tcp_segment *segment, struct tcp_header *ret)
{
    const struct tcp_header *h = &segment->header;
    if ((h->flags & TCP_RST) != 0) {
        return false;
    }
    *ret = (struct tcp_header){.src_port = h->dst_port, .dst_port = h->src_port};
    if ((h->flags & TCP_ACK) != 0) {
        ret->seq = h->ack;
        ret->flags = TCP_RST;
    } else {
        ret->ack = h->seq + (uint32_t)segment->payload.len + ((h->flags & TCP_SYN) != 0) +
                   ((h->flags & TCP_FIN) != 0);
        ret->flags = TCP_RST | TCP_ACK;
    }
    return true;
}

void tcp_owe_reset_for(struct tcb *tcb, const struct tcp_segment *segment)
{
    if (tcp_reset_for(segment, &tcb->reset)) {
        tcb->due |= TCP_DUE_RESET;
    }
}

void tcp_owe_challenge(struct tcb *tcb, instant_ns now)
{
    if (tcp_challenges_take(&tcb->challenges, tcb->config.challenge_max, now)) {
        tcb->due |= TCP_DUE_CHALLENGE;
    } else {
        tcb->counters.challenges_suppressed++;
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool may_send(const struct tcb *tcb)
{
    return !tcb->snd.is_closing && tcb->state != TCP_STATE_CLOSED;
}

size_t tcp_send_room(const struct tcb *tcb, unsigned piece_count, unsigned flags)
{
    return may_send(tcb) ? tcp_sendq_room(&tcb->sendq, piece_count, flags) : 0;
}

size_t tcp_send(struct tcb *tcb, const struct iovec *iov, unsigned iov_count, unsigned flags)
{
    return may_send(tcb) ? tcp_sendq_put(&tcb->sendq, iov, iov_count, flags) : 0;
}

uint64_t tcp_sent_position(const struct tcb *tcb)
{
    return tcb->sendq.end - (tcb->snd.iss + 1);
}

uint64_t tcp_acked_position(const struct tcb *tcb)
{
    return tcb->sendq.begin - (tcb->snd.iss + 1);
}

/* ---- receiving ------------------------------------------------------------------------------- */

// Tells the peer at once when the window has opened by a step.
static void owe_window(struct tcb *tcb)
{
    const struct tcp_receive *r = &tcb->rcv;
    uint32_t window = tcp_receive_window(r, tcp_emss(tcb));
    uint32_t most = (uint32_t)UINT16_MAX << tcb->agreed.rcv_scale; // that can be told
    if (tcp_is_synchronized(tcb) && r->nxt + (window < most ? window : most) > r->edge) {
        tcb->due |= TCP_DUE_ACK;
    }
}

void tcp_resume(struct tcb *tcb, instant_ns now)
{
    (void)now;
    if (tcb->state == TCP_STATE_CLOSED || !tcb->rcv.is_stalled) {
        return;
    }
    tcp_receive_resume(&tcb->rcv);
    if (tcp_receive_fin_is_handed(&tcb->rcv)) {
        tcb->events |= TCP_EVENT_FIN;
    }
    owe_window(tcb);
}

void tcp_set_window(struct tcb *tcb, uint32_t window_len)
{
    CHECK(window_len <= tcb->config.window_len);
    tcb->rcv.window_len = window_len;
    owe_window(tcb);
}

/* ---- what the network says ------------------------------------------------------------------- */

void tcp_set_mss(struct tcb *tcb, uint16_t mss)
{
    tcb->agreed.mss = mss;
    if (tcp_is_synchronized(tcb)) {
        tcp_cc_on_mss(&tcb->cc, tcp_emss(tcb));
    } else {
        tcp_cc_init(&tcb->cc, tcb->config.cc, tcp_emss(tcb));
        tcb->cc.cwnd = tcb->is_syn_resent ? tcp_emss(tcb) : tcb->cc.cwnd; // RFC 5681 section 3.1
    }
}

// ICMP quotes a segment of ours. If none that is outstanding begins with this very number, it is a
// guess of somebody (RFC 5927 section 4.1): in a window of a thousand segments a thousand numbers
// are right, not a million.
static bool is_outstanding(const struct tcb *tcb, uint32_t quoted_seq)
{
    if (tcb->state == TCP_STATE_CLOSED) {
        return false;
    }
    if (!tcp_is_synchronized(tcb)) {
        return quoted_seq == tcp_seq_wire(tcb->snd.iss);
    }
    for (unsigned i = 0; i < tcb->scoreboard.count; i++) {
        if (quoted_seq == tcp_seq_wire(tcp_scoreboard_at(&tcb->scoreboard, i)->seq)) {
            return true;
        }
    }
    return false;
}

bool tcp_on_path_mss(struct tcb *tcb, uint32_t quoted_seq, uint16_t mss)
{
    bool is_believed = tcp_is_synchronized(tcb) && is_outstanding(tcb, quoted_seq);
    if (is_believed) {
        tcp_take_path_mss(tcb, mss);
    }
    return is_believed;
}

void tcp_take_path_mss(struct tcb *tcb, uint16_t mss)
{
    mss = mss < TCP_MSS_MIN ? TCP_MSS_MIN : mss;
    if (tcp_is_synchronized(tcb)) {
        tcp_black_hole_on_path_mss(&tcb->black_hole, mss);
        tcp_lessen_mss(tcb, mss);
    } else { // the two SYNs have not agreed yet
        tcb->config.path_mss = mss;
    }
}

void tcp_lessen_mss(struct tcb *tcb, uint16_t mss)
{
    struct tcp_scoreboard *sb = &tcb->scoreboard;
    if (mss >= tcb->agreed.mss) {
        return;
    }
    tcp_set_mss(tcb, mss);
    for (unsigned i = 0; i < sb->count; i++) { // lost, but not to congestion
        struct tcp_sent *sent = tcp_scoreboard_at(sb, i);
        if (sent->condition == TCP_SENT_IN_NETWORK && sent->end - sent->seq > tcp_emss(tcb)) {
            tcp_scoreboard_mark_lost(sb, sent);
        }
    }
}

bool tcp_on_unreachable(struct tcb *tcb, uint32_t quoted_seq, int error)
{
    if (!is_outstanding(tcb, quoted_seq)) {
        return false;
    }
    if (tcp_is_synchronized(tcb)) { // RFC 9293 section 3.9.2.2: soft
        tcb->soft_error = error;
    } else {
        tcp_end(tcb, TCP_ON_ABORT, error);
    }
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

unsigned tcp_take_events(struct tcb *tcb)
{
    unsigned events = tcb->events;
    tcb->events = 0;
    return events;
}

enum tcp_state tcp_get_state(const struct tcb *tcb)
{
    return tcb->state;
}

int tcp_status(const struct tcb *tcb)
{
    return tcb->status;
}

uint32_t tcp_emss(const struct tcb *tcb)
{
    return tcb->agreed.mss - (tcb->agreed.timestamps ? (uint32_t)TCP_TIMESTAMPS_LEN : 0);
}

void tcp_get_info(const struct tcb *tcb, struct tcp_info *ret)
{
    uint64_t offered = tcb->rcv.edge - tcb->rcv.nxt;
    *ret = (struct tcp_info){
        .state = tcb->state,
        .srtt_ns = tcb->rtt.srtt_ns,
        .rttvar_ns = tcb->rtt.rttvar_ns,
        .rto_ns = tcp_rtt_rto(&tcb->rtt),
        .min_rtt_ns = tcp_rtt_least(&tcb->rtt),
        .cwnd = tcb->cc.cwnd,
        .ssthresh = tcb->cc.ssthresh,
        .flight_len = tcb->scoreboard.flight_len,
        .pipe_len = tcp_pipe(tcb),
        .snd_wnd = tcb->snd.wnd,
        .rcv_wnd = tcb->rcv.edge > tcb->rcv.nxt ? (uint32_t)offered : 0,
        .range_count = tcb->rcv.ranges.count,
        .buffered_len = tcb->rcv.buffered_len,
        .is_in_recovery = tcp_recovery_repairs(&tcb->recovery),
        .counters = &tcb->counters,
    };
}

const char *tcp_refusal_name(enum tcp_refusal refusal)
{
    static const char *const names[TCP_REFUSAL_COUNT] = {[TCP_TAKEN] = "taken",
#define X(name, text) [TCP_REFUSED_##name] = #name,
                                                         TCP_REFUSALS(X)
#undef X
    };
    return refusal < TCP_REFUSAL_COUNT ? names[refusal] : "?";
}

const char *tcp_reason_name(enum tcp_reason reason)
{
    static const char *const names[TCP_REASON_COUNT] = {
        [TCP_REASON_SYN] = "SYN",
        [TCP_REASON_DATA] = "data",
        [TCP_REASON_RETRANSMIT] = "retransmit",
        [TCP_REASON_LOSS_PROBE] = "loss probe",
        [TCP_REASON_WINDOW_PROBE] = "window probe",
        [TCP_REASON_KEEPALIVE] = "keep-alive",
        [TCP_REASON_FIN] = "FIN",
        [TCP_REASON_ACK] = "ACK",
        [TCP_REASON_CHALLENGE_ACK] = "challenge ACK",
        [TCP_REASON_RESET] = "reset",
    };
    return reason < TCP_REASON_COUNT ? names[reason] : "?";
}

#include "tcp/recovery.h"

static void begin(struct tcp_recovery *rec, const struct tcp_cc *cc, tcp_seq una, tcp_seq nxt,
                  enum tcp_recovery_phase phase)
{
    struct tcp_recovery fresh = {
        .undo_una = una,
        .undo_cwnd = cc->cwnd,
        .undo_ssthresh = cc->ssthresh,
        .may_undo = true,
    };
    if (rec->phase == TCP_PHASE_OPEN) {
        *rec = fresh;
    }
    rec->phase = phase;
    rec->point = nxt;
    rec->flight_len = (uint32_t)(nxt - una);
    rec->delivered_len = rec->out_len = 0;
}

void tcp_recovery_enter(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt)
{
    begin(rec, cc, una, nxt, TCP_PHASE_FAST);
    tcp_cc_on_loss(cc, rec->flight_len);
}

void tcp_recovery_on_timeout(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt)
{
    bool is_first = rec->phase != TCP_PHASE_TIMEOUT;
    begin(rec, cc, una, nxt, TCP_PHASE_TIMEOUT);
    tcp_cc_on_timeout(cc, rec->flight_len, is_first);
}

static uint32_t minus(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

void tcp_recovery_on_ack(struct tcp_recovery *rec, struct tcp_cc *cc, uint32_t delivered_len,
                         uint32_t pipe, bool is_progress)
{
    uint32_t send;
    rec->delivered_len += delivered_len;
    if (pipe > cc->ssthresh) { // proportional rate reduction
        uint64_t due =
            ((uint64_t)rec->delivered_len * cc->ssthresh + rec->flight_len - 1) / rec->flight_len;
        send = due > rec->out_len ? (uint32_t)(due - rec->out_len) : 0;
    } else { // back up to ssthresh: by what arrived, and faster only while nothing else is lost
        uint32_t bound = minus(rec->delivered_len, rec->out_len);
        if (is_progress) {
            bound = (bound > delivered_len ? bound : delivered_len) + cc->mss;
        }
        send = minus(cc->ssthresh, pipe);
        send = send < bound ? send : bound;
    }
    if (rec->out_len == 0 && send < cc->mss) {
        send = cc->mss; // fast retransmit
    }
    cc->cwnd = pipe + send;
}

void tcp_recovery_on_sent(struct tcp_recovery *rec, uint32_t len)
{
    rec->out_len += len;
}

void tcp_recovery_on_resent(struct tcp_recovery *rec)
{
    rec->undo_segments += rec->phase != TCP_PHASE_OPEN;
}

bool tcp_recovery_on_dsack(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq left, tcp_seq right)
{
    bool is_of_it = left >= rec->undo_una && right <= rec->point;
    if (!rec->may_undo || !is_of_it || rec->undo_segments == 0 || --rec->undo_segments > 0) {
        return false;
    }
    rec->may_undo = false;
    rec->phase = TCP_PHASE_OPEN;
    tcp_cc_undo(cc, rec->undo_cwnd, rec->undo_ssthresh);
    return true;
}

bool tcp_recovery_on_una(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una)
{
    if (rec->phase == TCP_PHASE_OPEN || una < rec->point) {
        return false;
    }
    if (rec->phase == TCP_PHASE_FAST) {
        tcp_cc_on_recovered(cc);
    }
    rec->phase = TCP_PHASE_OPEN;
    return true;
}

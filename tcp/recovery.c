#include "tcp/recovery.h"

#include "base/serial.h"

static uint32_t smaller(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// FlightSize (RFC 5681 equation 4), as far as the window allowed it: behind a hole SND.NXT moves on
// with every segment that is SACKed, and what has arrived is no load on the path. While a recovery
// shrinks the window, the one in force is what it shrinks to.
static uint32_t flight_len(const struct tcp_recovery *rec, const struct tcp_cc *cc, tcp_seq una,
                           tcp_seq nxt)
{
    uint32_t window = tcp_recovery_shrinks(rec) ? larger(cc->cwnd, cc->ssthresh) : cc->cwnd;
    return smaller(nxt - una, window);
}

static void begin(struct tcp_recovery *rec, const struct tcp_cc *cc, tcp_seq una, tcp_seq nxt,
                  enum tcp_recovery_phase phase)
{
    struct tcp_recovery fresh = {
        // that nothing was lost takes back no mark's answer
        .undo_una = una,
        .undo_cwnd = rec->phase == TCP_PHASE_MARKED ? cc->ssthresh : cc->cwnd,
        .undo_ssthresh = cc->ssthresh,
    };
    if (!tcp_recovery_repairs(rec)) {
        *rec = fresh;
    }
    rec->phase = phase;
    rec->point = nxt;
    rec->delivered_len = rec->out_len = 0;
}

bool tcp_recovery_enter(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt,
                        uint32_t load_len)
{
    bool is_reduced = rec->phase == TCP_PHASE_MARKED;
    uint32_t flight = flight_len(rec, cc, una, nxt);
    begin(rec, cc, una, nxt, TCP_PHASE_FAST);
    rec->load_len = load_len;
    if (!is_reduced) {
        tcp_cc_on_loss(cc, flight);
    }
    return !is_reduced;
}

bool tcp_recovery_on_mark(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt,
                          uint32_t load_len)
{
    if (rec->phase != TCP_PHASE_OPEN) {
        return false;
    }
    tcp_cc_on_loss(cc, smaller(load_len, cc->cwnd));
    begin(rec, cc, una, nxt, TCP_PHASE_MARKED);
    rec->load_len = load_len;
    return true;
}

void tcp_recovery_on_timeout(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una, tcp_seq nxt)
{
    enum tcp_recovery_phase before = rec->phase;
    uint32_t flight = flight_len(rec, cc, una, nxt);
    bool is_first = before != TCP_PHASE_TIMEOUT || una > rec->timeout_una;
    begin(rec, cc, una, nxt, TCP_PHASE_TIMEOUT);
    rec->timeout_una = una;
    if (is_first) { // of a fast recovery something is lost, whatever becomes of the time-out
        rec->eifel = before == TCP_PHASE_FAST ? TCP_EIFEL_DONE : TCP_EIFEL_RESENDS;
        rec->pipe_prev = before == TCP_PHASE_MARKED ? cc->ssthresh : larger(flight, cc->ssthresh);
    }
    tcp_cc_on_timeout(cc, flight, is_first);
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
            ((uint64_t)rec->delivered_len * cc->ssthresh + rec->load_len - 1) / rec->load_len;
        send = due > rec->out_len ? (uint32_t)(due - rec->out_len) : 0;
    } else { // back up to ssthresh: by what arrived, and faster only while nothing else is lost
        uint32_t bound = larger(minus(rec->delivered_len, rec->out_len), delivered_len);
        bound += is_progress ? cc->mss : 0;
        send = smaller(minus(cc->ssthresh, pipe), bound);
    }
    bool is_fast_retransmit = rec->phase == TCP_PHASE_FAST && rec->out_len == 0;
    if (is_fast_retransmit && send < cc->mss) {
        send = cc->mss;
    }
    cc->cwnd = pipe + send;
}

void tcp_recovery_on_sent(struct tcp_recovery *rec, uint32_t len)
{
    rec->out_len += len;
}

void tcp_recovery_on_resent(struct tcp_recovery *rec, uint32_t ts_value)
{
    rec->undo_segments += tcp_recovery_repairs(rec);
    if (rec->eifel == TCP_EIFEL_RESENDS) {
        rec->eifel = TCP_EIFEL_AWAITS_ACK;
        rec->resent_ts = ts_value;
    }
}

bool tcp_recovery_on_echo(struct tcp_recovery *rec, bool has_ts_echo, uint32_t ts_echo)
{
    bool is_awaited = rec->phase == TCP_PHASE_TIMEOUT && rec->eifel == TCP_EIFEL_AWAITS_ACK;
    rec->eifel = TCP_EIFEL_DONE;
    return is_awaited && has_ts_echo && serial_before(ts_echo, rec->resent_ts);
}

void tcp_recovery_take_back_timeout(struct tcp_recovery *rec, struct tcp_cc *cc, uint32_t acked_len,
                                    uint32_t pipe)
{
    tcp_recovery_keep_window(rec);
    rec->phase = TCP_PHASE_OPEN;
    rec->spurious_point = rec->point;
    tcp_cc_on_spurious_timeout(cc, acked_len, pipe, rec->pipe_prev);
}

void tcp_recovery_keep_window(struct tcp_recovery *rec)
{
    rec->undo_segments = 0;
}

bool tcp_recovery_on_round_trip(struct tcp_recovery *rec, tcp_seq una)
{
    if (rec->spurious_point == 0 || una <= rec->spurious_point) {
        return false;
    }
    rec->spurious_point = 0;
    return true;
}

bool tcp_recovery_on_dsack(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq left, tcp_seq right)
{
    bool is_of_it = left >= rec->undo_una && right <= rec->point;
    if (!is_of_it || rec->undo_segments == 0 || --rec->undo_segments > 0) {
        return false;
    }
    rec->phase = TCP_PHASE_OPEN;
    tcp_cc_undo(cc, rec->undo_cwnd, rec->undo_ssthresh);
    return true;
}

bool tcp_recovery_on_una(struct tcp_recovery *rec, struct tcp_cc *cc, tcp_seq una)
{
    if (rec->phase == TCP_PHASE_OPEN || una < rec->point) {
        return false;
    }
    if (tcp_recovery_shrinks(rec)) {
        tcp_cc_on_recovered(cc);
    }
    rec->phase = TCP_PHASE_OPEN;
    return true;
}

// The transmission control block (RFC 9293 section 3.3.1): everything one connection knows, and no
// behaviour. Within tcp/ only; others see tcp.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "tcp/acceptable.h"
#include "tcp/black_hole.h"
#include "tcp/cc.h"
#include "tcp/ecn.h"
#include "tcp/loss.h"
#include "tcp/receive.h"
#include "tcp/recovery.h"
#include "tcp/rtt.h"
#include "tcp/scoreboard.h"
#include "tcp/sendq.h"
#include "tcp/seq.h"
#include "tcp/state.h"
#include "tcp/tcp.h"
#include "tcp/timers.h"

// What tcp_output owes the peer besides data.
enum tcp_due {
    TCP_DUE_SYN = 1, // with or without ACK, as the state says
    TCP_DUE_ACK = 2,
    TCP_DUE_CHALLENGE = 4,
    TCP_DUE_LOSS_PROBE = 8,
    TCP_DUE_WINDOW_PROBE = 16,
    TCP_DUE_KEEPALIVE = 32,
    TCP_DUE_RESET = 64,     // `reset`
    TCP_DUE_OVERRIDE = 128, // whatever the window admits, small as it is
};

struct tcp_send {
    tcp_seq iss;
    tcp_seq una;
    tcp_seq nxt;
    tcp_seq wl1; // of the segment that last told the window: its sequence number
    tcp_seq wl2; // and its acknowledgement
    uint32_t wnd;
    uint32_t max_wnd; // the largest ever offered
    bool is_closing;  // tcp_close was called: a FIN follows the last octet
    bool is_fin_sent;
};

// What the two SYNs agreed on (RFC 7323, RFC 2018, RFC 6691).
struct tcp_agreed {
    bool sack;
    bool timestamps;
    bool scale;
    uint8_t snd_scale; // of the windows that we receive
    uint8_t rcv_scale; // of those that we send
    uint16_t mss;      // the peer's limit and ours, options not counted
};

// RFC 7323 section 4.3.
struct tcp_ts {
    uint32_t recent;
    instant_ns recent_at;
    tcp_seq last_ack_sent;
};

// How much of the congestion window is used (RFC 7661).
struct tcp_usage {
    uint32_t pipe_max;        // in this round trip
    uint32_t pipe_max_before; // in the one before
    tcp_seq round_end;        // this one ends when all before it is acknowledged
};

struct tcb {
    struct tcp_config config;
    enum tcp_state state;
    int status;
    int soft_error; // what the network said without being sure, since the last progress
    unsigned events;
    unsigned due; // enum tcp_due
    struct tcp_header reset;

    struct tcp_send snd;
    struct tcp_receive rcv;
    struct tcp_agreed agreed;
    struct tcp_ecn ecn;
    struct tcp_ts ts;
    struct tcp_sendq sendq;
    struct tcp_scoreboard scoreboard;
    struct tcp_rtt rtt;
    struct tcp_loss loss;
    struct tcp_recovery recovery;
    struct tcp_black_hole black_hole;
    struct tcp_cc cc;
    struct tcp_usage usage;
    struct tcp_timers timers;
    struct tcp_challenges challenges;

    instant_ns rto_at;      // when the retransmission time-out is due, also while the slot waits
                            // for something else
    tcp_seq rtt_sampled_to; // the next sample for the time-out is of what was sent behind
    instant_ns syn_sent_at;
    bool is_syn_resent;
    unsigned persist_backoff;
    instant_ns sent_at;     // octets, the last time
    instant_ns heard_at;    // the last segment
    instant_ns progress_at; // the last acknowledgement that moved something
    unsigned keepalives;    // sent since then
    bool is_doubted;        // they ask because of tcp_doubt
    unsigned unacked_count; // segments received and not acknowledged
    bool is_opener;         // by tcp_connect

    struct tcp_counters counters;
};

static inline bool tcp_is_synchronized(const struct tcb *tcb)
{
    return tcb->state > TCP_STATE_SYN_RECEIVED;
}

// RFC 6675's pipe; without SACK each duplicate ACK says that a segment has left the network.
static inline uint32_t tcp_pipe(const struct tcb *tcb)
{
    uint32_t pipe = tcp_scoreboard_pipe(&tcb->scoreboard);
    uint64_t left = tcb->agreed.sack ? 0 : (uint64_t)tcb->loss.dup_acks * tcb->cc.mss;
    return left < pipe ? pipe - (uint32_t)left : 0;
}

// Our clock in timestamps: milliseconds.
static inline uint32_t tcp_ts_now(const struct tcb *tcb, instant_ns now)
{
    return (uint32_t)(now / NS_PER_MS) + tcb->config.timestamp_offset;
}

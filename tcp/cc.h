// Congestion control: numbers in, a window out (RFC 5681; growth by RFC 5681 or RFC 9438). It knows
// no connection. Losses are found elsewhere, and how much is sent while one is repaired is decided
// by tcp/recovery.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "tcp/hystart.h"
#include "tcp/seq.h"
#include "tcp/tcp.h"

// RFC 9438 section 4.1.2, in octets and nanoseconds.
struct tcp_cubic {
    bool has_epoch;         // congestion avoidance has begun since the last event
    instant_ns epoch_began; // moved on while the sender, not the window, is the limit
    instant_ns last_ack_at;
    double w_max;
    double k_s; // seconds from the epoch's beginning to w_max
    double cwnd_prior;
    double w_est; // the window that Reno would have
};

struct tcp_cc {
    enum tcp_cc_kind kind;
    uint32_t cwnd;     // octets
    uint32_t ssthresh; // octets
    uint32_t mss;
    uint32_t acked_len;         // Reno: octets acknowledged since the last growth
    struct tcp_hystart hystart; // while ssthresh is TCP_SSTHRESH_NONE
    struct tcp_cubic cubic;
};

#define TCP_SSTHRESH_NONE UINT32_MAX

// The initial window is that of RFC 6928: ten segments.
void tcp_cc_init(struct tcp_cc *cc, enum tcp_cc_kind kind, uint32_t mss);

// Before tcp_cc_on_ack: a round trip of what was not sent twice, acknowledged up to `una`, sent up
// to `nxt`. True: the first slow start is over, since round trips have grown. Those of a window
// that was not the limit tell nothing of its queue.
bool tcp_cc_on_round_trip(struct tcp_cc *cc, duration_ns rtt_ns, bool is_limited, tcp_seq una,
                          tcp_seq nxt);
// `acked_len` octets are newly acknowledged, outside of a recovery. Does nothing where the window
// was not the limit (RFC 9293 section 3.8.5, RFC 7661).
void tcp_cc_on_ack(struct tcp_cc *cc, uint32_t acked_len, bool is_limited, duration_ns srtt_ns,
                   instant_ns now);

// A loss was found, the first of a round trip: sets ssthresh. `flight_len` is what was outstanding.
void tcp_cc_on_loss(struct tcp_cc *cc, uint32_t flight_len);
// The retransmission timer ran out: the window is one segment. `is_first`: not a time-out of what a
// time-out sent.
void tcp_cc_on_timeout(struct tcp_cc *cc, uint32_t flight_len, bool is_first);
// The recovery is over: the window is ssthresh.
void tcp_cc_on_recovered(struct tcp_cc *cc);
// Nothing was sent for longer than the time-out (RFC 5681 section 4.1).
void tcp_cc_on_idle(struct tcp_cc *cc);
// The loss was none: the window of before (`cwnd`, `ssthresh`) is back.
void tcp_cc_undo(struct tcp_cc *cc, uint32_t cwnd, uint32_t ssthresh);
// A time-out was for nothing: what is in the network (`pipe`) may stay there, a little of what was
// acknowledged is followed by as much, and slow start goes on to `ssthresh` (RFC 4015 section 3.2).
void tcp_cc_on_spurious_timeout(struct tcp_cc *cc, uint32_t acked_len, uint32_t pipe,
                                uint32_t ssthresh);
void tcp_cc_on_mss(struct tcp_cc *cc, uint32_t mss);

static inline bool tcp_cc_is_slow_start(const struct tcp_cc *cc)
{
    return cc->cwnd < cc->ssthresh;
}

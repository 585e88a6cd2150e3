// HyStart++ (RFC 9406): the first slow start ends when round trips grow, which a queue that fills
// does before it overflows. Round trips in, how fast the window may grow out; it knows no
// connection.
//
//     slow start ── round trips have grown ──▶ conservative: a quarter of the growth
//         ▲                                       │           │
//         └────── they were shorter after all ────┘           └─ for five rounds ──▶ over
//
// Without L, the most that one ACK makes the window grow by: segments leave in batches here, one
// ACK answers many of them, and a limit of eight would slow the start of every fast path.
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "tcp/seq.h"

struct tcp_hystart {
    tcp_seq round_end;           // windowEnd: acknowledged up to here, the round is over
    duration_ns least_ns;        // of this round (currentRoundMinRTT); INSTANT_NEVER: none yet
    duration_ns least_before_ns; // of the one before (lastRoundMinRTT); likewise
    unsigned sample_count;       // in this round
    bool is_conservative;
    duration_ns baseline_ns; // conservative: what it began with (cssBaselineMinRtt)
    unsigned rounds_left;    // ... and so many rounds until slow start is over
};

// The first round is over with the next sample, which is what the second is compared with.
void tcp_hystart_init(struct tcp_hystart *h);

// An ACK of octets that were not sent twice, in the first slow start, while the window was the
// limit: acknowledged up to `una`, sent up to `nxt`. True: slow start is over.
bool tcp_hystart_on_sample(struct tcp_hystart *h, duration_ns rtt_ns, tcp_seq una, tcp_seq nxt);

// The window grows by what is acknowledged, divided by this.
static inline unsigned tcp_hystart_divisor(const struct tcp_hystart *h)
{
    return h->is_conservative ? 4 : 1; // CSS_GROWTH_DIVISOR
}

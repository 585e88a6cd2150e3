// What deliveries tell of time and order (RACK, RFC 8985 section 6.2, steps 1 to 4): the latest
// transmission that has arrived, how long it took, and how far segments overtake each other. What
// is lost by that is said in loss.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "tcp/scoreboard.h"
#include "tcp/seq.h"

struct tcp_rack {
    uint64_t number;    // the latest transmission among those delivered: RACK.xmit_ts and
                        // end_seq in one, without ties
    duration_ns rtt_ns; // RACK.rtt
    tcp_seq fack;       // highest that was acknowledged in any way
    bool reordering_seen;
    bool has_dsack_round;
    tcp_seq dsack_round;
    uint32_t reo_wnd_mult;
    unsigned reo_wnd_persist;
};

// What one ACK showed. The first five are told by the caller, the others gathered by
// tcp_rack_on_delivered.
struct tcp_ack_facts {
    struct tcp_rack *rack;
    instant_ns now;
    bool has_ts_echo;
    uint32_t ts_echo;
    duration_ns least_rtt_ns;
    uint64_t probe_number; // of the last probe's transmission

    bool has_resent; // it covers what was sent again: what came with that may have waited for it
    bool has_waited; // it covers what was sent before a probe that may have called for it
    bool has_rtt;
    duration_ns longest_rtt_ns;  // of what was sent once: holds the peer's delay, for the time-out
    duration_ns shortest_rtt_ns; // for the least
    bool has_reordering;
    bool has_dsack;
};

struct tcp_rack tcp_rack_start(tcp_seq una);

// A segment was delivered: steps 2 and 3. The scoreboard says so (struct tcp_delivery_port); `ctx`
// is the facts of the ACK.
void tcp_rack_on_delivered(void *ctx, const struct tcp_sent *sent);

// Step 4, once for each ACK. `has_ended_recovery`: with this ACK a recovery ended.
void tcp_rack_adapt(struct tcp_rack *rack, bool has_dsack, bool has_ended_recovery, tcp_seq una,
                    tcp_seq nxt);

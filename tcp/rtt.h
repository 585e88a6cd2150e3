// Round-trip times and the retransmission time-out (RFC 6298), and the least round-trip time of the
// recent past, which loss detection measures with (RFC 8985 section 6.2, step 1).
#pragma once

#include <stdbool.h>

#include "base/time.h"

#define TCP_RTO_INITIAL_NS  (1 * NS_PER_S)
#define TCP_RTO_SYN_LOST_NS (3 * NS_PER_S) // for what follows a SYN that was sent twice
#define TCP_RTO_MAX_NS      (60 * NS_PER_S)
#define TCP_MIN_RTT_AGE_NS \
    (10 * NS_PER_S) // a path that became longer is noticed after two of these

struct tcp_rtt {
    duration_ns srtt_ns; // 0: no sample yet
    duration_ns rttvar_ns;
    duration_ns rto_min_ns;
    duration_ns rto_slack_ns; // G
    duration_ns rto_initial_ns;
    unsigned backoff; // how often the time-out was doubled

    duration_ns least_ns, least_before_ns; // in this window and the one before
    instant_ns window_began;
};

// As in struct tcp_config.
void tcp_rtt_init(struct tcp_rtt *rtt, duration_ns rto_min_ns, duration_ns rto_slack_ns);

// The SYN had to be sent again (RFC 6298 section 5.7).
void tcp_rtt_on_syn_lost(struct tcp_rtt *rtt);

// For the time-out: at most once in a round trip, never of what was sent twice.
void tcp_rtt_on_sample(struct tcp_rtt *rtt, duration_ns sample_ns);
// The first behind a time-out that was too early: the time-out is not to be so soon again (RFC 4015
// section 3.2, step 11).
void tcp_rtt_on_spurious_timeout(struct tcp_rtt *rtt, duration_ns sample_ns);
// For the least: every valid one.
void tcp_rtt_on_least(struct tcp_rtt *rtt, duration_ns sample_ns, instant_ns now);

// The time-out ran out. / What was sent again has been acknowledged.
void tcp_rtt_back_off(struct tcp_rtt *rtt);
void tcp_rtt_end_back_off(struct tcp_rtt *rtt);

// With the back-off, between the minimum and a minute.
duration_ns tcp_rtt_rto(const struct tcp_rtt *rtt);
// 0: no sample yet.
duration_ns tcp_rtt_least(const struct tcp_rtt *rtt);

#include "tcp/rtt.h"

// Gains of the two averages (RFC 6298 section 2.3): alpha 1/8, beta 1/4; and K.
enum { ALPHA_SHIFT = 3, BETA_SHIFT = 2, K = 4 };

void tcp_rtt_init(struct tcp_rtt *rtt, duration_ns rto_min_ns, duration_ns rto_slack_ns)
{
    *rtt = (struct tcp_rtt){.rto_min_ns = rto_min_ns,
                            .rto_slack_ns = rto_slack_ns,
                            .rto_initial_ns = TCP_RTO_INITIAL_NS};
}

void tcp_rtt_on_syn_lost(struct tcp_rtt *rtt)
{
    rtt->rto_initial_ns = TCP_RTO_SYN_LOST_NS;
    rtt->backoff = 0;
}

void tcp_rtt_on_sample(struct tcp_rtt *rtt, duration_ns sample_ns)
{
    duration_ns sample = sample_ns > 0 ? sample_ns : 1;
    if (rtt->srtt_ns == 0) {
        rtt->srtt_ns = sample;
        rtt->rttvar_ns = sample / 2;
        return;
    }
    duration_ns off = sample > rtt->srtt_ns ? sample - rtt->srtt_ns : rtt->srtt_ns - sample;
    rtt->rttvar_ns = rtt->rttvar_ns - (rtt->rttvar_ns >> BETA_SHIFT) + (off >> BETA_SHIFT);
    rtt->srtt_ns = rtt->srtt_ns - (rtt->srtt_ns >> ALPHA_SHIFT) + (sample >> ALPHA_SHIFT);
    rtt->srtt_ns = rtt->srtt_ns > 0 ? rtt->srtt_ns : 1;
}

void tcp_rtt_on_spurious_timeout(struct tcp_rtt *rtt, duration_ns sample_ns)
{
    rtt->srtt_ns = sample_ns > rtt->srtt_ns ? sample_ns : rtt->srtt_ns;
    rtt->rttvar_ns = sample_ns / 2 > rtt->rttvar_ns ? sample_ns / 2 : rtt->rttvar_ns;
}

void tcp_rtt_on_least(struct tcp_rtt *rtt, duration_ns sample_ns, instant_ns now)
{
    duration_ns sample = sample_ns > 0 ? sample_ns : 1;
    if (rtt->least_ns == 0 || now - rtt->window_began >= TCP_MIN_RTT_AGE_NS) {
        rtt->least_before_ns = rtt->least_ns;
        rtt->least_ns = sample;
        rtt->window_began = now;
    }
    rtt->least_ns = sample < rtt->least_ns ? sample : rtt->least_ns;
}

void tcp_rtt_back_off(struct tcp_rtt *rtt)
{
    rtt->backoff += tcp_rtt_rto(rtt) < TCP_RTO_MAX_NS;
}

void tcp_rtt_end_back_off(struct tcp_rtt *rtt)
{
    rtt->backoff = 0;
}

duration_ns tcp_rtt_rto(const struct tcp_rtt *rtt)
{
    duration_ns spread = K * rtt->rttvar_ns;
    duration_ns rto = rtt->srtt_ns + (spread > rtt->rto_slack_ns ? spread : rtt->rto_slack_ns);
    rto = rtt->srtt_ns == 0 ? rtt->rto_initial_ns : rto;
    rto = rto > rtt->rto_min_ns ? rto : rtt->rto_min_ns;
    for (unsigned i = 0; i < rtt->backoff && rto < TCP_RTO_MAX_NS; i++) {
        rto *= 2;
    }
    return rto < TCP_RTO_MAX_NS ? rto : TCP_RTO_MAX_NS;
}

duration_ns tcp_rtt_least(const struct tcp_rtt *rtt)
{
    if (rtt->least_before_ns == 0) {
        return rtt->least_ns;
    }
    return rtt->least_ns < rtt->least_before_ns ? rtt->least_ns : rtt->least_before_ns;
}

#include "tcp/hystart.h"

// RFC 9406 section 4.3.
enum { MIN_RTT_DIVISOR = 8, N_RTT_SAMPLE = 8, CSS_ROUNDS = 5 };
static const duration_ns min_rtt_thresh_ns = 4 * NS_PER_MS, max_rtt_thresh_ns = 16 * NS_PER_MS;

void tcp_hystart_init(struct tcp_hystart *h)
{
    *h = (struct tcp_hystart){.least_ns = INSTANT_NEVER, .least_before_ns = INSTANT_NEVER};
}

// By so much a round trip is longer than one of `least_ns` if a queue fills.
static duration_ns threshold(duration_ns least_ns)
{
    const duration_ns share = least_ns / MIN_RTT_DIVISOR;
    return share < min_rtt_thresh_ns ? min_rtt_thresh_ns : instant_min(share, max_rtt_thresh_ns);
}

static bool have_grown(const struct tcp_hystart *h)
{
    return h->least_before_ns != INSTANT_NEVER &&
           h->least_ns >= h->least_before_ns + threshold(h->least_before_ns);
}

// There are enough samples of this round to tell.
static void judge(struct tcp_hystart *h)
{
    if (h->is_conservative) {
        h->is_conservative = h->least_ns >= h->baseline_ns;
    } else if (have_grown(h)) {
        h->is_conservative = true;
        h->baseline_ns = h->least_ns;
        h->rounds_left = CSS_ROUNDS; // this one among them
    }
}

static void begin_round(struct tcp_hystart *h, tcp_seq nxt)
{
    h->round_end = nxt;
    h->least_before_ns = h->least_ns;
    h->least_ns = INSTANT_NEVER;
    h->sample_count = 0;
}

bool tcp_hystart_on_sample(struct tcp_hystart *h, duration_ns rtt_ns, tcp_seq una, tcp_seq nxt)
{
    h->least_ns = instant_min(h->least_ns, rtt_ns);
    if (++h->sample_count >= N_RTT_SAMPLE) {
        judge(h);
    }
    if (una < h->round_end) {
        return false;
    }
    begin_round(h, nxt);
    return h->is_conservative && --h->rounds_left == 0;
}

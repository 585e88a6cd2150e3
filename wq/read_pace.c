#include "wq/read_pace.h"

static const duration_ns rtt_window_ns = 10 * NS_PER_S;
#define PIPE_LEN_MAX (1ULL << 30) // octets: no context pool and no ORD allows more

// The shortest of this window and the last, so that a path that became longer is noticed.
void read_pace_on_first_octet(struct read_pace *pace, instant_ns issued_ns, bool is_alone,
                              instant_ns now)
{
    duration_ns rtt_ns = now > issued_ns ? now - issued_ns : 1;
    if (pace->rtt_next_ns == 0 || (is_alone && now - pace->rtt_window_ns > rtt_window_ns)) {
        pace->rtt_ns = pace->rtt_next_ns == 0 ? rtt_ns : pace->rtt_next_ns;
        pace->rtt_next_ns = rtt_ns;
        pace->rtt_window_ns = now;
    }
    pace->rtt_next_ns = instant_min(pace->rtt_next_ns, rtt_ns);
    pace->rtt_ns = instant_min(pace->rtt_ns, pace->rtt_next_ns);
}

static uint64_t product_of(uint64_t octets, duration_ns took_ns, duration_ns rtt_ns)
{
    unsigned __int128 product = (unsigned __int128)octets * rtt_ns / took_ns;
    return product < PIPE_LEN_MAX ? (uint64_t)product : PIPE_LEN_MAX;
}

// Up at once; down by an eighth per answer, since one late answer says little.
void read_pace_on_answer(struct read_pace *pace, uint32_t len, uint64_t delivered_then_len,
                         instant_ns issued_ns, instant_ns now)
{
    pace->delivered_len += len;
    if (now <= issued_ns || pace->rtt_ns == 0) {
        return;
    }
    uint64_t octets = pace->delivered_len - delivered_then_len;
    uint64_t pipe_len = 2 * product_of(octets, now - issued_ns, pace->rtt_ns);
    uint64_t faded_len = pace->pipe_len - pace->pipe_len / 8;
    pace->pipe_len = pipe_len > faded_len ? pipe_len : faded_len;
}

uint64_t read_pace_lasting_len(const struct read_pace *pace, uint64_t delivered_then_len,
                               instant_ns issued_ns, instant_ns now)
{
    uint64_t octets = pace->delivered_len - delivered_then_len;
    return product_of(octets, now > issued_ns ? now - issued_ns : 1, READ_LASTS_NS);
}

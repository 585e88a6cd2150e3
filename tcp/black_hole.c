#include "tcp/black_hole.h"

#include <stdbool.h>

enum {
    R1 = 3,         // time-outs
    BASE_MSS = 984, // of a path of 1,024 octets, which RFC 4821 section 7.7 begins with
};

#define SILENCE_MIN_NS (1 * NS_PER_S) // that a peer may be away for, on a machine with other work
#define WAIT_MIN_NS    (10 * NS_PER_S)
#define WAIT_MAX_NS    (600 * NS_PER_S) // as PMTU discovery does at most (RFC 1191 section 6.3)

// The next shorter than the segment; 0: there is none.
static uint16_t shorter(uint32_t segment_len, uint16_t least_mss)
{
    const uint16_t base = BASE_MSS > least_mss ? BASE_MSS : least_mss;
    return base < segment_len ? base : least_mss < segment_len ? least_mss : 0;
}

static duration_ns next_wait(const struct tcp_black_hole *h, instant_ns now)
{
    if (h->wait_ns == 0 || now > instant_after(h->raise_at, WAIT_MAX_NS)) {
        return WAIT_MIN_NS;
    }
    return 2 * h->wait_ns < WAIT_MAX_NS ? 2 * h->wait_ns : WAIT_MAX_NS;
}

// Is it the last of a full stop?
static bool is_stopped(struct tcp_black_hole *h, tcp_seq una, instant_ns now)
{
    if (h->timeouts == 0 || h->una != una) {
        h->timeouts = 0;
        h->una = una;
        h->since = now;
    }
    h->timeouts++;
    return h->timeouts >= R1 && now >= instant_after(h->since, SILENCE_MIN_NS);
}

uint16_t tcp_black_hole_on_timeout(struct tcp_black_hole *h, tcp_seq una, uint32_t segment_len,
                                   uint16_t mss, uint16_t least_mss, instant_ns now)
{
    const uint16_t less = shorter(segment_len, least_mss);
    if (!is_stopped(h, una, now) || less == 0) {
        return 0;
    }
    h->timeouts = 0;
    if (h->full_mss == 0) {
        h->full_mss = mss;
        h->wait_ns = next_wait(h, now);
    }
    h->raise_at = instant_after(now, h->wait_ns);
    return less;
}

void tcp_black_hole_on_path_mss(struct tcp_black_hole *h, uint16_t mss)
{
    h->full_mss = h->full_mss < mss ? h->full_mss : mss;
}

void tcp_black_hole_on_late(struct tcp_black_hole *h)
{
    h->timeouts = 0;
    h->raise_at = 0;
}

uint16_t tcp_black_hole_raise(struct tcp_black_hole *h, instant_ns now)
{
    uint16_t full = h->full_mss != 0 && h->raise_at <= now ? h->full_mss : 0;
    h->full_mss = full != 0 ? 0 : h->full_mss;
    return full;
}

#include "tcp/black_hole.h"

#include <stddef.h>

enum { R1 = 3 }; // time-outs

#define WAIT_MIN_NS (10 * NS_PER_S)
#define WAIT_MAX_NS (600 * NS_PER_S) // as PMTU discovery does at most (RFC 1191 section 6.3)

// RFC 4821 section 7.7, and what every host takes (RFC 9293, MUST-15).
static const uint16_t rungs[] = {1024, 536};

static uint16_t rung_below(uint32_t segment_len)
{
    for (size_t i = 0; i < sizeof rungs / sizeof rungs[0]; i++) {
        if (rungs[i] < segment_len) {
            return rungs[i];
        }
    }
    return 0;
}

static duration_ns next_wait(const struct tcp_black_hole *h, instant_ns now)
{
    if (h->wait_ns == 0 || now > instant_after(h->raise_at, WAIT_MAX_NS)) {
        return WAIT_MIN_NS;
    }
    return 2 * h->wait_ns < WAIT_MAX_NS ? 2 * h->wait_ns : WAIT_MAX_NS;
}

uint16_t tcp_black_hole_on_timeout(struct tcp_black_hole *h, tcp_seq una, uint32_t segment_len,
                                   uint16_t mss, instant_ns now)
{
    uint16_t rung = rung_below(segment_len);
    h->timeouts = h->una == una ? h->timeouts + 1 : 1;
    h->una = una;
    if (h->timeouts < R1 || rung == 0) {
        return 0;
    }
    h->timeouts = 0;
    if (h->full_mss == 0) {
        h->full_mss = mss;
        h->wait_ns = next_wait(h, now);
    }
    h->raise_at = instant_after(now, h->wait_ns);
    return rung;
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

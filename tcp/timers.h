// The deadlines of one connection: a fixed set, and the earliest of them.
//
// What waits for an acknowledgement, or for a window, shares one slot: the four uses exclude each
// other (RFC 8985 section 8).
#pragma once

#include "base/time.h"

enum tcp_timer {
    TCP_TIMER_SEND,        // see enum tcp_send_timer
    TCP_TIMER_DELAYED_ACK, // RFC 9293 section 3.8.6.3
    TCP_TIMER_USER,        // RFC 9293 section 3.8.3 (R2), RFC 5482; and the time to connect
    TCP_TIMER_KEEPALIVE,   // RFC 9293 section 3.8.4
    TCP_TIMER_TIME_WAIT,   // RFC 9293 section 3.6.1
    TCP_TIMER_COUNT,
};

enum tcp_send_timer {
    TCP_SEND_RTO,     // RFC 6298
    TCP_SEND_REORDER, // RFC 8985 section 6.2
    TCP_SEND_PROBE,   // RFC 8985 section 7.2
    TCP_SEND_PERSIST, // RFC 9293 section 3.8.6.1
};

struct tcp_timers {
    instant_ns at[TCP_TIMER_COUNT]; // INSTANT_NEVER: it does not run
    enum tcp_send_timer send;       // what TCP_TIMER_SEND waits for
};

static inline void tcp_timers_set(struct tcp_timers *t, enum tcp_timer timer, instant_ns at)
{
    t->at[timer] = at;
}

static inline void tcp_timers_set_send(struct tcp_timers *t, enum tcp_send_timer what,
                                       instant_ns at)
{
    t->send = what;
    t->at[TCP_TIMER_SEND] = at;
}

static inline void tcp_timers_stop(struct tcp_timers *t, enum tcp_timer timer)
{
    t->at[timer] = INSTANT_NEVER;
}

static inline void tcp_timers_stop_all(struct tcp_timers *t)
{
    for (unsigned i = 0; i < TCP_TIMER_COUNT; i++) {
        t->at[i] = INSTANT_NEVER;
    }
}

static inline instant_ns tcp_timers_next(const struct tcp_timers *t)
{
    instant_ns next = INSTANT_NEVER;
    for (unsigned i = 0; i < TCP_TIMER_COUNT; i++) {
        next = instant_min(next, t->at[i]);
    }
    return next;
}

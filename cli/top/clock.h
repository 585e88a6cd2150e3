// The clock of `weft top`, and what it means to poll.
#pragma once

#include <limits.h>
#include <time.h>

#include "base/time.h"

static inline instant_ns top_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (instant_ns)now.tv_sec * NS_PER_S + (instant_ns)now.tv_nsec;
}

// Rounded up; -1: for ever.
static inline int top_clock_timeout_ms(instant_ns now, instant_ns until)
{
    if (until == INSTANT_NEVER) {
        return -1;
    }
    const duration_ns left = until > now ? until - now : 0;
    const uint64_t ms = (left + NS_PER_MS - 1) / NS_PER_MS;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

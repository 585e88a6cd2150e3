// What poll(2) and epoll_wait(2) are given, who count in milliseconds.
#pragma once

#include <limits.h>

#include "base/time.h"

// Rounded up, so that who wakes is not early; -1: for ever.
static inline int poll_ms(instant_ns now, instant_ns until)
{
    duration_ns left = until > now ? until - now : 0;
    uint64_t ms = left / NS_PER_MS + (left % NS_PER_MS != 0);
    return until == INSTANT_NEVER ? -1 : ms < INT_MAX ? (int)ms : INT_MAX;
}

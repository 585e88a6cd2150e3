// The process's clock: CLOCK_MONOTONIC, in the shape of rnic_parts.clock.
#pragma once

#include <time.h>

#include "base/time.h"

static inline instant_ns host_clock(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

// The process's clock: CLOCK_MONOTONIC, in the shape of rnic_parts.clock.
#pragma once

#include "base/time.h"
#include "clock/clock.h"

static inline instant_ns host_clock(void *ctx)
{
    return clock_now();
}

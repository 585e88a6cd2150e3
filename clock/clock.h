// What time it is: CLOCK_MONOTONIC, the same for all processes of a machine. Engine rooms are told.
#pragma once

#include <time.h>

#include "base/time.h"

static inline instant_ns clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

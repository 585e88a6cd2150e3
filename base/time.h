// Time is a number that is passed in: no engine room reads a clock. An instant counts nanoseconds
// from an origin that only the caller knows; a duration is the difference of two instants.
#pragma once

#include <stdint.h>

typedef uint64_t instant_ns;
typedef uint64_t duration_ns;

#define INSTANT_NEVER UINT64_MAX

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

static inline instant_ns instant_min(instant_ns a, instant_ns b)
{
    return a < b ? a : b;
}

// `at + d`, staying at INSTANT_NEVER when the sum would pass it.
static inline instant_ns instant_after(instant_ns at, duration_ns d)
{
    return at > INSTANT_NEVER - d ? INSTANT_NEVER : at + d;
}

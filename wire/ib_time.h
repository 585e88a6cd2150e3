// Times as InfiniBand says them, to queue pairs and in the connection manager's messages: numbers
// of 5 bits.
#pragma once

#include <stdint.h>

#include "base/time.h"

enum { IB_TIME_MAX = 31 };

// 4.096 µs × 2^code.
static inline duration_ns ib_time_ns(uint8_t code)
{
    return (duration_ns)4096 << (code & IB_TIME_MAX);
}

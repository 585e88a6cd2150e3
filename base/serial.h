// Serial numbers of 32 bits that wrap: TCP sequence numbers, MSNs. `a` is before `b` when the way
// from `a` up to `b` is shorter than half the circle (RFC 1982 section 3.2, RFC 9293 section 3.4).
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline int32_t serial_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

static inline bool serial_before(uint32_t a, uint32_t b)
{
    return serial_diff(a, b) < 0;
}

static inline bool serial_after(uint32_t a, uint32_t b)
{
    return serial_diff(a, b) > 0;
}

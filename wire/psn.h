// Packet sequence numbers: 24 bits that wrap (InfiniBand Architecture volume 1, chapter 9). `a`
// is before `b` when the way from `a` up to `b` is shorter than half the circle.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PSN_MASK = 0xffffff };

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & PSN_MASK;
}

// The way from `b` up to `a`, -2^23 to 2^23 - 1. Only the lower 24 bits of each count.
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

static inline bool psn_before(uint32_t a, uint32_t b)
{
    return psn_diff(a, b) < 0;
}

static inline bool psn_after(uint32_t a, uint32_t b)
{
    return psn_diff(a, b) > 0;
}

// The number without wrap that has `psn` as its lower 24 bits and is nearest to `near`, which is
// at least 2^23.
static inline uint64_t psn_extend(uint64_t near, uint32_t psn)
{
    return near + (uint64_t)(int64_t)psn_diff(psn, (uint32_t)near);
}

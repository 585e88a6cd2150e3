// Sequence numbers that do not wrap. On the wire they have 32 bits (RFC 9293 section 3.4); here 64,
// of which the wire carries the low ones, so that comparing is comparing and no hole, window or
// block can straddle the wrap. A number from the wire means the nearest one to what is expected.
#pragma once

#include <stdint.h>

#include "base/serial.h"

typedef uint64_t tcp_seq;

// The first number of a direction: leaves room below for what is older than that.
static inline tcp_seq tcp_seq_first(uint32_t wire)
{
    return (UINT64_C(1) << 32) + wire;
}

// The number nearest to `expected` whose low bits are `wire`.
static inline tcp_seq tcp_seq_near(tcp_seq expected, uint32_t wire)
{
    return expected + (tcp_seq)(int64_t)serial_diff(wire, (uint32_t)expected);
}

static inline uint32_t tcp_seq_wire(tcp_seq seq)
{
    return (uint32_t)seq;
}

static inline tcp_seq tcp_seq_min(tcp_seq a, tcp_seq b)
{
    return a < b ? a : b;
}

static inline tcp_seq tcp_seq_max(tcp_seq a, tcp_seq b)
{
    return a > b ? a : b;
}

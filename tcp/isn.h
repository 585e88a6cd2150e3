// Initial sequence numbers that nobody else can guess (RFC 6528): a clock with ticks of 4 µs plus a
// keyed hash of the connection's addresses and ports.
#pragma once

#include <stdint.h>

#include "base/siphash.h"
#include "base/span.h"
#include "base/time.h"

enum { TCP_SECRET_LEN = SIPHASH_KEY_LEN, TCP_TUPLE_MAX = 40 };

// Addresses and ports of a connection, as whoever owns addresses writes them: the same octets for
// the same connection, nothing else of it is known here. Unused octets are zero.
struct tcp_tuple {
    uint8_t octets[TCP_TUPLE_MAX];
};

// `secret` is drawn at random once and stays. The result is also good as a timestamp offset
// (RFC 7323 section 7.1) with another `secret` or another tuple.
uint32_t tcp_isn(const uint8_t secret[TCP_SECRET_LEN], const struct tcp_tuple *tuple,
                 instant_ns now);

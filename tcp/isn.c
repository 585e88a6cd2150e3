#include "tcp/isn.h"

#include "base/check.h"
#include "base/siphash.h"

#define TICK_NS (4 * NS_PER_US)

STATIC_CHECK((int)TCP_SECRET_LEN == (int)SIPHASH_KEY_LEN);

uint32_t tcp_isn(const uint8_t secret[TCP_SECRET_LEN], const struct tcp_tuple *tuple,
                 instant_ns now)
{
    return (uint32_t)(now / TICK_NS) +
           (uint32_t)siphash(secret, span_of(tuple->octets, sizeof tuple->octets));
}

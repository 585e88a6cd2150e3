#include "tcp/isn.h"

#define TICK_NS (4 * NS_PER_US)

uint32_t tcp_isn(const uint8_t secret[TCP_SECRET_LEN], const struct tcp_tuple *tuple,
                 instant_ns now)
{
    return (uint32_t)(now / TICK_NS) +
           (uint32_t)siphash(secret, span_of(tuple->octets, sizeof tuple->octets));
}

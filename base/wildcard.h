// Addresses that stand for many: where somebody listens who takes what comes for any of a family.
// A specific address goes before that of its family, and that one before the one of both.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

// `::`, as a socket of both families has it.
static inline struct in6_addr wildcard_of_both(void)
{
    return (struct in6_addr){0};
}

// `::ffff:0.0.0.0`.
static inline struct in6_addr wildcard_of_ipv4(void)
{
    return (struct in6_addr){.s6_addr = {[10] = 0xff, 0xff}};
}

// `100::`, of the prefix of what is thrown away (RFC 6666), as nobody has it.
static inline struct in6_addr wildcard_of_ipv6(void)
{
    return (struct in6_addr){.s6_addr = {0x01}};
}

// Of the family that `addr` is of.
static inline struct in6_addr wildcard_of(const struct in6_addr *addr)
{
    return IN6_IS_ADDR_V4MAPPED(addr) ? wildcard_of_ipv4() : wildcard_of_ipv6();
}

enum { WILDCARD_FAR, WILDCARD_BOTH, WILDCARD_FAMILY, WILDCARD_EXACT };

// How near to `addr` somebody listens at `place`; FAR: not there.
static inline int wildcard_nearness(const struct in6_addr *place, const struct in6_addr *addr)
{
    const struct in6_addr family = wildcard_of(addr);
    if (memcmp(place, addr, sizeof *addr) == 0) {
        return WILDCARD_EXACT;
    }
    if (memcmp(place, &family, sizeof family) == 0) {
        return WILDCARD_FAMILY;
    }
    return IN6_IS_ADDR_UNSPECIFIED(place) ? WILDCARD_BOTH : WILDCARD_FAR;
}

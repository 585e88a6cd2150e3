#include "base/sockaddr.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { OFF_IPV4_IN_MAPPED = sizeof(struct in6_addr) - sizeof(struct in_addr) };

// Copies, since a sockaddr_storage may be read as what it holds only by who wrote it as such.
static struct sockaddr_in as_ipv4(const struct sockaddr *addr)
{
    struct sockaddr_in in;
    memcpy(&in, addr, sizeof in);
    return in;
}

static struct sockaddr_in6 as_ipv6(const struct sockaddr *addr)
{
    struct sockaddr_in6 in6;
    memcpy(&in6, addr, sizeof in6);
    return in6;
}

socklen_t sockaddr_len(const struct sockaddr *addr)
{
    switch (addr != NULL ? addr->sa_family : AF_UNSPEC) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    default:
        return 0;
    }
}

in_port_t sockaddr_port(const struct sockaddr *addr)
{
    switch (addr->sa_family) {
    case AF_INET:
        return as_ipv4(addr).sin_port;
    case AF_INET6:
        return as_ipv6(addr).sin6_port;
    default:
        return 0;
    }
}

void sockaddr_set_port(struct sockaddr *addr, in_port_t port)
{
    if (addr->sa_family == AF_INET) {
        memcpy((uint8_t *)addr + offsetof(struct sockaddr_in, sin_port), &port, sizeof port);
    } else if (addr->sa_family == AF_INET6) {
        memcpy((uint8_t *)addr + offsetof(struct sockaddr_in6, sin6_port), &port, sizeof port);
    }
}

uint32_t sockaddr_scope_id(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6 ? as_ipv6(addr).sin6_scope_id : 0;
}

bool sockaddr_is_any(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        return as_ipv4(addr).sin_addr.s_addr == htonl(INADDR_ANY);
    }
    const struct in6_addr octets = sockaddr_octets(addr);
    return IN6_IS_ADDR_UNSPECIFIED(&octets);
}

bool sockaddr_is_loopback(const struct sockaddr *addr)
{
    const struct in6_addr octets = sockaddr_octets(addr);
    return gid_octets_are_loopback(&octets);
}

bool sockaddr_is_same(const struct sockaddr *a, const struct sockaddr *b)
{
    const struct in6_addr of_a = sockaddr_octets(a), of_b = sockaddr_octets(b);
    return a->sa_family == b->sa_family && sockaddr_port(a) == sockaddr_port(b) &&
           IN6_ARE_ADDR_EQUAL(&of_a, &of_b);
}

struct in6_addr sockaddr_octets(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET6) {
        return as_ipv6(addr).sin6_addr;
    }
    struct in6_addr octets = IN6ADDR_ANY_INIT;
    if (addr->sa_family == AF_INET) {
        const struct in_addr in = as_ipv4(addr).sin_addr;
        octets.s6_addr[10] = octets.s6_addr[11] = 0xff;
        memcpy(&octets.s6_addr[OFF_IPV4_IN_MAPPED], &in, sizeof in);
    }
    return octets;
}

struct sockaddr_storage sockaddr_of_octets(const struct in6_addr *octets, in_port_t port)
{
    struct sockaddr_storage addr = {0};
    if (IN6_IS_ADDR_V4MAPPED(octets)) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
        memcpy(&in.sin_addr, &octets->s6_addr[OFF_IPV4_IN_MAPPED], sizeof in.sin_addr);
        memcpy(&addr, &in, sizeof in);
    } else {
        const struct sockaddr_in6 in6 = {
            .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = *octets};
        memcpy(&addr, &in6, sizeof in6);
    }
    return addr;
}

static struct sockaddr_storage same(const struct sockaddr *addr)
{
    struct sockaddr_storage same = {0};
    memcpy(&same, addr, sockaddr_len(addr));
    return same;
}

struct sockaddr_storage sockaddr_unmapped(const struct sockaddr *addr)
{
    const struct in6_addr octets = sockaddr_octets(addr);
    bool is_mapped = addr->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&octets);
    return is_mapped ? sockaddr_of_octets(&octets, sockaddr_port(addr)) : same(addr);
}

struct sockaddr_storage sockaddr_mapped(const struct sockaddr *addr)
{
    if (addr->sa_family != AF_INET) {
        return same(addr);
    }
    const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                                     .sin6_port = sockaddr_port(addr),
                                     .sin6_addr = sockaddr_octets(addr)};
    struct sockaddr_storage mapped = {0};
    memcpy(&mapped, &in6, sizeof in6);
    return mapped;
}

#include "rnic/address.h"

#include <string.h>

enum { MAPPED_PREFIX_LEN = sizeof(struct in6_addr) - sizeof(struct in_addr) };

// Both families have the port at the same place, and copies keep to what aliasing allows.
static struct sockaddr_in as_ipv4(const struct sockaddr_storage *addr)
{
    struct sockaddr_in in;
    memcpy(&in, addr, sizeof in);
    return in;
}

static struct sockaddr_in6 as_ipv6(const struct sockaddr_storage *addr)
{
    struct sockaddr_in6 in6;
    memcpy(&in6, addr, sizeof in6);
    return in6;
}

struct in6_addr address_octets(const struct sockaddr_storage *addr)
{
    struct in6_addr octets = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (addr->ss_family == AF_INET) {
        struct sockaddr_in in = as_ipv4(addr);
        memcpy(octets.s6_addr + MAPPED_PREFIX_LEN, &in.sin_addr, sizeof in.sin_addr);
        return octets;
    }
    return addr->ss_family == AF_INET6 ? as_ipv6(addr).sin6_addr : (struct in6_addr){0};
}

struct sockaddr_storage address_of_octets(const struct in6_addr *octets, uint16_t port)
{
    struct sockaddr_storage addr = {0};
    if (IN6_IS_ADDR_V4MAPPED(octets)) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in.sin_addr, octets->s6_addr + MAPPED_PREFIX_LEN, sizeof in.sin_addr);
        memcpy(&addr, &in, sizeof in);
    } else {
        struct sockaddr_in6 in6 = {
            .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *octets};
        memcpy(&addr, &in6, sizeof in6);
    }
    return addr;
}

struct sockaddr_storage address_unmapped(const struct sockaddr_storage *addr)
{
    const struct in6_addr octets = address_octets(addr);
    return IN6_IS_ADDR_V4MAPPED(&octets) ? address_of_octets(&octets, address_port(addr)) : *addr;
}

uint16_t address_port(const struct sockaddr_storage *addr)
{
    return ntohs(addr->ss_family == AF_INET ? as_ipv4(addr).sin_port : as_ipv6(addr).sin6_port);
}

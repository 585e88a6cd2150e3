// Socket addresses and their ports.

#include <string.h>

#include "cm/cm.h"

socklen_t cm_addr_len(const struct sockaddr *addr)
{
    if (addr == NULL) {
        return 0;
    }
    switch (addr->sa_family) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    default:
        return 0;
    }
}

bool cm_addr_is_any(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        return ((const struct sockaddr_in *)addr)->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

bool cm_addr_is_loopback(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

void cm_addr_copy(struct sockaddr_storage *to, const struct sockaddr *from)
{
    const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)from;
    memset(to, 0, sizeof *to);
    if (from->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr)) {
        struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = sin6->sin6_port};
        memcpy(&sin.sin_addr, &sin6->sin6_addr.s6_addr[12], sizeof sin.sin_addr);
        memcpy(to, &sin, sizeof sin);
        return;
    }
    memcpy(to, from, cm_addr_len(from));
}

in_port_t cm_addr_port(const struct sockaddr *addr)
{
    switch (addr->sa_family) {
    case AF_INET:
        return ((const struct sockaddr_in *)addr)->sin_port;
    case AF_INET6:
        return ((const struct sockaddr_in6 *)addr)->sin6_port;
    default:
        return 0;
    }
}

void cm_addr_set_port(struct sockaddr_storage *addr, in_port_t port)
{
    if (addr->ss_family == AF_INET) {
        ((struct sockaddr_in *)addr)->sin_port = port;
    } else if (addr->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)addr)->sin6_port = port;
    }
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return cm_addr_port(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return cm_addr_port(&id->route.addr.dst_addr);
}

struct in6_addr cm_addr_octets(const struct sockaddr *addr)
{
    struct in6_addr octets = {.s6_addr = {[10] = 0xff, 0xff}};
    if (addr->sa_family == AF_INET6) {
        return ((const struct sockaddr_in6 *)addr)->sin6_addr;
    }
    memcpy(&octets.s6_addr[12], &((const struct sockaddr_in *)addr)->sin_addr, 4);
    return cm_addr_is_any(addr) ? in6addr_any : octets;
}

void cm_addr_of_octets(struct sockaddr_storage *ret, const struct in6_addr *octets, uint16_t port)
{
    const struct sockaddr_in6 sin6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *octets};
    cm_addr_copy(ret, (const struct sockaddr *)&sin6);
}

// IPv4 and IPv6 addresses, with their ports.

#include <netinet/in.h>
#include <string.h>

#include "rsocket/rsocket.h"

socklen_t rs_addr_len(const struct sockaddr *addr)
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

in_port_t rs_addr_port(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)addr)->sin6_port
                                       : ((const struct sockaddr_in *)addr)->sin_port;
}

void rs_addr_set_port(struct sockaddr *addr, in_port_t port)
{
    if (addr->sa_family == AF_INET6) {
        ((struct sockaddr_in6 *)addr)->sin6_port = port;
    } else {
        ((struct sockaddr_in *)addr)->sin_port = port;
    }
}

void rs_addr_copy(const struct sockaddr *from, struct sockaddr *addr, socklen_t *addrlen)
{
    socklen_t len = rs_addr_len(from);
    memcpy(addr, from, *addrlen < len ? *addrlen : len);
    *addrlen = len;
}

bool rs_addr_is_same(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family) {
        return false;
    }
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
        return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    }
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    return a6->sin6_port == b6->sin6_port &&
           memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

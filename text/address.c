#include "text/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "text/endpoint.h"

static const struct sockaddr_in *ipv4_of(const struct sockaddr *addr)
{
    return addr != NULL && addr->sa_family == AF_INET ? (const struct sockaddr_in *)addr : NULL;
}

static const struct sockaddr_in6 *ipv6_of(const struct sockaddr *addr)
{
    return addr != NULL && addr->sa_family == AF_INET6 ? (const struct sockaddr_in6 *)addr : NULL;
}

bool text_address_host(const struct sockaddr *addr, char ret[TEXT_ADDRESS_MAX])
{
    const struct sockaddr_in *in = ipv4_of(addr);
    const struct sockaddr_in6 *in6 = ipv6_of(addr);
    if (in != NULL) {
        inet_ntop(AF_INET, &in->sin_addr, ret, TEXT_ADDRESS_MAX);
    } else if (in6 != NULL) {
        inet_ntop(AF_INET6, &in6->sin6_addr, ret, TEXT_ADDRESS_MAX);
    } else {
        snprintf(ret, TEXT_ADDRESS_MAX, "unknown");
    }
    return in != NULL || in6 != NULL;
}

uint16_t text_address_port(const struct sockaddr *addr)
{
    const struct sockaddr_in *in = ipv4_of(addr);
    const struct sockaddr_in6 *in6 = ipv6_of(addr);
    return in != NULL ? ntohs(in->sin_port) : in6 != NULL ? ntohs(in6->sin6_port) : 0;
}

const char *text_address_format(const struct sockaddr *addr, char ret[TEXT_ADDRESS_MAX])
{
    char host[TEXT_ADDRESS_MAX], port[8];
    if (text_address_host(addr, host)) {
        snprintf(port, sizeof port, "%u", text_address_port(addr));
        text_endpoint_format(host, port, ret, TEXT_ADDRESS_MAX);
    } else {
        snprintf(ret, TEXT_ADDRESS_MAX, "%s", host);
    }
    return ret;
}

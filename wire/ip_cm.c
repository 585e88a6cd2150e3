#include "wire/ip_cm.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { IP_VERSION_SHIFT = 4, IPV4_OFF = 12 };

// An address as it stands in the header becomes one as everybody has it.
static void address_get(const uint8_t *p, bool is_ipv6, struct in6_addr *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret->s6_addr + (is_ipv6 ? 0 : IPV4_OFF), p + (is_ipv6 ? 0 : IPV4_OFF),
           sizeof *ret - (is_ipv6 ? 0 : IPV4_OFF));
    if (!is_ipv6) {
        memset(ret->s6_addr + IPV4_OFF - 2, 0xff, 2);
    }
}

static void address_put(const struct in6_addr *address, bool is_ipv6, uint8_t *p)
{
    memcpy(p, address, sizeof *address);
    if (!is_ipv6) {
        memset(p, 0, IPV4_OFF);
    }
}

enum ip_cm_verdict ip_cm_header_parse(struct span private_data, struct ip_cm_header *ret)
{
    if (private_data.len < IP_CM_HEADER_LEN) {
        return IP_CM_TOO_SHORT;
    }
    const uint8_t *p = private_data.ptr;
    if (p[IP_CM_OFF_VERSION] != 0) {
        return IP_CM_VERSION;
    }
    unsigned ip_version = p[IP_CM_OFF_IP_VERSION] >> IP_VERSION_SHIFT;
    if (ip_version != 4 && ip_version != 6) {
        return IP_CM_IP_VERSION;
    }
    ret->is_ipv6 = ip_version == 6;
    ret->source_port = get_be16(p + IP_CM_OFF_SOURCE_PORT);
    address_get(p + IP_CM_OFF_SOURCE, ret->is_ipv6, &ret->source);
    address_get(p + IP_CM_OFF_DESTINATION, ret->is_ipv6, &ret->destination);
    return IP_CM_OK;
}

size_t ip_cm_header_emit(const struct ip_cm_header *h, uint8_t *buf)
{
    buf[IP_CM_OFF_VERSION] = 0;
    buf[IP_CM_OFF_IP_VERSION] = (uint8_t)((h->is_ipv6 ? 6 : 4) << IP_VERSION_SHIFT);
    put_be16(buf + IP_CM_OFF_SOURCE_PORT, h->source_port);
    address_put(&h->source, h->is_ipv6, buf + IP_CM_OFF_SOURCE);
    address_put(&h->destination, h->is_ipv6, buf + IP_CM_OFF_DESTINATION);
    return IP_CM_HEADER_LEN;
}

const char *ip_cm_header_format(const struct ip_cm_header *h, char *buf, size_t len)
{
    int family = h->is_ipv6 ? AF_INET6 : AF_INET;
    size_t skip = h->is_ipv6 ? 0 : IPV4_OFF;
    char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];
    inet_ntop(family, h->source.s6_addr + skip, source, sizeof source);
    inet_ntop(family, h->destination.s6_addr + skip, destination, sizeof destination);
    snprintf(buf, len, "%s port %u > %s", source, h->source_port, destination);
    return buf;
}

const char *ip_cm_verdict_name(enum ip_cm_verdict verdict)
{
    static const char *const names[IP_CM_VERDICT_COUNT] = {
        [IP_CM_OK] = "ok",
        [IP_CM_TOO_SHORT] = "private data end inside the IP CM header",
        [IP_CM_VERSION] = "unknown version of the IP CM header",
        [IP_CM_IP_VERSION] = "neither IPv4 nor IPv6",
    };
    return names[verdict];
}

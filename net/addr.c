#include "net/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { MAPPED_LEN = IPV6_ADDR_LEN - IPV4_ADDR_LEN };

static const uint8_t mapped[MAPPED_LEN] = {[10] = 0xff, [11] = 0xff};

/* ---- addresses ------------------------------------------------------------------------------- */

struct net_addr net_addr_from_ipv4(const uint8_t octets[IPV4_ADDR_LEN])
{
    struct net_addr a;
    memcpy(a.octets, mapped, MAPPED_LEN);
    memcpy(a.octets + MAPPED_LEN, octets, IPV4_ADDR_LEN);
    return a;
}

struct net_addr net_addr_from_ipv6(const uint8_t octets[IPV6_ADDR_LEN])
{
    struct net_addr a;
    memcpy(a.octets, octets, IPV6_ADDR_LEN);
    return a;
}

bool net_addr_parse(const char *text, struct net_addr *ret)
{
    uint8_t octets[IPV6_ADDR_LEN];
    if (inet_pton(AF_INET, text, octets) == 1) {
        *ret = net_addr_from_ipv4(octets);
        return true;
    }
    if (inet_pton(AF_INET6, text, octets) == 1) {
        *ret = net_addr_from_ipv6(octets);
        return true;
    }
    return false;
}

bool net_addr_is_ipv4(const struct net_addr *a)
{
    return memcmp(a->octets, mapped, MAPPED_LEN) == 0;
}

bool net_addr_is_any(const struct net_addr *a)
{
    static const struct net_addr zero;
    return net_addr_is_ipv4(a) ? get_be32(net_addr_ipv4(a)) == 0 : net_addr_equal(a, &zero);
}

bool net_addr_is_multicast(const struct net_addr *a)
{
    return net_addr_is_ipv4(a) ? net_addr_ipv4(a)[0] >= 0xe0 : a->octets[0] == 0xff;
}

bool net_addr_is_link_local(const struct net_addr *a)
{
    return a->octets[0] == 0xfe && (a->octets[1] & 0xc0) == 0x80;
}

bool net_addr_is_all_hosts(const struct net_addr *a)
{
    static const struct net_addr ipv4 = {{[10] = 0xff, 0xff, 224, 0, 0, 1}};
    static const struct net_addr ipv6 = {{0xff, 0x02, [15] = 1}};
    return net_addr_equal(a, &ipv4) || net_addr_equal(a, &ipv6);
}

bool net_addr_has_prefix(const struct net_addr *a, const struct net_addr *prefix, unsigned len)
{
    if (net_addr_is_ipv4(a) != net_addr_is_ipv4(prefix)) {
        return false;
    }
    len += net_addr_is_ipv4(a) ? MAPPED_LEN * 8 : 0;
    unsigned whole = len / 8, rest = len % 8;
    return memcmp(a->octets, prefix->octets, whole) == 0 &&
           (rest == 0 || (a->octets[whole] ^ prefix->octets[whole]) >> (8 - rest) == 0);
}

bool net_addr_is_broadcast(const struct net_addr *a, const struct net_addr *own, unsigned len)
{
    enum { NO_BROADCAST_LEN = 31 }; // RFC 3021: both ends of such a link are hosts
    if (!net_addr_is_ipv4(a) || len >= NO_BROADCAST_LEN || !net_addr_has_prefix(a, own, len)) {
        return false;
    }
    uint32_t hosts = UINT32_MAX >> len;
    return (get_be32(net_addr_ipv4(a)) & hosts) == hosts;
}

/* ---- socket addresses ------------------------------------------------------------------------ */

bool net_addr_from_sockaddr(const struct sockaddr *from, struct net_addr *ret, uint16_t *ret_port,
                            uint32_t *ret_scope)
{
    uint32_t scope = 0;
    if (from->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, from, sizeof v4);
        *ret = net_addr_from_ipv4((const uint8_t *)&v4.sin_addr);
        *ret_port = ntohs(v4.sin_port);
    } else if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, from, sizeof v6);
        *ret = net_addr_from_ipv6(v6.sin6_addr.s6_addr);
        *ret_port = ntohs(v6.sin6_port);
        scope = net_addr_is_link_local(ret) ? v6.sin6_scope_id : 0;
    } else {
        return false;
    }
    if (ret_scope != NULL) {
        *ret_scope = scope;
    }
    return true;
}

void net_addr_to_sockaddr(const struct net_addr *a, uint16_t port, uint32_t scope, int family,
                          struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    if (family == AF_INET && (net_addr_is_ipv4(a) || net_addr_is_any(a))) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&v4.sin_addr, net_addr_ipv4(a), IPV4_ADDR_LEN);
        memcpy(ret, &v4, sizeof v4);
        return;
    }
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = scope};
    memcpy(&v6.sin6_addr, a->octets, IPV6_ADDR_LEN);
    memcpy(ret, &v6, sizeof v6);
}

/* ---- flows ----------------------------------------------------------------------------------- */

struct tcp_tuple net_flow_tuple(const struct net_flow *flow)
{
    struct tcp_tuple tuple;
    memcpy(tuple.octets, flow, sizeof *flow);
    return tuple;
}

struct net_flow net_flow_of_tuple(const struct tcp_tuple *tuple)
{
    struct net_flow flow;
    memcpy(&flow, tuple->octets, sizeof flow);
    return flow;
}

struct net_flow net_flow_turned(const struct net_flow *flow)
{
    return (struct net_flow){.local = flow->remote,
                             .remote = flow->local,
                             .scope = flow->scope,
                             .local_port = flow->remote_port,
                             .remote_port = flow->local_port};
}

static int addr_format(const struct net_addr *a, char *buf, size_t len)
{
    const uint8_t *p = net_addr_ipv4(a);
    if (net_addr_is_ipv4(a)) {
        return snprintf(buf, len, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
    }
    int at = snprintf(buf, len, "[");
    for (unsigned i = 0; i < IPV6_ADDR_LEN; i += 2) {
        at +=
            snprintf(buf + at, len - (size_t)at, "%s%x", i > 0 ? ":" : "", get_be16(a->octets + i));
    }
    return at + snprintf(buf + at, len - (size_t)at, "]");
}

const char *net_flow_format(const struct net_flow *flow, char *buf)
{
    size_t len = NET_FLOW_TEXT_LEN;
    int at = addr_format(&flow->local, buf, len);
    at += snprintf(buf + at, len - (size_t)at, ":%u > ", flow->local_port);
    at += addr_format(&flow->remote, buf + at, len - (size_t)at);
    snprintf(buf + at, len - (size_t)at, ":%u", flow->remote_port);
    return buf;
}

uint64_t net_flow_pseudo_sum(const struct net_flow *flow, uint8_t protocol, uint32_t len)
{
    if (net_addr_is_ipv4(&flow->local)) {
        struct ipv4_header h = {.protocol = protocol};
        memcpy(h.src, net_addr_ipv4(&flow->local), IPV4_ADDR_LEN);
        memcpy(h.dst, net_addr_ipv4(&flow->remote), IPV4_ADDR_LEN);
        return inet_sum_ipv4(&h, len);
    }
    struct ipv6_header h = {.next_header = protocol};
    memcpy(h.src, flow->local.octets, IPV6_ADDR_LEN);
    memcpy(h.dst, flow->remote.octets, IPV6_ADDR_LEN);
    return inet_sum_ipv6(&h, len);
}

static size_t ipv4_emit(const struct net_flow *flow, const struct net_packet *packet, uint8_t *buf)
{
    const size_t header_len = IPV4_HEADER_LEN + (packet->has_alert ? IPV4_ALERT_LEN : 0);
    struct ipv4_header h = {.tos = packet->tos,
                            .total_len = (uint16_t)(header_len + packet->body_len),
                            .id = packet->ipv4_id,
                            .ttl = packet->hops,
                            .protocol = packet->protocol,
                            .has_alert = packet->has_alert};
    memcpy(h.src, net_addr_ipv4(&flow->local), IPV4_ADDR_LEN);
    memcpy(h.dst, net_addr_ipv4(&flow->remote), IPV4_ADDR_LEN);
    return ipv4_header_emit(&h, buf);
}

static size_t ipv6_emit(const struct net_flow *flow, const struct net_packet *packet, uint8_t *buf)
{
    const size_t alert_len = packet->has_alert ? IPV6_ALERT_LEN : 0;
    struct ipv6_header h = {.traffic_class = packet->tos,
                            .flow_label = packet->flow_label,
                            .payload_len = (uint16_t)(alert_len + packet->body_len),
                            .next_header = packet->protocol,
                            .hop_limit = packet->hops,
                            .has_alert = packet->has_alert};
    memcpy(h.src, flow->local.octets, IPV6_ADDR_LEN);
    memcpy(h.dst, flow->remote.octets, IPV6_ADDR_LEN);
    return ipv6_header_emit(&h, buf);
}

size_t net_flow_ip_emit(const struct net_flow *flow, const struct net_packet *packet, uint8_t *buf)
{
    return net_addr_is_ipv4(&flow->local) ? ipv4_emit(flow, packet, buf)
                                          : ipv6_emit(flow, packet, buf);
}

// ICMP of both families: echo requests, and messages about our own segments.

#include <errno.h>

#include "base/bytes.h"
#include "base/span.h"
#include "base/time.h"
#include "net/addr.h"
#include "net/iface_internal.h"
#include "net/segment.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum { IPV4_MTU_MIN = NET_MTU_MIN, IPV6_MTU_MIN = 1280 };

/* ---- about our segments ---------------------------------------------------------------------- */

// The packet that a message quotes, as far as it must be there: its IP header, written by us and so
// without options or extension headers, and the beginning of its segment.
static bool quoted_segment(struct span quoted, bool is_ipv6, struct net_flow *ret_flow,
                           struct span *ret_tcp)
{
    size_t ip_len = is_ipv6 ? IPV6_HEADER_LEN : IPV4_HEADER_LEN;
    const uint8_t *p = quoted.ptr;
    if (quoted.len < ip_len + NET_QUOTED_LEN) {
        return false;
    }
    *ret_tcp = span_skip(quoted, ip_len);
    if (is_ipv6) {
        ret_flow->local = net_addr_from_ipv6(p + IPV6_OFF_SRC);
        ret_flow->remote = net_addr_from_ipv6(p + IPV6_OFF_DST);
        return p[0] >> 4 == 6 && p[IPV6_OFF_NEXT_HEADER] == IP_PROTOCOL_TCP;
    }
    ret_flow->local = net_addr_from_ipv4(p + IPV4_OFF_SRC);
    ret_flow->remote = net_addr_from_ipv4(p + IPV4_OFF_DST);
    return p[0] == (4 << 4 | IPV4_HEADER_LEN / 4) && p[IPV4_OFF_PROTOCOL] == IP_PROTOCOL_TCP;
}

// A negative errno where the destination cannot be reached, 0 for all other messages.
static int error_of(const struct icmp_header *h, bool is_ipv6)
{
    static const int of_ipv4[] = {
        [ICMP_NET_UNREACHABLE] = -ENETUNREACH,
        [ICMP_HOST_UNREACHABLE] = -EHOSTUNREACH,
        [ICMP_PROTOCOL_UNREACHABLE] = -ENOPROTOOPT,
        [ICMP_PORT_UNREACHABLE] = -ECONNREFUSED,
        [ICMP_NET_UNKNOWN] = -ENETUNREACH,
        [ICMP_HOST_UNKNOWN] = -EHOSTUNREACH,
        [ICMP_HOST_ISOLATED] = -EHOSTUNREACH,
        [ICMP_NET_PROHIBITED] = -ENETUNREACH,
        [ICMP_HOST_PROHIBITED] = -EHOSTUNREACH,
        [ICMP_NET_UNREACHABLE_FOR_TOS] = -ENETUNREACH,
        [ICMP_HOST_UNREACHABLE_FOR_TOS] = -EHOSTUNREACH,
        [ICMP_PROHIBITED] = -EHOSTUNREACH,
        [ICMP_PRECEDENCE_VIOLATION] = -EHOSTUNREACH,
        [ICMP_PRECEDENCE_CUTOFF] = -EHOSTUNREACH,
    };
    static const int of_ipv6[] = {
        [ICMPV6_NO_ROUTE] = -ENETUNREACH,
        [ICMPV6_PROHIBITED] = -EACCES,
        [ICMPV6_ADDRESS_UNREACHABLE] = -EHOSTUNREACH,
        [ICMPV6_PORT_UNREACHABLE] = -ECONNREFUSED,
        [ICMPV6_SOURCE_PROHIBITED] = -EACCES,
        [ICMPV6_ROUTE_REJECTED] = -EACCES,
    };
    size_t count =
        is_ipv6 ? sizeof of_ipv6 / sizeof of_ipv6[0] : sizeof of_ipv4 / sizeof of_ipv4[0];
    if (is_ipv6 && h->type == ICMPV6_PARAMETER_PROBLEM) { // IPv4 has protocol unreachable
        return h->code == ICMPV6_UNKNOWN_NEXT_HEADER ? -EPROTO : 0;
    }
    if (h->type != (is_ipv6 ? ICMPV6_UNREACHABLE : ICMP_UNREACHABLE) || h->code >= count) {
        return 0;
    }
    return is_ipv6 ? of_ipv6[h->code] : of_ipv4[h->code];
}

// The MTU that a message tells, 0: it is not about that. Nobody may say less than what every path
// has to carry (RFC 1191 section 3, RFC 8201 section 4).
static uint32_t mtu_of(const struct icmp_header *h, bool is_ipv6)
{
    uint32_t mtu, least = is_ipv6 ? IPV6_MTU_MIN : IPV4_MTU_MIN;
    if (is_ipv6 && h->type == ICMPV6_TOO_BIG) {
        mtu = h->rest;
    } else if (!is_ipv6 && h->type == ICMP_UNREACHABLE && h->code == ICMP_FRAGMENTATION_NEEDED) {
        mtu = h->rest & UINT16_MAX;
    } else {
        return 0;
    }
    return mtu < least ? least : mtu > NET_MTU_MAX ? NET_MTU_MAX : mtu;
}

static void on_icmp_error(struct net_iface *iface, const struct icmp_header *h, struct span quoted,
                          bool is_ipv6, struct net_arrival *ret)
{
    struct span tcp;
    int error = error_of(h, is_ipv6);
    uint32_t mtu = mtu_of(h, is_ipv6);
    if (error == 0 && mtu == 0) {
        return;
    }
    ret->flow = (struct net_flow){0};
    if (!quoted_segment(quoted, is_ipv6, &ret->flow, &tcp) ||
        !net_iface_has_addr(iface, &ret->flow.local)) {
        iface->counters.bad_icmp++;
        return;
    }
    ret->kind = mtu != 0 ? NET_ARRIVAL_PATH : NET_ARRIVAL_UNREACHABLE;
    ret->error = error;
    ret->segment_len_max = mtu == 0 ? 0 : mtu - (is_ipv6 ? IPV6_HEADER_LEN : IPV4_HEADER_LEN);
    ret->flow.local_port = get_be16(tcp.ptr + TCP_OFF_SRC_PORT);
    ret->flow.remote_port = get_be16(tcp.ptr + TCP_OFF_DST_PORT);
    ret->quoted = tcp;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void answer_echo(struct net_iface *iface, const struct ip_packet *packet,
                        const struct icmp_header *request, struct span data)
{
    uint8_t header[ICMP_HEADER_LEN];
    struct icmp_header reply = {.type = packet->is_ipv6 ? ICMPV6_ECHO_REPLY : ICMP_ECHO_REPLY,
                                .rest = request->rest};
    icmp_header_emit(&reply, data, icmp_pseudo_sum(&packet->flow, packet->body.len), header);
    iface->counters.echoes++;
    iface_send_message(iface, &packet->flow, iface->config.hops, span_of(header, sizeof header),
                       data, &packet->from_eth);
}

static bool is_neighbour_message(const struct ip_packet *packet, const struct icmp_header *h)
{
    return packet->is_ipv6 &&
           (h->type == ICMPV6_NEIGHBOUR_SOLICITATION || h->type == ICMPV6_NEIGHBOUR_ADVERTISEMENT);
}

void iface_on_icmp(struct net_iface *iface, const struct ip_packet *packet, instant_ns now,
                   struct net_arrival *ret)
{
    struct icmp_header h;
    struct span body;
    struct net_flow turned = net_flow_turned(&packet->flow);
    uint64_t sum = icmp_pseudo_sum(&turned, packet->body.len);
    if (icmp_header_parse(packet->body, sum, &h, &body) != ICMP_PARSE_OK) {
        iface->counters.bad_checksums++;
        return;
    }
    if (is_neighbour_message(packet, &h)) {
        iface_on_neighbour_message(iface, packet, now, ret);
    } else if (packet->is_ipv6 && h.type == ICMPV6_LISTENER_QUERY && iface->config.reports_groups) {
        iface_on_listener_query(iface, packet, now);
    } else if (!net_iface_has_addr(iface, &packet->flow.local)) {
        iface->counters.of_others++;
    } else if (h.type == (packet->is_ipv6 ? ICMPV6_ECHO_REQUEST : ICMP_ECHO_REQUEST)) {
        answer_echo(iface, packet, &h, body);
    } else {
        on_icmp_error(iface, &h, body, packet->is_ipv6, ret);
    }
}

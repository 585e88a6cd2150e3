#include "wire/grh.h"

#include <string.h>

#include "base/bytes.h"
#include "base/span.h"
#include "wire/icrc.h"
#include "wire/udp_header.h"

static void emit_ipv4(const struct datagram_rx *rx, uint16_t udp_len, uint8_t *buf)
{
    struct ipv4_header h = {
        .tos = rx->traffic_class,
        .total_len = (uint16_t)(IPV4_HEADER_LEN + udp_len),
        .ttl = rx->hop_limit,
        .protocol = IP_PROTOCOL_UDP,
    };
    memcpy(h.src, &rx->remote.s6_addr[12], IPV4_ADDR_LEN);
    memcpy(h.dst, &rx->local.s6_addr[12], IPV4_ADDR_LEN);
    memset(buf, 0, GRH_OFF_IPV4);
    ipv4_header_emit(&h, buf + GRH_OFF_IPV4);
}

static void emit_ipv6(const struct datagram_rx *rx, uint16_t udp_len, uint8_t *buf)
{
    struct ipv6_header h = {
        .traffic_class = rx->traffic_class,
        .flow_label = rx->flow_label,
        .payload_len = udp_len,
        .next_header = IP_PROTOCOL_UDP,
        .hop_limit = rx->hop_limit,
    };
    memcpy(h.src, &rx->remote, IPV6_ADDR_LEN);
    memcpy(h.dst, &rx->local, IPV6_ADDR_LEN);
    ipv6_header_emit(&h, buf);
}

void grh_emit(const struct datagram_rx *rx, uint8_t *buf)
{
    uint16_t udp_len = (uint16_t)(UDP_HEADER_LEN + rx->octets.len + ICRC_LEN);
    if (IN6_IS_ADDR_V4MAPPED(&rx->remote)) {
        emit_ipv4(rx, udp_len, buf);
    } else {
        emit_ipv6(rx, udp_len, buf);
    }
}

static void map(const uint8_t *ipv4, struct in6_addr *ret)
{
    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&ret->s6_addr[12], ipv4, IPV4_ADDR_LEN);
}

static bool is_ipv4_header(const uint8_t *p)
{
    return p[0] == (4 << 4 | IPV4_HEADER_LEN / 4) &&
           inet_sum_fold(inet_sum_add(0, span_of(p, IPV4_HEADER_LEN))) == 0;
}

static void read_ipv4(const uint8_t *p, struct grh *ret)
{
    *ret = (struct grh){.traffic_class = p[IPV4_OFF_TOS], .hop_limit = p[IPV4_OFF_TTL]};
    map(p + IPV4_OFF_SRC, &ret->src);
    map(p + IPV4_OFF_DST, &ret->dst);
}

static void read_ipv6(const uint8_t *p, struct grh *ret)
{
    uint32_t word = get_be32(p);
    *ret = (struct grh){
        .flow_label = word & 0xfffff,
        .traffic_class = (uint8_t)(word >> 20),
        .hop_limit = p[IPV6_OFF_HOP_LIMIT],
    };
    memcpy(&ret->src, p + IPV6_OFF_SRC, IPV6_ADDR_LEN);
    memcpy(&ret->dst, p + IPV6_OFF_DST, IPV6_ADDR_LEN);
}

bool grh_parse(const uint8_t *octets, struct grh *ret)
{
    if (is_ipv4_header(octets + GRH_OFF_IPV4)) {
        read_ipv4(octets + GRH_OFF_IPV4, ret);
        return true;
    }
    if (octets[0] >> 4 == 6) {
        read_ipv6(octets, ret);
        return true;
    }
    return false;
}

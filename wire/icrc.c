#include "wire/icrc.h"

#include <isa-l/crc.h>
#include <string.h>

#include "base/check.h"
#include "wire/bth.h"
#include "wire/ip.h"
#include "wire/isal.h"
#include "wire/udp_header.h"

enum {
    ICRC_SEED = 0x2144df1c, // the CRC of eight octets 0xff, which stand for the absent LRH
    OUTER_MAX_LEN = IPV6_HEADER_LEN + UDP_HEADER_LEN,
    IPV4_VERSION_AND_LEN = 4 << 4 | IPV4_HEADER_LEN / 4,
};

uint32_t icrc_update(uint32_t state, const void *octets, size_t len)
{
    state = crc32_gzip_refl(state, octets, len);
    isal_leave_vectors(len);
    return state;
}

/* ---- what stands in front of the BTH --------------------------------------------------------- */

// Each sets what routers change to ones.

static void mask_ipv4(uint8_t *p)
{
    p[IPV4_OFF_TOS] = 0xff;
    p[IPV4_OFF_TTL] = 0xff;
    put_be16(p + IPV4_OFF_CHECKSUM, 0xffff);
}

static void mask_ipv6(uint8_t *p)
{
    put_be32(p, get_be32(p) | 0x0fffffff); // traffic class and flow label
    p[IPV6_OFF_HOP_LIMIT] = 0xff;
}

static void mask_udp(uint8_t *p)
{
    put_be16(p + UDP_OFF_CHECKSUM, 0xffff);
}

static size_t put_ipv4(const struct icrc_outer *o, uint8_t *p)
{
    p[0] = IPV4_VERSION_AND_LEN;
    put_be16(p + IPV4_OFF_TOTAL_LEN, (uint16_t)(IPV4_HEADER_LEN + o->udp_len));
    put_be16(p + IPV4_OFF_ID, o->id);
    put_be16(p + IPV4_OFF_FLAGS, o->fragment);
    p[IPV4_OFF_PROTOCOL] = IP_PROTOCOL_UDP;
    memcpy(p + IPV4_OFF_SRC, &o->src->s6_addr[12], IPV4_ADDR_LEN);
    memcpy(p + IPV4_OFF_DST, &o->dst->s6_addr[12], IPV4_ADDR_LEN);
    mask_ipv4(p);
    return IPV4_HEADER_LEN;
}

static size_t put_ipv6(const struct icrc_outer *o, uint8_t *p)
{
    put_be32(p, 6U << 28);
    put_be16(p + IPV6_OFF_PAYLOAD_LEN, o->udp_len);
    p[IPV6_OFF_NEXT_HEADER] = IP_PROTOCOL_UDP;
    memcpy(p + IPV6_OFF_SRC, o->src, IPV6_ADDR_LEN);
    memcpy(p + IPV6_OFF_DST, o->dst, IPV6_ADDR_LEN);
    mask_ipv6(p);
    return IPV6_HEADER_LEN;
}

uint32_t icrc_begin(const struct icrc_outer *outer)
{
    uint8_t buf[OUTER_MAX_LEN];
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(outer->src);
    size_t ip_len = is_ipv4 ? put_ipv4(outer, buf) : put_ipv6(outer, buf);
    uint8_t *udp = buf + ip_len;
    put_be16(udp + UDP_OFF_SRC_PORT, outer->src_port);
    put_be16(udp + UDP_OFF_DST_PORT, outer->dst_port);
    put_be16(udp + UDP_OFF_LEN, outer->udp_len);
    mask_udp(udp);
    return icrc_update(ICRC_SEED, buf, ip_len + UDP_HEADER_LEN);
}

uint32_t icrc_finish(uint32_t state, uint8_t *packet, size_t len)
{
    const uint8_t ecn = packet[BTH_OFF_ECN];
    packet[BTH_OFF_ECN] = 0xff;
    state = icrc_update(state, packet, len);
    packet[BTH_OFF_ECN] = ecn;
    return state;
}

/* ---- of a packet ----------------------------------------------------------------------------- */

// Length of the IP header that `packet` begins with; 0: none that carries RoCE.
static size_t ip_header_len(struct span packet)
{
    const uint8_t *p = packet.ptr;
    if (packet.len >= IPV4_HEADER_LEN && p[0] == IPV4_VERSION_AND_LEN &&
        p[IPV4_OFF_PROTOCOL] == IP_PROTOCOL_UDP) {
        return IPV4_HEADER_LEN;
    }
    if (packet.len >= IPV6_HEADER_LEN && p[0] >> 4 == 6 &&
        p[IPV6_OFF_NEXT_HEADER] == IP_PROTOCOL_UDP) {
        return IPV6_HEADER_LEN;
    }
    return 0;
}

bool icrc_of_packet(struct span packet, uint32_t *ret)
{
    uint8_t buf[OUTER_MAX_LEN + BTH_LEN];
    size_t ip_len = ip_header_len(packet);
    size_t outer_len = ip_len + UDP_HEADER_LEN;
    size_t head_len = outer_len + BTH_LEN;
    if (ip_len == 0 || packet.len < head_len) {
        return false;
    }
    memcpy(buf, packet.ptr, head_len);
    if (ip_len == IPV4_HEADER_LEN) {
        mask_ipv4(buf);
    } else {
        mask_ipv6(buf);
    }
    mask_udp(buf + ip_len);
    uint32_t state = icrc_update(ICRC_SEED, buf, outer_len);
    state = icrc_finish(state, buf + outer_len, BTH_LEN);
    *ret = icrc_update(state, packet.ptr + head_len, packet.len - head_len);
    return true;
}

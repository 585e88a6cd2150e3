// Any octets as an IP packet of RoCE: its ICRC is the same from the packet and from what a sender
// knows of it, whatever routers did; and any 40 octets as what precedes a datagram's payload.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/bth.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PACKET_MAX_LEN = 8192 };

static void map(const uint8_t *ipv4, struct in6_addr *ret)
{
    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&ret->s6_addr[12], ipv4, IPV4_ADDR_LEN);
}

// What a sender of this packet would have begun with. The lengths have to agree, as a sender's do.
static bool outer_of(struct span packet, struct in6_addr *src, struct in6_addr *dst,
                     struct icrc_outer *ret, size_t *ret_ip_len)
{
    const uint8_t *p = packet.ptr;
    bool is_ipv4 = p[0] >> 4 == 4;
    size_t ip_len = is_ipv4 ? IPV4_HEADER_LEN : IPV6_HEADER_LEN;
    size_t udp_len = packet.len - ip_len + ICRC_LEN;
    size_t ip_says = is_ipv4 ? (size_t)get_be16(p + IPV4_OFF_TOTAL_LEN) - IPV4_HEADER_LEN
                             : get_be16(p + IPV6_OFF_PAYLOAD_LEN);
    if (is_ipv4) {
        map(p + IPV4_OFF_SRC, src);
        map(p + IPV4_OFF_DST, dst);
    } else {
        memcpy(src, p + IPV6_OFF_SRC, IPV6_ADDR_LEN);
        memcpy(dst, p + IPV6_OFF_DST, IPV6_ADDR_LEN);
    }
    const uint8_t *udp = p + ip_len;
    *ret = (struct icrc_outer){.src = src,
                               .dst = dst,
                               .id = get_be16(p + IPV4_OFF_ID),
                               .fragment = get_be16(p + IPV4_OFF_FLAGS),
                               .src_port = get_be16(udp),
                               .dst_port = get_be16(udp + 2),
                               .udp_len = (uint16_t)udp_len};
    *ret_ip_len = ip_len;
    return udp_len == get_be16(udp + UDP_OFF_LEN) && udp_len == ip_says &&
           (is_ipv4 || !IN6_IS_ADDR_V4MAPPED(src));
}

static void same_from_what_a_sender_knows(struct span packet, uint32_t icrc)
{
    struct in6_addr src, dst;
    struct icrc_outer outer;
    size_t ip_len;
    if (!outer_of(packet, &src, &dst, &outer, &ip_len)) {
        return;
    }
    uint8_t copy[PACKET_MAX_LEN];
    memcpy(copy, packet.ptr, packet.len);
    uint8_t *bth = copy + ip_len + UDP_HEADER_LEN;
    size_t len = packet.len - ip_len - UDP_HEADER_LEN;
    CHECK(icrc_finish(icrc_begin(&outer), bth, len) == icrc);
    static struct icrc_ids ids;
    if (ids.factors[0] == 0) {
        icrc_ids_init(&ids);
    }
    uint16_t id = outer.id, found;
    outer.id = 0;
    uint32_t difference = icrc ^ icrc_finish(icrc_begin(&outer), bth, len);
    if (packet.ptr[0] >> 4 == 4 && icrc_ids_find(&ids, outer.udp_len, difference, &found)) {
        CHECK(found == id);
    }
}

static void same_behind_a_router(struct span packet, uint32_t icrc)
{
    uint8_t copy[PACKET_MAX_LEN];
    uint32_t again;
    memcpy(copy, packet.ptr, packet.len);
    if (copy[0] >> 4 == 4) {
        copy[IPV4_OFF_TOS] ^= 3;
        copy[IPV4_OFF_TTL]--;
        copy[IPV4_OFF_CHECKSUM] ^= 1;
    } else {
        copy[1] ^= 0x30;
        copy[IPV6_OFF_HOP_LIMIT]--;
    }
    CHECK(icrc_of_packet(span_of(copy, packet.len), &again) && again == icrc);
    copy[packet.len - 1] ^= 1;
    CHECK(icrc_of_packet(span_of(copy, packet.len), &again) && again != icrc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t icrc;
    struct grh grh;
    struct span packet = span_of(data, size < PACKET_MAX_LEN ? size : PACKET_MAX_LEN);
    if (icrc_of_packet(packet, &icrc)) {
        same_from_what_a_sender_knows(packet, icrc);
        same_behind_a_router(packet, icrc);
    }
    if (size >= GRH_LEN && grh_parse(data, &grh)) {
        CHECK(grh.flow_label <= 0xfffff);
    }
    return 0;
}

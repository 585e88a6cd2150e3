#include "draw/frame.h"

#include <string.h>

#include "base/bytes.h"
#include "text/address.h"
#include "wire/bth.h"
#include "wire/eth.h"
#include "wire/icrc.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wire/roce_verdict.h"
#include "wire/udp_header.h"

enum link_type {
    LINK_NULL = 0,
    LINK_EN10MB = 1,
    LINK_RAW_BSD = 12,
    LINK_RAW_OPENBSD = 14,
    LINK_RAW = 101,
    LINK_LOOP = 108,
    LINK_SLL = 113,
    LINK_IPV4 = 228,
    LINK_IPV6 = 229,
    LINK_SLL2 = 276,
};

enum {
    VLAN_TAG_LEN = 4,
    VLAN_TAGS_MAX = 2,
    ETH_TYPE_VLAN = 0x8100,
    ETH_TYPE_SERVICE_VLAN = 0x88a8,
    SLL_OFF_TYPE = 14,
    SLL_LEN = 16,
    SLL2_OFF_TYPE = 0,
    SLL2_LEN = 20,
    FAMILY_LEN = 4,
    PMTU_MAX = 4096,
};

const char *frame_verdict_text(enum frame_verdict verdict, const struct frame *f)
{
    static const char *const texts[FRAME_VERDICT_COUNT] = {
        [FRAME_OK] = "ok",
        [FRAME_LINK_TYPE] = "a link type that weft does not know",
        [FRAME_NOT_IP] = "not IP",
        [FRAME_CUT] = "captured too short for its headers",
        [FRAME_UDP] = "a UDP length that is not the packet's",
    };
    switch (verdict) {
    case FRAME_IP:
        return ip_parse_verdict_name(f->ip);
    case FRAME_TCP_HEADER:
        return tcp_parse_verdict_name(f->tcp_verdict);
    default:
        return texts[verdict];
    }
}

/* ---- the link's header ----------------------------------------------------------------------- */

// A header of `len` octets whose EtherType stands at `type_at`.
static enum frame_verdict skip_typed(struct span *packet, size_t type_at, size_t len)
{
    if (packet->len < len) {
        return FRAME_CUT;
    }
    uint16_t type = get_be16(packet->ptr + type_at);
    *packet = span_skip(*packet, len);
    for (unsigned tags = 0; type == ETH_TYPE_VLAN || type == ETH_TYPE_SERVICE_VLAN; tags++) {
        if (packet->len < VLAN_TAG_LEN || tags == VLAN_TAGS_MAX) {
            return FRAME_CUT;
        }
        type = get_be16(packet->ptr + 2);
        *packet = span_skip(*packet, VLAN_TAG_LEN);
    }
    return type == ETH_TYPE_IPV4 || type == ETH_TYPE_IPV6 ? FRAME_OK : FRAME_NOT_IP;
}

static enum frame_verdict skip_link(uint32_t link_type, struct span *packet)
{
    switch (link_type) {
    case LINK_EN10MB:
        return skip_typed(packet, ETH_OFF_TYPE, ETH_HEADER_LEN);
    case LINK_SLL:
        return skip_typed(packet, SLL_OFF_TYPE, SLL_LEN);
    case LINK_SLL2:
        return skip_typed(packet, SLL2_OFF_TYPE, SLL2_LEN);
    case LINK_NULL:
    case LINK_LOOP:
        if (packet->len < FAMILY_LEN) {
            return FRAME_CUT;
        }
        *packet = span_skip(*packet, FAMILY_LEN);
        return FRAME_OK;
    case LINK_RAW:
    case LINK_RAW_BSD:
    case LINK_RAW_OPENBSD:
    case LINK_IPV4:
    case LINK_IPV6:
        return FRAME_OK;
    default:
        return FRAME_LINK_TYPE;
    }
}

/* ---- IP -------------------------------------------------------------------------------------- */

static struct in6_addr mapped(const uint8_t ipv4[IPV4_ADDR_LEN])
{
    struct in6_addr a = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(a.s6_addr + IPV6_ADDR_LEN - IPV4_ADDR_LEN, ipv4, IPV4_ADDR_LEN);
    return a;
}

// What the packet carries, `*ret_protocol`; `*ret_len`: octets of the packet without what a lower
// layer padded.
static enum frame_verdict parse_ip(struct span packet, struct frame *f, struct span *ret_body,
                                   uint8_t *ret_protocol)
{
    struct ipv4_header v4;
    struct ipv6_header v6;
    if (packet.len > 0 && packet.ptr[0] >> 4 == 4) {
        f->ip = ipv4_header_parse(packet, &v4, ret_body);
        if (f->ip == IP_PARSE_OK) {
            f->src.addr = mapped(v4.src);
            f->dst.addr = mapped(v4.dst);
            *ret_protocol = v4.protocol;
        }
    } else {
        f->ip = ipv6_header_parse(packet, &v6, ret_body);
        if (f->ip == IP_PARSE_OK) {
            memcpy(f->src.addr.s6_addr, v6.src, IPV6_ADDR_LEN);
            memcpy(f->dst.addr.s6_addr, v6.dst, IPV6_ADDR_LEN);
            *ret_protocol = v6.next_header;
        }
    }
    return f->ip == IP_PARSE_OK ? FRAME_OK : FRAME_IP;
}

/* ---- what it carries ------------------------------------------------------------------------- */

static enum frame_verdict parse_tcp(struct span segment, struct frame *f)
{
    size_t len;
    f->tcp_verdict = tcp_header_parse(segment, &f->tcp, &len);
    if (f->tcp_verdict != TCP_PARSE_OK) {
        return FRAME_TCP_HEADER;
    }
    f->kind = FRAME_TCP;
    f->src.port = f->tcp.src_port;
    f->dst.port = f->tcp.dst_port;
    f->payload = span_skip(segment, len);
    return FRAME_OK;
}

// Requests have PSNs of their sender's, answers those of the requests that they answer: only within
// one of these rows one packet is behind the other.
static bool is_in_order(const struct bth *bth, const struct bth *first)
{
    int32_t behind = psn_diff(bth->psn, first->psn);
    return roce_opcode_facts(bth->opcode)->is_response !=
               roce_opcode_facts(first->opcode)->is_response ||
           (behind >= 0 && behind < 1 << 16);
}

// Whether a packet for the same queue pair, with a PSN not far behind, begins here.
static bool is_next(struct span octets, const struct bth *first)
{
    struct bth bth;
    if (octets.len < BTH_LEN + ICRC_LEN || bth_parse(octets, &bth) != ROCE_PARSE_OK) {
        return false;
    }
    return bth.dest_qp == first->dest_qp && bth.pkey == first->pkey &&
           roce_opcode_facts(bth.opcode)->is_known && is_in_order(&bth, first);
}

// How many octets each of the packets takes that stand in one datagram, the last one perhaps fewer;
// 0: it is one packet. Such a datagram has no ICRC that is right, or is longer than a packet.
static size_t stride_of(struct span datagram)
{
    struct bth first;
    if (bth_parse(datagram, &first) != ROCE_PARSE_OK) {
        return 0;
    }
    for (size_t stride = BTH_LEN + ICRC_LEN; stride < datagram.len; stride += 4) {
        size_t at = stride;
        while (at < datagram.len && is_next(span_skip(datagram, at), &first)) {
            at += stride;
        }
        if (at >= datagram.len) {
            return stride;
        }
    }
    return 0;
}

static void take_packet(struct frame *f, struct span datagram)
{
    size_t len = f->stride != 0 && f->stride < datagram.len ? f->stride : datagram.len;
    f->payload = span_first(datagram, len - ICRC_LEN);
    f->rest = span_skip(datagram, len);
}

bool frame_next(struct frame *f)
{
    if (f->rest.len == 0) {
        return false;
    }
    take_packet(f, f->rest);
    return true;
}

// `packet` begins with the IP header and ends with the ICRC.
static enum frame_verdict parse_roce(struct span packet, struct span datagram, bool is_whole,
                                     struct frame *f)
{
    if (datagram.len < ICRC_LEN) {
        return FRAME_UDP;
    }
    uint32_t icrc;
    struct span covered = span_first(packet, packet.len - ICRC_LEN);
    f->is_icrc_wrong =
        is_whole && icrc_of_packet(covered, &icrc) && icrc != icrc_get(covered.ptr + covered.len);
    f->kind = FRAME_ROCE;
    bool is_too_long = datagram.len > ROCE_HEAD_MAX_LEN + PMTU_MAX + ICRC_LEN;
    f->stride = f->is_icrc_wrong || is_too_long ? stride_of(datagram) : 0;
    f->is_icrc_wrong &= f->stride == 0;
    take_packet(f, datagram);
    return FRAME_OK;
}

static enum frame_verdict parse_udp(struct span packet, struct span body, bool is_whole,
                                    uint16_t roce_port, struct frame *f)
{
    if (body.len < UDP_HEADER_LEN) {
        return FRAME_UDP;
    }
    f->src.port = get_be16(body.ptr + UDP_OFF_SRC_PORT);
    f->dst.port = get_be16(body.ptr + UDP_OFF_DST_PORT);
    size_t len = get_be16(body.ptr + UDP_OFF_LEN);
    struct span datagram = span_skip(body, UDP_HEADER_LEN);
    if (f->dst.port == roce_port) {
        return len == body.len ? parse_roce(packet, datagram, is_whole, f) : FRAME_UDP;
    }
    if (datagram.len >= TCP_HEADER_LEN && get_be16(datagram.ptr) == f->src.port &&
        get_be16(datagram.ptr + TCP_OFF_DST_PORT) == f->dst.port) {
        return parse_tcp(datagram, f);
    }
    return FRAME_OK;
}

// The packet as it was, with zeros for what was not captured.
static struct span whole(struct span octets, uint32_t len, uint8_t *scratch)
{
    memcpy(scratch, octets.ptr, octets.len);
    memset(scratch + octets.len, 0, len - octets.len);
    return span_of(scratch, len);
}

enum frame_verdict frame_parse(const struct capture_packet *packet, uint16_t roce_port,
                               uint8_t *scratch, struct frame *ret)
{
    *ret = (struct frame){0};
    struct span octets = packet->octets, body;
    size_t missing = packet->len - packet->octets.len;
    if (missing > 0 && packet->len <= FRAME_SCRATCH_LEN) {
        octets = whole(octets, packet->len, scratch);
    }
    const uint8_t *captured_end = octets.ptr + packet->octets.len;
    enum frame_verdict verdict = skip_link(packet->link_type, &octets);
    if (verdict != FRAME_OK) {
        return verdict;
    }
    uint8_t protocol = 0;
    verdict = parse_ip(octets, ret, &body, &protocol);
    if (verdict != FRAME_OK) {
        return verdict;
    }
    const uint8_t *end = body.ptr + body.len;
    bool is_whole = end <= captured_end;
    struct span ip = span_of(octets.ptr, (size_t)(end - octets.ptr));
    if (protocol == IP_PROTOCOL_TCP) {
        verdict = parse_tcp(body, ret);
    } else if (protocol == IP_PROTOCOL_UDP) {
        verdict = parse_udp(ip, body, is_whole, roce_port, ret);
    }
    if (verdict == FRAME_OK && ret->kind != FRAME_OTHER) {
        const uint8_t *payload_end = ret->payload.ptr + ret->payload.len;
        if (ret->payload.ptr > captured_end) {
            return FRAME_CUT;
        }
        ret->cut_len = payload_end > captured_end ? (size_t)(payload_end - captured_end) : 0;
    }
    return verdict;
}

const char *frame_end_format(const struct frame_end *end, char buf[FRAME_END_TEXT_MAX])
{
    _Static_assert((int)FRAME_END_TEXT_MAX >= (int)TEXT_ADDRESS_MAX, "room for an address");
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htobe16(end->port), .sin6_addr = end->addr};
    if (!IN6_IS_ADDR_V4MAPPED(&end->addr)) {
        return text_address_format((const struct sockaddr *)&in6, buf);
    }
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htobe16(end->port)};
    memcpy(&in.sin_addr, end->addr.s6_addr + IPV6_ADDR_LEN - IPV4_ADDR_LEN, IPV4_ADDR_LEN);
    return text_address_format((const struct sockaddr *)&in, buf);
}

#include "link/pcap_flow.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ip.h"
#include "wire/tcp.h"

enum {
    SEGMENT_MAX = 65000, // octets of payload; fits behind the longest headers
    UNIT_MAX = MPA_FPDU_MAX_LEN + (MPA_FPDU_MAX_LEN / MPA_MARKER_INTERVAL + 2) * MPA_MARKER_LEN,
    UNIT_ROOM_MIN = 2048,
    HEADERS_MAX = IPV6_HEADER_LEN + TCP_HEADER_MAX_LEN,
    MSS = 65495,
    HOPS = 64,
};
STATIC_CHECK(SEGMENT_MAX + HEADERS_MAX <= PCAP_SNAP_LEN);

/* ---- addresses ------------------------------------------------------------------------------- */

static void addr_normalise(struct sockaddr_storage *ret, const struct sockaddr_storage *addr)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
    *ret = *addr;
    if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6->sin6_port};
        memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
        memset(ret, 0, sizeof *ret);
        memcpy(ret, &v4, sizeof v4);
    }
}

// In host order; both families have the port in the same place.
static uint16_t port_of(const struct sockaddr_storage *addr)
{
    return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static bool addr_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family || port_of(a) != port_of(b)) {
        return false;
    }
    if (a->ss_family == AF_INET) {
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    }
    return IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)a)->sin6_addr,
                              &((const struct sockaddr_in6 *)b)->sin6_addr);
}

bool pcap_flow_is_mirror(const struct pcap_flow *flow, const struct sockaddr_storage *local,
                         const struct sockaddr_storage *peer)
{
    struct sockaddr_storage normal[2];
    addr_normalise(&normal[PCAP_LOCAL], local);
    addr_normalise(&normal[PCAP_PEER], peer);
    return addr_equal(&flow->addr[PCAP_LOCAL], &normal[PCAP_PEER]) &&
           addr_equal(&flow->addr[PCAP_PEER], &normal[PCAP_LOCAL]);
}

/* ---- segments -------------------------------------------------------------------------------- */

// Writes the IP header; `*ret_sum` is its pseudo-header's, for a segment of `len` octets.
static size_t emit_ip(struct pcap_flow *flow, enum pcap_side from, size_t len, uint8_t *buf,
                      uint64_t *ret_sum)
{
    const struct sockaddr_storage *src = &flow->addr[from], *dst = &flow->addr[1 - from];
    if (src->ss_family == AF_INET6) {
        struct ipv6_header h = {
            .payload_len = (uint16_t)len, .next_header = IP_PROTOCOL_TCP, .hop_limit = HOPS};
        memcpy(h.src, &((const struct sockaddr_in6 *)src)->sin6_addr, sizeof h.src);
        memcpy(h.dst, &((const struct sockaddr_in6 *)dst)->sin6_addr, sizeof h.dst);
        *ret_sum = inet_sum_ipv6(&h, (uint32_t)len);
        return ipv6_header_emit(&h, buf);
    }
    struct ipv4_header h = {.total_len = (uint16_t)(IPV4_HEADER_LEN + len),
                            .id = flow->id[from]++,
                            .ttl = HOPS,
                            .protocol = IP_PROTOCOL_TCP};
    memcpy(h.src, &((const struct sockaddr_in *)src)->sin_addr, sizeof h.src);
    memcpy(h.dst, &((const struct sockaddr_in *)dst)->sin_addr, sizeof h.dst);
    *ret_sum = inet_sum_ipv4(&h, (uint32_t)len);
    return ipv4_header_emit(&h, buf);
}

// Records one segment and moves the sequence number on.
static void put_segment(struct pcap_flow *flow, enum pcap_side from, uint8_t flags,
                        struct span payload)
{
    uint8_t headers[HEADERS_MAX], tcp[TCP_HEADER_MAX_LEN];
    struct pcap_direction *d = &flow->direction[from];
    struct tcp_header h = {
        .src_port = port_of(&flow->addr[from]),
        .dst_port = port_of(&flow->addr[1 - from]),
        .seq = d->seq,
        .ack = (flags & TCP_ACK) != 0 ? flow->direction[1 - from].seq : 0,
        .flags = flags,
        .window = UINT16_MAX,
        .options.mss = (flags & TCP_SYN) != 0 ? MSS : 0,
    };
    uint64_t sum;
    size_t tcp_len = tcp_header_emit(&h, tcp);
    size_t ip_len = emit_ip(flow, from, tcp_len + payload.len, headers, &sum);
    tcp_checksum_put(mspan_of(tcp, tcp_len), payload, sum);
    memcpy(headers + ip_len, tcp, tcp_len);
    pcap_file_put(flow->file, span_of(headers, ip_len + tcp_len), payload);
    d->seq += (uint32_t)payload.len + ((flags & (TCP_SYN | TCP_FIN)) != 0);
}

static void put_data(struct pcap_flow *flow, enum pcap_side from, struct span octets)
{
    while (octets.len > 0) {
        size_t len = octets.len < SEGMENT_MAX ? octets.len : SEGMENT_MAX;
        put_segment(flow, from, TCP_PSH | TCP_ACK, span_first(octets, len));
        octets = span_skip(octets, len);
    }
}

/* ---- units ----------------------------------------------------------------------------------- */

static bool unit_append(struct pcap_direction *d, struct span octets)
{
    size_t needed = d->unit_len + octets.len;
    if (needed > d->unit_room) {
        size_t room = d->unit_room == 0 ? UNIT_ROOM_MIN : d->unit_room;
        while (room < needed) {
            room *= 2;
        }
        uint8_t *grown = realloc(d->unit, room);
        if (grown == NULL) {
            return false;
        }
        d->unit = grown;
        d->unit_room = room;
    }
    memcpy(d->unit + d->unit_len, octets.ptr, octets.len);
    d->unit_len += octets.len;
    CHECK(d->unit_len <= UNIT_MAX);
    return true;
}

static void unit_put(struct pcap_flow *flow, enum pcap_side from)
{
    struct pcap_direction *d = &flow->direction[from];
    put_data(flow, from, span_of(d->unit, d->unit_len));
    d->unit_len = 0;
}

bool pcap_flow_data(struct pcap_flow *flow, enum pcap_side from, struct span octets)
{
    struct pcap_direction *d = &flow->direction[from];
    while (octets.len > 0) {
        bool is_end;
        size_t len = pcap_cut_next(&d->cut, octets, &is_end);
        struct span piece = span_first(octets, len);
        if (is_end && d->unit_len == 0) {
            put_data(flow, from, piece); // whole where it lies
        } else if (!unit_append(d, piece)) {
            return false;
        } else if (is_end) {
            unit_put(flow, from);
        }
        octets = span_skip(octets, len);
    }
    return true;
}

/* ---- the flow -------------------------------------------------------------------------------- */

static void put_handshake(struct pcap_flow *flow, enum pcap_side initiator)
{
    struct span nothing = {0};
    put_segment(flow, initiator, TCP_SYN, nothing);
    put_segment(flow, 1 - initiator, TCP_SYN | TCP_ACK, nothing);
    put_segment(flow, initiator, TCP_ACK, nothing);
}

struct pcap_flow *pcap_flow_create(struct pcap_file *file, const struct sockaddr_storage *local,
                                   const struct sockaddr_storage *peer, enum pcap_side initiator,
                                   uint32_t serial)
{
    bool is_known = local->ss_family == AF_INET || local->ss_family == AF_INET6;
    struct pcap_flow *flow = is_known ? calloc(1, sizeof *flow) : NULL;
    if (flow == NULL) {
        return NULL;
    }
    list_init(&flow->link);
    flow->file = file;
    addr_normalise(&flow->addr[PCAP_LOCAL], local);
    addr_normalise(&flow->addr[PCAP_PEER], peer);
    // Initial sequence numbers far apart, so that nobody takes one connection for another.
    flow->direction[PCAP_LOCAL].seq = serial * 0x9e3779b1U;
    flow->direction[PCAP_PEER].seq = serial * 0x85ebca6bU;
    put_handshake(flow, initiator);
    return flow;
}

void pcap_flow_fin(struct pcap_flow *flow, enum pcap_side from)
{
    if (!flow->direction[from].has_fin) {
        unit_put(flow, from);
        put_segment(flow, from, TCP_FIN | TCP_ACK, (struct span){0});
        flow->direction[from].has_fin = true;
    }
}

void pcap_flow_reset(struct pcap_flow *flow, enum pcap_side from)
{
    unit_put(flow, from);
    put_segment(flow, from, TCP_RST | TCP_ACK, (struct span){0});
}

void pcap_flow_destroy(struct pcap_flow *flow)
{
    list_remove(&flow->link);
    unit_put(flow, PCAP_LOCAL);
    unit_put(flow, PCAP_PEER);
    free(flow->direction[PCAP_LOCAL].unit);
    free(flow->direction[PCAP_PEER].unit);
    free(flow);
}

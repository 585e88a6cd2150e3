#include "link/pcap/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "link/pcap/packet.h"
#include "wire/ip.h"
#include "wire/mpa.h"
#include "wire/tcp.h"

enum {
    UNIT_MAX = MPA_FPDU_MAX_LEN + (MPA_FPDU_MAX_LEN / MPA_MARKER_INTERVAL + 2) * MPA_MARKER_LEN,
    UNIT_ROOM_MIN = 2048,
    MSS = 65495,
};

/* ---- segments -------------------------------------------------------------------------------- */

// Records one segment and moves the sequence number on.
static void put_segment(struct pcap_flow *flow, enum pcap_side from, uint8_t flags,
                        struct span payload)
{
    uint8_t header[TCP_HEADER_MAX_LEN];
    struct pcap_direction *d = &flow->direction[from];
    struct tcp_header h = {
        .src_port = d->flow.local_port,
        .dst_port = d->flow.remote_port,
        .seq = d->seq,
        .ack = (flags & TCP_ACK) != 0 ? flow->direction[1 - from].seq : 0,
        .flags = flags,
        .window = UINT16_MAX,
        .options.mss = (flags & TCP_SYN) != 0 ? MSS : 0,
    };
    size_t len = tcp_header_emit(&h, header);
    struct iovec iov[] = {{header, len}, {(void *)payload.ptr, payload.len}};
    struct net_segment segment = {.iov = iov, .iov_count = 2, .len = (uint32_t)(len + payload.len)};
    pcap_packet_put(flow->file, &d->flow, IP_ECN_NOT_ECT, d->id++, &segment);
    d->seq += (uint32_t)payload.len + ((flags & (TCP_SYN | TCP_FIN)) != 0);
}

static void put_data(struct pcap_flow *flow, enum pcap_side from, struct span octets)
{
    while (octets.len > 0) {
        size_t len = octets.len < PCAP_SEGMENT_MAX ? octets.len : PCAP_SEGMENT_MAX;
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

struct pcap_flow *pcap_flow_create(struct pcap_file *file, const struct net_flow *addresses,
                                   enum pcap_side initiator, uint32_t serial)
{
    struct pcap_flow *flow = calloc(1, sizeof *flow);
    if (flow == NULL) {
        return NULL;
    }
    list_init(&flow->link);
    flow->file = file;
    flow->direction[PCAP_LOCAL].flow = *addresses;
    flow->direction[PCAP_PEER].flow = net_flow_turned(addresses);
    // Initial sequence numbers far apart, so that nobody takes one connection for another.
    flow->direction[PCAP_LOCAL].seq = serial * 0x9e3779b1U;
    flow->direction[PCAP_PEER].seq = serial * 0x85ebca6bU;
    put_handshake(flow, initiator);
    return flow;
}

bool pcap_flow_is_mirror(const struct pcap_flow *flow, const struct net_flow *other)
{
    return memcmp(&flow->direction[PCAP_PEER].flow, other, sizeof *other) == 0;
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

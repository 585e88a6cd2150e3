// Where TCP ends: a batch of its segments (tcp/tcp.h) becomes segments that a device moves
// (net/segment.h), which knows no more of TCP than packet_transport says.
#pragma once

#include "net/segment.h"
#include "tcp/tcp.h"
#include "wire/tcp.h"

extern const struct net_transport packet_transport;

// What the segments of a batch stand in, until it is cut anew.
struct packet_cut {
    struct net_segments all;
    struct net_segment segments[TCP_BATCH_SEGMENT_MAX];
    struct iovec iov[TCP_BATCH_IOV_MAX + 2 * TCP_BATCH_SEGMENT_MAX];
    _Alignas(8) uint8_t headers[TCP_BATCH_SEGMENT_MAX][NET_HEADROOM + TCP_HEADER_MAX_LEN + 4];
};

// Each segment by itself, or, `as_run`, all as one run, as devices take it that cut runs.
const struct net_segments *packet_cut(struct packet_cut *cut, const struct tcp_batch *batch,
                                      bool as_run);
// How many of the batch's segments `taken` of those are. Of a run: all or none.
static inline unsigned packet_cut_taken(const struct packet_cut *cut, unsigned taken)
{
    return taken * cut->segments[0].part_count;
}

// The MSS where segments of `len` octets fit the path.
uint16_t packet_mss(uint32_t len);

// Segments on their way down: what a transport hands to whoever carries them. A segment is a
// header, written by the transport, and payload that stays where it lies. Whose header it is nobody
// below needs to know, beyond what struct net_transport says.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/span.h"
#include "net/addr.h"
#include "wire/ip.h"

enum {
    NET_HEADROOM = 56,         // octets in front of a header: for IP's and Ethernet's, aligned
    NET_SEGMENT_IOV_MAX = 136, // elements of one segment, its header included
    // Octets of a transport's header that an ICMP message quotes at least (RFC 792): both ports
    // are among them.
    NET_QUOTED_LEN = 8,
};

// All that is known below of a transport, whose header begins with the ports, as all with ports do.
struct net_transport {
    uint8_t protocol;     // of IP
    uint8_t checksum_off; // where in the header the checksum belongs, which is the internet's and
                          // counts from the header's first octet on, over the pseudo-header too
    uint8_t header_len;   // at least
};

struct net_segment {
    // Its first element is the header, its checksum 0, and nothing else; the others are the
    // payload. NET_HEADROOM octets in front of the header are free: who carries the segment may
    // write there, and the checksum into the header, and while it sends begin the element there.
    struct iovec *iov;
    unsigned iov_count;
    uint32_t len; // of all elements
    // A run of segments alike: behind the header the payload is to be cut at each part_len octets,
    // part_count times; the header is that of the first, and where it says the end, the last's. For
    // devices that do so only (`takes_runs`). Else 1, and part_len is the payload's length.
    unsigned part_count;
    uint32_t part_len;
};

// Segments of one flow, the first first. They lie behind one another in `at`, and so do their
// elements: those of a segment end where those of the next begin. Readable until the call returns
// that they are given to.
struct net_segments {
    const struct net_transport *transport;
    const struct net_segment *at;
    unsigned count;
    enum ip_ecn ecn; // of their packets
};

static inline struct mspan net_segment_header(const struct net_segment *s)
{
    return mspan_of(s->iov[0].iov_base, s->iov[0].iov_len);
}

// The checksum of a segment whose header has 0 there. `pseudo_sum`: net_flow_pseudo_sum.
uint16_t net_segment_checksum(const struct net_segment *s, uint64_t pseudo_sum);
// Whether one that came on this flow, all its octets in a row, agrees with its checksum.
bool net_segment_is_good(const struct net_transport *transport, const struct net_flow *flow,
                         struct span octets);
// Copies all its octets to `buf`, which has room for `len`.
void net_segment_copy(const struct net_segment *s, uint8_t *buf);

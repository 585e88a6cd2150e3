// One TCP segment as a packet of a capture.
#pragma once

#include <stdint.h>

#include "link/pcap_file.h"
#include "net/addr.h"
#include "net/cut.h"

enum {
    PCAP_IP_HEADER_MAX = IPV6_HEADER_LEN,
    // Octets of payload that fit behind the longest headers.
    PCAP_SEGMENT_MAX = PCAP_SNAP_LEN - PCAP_IP_HEADER_MAX - TCP_HEADER_MAX_LEN,
};

// The segment leaves on `flow`, which is IPv4 or IPv6; `id` is that of IPv4's packet. `header` is
// TCP's, in which the checksum is filled in; the payload is the piece's, one segment.
void pcap_packet_put(struct pcap_file *f, const struct net_flow *flow, uint16_t id,
                     struct mspan header, const struct net_piece *piece);

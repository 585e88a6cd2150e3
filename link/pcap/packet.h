// One TCP segment as a packet of a capture.
#pragma once

#include <stdint.h>

#include "link/pcap/file.h"
#include "net/addr.h"
#include "net/segment.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum {
    // Octets of payload that fit behind the longest headers.
    PCAP_SEGMENT_MAX = PCAP_SNAP_LEN - NET_IP_HEADER_MAX - TCP_HEADER_MAX_LEN,
};

// The segment leaves on `flow`, which is IPv4 or IPv6; `ecn` and `id` are those of its packet.
// Recorded is its checksum, whatever stands in it.
void pcap_packet_put(struct pcap_file *f, const struct net_flow *flow, enum ip_ecn ecn, uint16_t id,
                     const struct net_segment *segment);

// A device of UDP sockets: segments of our own in datagrams, so that no privilege is needed.
//
//   udp.c          the device, and channels: bound, connected, those of a listener's connections
//   udp_path.c     what fits its path
//   udp_io.c       datagrams out and in, and what ICMP says of them
//
// The ports of UDP are the ports of the segment. A datagram is one segment, header and payload; its
// own checksum covers the segment, so that of the segment may be 0, "none", as in UDP itself; where
// it is there it must be right. Many segments alike leave in one system call (UDP_SEGMENT), and
// come together in one again (UDP_GRO). A listener has one socket, and so has every connection.
#pragma once

#include "base/trace.h"
#include "link/device/device.h"

struct device_udp_config {
    uint32_t sndbuf_len, rcvbuf_len;       // octets; 0: what is good for a whole receive window
    bool checksums;                        // compute the checksum of the segment as well
    const struct net_transport *transport; // whose segments they are
    struct trace *trace;                   // may be NULL
};

// Returns 0 or a negative errno (-EMFILE, -ENOMEM …).
int device_udp_create(const struct device_udp_config *config, struct device **ret);

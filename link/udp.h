// A device of UDP sockets: TCP segments of our own in datagrams, so that no privilege is needed.
//
//   udp.c          the device, and channels: bound, connected, those of a listener's connections
//   udp_path.c     what fits its path
//   udp_io.c       datagrams out and in, and what ICMP says of them
//
// The ports of UDP are the ports of TCP. A datagram is one segment, header and payload; its own
// checksum covers the segment, so that of TCP may be 0, "none", as in UDP itself; where it is there
// it must be right. Many segments alike leave in one system call (UDP_SEGMENT), and come together
// in one again (UDP_GRO). A listener has one socket, and so has every connection.
#pragma once

#include "base/trace.h"
#include "link/device.h"
#include "tcp/tcp.h"

struct device_udp_config {
    uint32_t sndbuf_len, rcvbuf_len; // octets; 0: what is good for a whole receive window
    bool checksums;                  // compute the checksum of TCP as well
    struct trace *trace;             // may be NULL
};

// What TCP is told over UDP, where the peer is weft: it acknowledges at its next look, so that what
// the program answers meanwhile carries it, and work requests complete when they are acknowledged;
// and so a time-out need not wait for a peer that waits.
void device_udp_tune(struct tcp_config *tcp);

// Returns 0 or a negative errno (-EMFILE, -ENOMEM …).
int device_udp_create(const struct device_udp_config *config, struct device **ret);

// Packets of RoCEv2 over a TUN/TAP interface (base/port_datagram.h): real IP packets, header and
// all, so that every ICRC is checked and none is left to what a kernel writes. The interface's end
// inside this process has addresses of its own, which are no others' of the host; nobody else has
// them, so this link has all that comes for them.
//
//   tap.c       addresses, groups, waiting
//   tap_io.c    packets, out and in
//
// Packets leave with the identification 0 and DF over IPv4, and with a checksum of UDP over IPv6;
// one without it is taken too, as rxe sends it. Those to a neighbour that is being asked for wait,
// beside those to others. Which groups are joined is told by IGMP and MLD (net/groups.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_datagram.h"
#include "base/time.h"
#include "link/device/tap.h"
#include "link/fault_model.h"

struct datagram_tap_config {
    struct device_tap_config interface;
    uint16_t port;                  // 0: DATAGRAM_UDP_PORT
    bool is_unchecked;              // no ICRC is looked at
    struct fault_config corrupt;    // changes what arrives, before anything is looked at
    instant_ns (*clock)(void *ctx); // for what waits for neighbours
    void *clock_ctx;
};

#define DATAGRAM_TAP_COUNTERS(X)                                                        \
    X(packets_in, "packets received")                                                   \
    X(packets_out, "packets sent")                                                      \
    X(looped, "of them, those to an address or a group of our own")                     \
    X(waits, "times that the interface had no room")                                    \
    X(too_long, "packets dropped: longer than the interface's MTU")                     \
    X(not_resolved, "packets dropped: too many wait for neighbours that are asked for") \
    X(other_ports, "datagrams to a port that is not RoCE's")                            \
    X(not_open, "packets to an address or a group that is not open")                    \
    X(bad_lengths, "packets that are no BTH and ICRC long, or too long, or not padded") \
    X(icrc_wrong, "packets whose ICRC was wrong")                                       \
    X(not_ours, "packets to numbers that are none of ours")

// Returns 0 or a negative errno, as device_tap_create.
int datagram_tap_create(const struct datagram_tap_config *config, struct datagram_link **ret);
// Octets of payload of the longest packet that may be sent to any peer: 256, 512 … 4096.
uint32_t datagram_tap_path_mtu(const struct datagram_link *link);

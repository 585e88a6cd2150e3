// The 40 octets that a datagram queue pair finds in front of what it receives (InfiniBand
// Architecture volume 1, chapter 8, and annex A17): where InfiniBand has its Global Route Header,
// RoCEv2 has the IP header of the packet.
//
//   OFFSET SIZE FIELD              IPv4         OFFSET SIZE FIELD            IPv6
//    0     20   zero                             0     40   IPv6 header
//   20     20   IPv4 header
//
// Which of the two it is shows by the version and the header checksum at offset 20.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/export.h"
#include "base/port_datagram.h"
#include "wire/ip.h"

enum {
    GRH_LEN = 40,
    GRH_OFF_IPV4 = 20,
};
STATIC_CHECK(GRH_OFF_IPV4 + IPV4_HEADER_LEN == GRH_LEN);
STATIC_CHECK(IPV6_OFF_DST + IPV6_ADDR_LEN == GRH_LEN);

// What a program learns from it: how to answer. IPv4 addresses are mapped.
struct grh {
    struct in6_addr src, dst;
    uint32_t flow_label; // 20 bits; IPv6
    uint8_t traffic_class;
    uint8_t hop_limit;
};

// Reads GRH_LEN octets. False: neither an IPv4 header with a right checksum at its place, nor IPv6.
WEFT_EXPORT bool grh_parse(const uint8_t *octets, struct grh *ret);

// Writes the GRH_LEN octets that precede the payload of this packet. Its IP header is made anew:
// the identification is 0, IPv4's checksum is right.
void grh_emit(const struct datagram_rx *rx, uint8_t *buf);

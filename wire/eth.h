// The Ethernet header (IEEE 802.3 clause 3, RFC 894, RFC 2464) and ARP for IPv4 over it (RFC 826).
//
//   OFFSET SIZE FIELD      Ethernet          OFFSET SIZE FIELD              ARP
//    0      6   destination                   0      2   hardware: Ethernet = 1
//    6      6   source                        2      2   protocol: IPv4 = 0x0800
//   12      2   type                          4      1   hardware address length: 6
//                                             5      1   protocol address length: 4
//                                             6      2   operation
//                                             8      6   sender's hardware address
//                                            14      4   sender's protocol address
//                                            18      6   target's hardware address
//                                            24      4   target's protocol address
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/ip.h"

enum {
    ETH_ADDR_LEN = 6,
    ETH_OFF_DST = 0,
    ETH_OFF_SRC = 6,
    ETH_OFF_TYPE = 12,
    ETH_HEADER_LEN = 14,
};
STATIC_CHECK(ETH_OFF_TYPE + 2 == ETH_HEADER_LEN);

enum eth_type { ETH_TYPE_IPV4 = 0x0800, ETH_TYPE_ARP = 0x0806, ETH_TYPE_IPV6 = 0x86dd };

struct eth_addr {
    uint8_t octets[ETH_ADDR_LEN];
};

struct eth_header {
    struct eth_addr dst, src;
    uint16_t type;
};

enum {
    ARP_OFF_HARDWARE = 0,
    ARP_OFF_PROTOCOL = 2,
    ARP_OFF_HARDWARE_LEN = 4,
    ARP_OFF_PROTOCOL_LEN = 5,
    ARP_OFF_OPERATION = 6,
    ARP_OFF_SENDER_ETH = 8,
    ARP_OFF_SENDER_IP = 14,
    ARP_OFF_TARGET_ETH = 18,
    ARP_OFF_TARGET_IP = 24,
    ARP_LEN = 28,
};
STATIC_CHECK(ARP_OFF_TARGET_IP + IPV4_ADDR_LEN == ARP_LEN);

enum arp_operation { ARP_REQUEST = 1, ARP_REPLY = 2 };

struct arp_packet {
    uint16_t operation;
    struct eth_addr sender_eth, target_eth;
    uint8_t sender_ip[IPV4_ADDR_LEN];
    uint8_t target_ip[IPV4_ADDR_LEN];
};

enum arp_parse_verdict {
    ARP_PARSE_OK,
    ARP_PARSE_TOO_SHORT,
    ARP_PARSE_KIND, // not IPv4 over Ethernet
    ARP_PARSE_VERDICT_COUNT,
};

extern const struct eth_addr eth_broadcast;

bool eth_addr_equal(const struct eth_addr *a, const struct eth_addr *b);
// A group address: multicast or broadcast.
static inline bool eth_addr_is_group(const struct eth_addr *a)
{
    return (a->octets[0] & 1) != 0;
}

// False: `frame` is shorter than a header.
bool eth_header_parse(struct span frame, struct eth_header *ret, struct span *ret_body);
// Writes the header and returns its length.
size_t eth_header_emit(const struct eth_header *h, uint8_t *buf);

enum arp_parse_verdict arp_packet_parse(struct span body, struct arp_packet *ret);
size_t arp_packet_emit(const struct arp_packet *p, uint8_t *buf);

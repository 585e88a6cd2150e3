// What the files of the interface share.
//
//     iface_in.c       what arrives, and whose it is
//     iface_out.c      segments that leave
//     iface_packet.c   packets that leave as they are
//     iface_frame.c    headers of Ethernet and IP around them
//     iface_route.c    from which address, and by which neighbour
//     iface_ask.c      ARP and neighbour discovery
//     iface_icmp.c     what ICMP says, and echoes
//     iface_groups.c   groups that it is in, as the network is told
#pragma once

#include <string.h>

#include "base/time.h"
#include "net/addr.h"
#include "net/iface.h"
#include "wire/eth.h"
#include "wire/icmp.h"
#include "wire/ip.h"

// A packet for us, whatever its family: `flow` without ports, from our end.
struct ip_packet {
    struct net_flow flow;
    struct span whole, body; // from its own header on, and what that carries
    uint32_t flow_label;
    struct eth_addr from_eth; // with Ethernet
    uint8_t protocol;
    uint8_t hops; // left: TTL or hop limit
    uint8_t tos;
    enum ip_ecn ecn;
    bool is_ipv6;
    bool was_for_many; // the frame that it came in
    bool has_alert;    // for routers
};

// The octets of a pseudo-header of an ICMP message, which ICMPv4 does without.
static inline uint64_t icmp_pseudo_sum(const struct net_flow *flow, size_t len)
{
    return net_addr_is_ipv4(&flow->local)
               ? 0
               : net_flow_pseudo_sum(flow, IP_PROTOCOL_ICMPV6, (uint32_t)len);
}

// The group of the nodes that may have this IPv6 address (RFC 4291 section 2.7.1), where neighbours
// are asked for.
static inline struct net_addr iface_solicited_node(const struct net_addr *addr)
{
    enum { SUFFIX_OFF = 13 };
    struct net_addr group = {{0xff, 0x02, [11] = 1, [12] = 0xff}};
    memcpy(group.octets + SUFFIX_OFF, addr->octets + SUFFIX_OFF, IPV6_ADDR_LEN - SUFFIX_OFF);
    return group;
}

// iface_route.c

// Whether this is nobody's, or several hosts': no end of a connection (RFC 1122 section 3.2.1.3).
bool iface_is_no_host(const struct net_iface *iface, const struct net_addr *remote);
// Whether one of its IPv6 addresses is asked for there.
bool iface_is_solicited_node(const struct net_iface *iface, const struct net_addr *group);
// Whether it is reached without a gateway.
bool iface_is_on_link(const struct net_iface *iface, const struct net_addr *remote);
// Who is to get frames to `remote`. False: there is no way there.
bool iface_next_hop(const struct net_iface *iface, const struct net_addr *remote,
                    struct net_addr *ret);

// iface_out.c

// Who gets frames to `remote`, asking if need be. NET_SENT: `*ret` does.
enum net_sent iface_find_neighbour(struct net_iface *iface, const struct net_addr *remote,
                                   instant_ns now, struct eth_addr *ret);

// iface_frame.c

enum { IFACE_HEADERS_MAX = ETH_HEADER_LEN + IPV6_HEADER_LEN };

// What stands in the headers of a packet, beside the interface's own.
struct iface_headers {
    const struct net_flow *flow;
    uint8_t tos, protocol, hops;
    bool has_alert;            // for routers
    size_t body_len;           // octets behind the headers
    const struct eth_addr *to; // with Ethernet
};

// Writes IP's header so that it ends at `end`, in front of it the Ethernet header, if there is to
// be one. Returns the length of both, at most IFACE_HEADERS_MAX without an alert.
size_t iface_headers_emit(struct net_iface *iface, const struct iface_headers *h, uint8_t *end);
// Sends a message of our own that is not TCP: its header and what follows. It may be lost.
void iface_send_message(struct net_iface *iface, const struct net_flow *flow, uint8_t hops,
                        struct span header, struct span body, const struct eth_addr *to);
// False: it is lost.
bool iface_send_frame(struct net_iface *iface, const struct iovec *iov, unsigned count,
                      bool is_ipv6);

// The Ethernet address of all that are in a group.
struct eth_addr iface_eth_of_group(const struct net_addr *group);

// iface_groups.c

void iface_groups_init(struct net_iface *iface);
void iface_on_igmp(struct net_iface *iface, const struct ip_packet *packet, instant_ns now);
// The checksum was good.
void iface_on_listener_query(struct net_iface *iface, const struct ip_packet *packet,
                             instant_ns now);
instant_ns iface_groups_next_deadline(const struct net_iface *iface);
void iface_groups_on_deadline(struct net_iface *iface, instant_ns now);

// iface_ask.c

// Asks for `addr`, by ARP or neighbour solicitation: the one who had it before, or (NULL) all.
void iface_ask(struct net_iface *iface, const struct net_addr *addr, const struct eth_addr *known);
void iface_on_arp(struct net_iface *iface, struct span body, instant_ns now,
                  struct net_arrival *ret);
// A neighbour solicitation or advertisement; the checksum was good.
void iface_on_neighbour_message(struct net_iface *iface, const struct ip_packet *packet,
                                instant_ns now, struct net_arrival *ret);

// iface_icmp.c

void iface_on_icmp(struct net_iface *iface, const struct ip_packet *packet, instant_ns now,
                   struct net_arrival *ret);

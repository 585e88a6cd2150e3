// One network interface with addresses of its own: IP packets in and out, with or without Ethernet
// around them, and what a host must do beside carrying TCP: ARP, neighbour discovery, answers to
// echo requests, and understanding what ICMP says about its own segments.
//
//     net_iface_on_frame     one has arrived -> a TCP segment, news about one, a datagram of UDP
//                            where somebody takes such, or nothing for those above
//     net_iface_send         segments leave, as packets or a run of them as one large one
//     net_iface_send_packet  a packet leaves that is whole already, to a group too
//     net_iface_route        which of the addresses a packet to somebody would leave from
//     net_iface_join, _leave the network is told of a group, and whoever asks (net/groups.h)
//
// Refused by name and counted: fragments, source routes, packets for others or from impossible
// senders, bad checksums. The interface does not forward, and sends no packet that is larger than
// its MTU. It answers no ping to a group, and does no duplicate address detection (RFC 4862).
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/time.h"
#include "net/addr.h"
#include "net/groups.h"
#include "net/neighbour.h"
#include "net/segment.h"
#include "wire/eth.h"
#include "wire/ip.h"

enum { NET_IFACE_ADDR_MAX = 8, NET_MTU_MIN = 576, NET_MTU_MAX = 65535, NET_HOPS_DEFAULT = 64 };

struct net_iface_addr {
    struct net_addr addr;
    uint8_t prefix_len; // of the addresses that are reached without a gateway
};

// A packet as it leaves: the headers are its first element. The rest of the fields are for devices
// with `offloads`: see there.
struct net_frame {
    const struct iovec *iov;
    unsigned iov_count;
    bool is_ipv6;
    uint16_t checksum_at;  // 0: complete. Else the octet from which on the checksum is to be taken,
    uint16_t checksum_off; // and where behind that it belongs; the pseudo-header's stands there
    uint16_t segment_len;  // 0: one packet. Else its payload is to be cut so, behind `header_len`
    uint16_t header_len;
};

struct net_frame_port {
    // False: there is no room now.
    bool (*send)(void *ctx, const struct net_frame *frame);
    void *ctx;
};

struct net_iface_config {
    struct net_iface_addr addrs[NET_IFACE_ADDR_MAX];
    unsigned addr_count;
    struct net_addr gateway_ipv4, gateway_ipv6; // all zero: none
    uint16_t mtu;                               // octets of an IP packet
    uint8_t hops;         // TTL or hop limit of what we send; 0: NET_HOPS_DEFAULT
    bool has_ethernet;    // frames, not packets; then ...
    struct eth_addr eth;  // ... this is the interface's address
    bool offloads;        // whoever takes frames completes checksums and cuts large ones
    bool takes_datagrams; // of UDP, to any group too: who is above knows its groups and ports
    bool reports_groups;  // by IGMP and MLD, those of its IPv6 addresses' neighbours too
    uint64_t seed;        // of when that is
    struct net_frame_port port;
};

#define NET_IFACE_COUNTERS(X)                                            \
    X(frames_in, "frames received")                                      \
    X(frames_out, "frames sent")                                         \
    X(of_others, "frames or packets for somebody else")                  \
    X(bad_senders, "packets from an address that nobody can send from")  \
    X(bad_packets, "packets whose IP header was refused")                \
    X(fragments, "fragments, refused")                                   \
    X(bad_checksums, "TCP, UDP, ICMP or IGMP checksums that were wrong") \
    X(other_protocols, "packets of a protocol that nobody takes")        \
    X(bad_icmp, "ICMP or ARP messages that were refused")                \
    X(queries_in, "queries about multicast groups that were believed")   \
    X(bad_queries, "queries that were not, or made no sense")            \
    X(reports_out, "reports of multicast groups sent")                   \
    X(echoes, "echo requests answered")                                  \
    X(questions_in, "ARP requests and neighbour solicitations for us")   \
    X(questions_out, "ARP requests and neighbour solicitations sent")    \
    X(unreachable, "segments dropped: the neighbour does not answer")

struct net_iface_counters {
#define X(name, text) uint64_t name;
    NET_IFACE_COUNTERS(X)
#undef X
};

enum { NET_GROUPS_IPV4, NET_GROUPS_IPV6, NET_GROUPS_FAMILIES };

struct net_iface {
    struct net_iface_config config;
    struct net_neighbours neighbours;
    struct net_groups groups[NET_GROUPS_FAMILIES];
    uint16_t ipv4_id;
    struct net_iface_counters counters;
};

enum net_arrival_kind {
    NET_ARRIVAL_NOTHING,     // nothing for TCP
    NET_ARRIVAL_SEGMENT,     // `segment`, on `flow` but for the ports
    NET_ARRIVAL_DATAGRAM,    // `packet`, IP header and all, on `flow` but for the ports
    NET_ARRIVAL_PATH,        // ICMP: segments of `segment_len_max` octets fit the path of `flow`
    NET_ARRIVAL_UNREACHABLE, // ICMP: `error`, a negative errno, about `flow`
    NET_ARRIVAL_ROOM,        // somebody was found that segments wait for: sending may go on
};

struct net_arrival {
    enum net_arrival_kind kind;
    struct net_flow flow;
    struct span segment;
    struct span packet;       // DATAGRAM: its UDP header, and what follows, is `segment`
    uint32_t flow_label;      // DATAGRAM over IPv6
    uint8_t tos, hops;        // DATAGRAM
    enum ip_ecn ecn;          // of its packet
    struct span quoted;       // ICMP: what it quotes of a segment, NET_QUOTED_LEN octets or more
    uint32_t segment_len_max; // header and payload
    int error;
};

void net_iface_init(struct net_iface *iface, const struct net_iface_config *config);

// `is_checked`: the checksum of TCP is known to be good, or was never on a wire.
void net_iface_on_frame(struct net_iface *iface, struct span frame, bool is_checked, instant_ns now,
                        struct net_arrival *ret);

enum net_sent {
    NET_SENT,
    NET_SENT_NO_ROOM,     // the device has none, or a neighbour is being asked: NET_ARRIVAL_ROOM
    NET_SENT_UNREACHABLE, // dropped
    NET_SENT_ASKED,       // a packet's neighbour is being asked: NET_ARRIVAL_ROOM
};
// `*ret_count`: how many of the segments were taken, from the first on. Runs are for interfaces
// with `offloads` alone. `tos`: but for its lowest two bits, which the segments have.
enum net_sent net_iface_send(struct net_iface *iface, const struct net_flow *flow, uint8_t tos,
                             const struct net_segments *segments, instant_ns now,
                             unsigned *ret_count);

// The packet begins with its IP header and is no longer than the MTU; in front of it are
// ETH_HEADER_LEN octets of room. Not for our own addresses.
enum net_sent net_iface_send_packet(struct net_iface *iface, struct mspan packet,
                                    const struct net_addr *remote, instant_ns now);

// The host is in a group, or no longer, however many of its programs are. False: there is no room
// for one more. What reports say is sent at once, and again at deadlines.
bool net_iface_join(struct net_iface *iface, const struct net_addr *group, instant_ns now);
void net_iface_leave(struct net_iface *iface, const struct net_addr *group, instant_ns now);

// Of every packet, in both directions.
static inline bool net_iface_has_addr(const struct net_iface *iface, const struct net_addr *addr)
{
    for (unsigned i = 0; i < iface->config.addr_count; i++) {
        if (net_addr_equal(&iface->config.addrs[i].addr, addr)) {
            return true;
        }
    }
    return false;
}
// The address that a packet to `remote` leaves from. False: there is no way, or it is our own.
bool net_iface_route(const struct net_iface *iface, const struct net_addr *remote,
                     struct net_addr *ret_local);
// Octets of a segment, header and payload, that fit a packet.
uint32_t net_iface_segment_len_max(const struct net_iface *iface, const struct net_addr *remote);

instant_ns net_iface_next_deadline(const struct net_iface *iface);
// True: segments that waited for somebody may be sent again, to be dropped or to go on.
bool net_iface_on_deadline(struct net_iface *iface, instant_ns now);

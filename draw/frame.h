// What of a captured packet this is about: a TCP segment, or a packet of RoCEv2, with its
// addresses; headers of the link are raw IP's (none), Ethernet's with and without VLAN tags, BSD's
// of loopback, and Linux's cooked ones (SLL, SLL2). A TCP segment may stand in a UDP datagram of
// the same ports: weft's own TCP over UDP.
//
//   LINKTYPE  OFFSET OF THE ETHERTYPE, LENGTH
//   1    EN10MB           12, 14 (and 4 for each tag)
//   113  LINUX_SLL        14, 16
//   276  LINUX_SLL2        0, 20
//   0    NULL, 108 LOOP   an address family in 4 octets, which the IP version tells again
//   12, 14, 101 RAW, 228 IPV4, 229 IPV6   none
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "draw/capture.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum { FRAME_ROCE_PORT = 4791 };      // unless somebody has chosen another
enum { FRAME_SCRATCH_LEN = 1 << 17 }; // the longest IP packet and its link header

enum frame_kind { FRAME_OTHER, FRAME_TCP, FRAME_ROCE };

enum frame_verdict {
    FRAME_OK,
    FRAME_LINK_TYPE,  // a link type that is not known
    FRAME_NOT_IP,     // ARP and the like: nothing is wrong
    FRAME_CUT,        // the headers were not captured whole
    FRAME_IP,         // an IP header that is wrong, see `ip`
    FRAME_TCP_HEADER, // a TCP header that is wrong, see `tcp_verdict`
    FRAME_UDP,        // a datagram whose length is not that of its packet
    FRAME_VERDICT_COUNT,
};

struct frame_end {
    struct in6_addr addr; // IPv4 mapped: ::ffff:a.b.c.d
    uint16_t port;        // of TCP or UDP
};

struct frame {
    enum frame_kind kind;
    struct frame_end src, dst;
    struct tcp_header tcp; // FRAME_TCP
    struct span payload;   // of TCP; or of RoCE, from BTH to pad
    size_t cut_len;        // of `payload`, at its end: octets that were not captured, and are zero
    bool is_icrc_wrong;    // FRAME_ROCE, of packets captured whole
    struct span rest;      // FRAME_ROCE: of the datagrams behind this packet, see frame_next
    size_t stride;
    enum ip_parse_verdict ip;
    enum tcp_parse_verdict tcp_verdict;
};

// Reads a packet. `scratch` has FRAME_SCRATCH_LEN octets, and may hold the payload until the next
// call. `roce_port`: the UDP port that is RoCE's. With FRAME_OK, `*ret` holds.
enum frame_verdict frame_parse(const struct capture_packet *packet, uint16_t roce_port,
                               uint8_t *scratch, struct frame *ret);

// Where a capture was made in front of who cuts large datagrams (UDP_SEGMENT, UDP_GRO), several
// packets of RoCE stand in one: this goes on to the next. False: there is none.
bool frame_next(struct frame *f);

// A sentence for people: why the packet was not read.
const char *frame_verdict_text(enum frame_verdict verdict, const struct frame *f);

static inline bool frame_end_equal(const struct frame_end *a, const struct frame_end *b)
{
    return a->port == b->port && IN6_ARE_ADDR_EQUAL(&a->addr, &b->addr);
}

enum { FRAME_END_TEXT_MAX = 64 };
// "192.0.2.1:4420", "[2001:db8::1]:4420". Returns `buf`.
const char *frame_end_format(const struct frame_end *end, char buf[FRAME_END_TEXT_MAX]);

// IPv4 and IPv6 headers (RFC 791 section 3.1, RFC 8200 section 3), and the Internet checksum
// (RFC 1071). Written without options or extension headers but for the router alert (RFC 2113,
// RFC 2711), which tells routers to look at what follows, never fragmented; read with options and
// extension headers, which are passed over where that is allowed. Fragments are refused: who sends
// TCP finds the path's MTU.
//
//   OFFSET SIZE FIELD            IPv4            OFFSET SIZE FIELD            IPv6
//    0      1   version 4, words 5                0      4   version 6, class, flow label
//    1      1   type of service                   4      2   payload length
//    2      2   total length                      6      1   next header
//    4      2   identification                    7      1   hop limit
//    6      2   flags (DF), fragment offset 0     8     16   source
//    8      1   time to live                     24     16   destination
//    9      1   protocol
//   10      2   header checksum
//   12      4   source
//   16      4   destination
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    IPV4_OFF_TOS = 1,
    IPV4_OFF_TOTAL_LEN = 2,
    IPV4_OFF_ID = 4,
    IPV4_OFF_FLAGS = 6,
    IPV4_OFF_TTL = 8,
    IPV4_OFF_PROTOCOL = 9,
    IPV4_OFF_CHECKSUM = 10,
    IPV4_OFF_SRC = 12,
    IPV4_OFF_DST = 16,
    IPV4_HEADER_LEN = 20,
    IPV4_ADDR_LEN = 4,
    IPV4_ALERT_LEN = 4, // the option, behind the header

    IPV6_OFF_PAYLOAD_LEN = 4,
    IPV6_OFF_NEXT_HEADER = 6,
    IPV6_OFF_HOP_LIMIT = 7,
    IPV6_OFF_SRC = 8,
    IPV6_OFF_DST = 24,
    IPV6_HEADER_LEN = 40,
    IPV6_ADDR_LEN = 16,
    IPV6_ALERT_LEN = 8, // the hop-by-hop options header with it
};
STATIC_CHECK(IPV4_OFF_DST + IPV4_ADDR_LEN == IPV4_HEADER_LEN);
STATIC_CHECK(IPV6_OFF_DST + IPV6_ADDR_LEN == IPV6_HEADER_LEN);

enum ip_protocol {
    IP_PROTOCOL_ICMP = 1,
    IP_PROTOCOL_IGMP = 2,
    IP_PROTOCOL_TCP = 6,
    IP_PROTOCOL_UDP = 17,
    IP_PROTOCOL_ICMPV6 = 58,
};
enum { IP_EXTENSIONS_MAX = 8 }; // extension headers of one packet

// The lowest two bits of type of service and traffic class (RFC 3168 section 5): whether the sender
// heeds marks, and whether somebody on the way has set one.
enum ip_ecn {
    IP_ECN_NOT_ECT = 0,
    IP_ECN_ECT_1 = 1,
    IP_ECN_ECT_0 = 2,
    IP_ECN_CE = 3,
    IP_ECN_MASK = 3,
};

struct ipv4_header {
    uint8_t tos;
    uint16_t total_len; // octets, this header and its options included
    uint16_t id;
    uint8_t ttl;
    uint8_t protocol;
    bool has_alert; // for routers
    uint8_t src[IPV4_ADDR_LEN];
    uint8_t dst[IPV4_ADDR_LEN];
};

struct ipv6_header {
    uint8_t traffic_class;
    uint32_t flow_label;  // 20 bits
    uint16_t payload_len; // octets behind this header, the alert's among them
    uint8_t next_header;
    uint8_t hop_limit;
    bool has_alert; // for routers: of multicast listeners (RFC 2710)
    uint8_t src[IPV6_ADDR_LEN];
    uint8_t dst[IPV6_ADDR_LEN];
};

enum ip_parse_verdict {
    IP_PARSE_OK,
    IP_PARSE_TOO_SHORT,    // shorter than its headers, or than its own length says
    IP_PARSE_VERSION,      // not the version asked for
    IP_PARSE_HEADER_LEN,   // a header that is shorter than it can be
    IP_PARSE_CHECKSUM,     // of the IPv4 header
    IP_PARSE_FRAGMENT,     // a part of a packet
    IP_PARSE_SOURCE_ROUTE, // a route chosen by the sender (RFC 7126 section 4, RFC 5095)
    IP_PARSE_EXTENSION,    // an extension header or option that forbids to pass over it
    IP_PARSE_VERDICT_COUNT,
};

// Parse the headers in front of `packet`; `*ret_body` is what they carry, without what a lower
// layer padded. For IPv6, `next_header` becomes that of the body: extension headers are passed.
enum ip_parse_verdict ipv4_header_parse(struct span packet, struct ipv4_header *ret,
                                        struct span *ret_body);
enum ip_parse_verdict ipv6_header_parse(struct span packet, struct ipv6_header *ret,
                                        struct span *ret_body);
const char *ip_parse_verdict_name(enum ip_parse_verdict verdict);

// Write the header, IPv4's checksum and the alert included, and return its length.
size_t ipv4_header_emit(const struct ipv4_header *h, uint8_t *buf);
size_t ipv6_header_emit(const struct ipv6_header *h, uint8_t *buf);
// What a router under load does to an IPv4 packet whose sender heeds marks. False: it does not.
bool ipv4_mark(uint8_t *packet);

// The Internet checksum in steps: a sum begins at 0, or with a pseudo-header; pieces are added in
// order, all but the last of an even length; the fold gives the checksum in host order.
uint64_t inet_sum_add(uint64_t sum, struct span octets);
uint16_t inet_sum_fold(uint64_t sum);

// The pseudo-header of an upper layer packet of `len` octets (RFC 9293 section 3.1, RFC 8200 8.1).
uint64_t inet_sum_ipv4(const struct ipv4_header *h, uint32_t len);
uint64_t inet_sum_ipv6(const struct ipv6_header *h, uint32_t len);

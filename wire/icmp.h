// ICMP messages of both versions (RFC 792; RFC 4443), those of neighbour discovery included
// (RFC 4861 section 4): one struct for what they have in common.
//
//   OFFSET SIZE FIELD             ICMP, ICMPv6      neighbour solicitation, advertisement
//    0      1   type                                4   4   flags R S O, reserved
//    1      1   code                                8  16   target
//    2      2   checksum                           24       options: type (1), length in
//    4      4   by type: MTU, or identifier and number    units of 8 (1), address (6)
//    8          by type: echoed data, or the packet that the message is about
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/eth.h"
#include "wire/ip.h"

enum {
    ICMP_OFF_TYPE = 0,
    ICMP_OFF_CODE = 1,
    ICMP_OFF_CHECKSUM = 2,
    ICMP_OFF_REST = 4,
    ICMP_OFF_MTU = 6, // of an ICMPv4 "fragmentation needed" (RFC 1191)
    ICMP_HEADER_LEN = 8,

    ND_OFF_TARGET = 8,
    ND_OFF_OPTIONS = 24,
    ND_OPTION_LEN = 8,
    ND_LEN = ND_OFF_OPTIONS + ND_OPTION_LEN, // as emitted, with one address option
};
STATIC_CHECK(ND_OFF_TARGET + IPV6_ADDR_LEN == ND_OFF_OPTIONS);

enum icmp_type {
    ICMP_ECHO_REPLY = 0,
    ICMP_UNREACHABLE = 3,
    ICMP_ECHO_REQUEST = 8,
    ICMP_TIME_EXCEEDED = 11,

    ICMPV6_UNREACHABLE = 1,
    ICMPV6_TOO_BIG = 2,
    ICMPV6_TIME_EXCEEDED = 3,
    ICMPV6_PARAMETER_PROBLEM = 4,
    ICMPV6_ECHO_REQUEST = 128,
    ICMPV6_ECHO_REPLY = 129,
    ICMPV6_LISTENER_QUERY = 130, // to 132 and 143: wire/membership.h
    ICMPV6_LISTENER_REPORT = 131,
    ICMPV6_LISTENER_DONE = 132,
    ICMPV6_NEIGHBOUR_SOLICITATION = 135,
    ICMPV6_NEIGHBOUR_ADVERTISEMENT = 136,
    ICMPV6_LISTENER_RECORDS = 143,
};

enum icmp_unreachable_code {
    ICMP_NET_UNREACHABLE = 0,
    ICMP_HOST_UNREACHABLE = 1,
    ICMP_PROTOCOL_UNREACHABLE = 2,
    ICMP_PORT_UNREACHABLE = 3,
    ICMP_FRAGMENTATION_NEEDED = 4,
    ICMP_NET_UNKNOWN = 6, // to 12: RFC 1122 section 3.2.2.1
    ICMP_HOST_UNKNOWN = 7,
    ICMP_HOST_ISOLATED = 8,
    ICMP_NET_PROHIBITED = 9, // it, 10 and 13 are what filters say that reject
    ICMP_HOST_PROHIBITED = 10,
    ICMP_NET_UNREACHABLE_FOR_TOS = 11,
    ICMP_HOST_UNREACHABLE_FOR_TOS = 12,
    ICMP_PROHIBITED = 13, // to 15: RFC 1812 section 5.2.7.1
    ICMP_PRECEDENCE_VIOLATION = 14,
    ICMP_PRECEDENCE_CUTOFF = 15,

    ICMPV6_NO_ROUTE = 0,
    ICMPV6_PROHIBITED = 1,
    ICMPV6_ADDRESS_UNREACHABLE = 3,
    ICMPV6_PORT_UNREACHABLE = 4,
    ICMPV6_SOURCE_PROHIBITED = 5,
    ICMPV6_ROUTE_REJECTED = 6,
};

enum { ICMPV6_UNKNOWN_NEXT_HEADER = 1 }; // code of a parameter problem (RFC 4443 section 3.4)

struct icmp_header {
    uint8_t type;
    uint8_t code;
    uint32_t rest; // the second word, whatever the type makes of it
};

enum nd_flags { ND_SOLICITED = 0x40000000, ND_OVERRIDE = 0x20000000 }; // of an advertisement

struct nd_message {
    uint8_t type; // solicitation or advertisement
    uint32_t flags;
    uint8_t target[IPV6_ADDR_LEN];
    bool has_eth; // an option with the link-layer address: source of a solicitation, target of an
                  // advertisement
    struct eth_addr eth;
};

enum icmp_parse_verdict {
    ICMP_PARSE_OK,
    ICMP_PARSE_TOO_SHORT,
    ICMP_PARSE_CHECKSUM,
    ICMP_PARSE_OPTION, // an option of length 0, or longer than the message
    ICMP_PARSE_VERDICT_COUNT,
};

// `pseudo_sum`: 0 for ICMPv4, inet_sum_ipv6 over the length of `message` for ICMPv6.
enum icmp_parse_verdict icmp_header_parse(struct span message, uint64_t pseudo_sum,
                                          struct icmp_header *ret, struct span *ret_body);
// Of a whole message, header included, that icmp_header_parse has checked.
enum icmp_parse_verdict nd_message_parse(struct span message, struct nd_message *ret);

// Write the message and return its length; the checksum covers `body`, which follows.
size_t icmp_header_emit(const struct icmp_header *h, struct span body, uint64_t pseudo_sum,
                        uint8_t *buf);
size_t nd_message_emit(const struct nd_message *m, uint64_t pseudo_sum, uint8_t *buf);

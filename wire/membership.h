// Who is in which multicast group: IGMP of three versions (RFC 1112 appendix I, RFC 2236,
// RFC 3376), and of IPv6 MLD of two (RFC 2710, RFC 3810), which is IGMP in ICMPv6. Routers, and
// switches that look on, ask; hosts report.
//
//   IGMP  MLD  SIZE  QUERY                              REPORT, LEAVE    RECORDS (IGMPv3, MLDv2)
//    0     0    1    type                               type             type
//    1     1    1    max resp code (IGMP), code 0       0                0
//    2     2    2    checksum                           checksum         checksum
//          4    2    max resp code (MLD)                0                0
//          6    2    0                                  0                count
//    4          4    group, or 0: all                   group            0 (2), count (2)
//          8   16    group, or 0: all                   group
//    8    24    1    S, robustness variable; from here IGMPv3 and MLDv2 alone
//    9    25    1    query interval code
//   10    26    2    how many sources, which follow
//
// A record: kind (1), 0 (1), how many sources (2), the group. Of sources none is asked for, so
// none is emitted; in queries they are counted and passed over.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/icmp.h"
#include "wire/ip.h"

enum {
    IGMP_OFF_TYPE = 0,
    IGMP_OFF_MAX_RESP = 1,
    IGMP_OFF_CHECKSUM = 2,
    IGMP_OFF_GROUP = 4,
    IGMP_OFF_RECORD_COUNT = 6,
    IGMP_OFF_ROBUSTNESS = 8,
    IGMP_OFF_RECORDS = 8,
    IGMP_LEN = 8, // of all but records, and queries of version 3

    MLD_OFF_MAX_RESP = 4,
    MLD_OFF_GROUP = 8,
    MLD_OFF_RECORD_COUNT = 6,
    MLD_OFF_ROBUSTNESS = 24,
    MLD_OFF_SOURCE_COUNT = 26,
    MLD_OFF_SOURCES = 28,
    MLD_OFF_RECORDS = 8,
    MLD_LEN = 24, // likewise

    RECORD_OFF_KIND = 0,
    RECORD_OFF_GROUP = 4,
    IGMP_RECORD_LEN = RECORD_OFF_GROUP + IPV4_ADDR_LEN,
    MLD_RECORD_LEN = RECORD_OFF_GROUP + IPV6_ADDR_LEN,
};
STATIC_CHECK(IGMP_OFF_GROUP + IPV4_ADDR_LEN == IGMP_LEN);
STATIC_CHECK(MLD_OFF_GROUP + IPV6_ADDR_LEN == MLD_LEN);

enum igmp_type {
    IGMP_QUERY = 0x11,
    IGMP_REPORT_1 = 0x12,
    IGMP_REPORT_2 = 0x16,
    IGMP_LEAVE = 0x17,
    IGMP_RECORDS = 0x22,
};

enum membership_record_kind {
    RECORD_IS_EXCLUDE = 2, // in the group, whatever the source: an answer
    RECORD_TO_INCLUDE = 3, // left
    RECORD_TO_EXCLUDE = 4, // joined
};

struct membership_record {
    uint8_t kind;
    uint8_t group[IPV6_ADDR_LEN]; // IPv4: the first four
};

// What somebody wants to know. Of an older version, what it does not say is 0.
struct membership_query {
    unsigned version;             // of IGMP 1 to 3, of MLD 1 and 2
    uint8_t group[IPV6_ADDR_LEN]; // all zero: all, as ever in version 1; IPv4: the first four
    uint32_t max_resp_ms;         // answers are spread over so much
    uint8_t robustness;           // how often what may be lost is said; 0: as ever
    uint32_t interval_s;          // between two general queries
};

enum membership_parse_verdict {
    MEMBERSHIP_PARSE_OK,
    MEMBERSHIP_PARSE_NO_QUERY,
    MEMBERSHIP_PARSE_CHECKSUM,
    MEMBERSHIP_PARSE_LEN, // no version's, or shorter than its sources
};

// `message`: all that the IP packet carries. MLD's has been through icmp_header_parse.
enum membership_parse_verdict igmp_query_parse(struct span message, struct membership_query *ret);
enum membership_parse_verdict mld_query_parse(struct span message, struct membership_query *ret);

// Write the message and return its length. `type`: of a report or leave, with one group.
size_t igmp_message_emit(uint8_t type, const uint8_t group[IPV4_ADDR_LEN], uint8_t *buf);
size_t igmp_records_emit(const struct membership_record *records, unsigned count, uint8_t *buf);
// `pseudo_sum`: inet_sum_ipv6 over the length of the message.
size_t mld_message_emit(uint8_t type, const uint8_t group[IPV6_ADDR_LEN], uint64_t pseudo_sum,
                        uint8_t *buf);
size_t mld_records_emit(const struct membership_record *records, unsigned count,
                        uint64_t pseudo_sum, uint8_t *buf);
static inline size_t igmp_records_len(unsigned count)
{
    return IGMP_OFF_RECORDS + (size_t)count * IGMP_RECORD_LEN;
}
static inline size_t mld_records_len(unsigned count)
{
    return MLD_OFF_RECORDS + (size_t)count * MLD_RECORD_LEN;
}

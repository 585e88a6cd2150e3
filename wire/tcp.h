// The TCP header and its options (RFC 9293 section 3.1; RFC 7323 sections 2.2 and 3.2; RFC 2018
// sections 2 and 3).
//
//   OFFSET SIZE FIELD                            OPTION (kind, length)
//    0      2   source port                       0      end of the list
//    2      2   destination port                  1      no operation
//    4      4   sequence number                   2   4  maximum segment size (2)
//    8      4   acknowledgment number             3   3  window scale: shift count (1)
//   12      1   data offset in words (4 bits)     4   2  SACK permitted
//   13      1   flags                             5  8n+2  SACK: n blocks, left (4), right (4)
//   14      2   window                            8  10  timestamps: value (4), echo reply (4)
//   16      2   checksum
//   18      2   urgent pointer
//   20          options, up to 40 octets
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    TCP_OFF_SRC_PORT = 0,
    TCP_OFF_DST_PORT = 2,
    TCP_OFF_SEQ = 4,
    TCP_OFF_ACK = 8,
    TCP_OFF_DATA_OFFSET = 12,
    TCP_OFF_FLAGS = 13,
    TCP_OFF_WINDOW = 14,
    TCP_OFF_CHECKSUM = 16,
    TCP_OFF_URGENT = 18,
    TCP_HEADER_LEN = 20,
    TCP_OPTIONS_MAX_LEN = 40,
    TCP_HEADER_MAX_LEN = TCP_HEADER_LEN + TCP_OPTIONS_MAX_LEN,
};
STATIC_CHECK(TCP_OFF_URGENT + 2 == TCP_HEADER_LEN);

enum {
    TCP_FIN = 0x01,
    TCP_SYN = 0x02,
    TCP_RST = 0x04,
    TCP_PSH = 0x08,
    TCP_ACK = 0x10,
    TCP_URG = 0x20,
    TCP_ECE = 0x40, // RFC 3168 section 6.1
    TCP_CWR = 0x80,
};

enum tcp_option_kind {
    TCP_OPTION_END = 0,
    TCP_OPTION_NOP = 1,
    TCP_OPTION_MSS = 2,
    TCP_OPTION_SCALE = 3,
    TCP_OPTION_SACK_PERMITTED = 4,
    TCP_OPTION_SACK = 5,
    TCP_OPTION_TIMESTAMPS = 8,
};

enum {
    TCP_SCALE_MAX = 14,      // a higher shift count is taken for this (RFC 7323 section 2.3)
    TCP_SACK_BLOCK_MAX = 4,  // three beside timestamps
    TCP_TIMESTAMPS_LEN = 12, // of the option as emitted, padding included
};

// Octets [left, right) of the sequence space.
struct tcp_sack_block {
    uint32_t left;
    uint32_t right;
};

struct tcp_options {
    uint16_t mss; // 0: not there
    bool has_scale;
    uint8_t scale;
    bool sack_permitted;
    bool has_timestamps;
    uint32_t ts_value;
    uint32_t ts_echo;
    uint8_t sack_count; // blocks, in the order of the option
    struct tcp_sack_block sack[TCP_SACK_BLOCK_MAX];
};

struct tcp_header {
    uint16_t src_port;
    uint16_t dst_port;
    uint32_t seq;
    uint32_t ack;
    uint8_t flags;
    uint16_t window; // as on the wire, not scaled
    struct tcp_options options;
};

enum tcp_parse_verdict {
    TCP_PARSE_OK,
    TCP_PARSE_TOO_SHORT,   // shorter than a header, or than its data offset says
    TCP_PARSE_DATA_OFFSET, // the data offset is below five words
    TCP_PARSE_OPTION_LEN,  // an option whose length is impossible (RFC 9293, MUST-7)
    TCP_PARSE_VERDICT_COUNT,
};

// Parses the header in front of `segment`. `*ret_len`: its length, options included. Unknown
// options are skipped; of one that comes twice the last counts. The checksum is not looked at.
enum tcp_parse_verdict tcp_header_parse(struct span segment, struct tcp_header *ret,
                                        size_t *ret_len);
const char *tcp_parse_verdict_name(enum tcp_parse_verdict verdict);

// Octets that these options take in a header, always a multiple of four.
size_t tcp_options_len(const struct tcp_options *options);

// Writes the header with a checksum of 0 and returns its length. The options must fit.
size_t tcp_header_emit(const struct tcp_header *h, uint8_t *buf);

// One trace line: "7471 > 40000 SA seq 1 ack 2 win 65535 mss 1460 …". Returns `buf`.
const char *tcp_header_format(const struct tcp_header *h, char *buf, size_t len);

// Puts the checksum into a segment: its header as emitted (`header`) and what follows (`payload`).
// `pseudo_sum`: inet_sum_ipv4 or inet_sum_ipv6 over the length of both.
void tcp_checksum_put(struct mspan header, struct span payload, uint64_t pseudo_sum);

// Whether a whole segment, header and payload, agrees with its checksum.
bool tcp_checksum_is_good(struct span segment, uint64_t pseudo_sum);

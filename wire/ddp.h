// The DDP header (RFC 5041 section 4), first in every ULPDU.
//
//   tagged                                      untagged
//   OFFSET SIZE FIELD                           OFFSET SIZE FIELD
//    0      1   T=1 L Rsvd(4) DV(2)              0      1   T=0 L Rsvd(4) DV(2)
//    1      1   RsvdULP                          1      1   RsvdULP, first octet
//    2      4   STag                             2      4   RsvdULP, octets 2-5
//    6      8   TO                               6      4   QN
//                                               10      4   MSN
//                                               14      4   MO
//
// DDP treats RsvdULP as opaque; RDMAP puts its control octet into the first octet and the
// Invalidate STag into the other four (RFC 5040 section 4.1).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    DDP_OFF_CONTROL = 0,
    DDP_OFF_RSVDULP = 1,
    DDP_TAGGED_OFF_STAG = 2,
    DDP_TAGGED_OFF_TO = 6,
    DDP_TAGGED_HEADER_LEN = 14,
    DDP_UNTAGGED_OFF_RSVDULP_STAG = 2,
    DDP_UNTAGGED_OFF_QN = 6,
    DDP_UNTAGGED_OFF_MSN = 10,
    DDP_UNTAGGED_OFF_MO = 14,
    DDP_UNTAGGED_HEADER_LEN = 18,
    DDP_HEADER_MAX_LEN = 18,
};
STATIC_CHECK(DDP_TAGGED_OFF_TO + 8 == DDP_TAGGED_HEADER_LEN);
STATIC_CHECK(DDP_UNTAGGED_OFF_MO + 4 == DDP_UNTAGGED_HEADER_LEN);

// The control octet.
enum {
    DDP_TAGGED = 0x80,
    DDP_LAST = 0x40,
    DDP_RSVD_MASK = 0x3c,
    DDP_RSVD_SHIFT = 2,
    DDP_VERSION_MASK = 0x03,
    DDP_VERSION = 1,
};

// Untagged queues as RDMAP uses them (RFC 5040 section 4.1, RFC 7306 section 4.1).
enum {
    DDP_QN_SEND = 0,
    DDP_QN_READ_REQUEST = 1,
    DDP_QN_TERMINATE = 2,
    DDP_QN_ATOMIC_RESPONSE = 3,
    DDP_QN_EXTENSION = 4, // ours: the extension message, only after both sides agreed
    DDP_QN_COUNT = 5,
};

enum { DDP_FIRST_MSN = 1 }; // of every queue (RFC 5041 section 5.1)

struct ddp_header {
    bool tagged;  // T: which of the two layouts
    bool last;    // L: last segment of its message
    uint8_t rsvd; // 0..15: bits 10..13 of the 16-bit control word, bit 10 lowest; RFC peers send 0
    uint8_t rsvdulp; // the first octet of RsvdULP: RDMAP's control octet

    uint32_t stag; // tagged only
    uint64_t to;   // tagged only: the tagged offset

    uint32_t rsvdulp_stag; // untagged only: octets 2-5 of RsvdULP, the Invalidate STag
    uint32_t qn;           // untagged only: queue number
    uint32_t msn;          // untagged only: message sequence number
    uint32_t mo;           // untagged only: message offset of this segment
};

enum ddp_parse_verdict {
    DDP_PARSE_OK,
    DDP_PARSE_TOO_SHORT,        // the ULPDU ends inside the header
    DDP_PARSE_VERSION_TAGGED,   // DV is not 1: DDP error 1/1/04
    DDP_PARSE_VERSION_UNTAGGED, // DV is not 1: DDP error 1/2/06
};

// Reads the header at the start of `ulpdu`. On DDP_PARSE_OK `*ret` is complete (the fields of the
// other layout are zero) and `*ret_len` is the header's length: the payload begins there. On a
// version verdict `ret->tagged` and `ret->last` hold; otherwise neither is touched.
enum ddp_parse_verdict ddp_header_parse(struct span ulpdu, struct ddp_header *ret, size_t *ret_len);

// Octets that ddp_header_emit writes for this header.
static inline size_t ddp_header_len(const struct ddp_header *h)
{
    return h->tagged ? DDP_TAGGED_HEADER_LEN : DDP_UNTAGGED_HEADER_LEN;
}

// Writes the header into `buf` (room for DDP_HEADER_MAX_LEN octets) and returns its length.
size_t ddp_header_emit(const struct ddp_header *h, uint8_t *buf);

// One trace line, without a newline, cut at `len`; returns `buf`.
const char *ddp_header_format(const struct ddp_header *h, char *buf, size_t len);

const char *ddp_parse_verdict_name(enum ddp_parse_verdict verdict);

// Terminate as RDMAP handles it: which header goes into it, and how the peer's is read.
#pragma once

#include <stdbool.h>

#include "base/span.h"
#include "ddp/rx.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

// The start of the segment that was at fault, kept for a Terminate that names it.
struct rdmap_offender {
    bool has_ddp;          // a whole DDP header was there
    bool has_read_request; // and behind it a whole Read Request header
    uint16_t segment_len;  // octets of the ULPDU
    uint8_t ddp_header[DDP_HEADER_MAX_LEN];
    size_t ddp_header_len;
    uint8_t read_request[RDMAP_READ_REQUEST_LEN];
};

struct rdmap_offender rdmap_offender_of(struct span ulpdu);
// The same for a segment of which only header and payload are left.
struct rdmap_offender rdmap_offender_of_segment(const struct ddp_segment *segment);

// A Read that was answered in part: the header advances to where it stopped (RFC 5040 section 4.8).
void rdmap_offender_advance(struct rdmap_offender *offender, uint32_t answered_len);

// The message for `cause`, with the headers that belong into it; NULL: none is known.
struct terminate rdmap_terminate_make(enum terminate_cause cause,
                                      const struct rdmap_offender *offender);

struct rdmap_terminate_read {
    struct terminate rfc;       // in the RFC's order
    struct terminate siw;       // in siw's
    bool is_siw;                // which of the two was taken
    enum terminate_cause cause; // TERM_NONE: numbers that no RFC gives
};

// Reads the peer's Terminate. With `peer_is_siw` siw's order counts, else the RFC's; both are kept,
// since a message with M = D = R = 0 does not tell which it is.
struct rdmap_terminate_read rdmap_terminate_read(struct span message, bool peer_is_siw);

// Which message of ours a Terminate is about, if it carries a DDP header.
enum rdmap_culprit_kind {
    RDMAP_CULPRIT_UNKNOWN,
    RDMAP_CULPRIT_WRITE,   // `stag`, `to`
    RDMAP_CULPRIT_SEND,    // `msn`; Immediate Data too
    RDMAP_CULPRIT_REQUEST, // `msn`; Read or atomic
};
struct rdmap_culprit {
    enum rdmap_culprit_kind kind;
    uint32_t msn;
    uint32_t stag;
    uint64_t to;
};
struct rdmap_culprit rdmap_terminate_culprit(const struct terminate *terminate);

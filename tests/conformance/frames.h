// What a peer puts on the wire and finds there, by the figures of the RFCs: octets at offsets, and
// nothing of weft's own wire formats. RFC 5044 figures 2, 4 and 6; RFC 5041 figures 3 and 5;
// RFC 5040 figures 3, 5, 6 and 9; RFC 6581 figures 2 to 4; RFC 7306 figures 4 to 6.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    FRAME_HEADER_LEN = 20,  // key 16, flags and revision 2, PD_Length 2
    FRAME_ENHANCED_LEN = 4, // A B IRD(14), C D ORD(14)
    FRAME_MAX_LEN = 20 + 512,
    FRAME_OFF_FLAGS = 16,
    FRAME_OFF_PD_LEN = 18,
    FRAME_OFF_IRD = 20,
    FRAME_OFF_ORD = 22,

    FRAME_M = 0x8000, // the sender wants markers
    FRAME_C = 0x4000, // ... CRCs
    FRAME_R = 0x2000, // rejected
    FRAME_S = 0x1000, // enhanced, revision 2
    FRAME_REVISION = 0x00ff,

    FRAME_A = 0x8000,         // with IRD: peer to peer
    FRAME_B = 0x4000,         // ... an empty Send as indication
    FRAME_RTR_WRITE = 0x8000, // C, with ORD
    FRAME_RTR_READ = 0x4000,  // D
    FRAME_DEPTH = 0x3fff,     // IRD or ORD; all ones: not negotiated
};

enum {
    TAGGED_LEN = 14,   // control 1, RDMAP control 1, STag 4, TO 8
    UNTAGGED_LEN = 18, // control 1, RDMAP control 1, reserved or STag 4, QN 4, MSN 4, MO 4
    TAGGED = 0x80,     // T
    LAST = 0x40,       // L
    DDP_V1 = 0x01,
    RDMAP_V1 = 0x40,
    OFF_TAGGED_STAG = 2,
    OFF_TAGGED_TO = 6,
    OFF_STAG = 2,
    OFF_QN = 6,
    OFF_MSN = 10,
    OFF_MO = 14,
};

enum opcode { // RFC 5040 figure 4, RFC 7306 figure 3
    OP_WRITE = 0,
    OP_READ_REQUEST = 1,
    OP_READ_RESPONSE = 2,
    OP_SEND = 3,
    OP_SEND_INV = 4,
    OP_SEND_SE = 5,
    OP_SEND_SE_INV = 6,
    OP_TERMINATE = 7,
    OP_IMMEDIATE = 8,
    OP_IMMEDIATE_SE = 9,
    OP_ATOMIC_REQUEST = 10,
    OP_ATOMIC_RESPONSE = 11,
};

enum { ULPDU_MAX_LEN = 65535, READ_REQUEST_LEN = 28, ATOMIC_REQUEST_LEN = 52 };

struct ulpdu {
    size_t len;
    uint8_t octets[ULPDU_MAX_LEN];
};

/* ---- start-up frames ------------------------------------------------------------------------- */

struct startup {
    bool is_reply;
    uint16_t flags;    // FRAME_ bits, revision included
    uint16_t ird, ord; // with FRAME_S: all 16 bits of each
    const void *private_data;
    uint16_t private_len; // without the enhanced octets
};
// Revision 2 with CRC; IRD and ORD of 4.
struct startup startup_usual(bool is_reply);
size_t frame_put(uint8_t *buf, const struct startup *s);

/* ---- FPDUs ----------------------------------------------------------------------------------- */

uint32_t crc_of(const void *octets, size_t len); // CRC32C, as in RFC 3720 appendix B.4
// With its length, pad and CRC around it; `buf` has room for it.
size_t fpdu_put(uint8_t *buf, const void *ulpdu, size_t len);
static inline size_t fpdu_len_of(size_t ulpdu_len)
{
    return (2 + ulpdu_len + 3) / 4 * 4 + 4;
}

/* ---- ULPDUs; `payload` NULL: zeros ----------------------------------------------------------- */

void tagged(struct ulpdu *u, enum opcode opcode, uint32_t stag, uint64_t to, bool is_last,
            const void *payload, size_t len);
// On the queue where it belongs.
void untagged(struct ulpdu *u, enum opcode opcode, uint32_t msn, uint32_t mo, bool is_last,
              const void *payload, size_t len);

struct read_request {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t size;
    uint32_t source_stag;
    uint64_t source_to;
};
void read_request(struct ulpdu *u, uint32_t msn, const struct read_request *r);
struct read_request read_request_of(const struct ulpdu *u);

enum atomic_opcode { ATOMIC_FETCH_ADD = 0, ATOMIC_COMPARE_SWAP = 2 };
struct atomic_request {
    enum atomic_opcode opcode;
    uint32_t id, stag;
    uint64_t to, add_swap, add_swap_mask, compare, compare_mask;
};
void atomic_request(struct ulpdu *u, uint32_t msn, const struct atomic_request *r);
struct atomic_request atomic_request_of(const struct ulpdu *u);

static inline enum opcode opcode_of(const struct ulpdu *u)
{
    return (enum opcode)(u->octets[1] & 0x0f);
}
static inline bool is_last(const struct ulpdu *u)
{
    return (u->octets[0] & LAST) != 0;
}

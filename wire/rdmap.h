// RDMAP headers: the control octet (RFC 5040 section 4.1), the Read Request (section 4.4), Atomic
// Operations and Immediate Data (RFC 7306 sections 5.2 and 6.2). The Terminate header has a file
// of its own, wire/terminate.h.
//
// The control octet is RV(2) Rsv(2) Opcode(4) and travels in the first octet of DDP's RsvdULP.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum rdmap_opcode {
    RDMAP_WRITE = 0,
    RDMAP_READ_REQUEST,
    RDMAP_READ_RESPONSE,
    RDMAP_SEND,
    RDMAP_SEND_INV,
    RDMAP_SEND_SE,
    RDMAP_SEND_SE_INV,
    RDMAP_TERMINATE,
    RDMAP_IMMEDIATE = 8,
    RDMAP_IMMEDIATE_SE,
    RDMAP_ATOMIC_REQUEST,
    RDMAP_ATOMIC_RESPONSE,
    RDMAP_EXTENSION = 0xE, // ours: the extension message (wire/extension.h)
    RDMAP_OPCODE_COUNT = 16,
};

enum {
    RDMAP_VERSION = 1,
    RDMAP_VERSION_SHIFT = 6,
    RDMAP_OPCODE_MASK = 0x0f,
};

struct rdmap_opcode_facts {
    const char *name;     // the RFC's name, "Reserved" where it has none
    bool is_known;        // has a meaning; whether a connection may use it is negotiated elsewhere
    bool is_tagged;       // travels in tagged DDP segments
    bool carries_payload; // ULP payload, of any length
    bool invalidates;     // RsvdULP octets 2-5 name an STag to invalidate
    bool solicits;        // raises a solicited event at the peer
    uint32_t qn;          // untagged only: the queue
    uint32_t fixed_len;   // octets behind the DDP header; 0: any number
};

// The facts of an opcode; only its low 4 bits count. Never NULL.
const struct rdmap_opcode_facts *rdmap_opcode_facts(uint8_t opcode);

static inline uint8_t rdmap_control_emit(enum rdmap_opcode opcode)
{
    return (uint8_t)(RDMAP_VERSION << RDMAP_VERSION_SHIFT | opcode);
}

static inline uint8_t rdmap_control_version(uint8_t octet)
{
    return octet >> RDMAP_VERSION_SHIFT;
}

static inline uint8_t rdmap_control_opcode(uint8_t octet)
{
    return octet & RDMAP_OPCODE_MASK;
}

// What a parse of a header of fixed length answers.
enum rdmap_parse_verdict {
    RDMAP_PARSE_OK,
    RDMAP_PARSE_TOO_SHORT, // fewer octets than the header has
    RDMAP_PARSE_TOO_LONG,  // octets behind the header, which carries no payload
};
const char *rdmap_parse_verdict_name(enum rdmap_parse_verdict verdict);

/* ---- Read Request: SinkSTag, SinkTO, RDMARDSZ, SrcSTag, SrcTO -------------------------------- */

enum {
    RDMAP_READ_REQUEST_OFF_SINK_STAG = 0,
    RDMAP_READ_REQUEST_OFF_SINK_TO = 4,
    RDMAP_READ_REQUEST_OFF_RDMARDSZ = 12,
    RDMAP_READ_REQUEST_OFF_SRC_STAG = 16,
    RDMAP_READ_REQUEST_OFF_SRC_TO = 20,
    RDMAP_READ_REQUEST_LEN = 28,
};
STATIC_CHECK(RDMAP_READ_REQUEST_OFF_SRC_TO + 8 == RDMAP_READ_REQUEST_LEN);

struct rdmap_read_request {
    uint32_t sink_stag; // of the requester's buffer
    uint64_t sink_to;
    uint32_t rdmardsz; // octets to read, 0 too
    uint32_t src_stag; // of the responder's buffer
    uint64_t src_to;
};

enum rdmap_parse_verdict rdmap_read_request_parse(struct span header,
                                                  struct rdmap_read_request *ret);
// Writes RDMAP_READ_REQUEST_LEN octets and returns that number.
size_t rdmap_read_request_emit(const struct rdmap_read_request *r, uint8_t *buf);
const char *rdmap_read_request_format(const struct rdmap_read_request *r, char *buf, size_t len);

/* ---- Atomic Operation Request (RFC 7306 figure 4) -------------------------------------------- */

// AOpCode (RFC 7306 figure 5).
enum rdmap_atomic_opcode {
    RDMAP_ATOMIC_FETCH_ADD = 0,
    RDMAP_ATOMIC_CMP_SWAP = 2,
};

enum {
    RDMAP_ATOMIC_REQUEST_OFF_OPCODE = 0, // 28 reserved bits, then AOpCode
    RDMAP_ATOMIC_REQUEST_OFF_REQUEST_ID = 4,
    RDMAP_ATOMIC_REQUEST_OFF_STAG = 8,
    RDMAP_ATOMIC_REQUEST_OFF_TO = 12,
    RDMAP_ATOMIC_REQUEST_OFF_ADD_SWAP = 20,
    RDMAP_ATOMIC_REQUEST_OFF_ADD_SWAP_MASK = 28,
    RDMAP_ATOMIC_REQUEST_OFF_COMPARE = 36,
    RDMAP_ATOMIC_REQUEST_OFF_COMPARE_MASK = 44,
    RDMAP_ATOMIC_REQUEST_LEN = 52,
};
STATIC_CHECK(RDMAP_ATOMIC_REQUEST_OFF_COMPARE_MASK + 8 == RDMAP_ATOMIC_REQUEST_LEN);

struct rdmap_atomic_request {
    uint8_t opcode; // enum rdmap_atomic_opcode, or whatever the peer sent (4 bits): check it
    uint32_t request_id;
    uint32_t stag;
    uint64_t to; // must be a multiple of 8: the receiver checks
    uint64_t add_swap;
    uint64_t add_swap_mask;
    uint64_t compare;
    uint64_t compare_mask;
};

enum rdmap_parse_verdict rdmap_atomic_request_parse(struct span header,
                                                    struct rdmap_atomic_request *ret);
// Writes RDMAP_ATOMIC_REQUEST_LEN octets and returns that number.
size_t rdmap_atomic_request_emit(const struct rdmap_atomic_request *r, uint8_t *buf);
const char *rdmap_atomic_request_format(const struct rdmap_atomic_request *r, char *buf,
                                        size_t len);

/* ---- Atomic Operation Response (RFC 7306 figure 6) ------------------------------------------- */

enum {
    RDMAP_ATOMIC_RESPONSE_OFF_REQUEST_ID = 0,
    RDMAP_ATOMIC_RESPONSE_OFF_ORIGINAL = 4,
    RDMAP_ATOMIC_RESPONSE_LEN = 12,
};
STATIC_CHECK(RDMAP_ATOMIC_RESPONSE_OFF_ORIGINAL + 8 == RDMAP_ATOMIC_RESPONSE_LEN);

struct rdmap_atomic_response {
    uint32_t request_id; // of the request it answers
    uint64_t original;   // the remote value before the operation
};

enum rdmap_parse_verdict rdmap_atomic_response_parse(struct span header,
                                                     struct rdmap_atomic_response *ret);
// Writes RDMAP_ATOMIC_RESPONSE_LEN octets and returns that number.
size_t rdmap_atomic_response_emit(const struct rdmap_atomic_response *r, uint8_t *buf);
const char *rdmap_atomic_response_format(const struct rdmap_atomic_response *r, char *buf,
                                         size_t len);

/* ---- Immediate Data (RFC 7306 figure 7): 8 octets that belong to the ULP --------------------- */

enum { RDMAP_IMMEDIATE_LEN = 8 };

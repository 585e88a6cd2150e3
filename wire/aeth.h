// The ACK Extended Transport Header (InfiniBand Architecture volume 1, chapter 9): in
// acknowledgements, and in the first and last packet of a Read's response.
//
//   OFFSET SIZE FIELD
//    0      1   syndrome: kind (3 bits), value (5)
//    1      3   MSN: messages that the responder has finished
//
//   KIND  VALUE
//    000  ACK: credits, as a code; 31: none are counted
//    001  RNR NAK: timer, as a code
//    011  NAK: code
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "base/time.h"
#include "wire/roce_verdict.h"

enum {
    AETH_OFF_SYNDROME = 0,
    AETH_OFF_MSN = 1,
    AETH_LEN = 4,
};
STATIC_CHECK(AETH_OFF_MSN + 3 == AETH_LEN);

enum {
    AETH_KIND_MASK = 0xe0,
    AETH_VALUE_MASK = 0x1f,
    AETH_CREDITS_NONE = 0x1f, // of an ACK: end-to-end flow control is not in use
};

enum aeth_kind {
    AETH_ACK = 0x00,
    AETH_RNR_NAK = 0x20,
    AETH_RESERVED = 0x40, // and what is above AETH_NAK: such an acknowledgement is dropped
    AETH_NAK = 0x60,
};

// The value of a NAK. What is above is reserved.
enum aeth_nak {
    AETH_NAK_PSN_SEQUENCE = 0, // packets are missing: the PSN is the one that was expected
    AETH_NAK_INVALID_REQUEST = 1,
    AETH_NAK_REMOTE_ACCESS = 2,
    AETH_NAK_REMOTE_OPERATIONAL = 3,
    AETH_NAK_INVALID_RD_REQUEST = 4,
    AETH_NAK_COUNT,
};

enum {
    AETH_SYNDROME_ACK = AETH_ACK | AETH_CREDITS_NONE,
};

struct aeth {
    uint8_t syndrome;
    uint32_t msn; // 24 bits
};

// What a syndrome is; AETH_RESERVED for every kind without a meaning.
enum aeth_kind aeth_kind(uint8_t syndrome);

static inline uint8_t aeth_value(uint8_t syndrome)
{
    return syndrome & AETH_VALUE_MASK;
}

static inline uint8_t aeth_syndrome_nak(enum aeth_nak nak)
{
    return (uint8_t)(AETH_NAK | nak);
}

// An ACK of who has so many receives: the code of the next number below that has one.
uint8_t aeth_syndrome_ack(uint32_t credits);

// "PSN sequence error" …; "reserved code" of what is above.
const char *aeth_nak_name(uint8_t value);

// `code`: min_rnr_timer as ibv_modify_qp takes it, 0..31.
static inline uint8_t aeth_syndrome_rnr(uint8_t code)
{
    return (uint8_t)(AETH_RNR_NAK | (code & AETH_VALUE_MASK));
}

// How long to wait after an RNR NAK with this timer code (its lower 5 bits count). 0: the longest.
duration_ns aeth_rnr_timer_ns(uint8_t code);

// Messages beyond the MSN that an ACK with this credit code lets the requester send (its lower 5
// bits count). UINT32_MAX for AETH_CREDITS_NONE.
uint32_t aeth_credits(uint8_t code);

// Reads the header at the start of `octets`. Answers OK or TOO_SHORT.
enum roce_parse_verdict aeth_parse(struct span octets, struct aeth *ret);
// Writes AETH_LEN octets and returns that number.
size_t aeth_emit(const struct aeth *h, uint8_t *buf);
const char *aeth_format(const struct aeth *h, char *buf, size_t len);

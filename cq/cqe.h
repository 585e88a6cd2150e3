// A completion queue entry: what the consumer will see of one finished work request. Values are
// those of the verbs (ibv_wc_status, ibv_wc_opcode, IBV_WC_*), which verbs/ asserts.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/time.h"

enum { CQE_LEN = 64 }; // one cache line, so that producer and consumer never share one

enum { CQE_STATUS_SUCCESS = 0 }; // IBV_WC_SUCCESS; anything else counts as solicited

// What else a completion says. The first three are IBV_WC_*, the others are no flags of the verbs:
// <weft/oneshot.h> has functions that read them.
enum wc_flags {
    WC_GRH = 1 << 0, // of a datagram: 40 octets that say from where stand before the payload
    WC_WITH_IMM = 1 << 1,
    WC_WITH_INV = 1 << 3,
    WC_ADVERTISED = 1 << 24, // inv_rkey is an STag that the peer advertises
    WC_CLOSED = 1 << 25,     // inv_rkey was a one-shot region, and is none any more
    WC_REFERENCE = 1 << 26,  // `reference` was in the message
};

struct cqe;

// Where the message-specific part of a completion waits until it is polled: in the receive that the
// message took. `fetch` fills it in and lets go of the place; the consumer's side calls it, once.
struct cqe_source {
    void (*fetch)(struct cqe_source *source, struct cqe *cqe);
};

// With a source, wr_id, opcode, byte_len, wc_flags and what they say is present are filled in when
// the entry is polled.
struct cqe {
    _Alignas(CQE_LEN) uint64_t wr_id;
    instant_ns timestamp_ns; // when the entry was pushed, on the engine's clock
    uint32_t status;         // enum ibv_wc_status
    uint32_t opcode;         // enum ibv_wc_opcode
    uint32_t vendor_err;
    uint32_t byte_len; // octets received or read
    union {
        uint32_t imm_data; // as it came: network order (IBV_WC_WITH_IMM)
        uint32_t inv_rkey; // host order (IBV_WC_WITH_INV, WC_ADVERTISED)
    };
    uint32_t qp_num;
    uint32_t wc_flags; // enum wc_flags
    bool solicited;    // the peer asked for an event (Send with Solicited Event)
    union {
        uint64_t reference;  // WC_REFERENCE: the number that a one-shot message carries
        struct {             // WC_GRH
            uint32_t src_qp; // the queue pair that the datagram came from
            uint32_t sl;     // its service level, as its transport has it
        };
    };
    struct cqe_source *source; // NULL: all is here
};

STATIC_CHECK(sizeof(struct cqe) == CQE_LEN);

// Why a responder of RC does not do what a packet asks for, and what follows: one table.
//
// A refusal that is fatal takes the queue pair to ERR; the others leave it as it was, and the peer
// sends the packet again.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/qp_state.h"
#include "mem/verdict.h"
#include "wq/status.h"

// X(name, syndrome of the AETH, event or QP_EVENT_COUNT for none, text)
#define RC_REFUSALS(X)                                                                         \
    X(SEQUENCE, 0x60, QP_EVENT_COUNT, "packets are missing before it")                         \
    X(NOT_READY, 0x20, QP_EVENT_COUNT, "no receive is posted")                                 \
    X(OPCODE, 0x61, QP_EVENT_REQ_ERR, "an opcode that is reserved")                            \
    X(ORDER, 0x61, QP_EVENT_REQ_ERR, "out of place in its message")                            \
    X(RIGHTS, 0x61, QP_EVENT_ACCESS_ERR, "an operation that this queue pair grants nobody")    \
    X(TOO_MANY, 0x61, QP_EVENT_REQ_ERR, "more Reads and atomics than were agreed on")          \
    X(LENGTH, 0x61, QP_EVENT_REQ_ERR, "a length that its place in the message does not allow") \
    X(ACCESS, 0x62, QP_EVENT_ACCESS_ERR, "memory that the peer may not touch so")              \
    X(UNMAPPED, 0x63, QP_EVENT_FATAL, "memory that the process does not have now")             \
    X(ALIGNMENT, 0x61, QP_EVENT_REQ_ERR, "an atomic that is not aligned")                      \
    X(INVALIDATE, 0x62, QP_EVENT_ACCESS_ERR, "a key that the peer may not take back")          \
    X(TOO_LONG, 0x61, QP_EVENT_COUNT, "longer than its receive")                               \
    X(LOCAL, 0x63, QP_EVENT_COUNT, "its receive names memory that is not usable")              \
    X(CLOSE_REFERENCE, 0x62, QP_EVENT_ACCESS_ERR, "a close with another reference")            \
    X(CLOSE_SHORT, 0x61, QP_EVENT_REQ_ERR, "a close that ends before its reference")

enum rc_refusal {
    RC_ACCEPTED,
#define X(name, syndrome, event, text) RC_REFUSED_##name,
    RC_REFUSALS(X)
#undef X
        RC_REFUSAL_COUNT,
};

struct rc_refusal_facts {
    const char *name;    // "not_ready": a counter's
    const char *text;    // a short phrase, for traces
    uint8_t syndrome;    // that the peer is told; of NOT_READY without its timer
    bool is_fatal;       // the queue pair is over
    enum qp_event event; // QP_EVENT_COUNT: none, a completion tells
};
const struct rc_refusal_facts *rc_refusal_facts(enum rc_refusal refusal);

// What the verdict on memory that a packet names is for the peer.
enum rc_refusal rc_refusal_of_memory(enum mem_verdict verdict);

// What a work request ends with that the peer has refused with this code of a NAK; WC_SUCCESS: the
// code ends nothing.
enum wc_status rc_status_of_nak(uint8_t code);

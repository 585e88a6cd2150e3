// Every way in which a message of the peer can be refused, DDP's refusals included; with each the
// cause that the Terminate names (RFC 5040 section 4.8, RFC 7306 section 8). One counter each.
#pragma once

#include "ddp/verdict.h"
#include "mem/verdict.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

// Name, cause (TERM_...), words.
#define RDMAP_REFUSALS(X)                                                                         \
    X(VERSION, RDMAP_VERSION, "another RDMAP version")                                            \
    X(OPCODE, RDMAP_OPCODE, "opcode has no meaning on this stream")                               \
    X(OPCODE_LAYOUT, RDMAP_OPCODE, "opcode and the T bit disagree")                               \
    X(OPCODE_QUEUE, DDP_QN, "opcode and the queue number disagree")                               \
    X(TRUNCATED, RDMAP_OPERATION_UNSPECIFIED, "message shorter than its opcode demands")          \
    X(OVERLONG, DDP_TOO_LONG, "message longer than its opcode allows")                            \
    X(EXTENSION_MALFORMED, RDMAP_OPERATION_UNSPECIFIED, "extension message cannot be understood") \
    X(EXTENSION_UNASKED, RDMAP_OPCODE, "extension message that nothing has called for")           \
    X(IRD_EXCEEDED, RDMAP_CATASTROPHIC_STREAM, "more requests than IRD allows")                   \
    X(REMOTE_INVALID_STAG, RDMAP_INVALID_STAG, "request's STag names no memory")                  \
    X(REMOTE_STREAM, RDMAP_STREAM, "request's STag belongs to another domain or stream")          \
    X(REMOTE_BOUNDS, RDMAP_BOUNDS, "request leaves the memory that its STag names")               \
    X(REMOTE_TO_WRAP, RDMAP_TO_WRAP, "request's tagged offset wraps")                             \
    X(REMOTE_ACCESS, RDMAP_ACCESS, "request's STag does not grant this access")                   \
    X(ATOMIC_OPCODE, RDMAP_OPCODE, "unknown atomic operation")                                    \
    X(ATOMIC_ALIGNMENT, RDMAP_CATASTROPHIC_STREAM, "atomic on octets that are not aligned")       \
    X(RESPONSE_UNASKED, RDMAP_OPCODE, "response without a request of its kind")                   \
    X(RESPONSE_STAG, DDP_INVALID_STAG, "response to another STag than the oldest request's")      \
    X(RESPONSE_TO, DDP_BOUNDS, "response does not continue at its offset")                        \
    X(RESPONSE_LENGTH, DDP_BOUNDS, "response longer than its request")                            \
    X(RESPONSE_LAST, RDMAP_OPERATION_UNSPECIFIED, "response ends early")                          \
    X(RESPONSE_SHORT, RDMAP_OPERATION_UNSPECIFIED, "response cut to less than the allotment")     \
    X(RESPONSE_ID, RDMAP_OPERATION_UNSPECIFIED, "atomic response with another request's number")  \
    X(RESPONSE_TIMEOUT, RDMAP_CATASTROPHIC_STREAM, "an answer makes no progress for too long")    \
    X(PLACED_APART, DDP_MO, "segments placed beyond a hole do not make up their message")         \
    X(WRITTEN_BEHIND, DDP_INVALID_STAG, "write behind the message that takes its STag back")      \
    X(INVALIDATE_INVALID_STAG, RDMAP_INVALID_STAG, "STag to invalidate names nothing")            \
    X(INVALIDATE_STREAM, RDMAP_PROTECTION_INVALIDATE,                                             \
      "STag to invalidate belongs to another domain or stream")                                   \
    X(INVALIDATE, RDMAP_PROTECTION_INVALIDATE, "STag may only be taken back by its owner")        \
    X(ONESHOT_BOTH, RDMAP_OPCODE, "Send that both advertises and closes")                         \
    X(ONESHOT_STAG_TAKEN, RDMAP_OPCODE, "one-shot mark on a Send whose STag field is taken")      \
    X(ONESHOT_UNAGREED, RDMAP_OPCODE, "part of one-shot RDMA that was not agreed")                \
    X(ONESHOT_SHORT, RDMAP_OPERATION_UNSPECIFIED,                                                 \
      "one-shot message that ends before its reference")                                          \
    X(CLOSE_INVALID_STAG, RDMAP_INVALID_STAG, "STag to close is not open")                        \
    X(CLOSE_STREAM, RDMAP_STREAM, "STag to close belongs to another domain or stream")            \
    X(CLOSE_NOT_ONESHOT, RDMAP_PROTECTION_INVALIDATE, "STag to close is of no one-shot region")   \
    X(CLOSE_REFERENCE, RDMAP_CATASTROPHIC_STREAM, "STag to close belongs to another reference")   \
    X(NO_RECEIVE, DDP_NO_BUFFER, "no receive was posted in time")                                 \
    X(RECEIVE_LOCAL, RDMAP_LOCAL, "our own receive buffer is not usable")                         \
    X(SINK_LOCAL, RDMAP_LOCAL, "our own read buffer is not usable any more")                      \
    X(WORK_REQUEST, RDMAP_LOCAL, "our own work request is at fault")

enum rdmap_refusal {
    RDMAP_ACCEPTED,
#define X(name, cause, text) RDMAP_REFUSED_DDP_##name = DDP_REFUSED_##name,
    DDP_REFUSALS(X)
#undef X
#define X(name, cause, text) RDMAP_REFUSED_##name,
        RDMAP_REFUSALS(X)
#undef X
            RDMAP_REFUSAL_COUNT,
};

struct rdmap_refusal_facts {
    const char *name; // as in the lists: "MSN_RANGE" of DDP is "DDP_MSN_RANGE"
    const char *text; // for people
    enum terminate_cause cause;
};

// RDMAP_ACCEPTED: "none", TERM_NONE.
const struct rdmap_refusal_facts *rdmap_refusal_facts(enum rdmap_refusal refusal);

static inline enum rdmap_refusal rdmap_refusal_of_ddp(enum ddp_verdict verdict)
{
    return (enum rdmap_refusal)verdict; // DDP's refusals are RDMAP's
}

// What the STag table's answer means for the memory that a Read or atomic request names.
enum rdmap_refusal rdmap_refusal_of_request(enum mem_verdict verdict);
// ... and for the STag of a Send with Invalidate.
enum rdmap_refusal rdmap_refusal_of_invalidate(enum mem_verdict verdict);
// ... and for that of a Send that closes.
enum rdmap_refusal rdmap_refusal_of_close(enum mem_verdict verdict);

// What DDP answers about a segment: fine, or one of the refusals below. Each has the cause that a
// Terminate names (RFC 5041 section 7.2); that mapping, of STag table verdicts too, stands only
// here.
#pragma once

#include "mem/verdict.h"
#include "wire/terminate.h"

// Name, cause (TERM_...), words.
#define DDP_REFUSALS(X)                                                                       \
    X(TOO_SHORT, RDMAP_OPERATION_UNSPECIFIED, "segment shorter than its DDP header")          \
    X(TAGGED_VERSION, DDP_TAGGED_VERSION, "tagged segment of another DDP version")            \
    X(UNTAGGED_VERSION, DDP_UNTAGGED_VERSION, "untagged segment of another DDP version")      \
    X(QN, DDP_QN, "no such queue")                                                            \
    X(MSN_RANGE, DDP_MSN_RANGE, "not the message that is due on this queue")                  \
    X(MO, DDP_MO, "does not continue the message at its offset")                              \
    X(TOO_LONG, DDP_TOO_LONG, "message longer than its buffer")                               \
    X(INVALID_STAG, DDP_INVALID_STAG, "STag names no memory")                                 \
    X(STREAM, DDP_STREAM, "STag belongs to another protection domain or stream")              \
    X(BOUNDS, DDP_BOUNDS, "outside the memory that the STag names")                           \
    X(TO_WRAP, DDP_TO_WRAP, "tagged offset wraps")                                            \
    /* RFC 5041 has no code for missing rights; this comes nearest, and is what siw sends. */ \
    X(ACCESS, DDP_INVALID_STAG, "STag does not grant this access")                            \
    X(LOCAL, DDP_LOCAL, "our own buffer is not usable")

enum ddp_verdict {
    DDP_OK,
#define X(name, cause, text) DDP_REFUSED_##name,
    DDP_REFUSALS(X)
#undef X
        DDP_VERDICT_COUNT,
};

// TERM_NONE for DDP_OK.
enum terminate_cause ddp_verdict_cause(enum ddp_verdict verdict);
const char *ddp_verdict_text(enum ddp_verdict verdict);

// What the STag table's answer to a tagged segment means.
enum ddp_verdict ddp_verdict_of_mem(enum mem_verdict verdict);

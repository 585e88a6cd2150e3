#include "rdmap/refusal.h"

static const struct rdmap_refusal_facts facts_of_refusal[RDMAP_REFUSAL_COUNT] = {
    [RDMAP_ACCEPTED] = {"none", "accepted", TERM_NONE},
#define X(name, cause, text) [RDMAP_REFUSED_DDP_##name] = {"DDP_" #name, text, TERM_##cause},
    DDP_REFUSALS(X)
#undef X
#define X(name, cause, text) [RDMAP_REFUSED_##name] = {#name, text, TERM_##cause},
        RDMAP_REFUSALS(X)
#undef X
};

const struct rdmap_refusal_facts *rdmap_refusal_facts(enum rdmap_refusal refusal)
{
    return &facts_of_refusal[refusal];
}

enum rdmap_refusal rdmap_refusal_of_request(enum mem_verdict verdict)
{
    static const enum rdmap_refusal refusals[MEM_VERDICT_COUNT] = {
        [MEM_OK] = RDMAP_ACCEPTED,
        [MEM_INVALID_STAG] = RDMAP_REFUSED_REMOTE_INVALID_STAG,
        [MEM_WRONG_PD] = RDMAP_REFUSED_REMOTE_STREAM,
        [MEM_WRONG_QP] = RDMAP_REFUSED_REMOTE_STREAM,
        [MEM_BOUNDS] = RDMAP_REFUSED_REMOTE_BOUNDS,
        [MEM_WRAP] = RDMAP_REFUSED_REMOTE_TO_WRAP,
        [MEM_ACCESS] = RDMAP_REFUSED_REMOTE_ACCESS,
        [MEM_CANNOT_INVALIDATE] = RDMAP_REFUSED_REMOTE_ACCESS, // not an answer to a request
        [MEM_WINDOW_STATE] = RDMAP_REFUSED_REMOTE_ACCESS,
        [MEM_UNMAPPED] = RDMAP_REFUSED_REMOTE_BOUNDS,
        [MEM_LOCAL_ELEMENT] = RDMAP_REFUSED_REMOTE_ACCESS,
    };
    return refusals[verdict];
}

enum rdmap_refusal rdmap_refusal_of_invalidate(enum mem_verdict verdict)
{
    static const enum rdmap_refusal refusals[MEM_VERDICT_COUNT] = {
        [MEM_OK] = RDMAP_ACCEPTED,
        [MEM_INVALID_STAG] = RDMAP_REFUSED_INVALIDATE_INVALID_STAG,
        [MEM_WRONG_PD] = RDMAP_REFUSED_INVALIDATE_STREAM,
        [MEM_WRONG_QP] = RDMAP_REFUSED_INVALIDATE_STREAM,
        [MEM_BOUNDS] = RDMAP_REFUSED_INVALIDATE, // not an answer to an invalidation
        [MEM_WRAP] = RDMAP_REFUSED_INVALIDATE,
        [MEM_ACCESS] = RDMAP_REFUSED_INVALIDATE,
        [MEM_CANNOT_INVALIDATE] = RDMAP_REFUSED_INVALIDATE,
        [MEM_WINDOW_STATE] = RDMAP_REFUSED_INVALIDATE,
        [MEM_UNMAPPED] = RDMAP_REFUSED_INVALIDATE,
        [MEM_LOCAL_ELEMENT] = RDMAP_REFUSED_INVALIDATE,
    };
    return refusals[verdict];
}

enum rdmap_refusal rdmap_refusal_of_close(enum mem_verdict verdict)
{
    static const enum rdmap_refusal refusals[MEM_VERDICT_COUNT] = {
        [MEM_OK] = RDMAP_ACCEPTED,
        [MEM_INVALID_STAG] = RDMAP_REFUSED_CLOSE_INVALID_STAG,
        [MEM_WRONG_PD] = RDMAP_REFUSED_CLOSE_STREAM,
        [MEM_WRONG_QP] = RDMAP_REFUSED_CLOSE_STREAM,
        [MEM_BOUNDS] = RDMAP_REFUSED_CLOSE_NOT_ONESHOT, // not an answer to a close
        [MEM_WRAP] = RDMAP_REFUSED_CLOSE_NOT_ONESHOT,
        [MEM_ACCESS] = RDMAP_REFUSED_CLOSE_NOT_ONESHOT,
        [MEM_CANNOT_INVALIDATE] = RDMAP_REFUSED_CLOSE_NOT_ONESHOT,
        [MEM_WINDOW_STATE] = RDMAP_REFUSED_CLOSE_NOT_ONESHOT,
        [MEM_UNMAPPED] = RDMAP_REFUSED_CLOSE_NOT_ONESHOT,
        [MEM_LOCAL_ELEMENT] = RDMAP_REFUSED_CLOSE_NOT_ONESHOT,
    };
    return refusals[verdict];
}

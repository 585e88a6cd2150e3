#include "ddp/verdict.h"

enum terminate_cause ddp_verdict_cause(enum ddp_verdict verdict)
{
    static const enum terminate_cause causes[DDP_VERDICT_COUNT] = {[DDP_OK] = TERM_NONE,
#define X(name, cause, text) [DDP_REFUSED_##name] = TERM_##cause,
                                                                   DDP_REFUSALS(X)
#undef X
    };
    return causes[verdict];
}

const char *ddp_verdict_text(enum ddp_verdict verdict)
{
    static const char *const texts[DDP_VERDICT_COUNT] = {[DDP_OK] = "fine",
#define X(name, cause, text) [DDP_REFUSED_##name] = text,
                                                         DDP_REFUSALS(X)
#undef X
    };
    return texts[verdict];
}

enum ddp_verdict ddp_verdict_of_mem(enum mem_verdict verdict)
{
    static const enum ddp_verdict verdicts[MEM_VERDICT_COUNT] = {
        [MEM_OK] = DDP_OK,
        [MEM_INVALID_STAG] = DDP_REFUSED_INVALID_STAG,
        [MEM_WRONG_PD] = DDP_REFUSED_STREAM,
        [MEM_WRONG_QP] = DDP_REFUSED_STREAM,
        [MEM_BOUNDS] = DDP_REFUSED_BOUNDS,
        [MEM_WRAP] = DDP_REFUSED_TO_WRAP,
        [MEM_ACCESS] = DDP_REFUSED_ACCESS,
        [MEM_CANNOT_INVALIDATE] = DDP_REFUSED_LOCAL, // nobody asks that of a tagged segment
        [MEM_WINDOW_STATE] = DDP_REFUSED_LOCAL,
        [MEM_UNMAPPED] = DDP_REFUSED_BOUNDS,
        [MEM_LOCAL_ELEMENT] = DDP_REFUSED_LOCAL,
    };
    return verdicts[verdict];
}

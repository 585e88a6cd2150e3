// Refusals by name, and what is told of them and of all else that was counted.
#include "base/counter.h"
#include "base/trace.h"
#include "ibcm/internal.h"

const struct ibcm_counters *ibcm_counters(const struct ibcm *ibcm)
{
    return &ibcm->counters;
}

const char *ibcm_refusal_name(enum ibcm_refusal refusal)
{
    static const char *const names[IBCM_REFUSAL_COUNT] = {
#define X(name, text) [IBCM_REFUSAL_##name] = text,
        IBCM_REFUSALS(X)
#undef X
    };
    return refusal < IBCM_REFUSAL_COUNT ? names[refusal] : "?";
}

void ibcm_counters_tell(const struct ibcm *ibcm, counter_each each, void *ctx)
{
    const struct ibcm_counters *c = &ibcm->counters;
#define X(name, text) counter_tell(each, ctx, "cm.", #name, "", c->name);
    IBCM_COUNTERS(X)
#undef X
    for (unsigned kind = 0; kind < IBCM_KIND_COUNT; kind++) {
        const char *name = ibcm_kind_name((enum ibcm_kind)kind);
        counter_tell(each, ctx, "cm.sent.", name, "", c->sent[kind]);
        counter_tell(each, ctx, "cm.received.", name, "", c->received[kind]);
    }
    for (unsigned v = IBCM_PARSE_OK + 1; v < IBCM_PARSE_VERDICT_COUNT; v++) {
        counter_tell(each, ctx, "cm.malformed.",
                     ibcm_parse_verdict_name((enum ibcm_parse_verdict)v), "", c->malformed[v]);
    }
    for (unsigned r = 0; r < IBCM_REFUSAL_COUNT; r++) {
        counter_tell(each, ctx, "cm.refused.", ibcm_refusal_name((enum ibcm_refusal)r), "",
                     c->refusals[r]);
    }
}

void ibcm_refuse(struct ibcm *ibcm, enum ibcm_refusal refusal)
{
    ibcm->counters.refusals[refusal]++;
    TRACE(ibcm->config.trace, TRACE_CONN, "refused: %s", ibcm_refusal_name(refusal));
}

#include "roce/unreliable_counters.h"

static const struct {
    const char *name, *text;
} refusals[UNRELIABLE_REFUSAL_COUNT] = {[UNRELIABLE_ACCEPTED] = {"accepted", "it is accepted"},
#define X(name, text) [UNRELIABLE_REFUSED_##name] = {#name, text},
                                        UNRELIABLE_REFUSALS(X)
#undef X
};

const char *unreliable_refusal_text(enum unreliable_refusal refusal)
{
    return refusals[refusal].text;
}

void unreliable_counters_sum(struct unreliable_counters *total,
                             const struct unreliable_counters *counters)
{
    wq_counters_add(&total->wq, &counters->wq);
#define X(name, text) total->name += counters->name;
    UNRELIABLE_COUNTERS(X)
#undef X
    for (unsigned i = 0; i < UNRELIABLE_REFUSAL_COUNT; i++) {
        total->refusals[i] += counters->refusals[i];
    }
}

void unreliable_counters_tell(const struct unreliable_counters *counters, counter_each each,
                              void *ctx)
{
    wq_counters_each(&counters->wq, each, ctx);
#define X(name, text) each(ctx, #name, counters->name);
    UNRELIABLE_COUNTERS(X)
#undef X
    for (unsigned i = UNRELIABLE_ACCEPTED + 1; i < UNRELIABLE_REFUSAL_COUNT; i++) {
        counter_tell(each, ctx, "refused.", refusals[i].name, "", counters->refusals[i]);
    }
}

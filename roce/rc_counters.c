#include "roce/rc_counters.h"

void rc_counters_add(struct rc_counters *total, const struct rc_counters *counters)
{
    wq_counters_add(&total->wq, &counters->wq);
#define X(name, text) total->name += counters->name;
    RC_COUNTERS(X)
#undef X
    for (unsigned i = 0; i < RC_REFUSAL_COUNT; i++) {
        total->refusals[i] += counters->refusals[i];
    }
}

void rc_counters_each(const struct rc_counters *counters, counter_each each, void *ctx)
{
    wq_counters_each(&counters->wq, each, ctx);
#define X(name, text) each(ctx, #name, counters->name);
    RC_COUNTERS(X)
#undef X
    for (unsigned i = RC_ACCEPTED + 1; i < RC_REFUSAL_COUNT; i++) {
        const char *name = rc_refusal_facts((enum rc_refusal)i)->name;
        counter_tell(each, ctx, "refused.", name, "", counters->refusals[i]);
    }
}

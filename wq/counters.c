#include "wq/counters.h"

void wq_counters_add(struct wq_counters *total, const struct wq_counters *counters)
{
#define X(name, text) total->name += counters->name;
    WQ_COUNTERS(X)
#undef X
}

void wq_counters_each(const struct wq_counters *counters, counter_each each, void *ctx)
{
#define X(name, text) each(ctx, #name, counters->name);
    WQ_COUNTERS(X)
#undef X
}

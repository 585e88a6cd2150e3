// What several have counted under the same names, together: of a name that ends in _peak the
// highest, of all others the sum.
#pragma once

#include "base/counter.h"

enum { COUNTER_SUMS_MAX = 96, COUNTER_NAME_MAX = 48 };

struct counter_sums {
    struct {
        char name[COUNTER_NAME_MAX];
        uint64_t value;
    } at[COUNTER_SUMS_MAX];
    unsigned count;
};

static inline void counter_sums_init(struct counter_sums *sums)
{
    sums->count = 0;
}

// A counter_each; `ctx` is the sums. CHECKs that there is room for another name.
void counter_sums_add(void *ctx, const char *name, uint64_t value);
// In the order in which names came first.
void counter_sums_each(const struct counter_sums *sums, counter_each each, void *ctx);

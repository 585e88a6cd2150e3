#include "base/counter_sums.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"

static bool is_peak(const char *name)
{
    static const char end[] = "_peak";
    size_t len = strlen(name), end_len = sizeof end - 1;
    return len >= end_len && memcmp(name + len - end_len, end, end_len) == 0;
}

static uint64_t *value_of(struct counter_sums *sums, const char *name)
{
    unsigned i = 0;
    while (i < sums->count && strcmp(sums->at[i].name, name) != 0) {
        i++;
    }
    if (i == sums->count) {
        size_t len = strlen(name);
        CHECK(i < COUNTER_SUMS_MAX && len < COUNTER_NAME_MAX);
        memcpy(sums->at[i].name, name, len + 1);
        sums->at[i].value = 0;
        sums->count++;
    }
    return &sums->at[i].value;
}

void counter_sums_add(void *ctx, const char *name, uint64_t value)
{
    uint64_t *sum = value_of(ctx, name);
    if (!is_peak(name)) {
        *sum += value;
    } else if (value > *sum) {
        *sum = value;
    }
}

void counter_sums_each(const struct counter_sums *sums, counter_each each, void *ctx)
{
    for (unsigned i = 0; i < sums->count; i++) {
        each(ctx, sums->at[i].name, sums->at[i].value);
    }
}

#include "report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM_MIN = 32,
    ROOM_WORDS_MIN = 4096, // of counters: a queue pair has hundreds
};

void report_init(struct report *r)
{
    *r = (struct report){0};
}

void report_fini(struct report *r)
{
    free(r->endpoints);
    free(r->qps);
    free(r->pairs);
    free(r->words);
    *r = (struct report){0};
}

// Written all over, so that no page is missing when the lock is held. NULL: no memory.
static void *room_for(uint32_t *max, uint32_t count, size_t entry_len)
{
    *max = count + count / 4 + ROOM_MIN;
    void *entries = malloc(*max * entry_len);
    if (entries != NULL) {
        memset(entries, 0, *max * entry_len);
    }
    return entries;
}

int report_make_room(struct report *r)
{
    uint32_t endpoints = r->endpoint_count, qps = r->qp_count, pairs = r->pair_count,
             words = r->word_count;
    report_fini(r);
    r->endpoints = room_for(&r->endpoint_max, endpoints, sizeof *r->endpoints);
    r->qps = room_for(&r->qp_max, qps, sizeof *r->qps);
    r->pairs = room_for(&r->pair_max, pairs, sizeof *r->pairs);
    r->words = room_for(&r->word_max, words + ROOM_WORDS_MIN, sizeof *r->words);
    bool is_short = r->endpoints == NULL || r->qps == NULL || r->pairs == NULL || r->words == NULL;
    return is_short ? -ENOMEM : 0;
}

void report_begin(struct report *r)
{
    r->endpoint_count = r->qp_count = r->pair_count = r->word_count = 0;
}

struct report_endpoint *report_add_endpoint(struct report *r)
{
    return r->endpoint_count++ < r->endpoint_max ? &r->endpoints[r->endpoint_count - 1] : NULL;
}

struct report_qp *report_add_qp(struct report *r)
{
    return r->qp_count++ < r->qp_max ? &r->qps[r->qp_count - 1] : NULL;
}

struct report_counters report_add_counters(struct report *r, const struct transport_ops *ops,
                                           const void *counters)
{
    const struct report_counters added = {ops, r->word_count};
    const uint32_t count = (uint32_t)(ops->counters_len / sizeof *r->words);
    r->word_count += count;
    if (r->word_count <= r->word_max) {
        memcpy(r->words + added.first, counters, count * sizeof *r->words);
    }
    return added;
}

void report_add_pair(void *report, const char *name, uint64_t value)
{
    struct report *r = report;
    if (r->pair_count++ < r->pair_max) {
        struct report_pair *pair = &r->pairs[r->pair_count - 1];
        snprintf(pair->name, sizeof pair->name, "%s", name);
        pair->value = value;
    }
}

bool report_is_whole(const struct report *r)
{
    return r->endpoint_count <= r->endpoint_max && r->qp_count <= r->qp_max &&
           r->pair_count <= r->pair_max && r->word_count <= r->word_max;
}

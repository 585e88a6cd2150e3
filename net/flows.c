#include "net/flows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/span.h"

enum { BUCKETS_MIN = 256 };

int net_flows_init(struct net_flows *t, const uint8_t key[SIPHASH_KEY_LEN])
{
    *t = (struct net_flows){0};
    memcpy(t->key, key, sizeof t->key);
    return net_flows_resize(t, BUCKETS_MIN);
}

void net_flows_fini(struct net_flows *t)
{
    CHECK(t->count == 0);
    free(t->buckets);
}

static struct list_link *bucket_of(const struct net_flows *t, const struct net_flow *flow)
{
    uint64_t hash = siphash(t->key, span_of(flow, sizeof *flow));
    return &t->buckets[hash & (t->bucket_count - 1)];
}

int net_flows_resize(struct net_flows *t, uint32_t count)
{
    if (count <= t->bucket_count) {
        return 0;
    }
    struct net_flows old = *t;
    t->bucket_count = old.bucket_count == 0 ? BUCKETS_MIN : 2 * old.bucket_count;
    t->buckets = malloc(t->bucket_count * sizeof *t->buckets);
    if (t->buckets == NULL) {
        *t = old;
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < t->bucket_count; i++) {
        list_init(&t->buckets[i]);
    }
    for (uint32_t i = 0; i < old.bucket_count; i++) {
        struct list_link *l;
        while ((l = list_pop_head(&old.buckets[i])) != NULL) {
            struct net_flow_entry *entry = LIST_ENTRY(l, struct net_flow_entry, link);
            list_push_tail(bucket_of(t, &entry->flow), l);
        }
    }
    free(old.buckets);
    return 0;
}

void net_flows_add(struct net_flows *t, struct net_flow_entry *entry)
{
    list_push_head(bucket_of(t, &entry->flow), &entry->link);
    t->count++;
}

void net_flows_remove(struct net_flows *t, struct net_flow_entry *entry)
{
    list_remove(&entry->link);
    t->count--;
    t->last = t->last == entry ? NULL : t->last;
}

void net_flows_each(const struct net_flows *t, void (*each)(void *ctx, struct net_flow_entry *e),
                    void *ctx)
{
    for (uint32_t i = 0; i < t->bucket_count; i++) {
        const struct list_link *head = &t->buckets[i];
        for (struct list_link *l = head->next; l != head; l = l->next) {
            each(ctx, LIST_ENTRY(l, struct net_flow_entry, link));
        }
    }
}

static bool is_of(const struct net_flow_entry *entry, const struct net_flow *flow)
{
    return memcmp(&entry->flow, flow, sizeof *flow) == 0;
}

struct net_flow_entry *net_flows_find(struct net_flows *t, const struct net_flow *flow)
{
    if (t->last != NULL && is_of(t->last, flow)) {
        return t->last;
    }
    const struct list_link *bucket = bucket_of(t, flow);
    for (struct list_link *l = bucket->next; l != bucket; l = l->next) {
        struct net_flow_entry *entry = LIST_ENTRY(l, struct net_flow_entry, link);
        if (is_of(entry, flow)) {
            t->last = entry;
            return entry;
        }
    }
    return NULL;
}

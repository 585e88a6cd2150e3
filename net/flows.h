// The table that finds a connection by its flow. Its hash is keyed, so that nobody can choose flows
// that meet in one bucket.
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "base/siphash.h"
#include "net/addr.h"

struct net_flows {
    uint8_t key[SIPHASH_KEY_LEN];
    struct list_link *buckets;
    uint32_t bucket_count; // a power of two
    uint32_t count;
    struct net_flow_entry *last; // the one found last, mostly the next one too; NULL: none
};

// What is in the table starts with its link and has its flow behind that.
struct net_flow_entry {
    struct list_link link;
    struct net_flow flow;
};

// -ENOMEM.
int net_flows_init(struct net_flows *t, const uint8_t key[SIPHASH_KEY_LEN]);
void net_flows_fini(struct net_flows *t);
// Makes the table fit for `count` entries. -ENOMEM: it stays as it was, and works.
int net_flows_resize(struct net_flows *t, uint32_t count);

// The flow must not be in the table yet.
void net_flows_add(struct net_flows *t, struct net_flow_entry *entry);
void net_flows_remove(struct net_flows *t, struct net_flow_entry *entry);
void net_flows_each(const struct net_flows *t, void (*each)(void *ctx, struct net_flow_entry *e),
                    void *ctx);
struct net_flow_entry *net_flows_find(struct net_flows *t, const struct net_flow *flow);

#include "draw/registry_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/siphash.h"
#include "base/span.h"

enum {
    SLOT_COUNT = 4 * REGISTRY_CONNECTION_MAX,
    SLOTS_USED_MAX = SLOT_COUNT / 2,
    WAY_MAX = 128, // slots that are looked at for a key
};
STATIC_CHECK((SLOT_COUNT & (SLOT_COUNT - 1)) == 0);

bool registry_create(struct registry *r, const uint8_t key[SIPHASH_KEY_LEN])
{
    *r = (struct registry){
        .connection = calloc(REGISTRY_CONNECTION_MAX, sizeof *r->connection),
        .slot = calloc(SLOT_COUNT, sizeof *r->slot),
    };
    memcpy(r->key, key, SIPHASH_KEY_LEN);
    if (r->connection == NULL || r->slot == NULL) {
        registry_destroy(r);
        return false;
    }
    return true;
}

void registry_destroy(struct registry *r)
{
    free(r->connection);
    free(r->slot);
    *r = (struct registry){0};
}

// The slot that has the key, or the free one where it would stand; NULL: neither.
static struct registry_slot *slot_of(const struct registry *r, const struct registry_key *key)
{
    uint64_t at = siphash(r->key, span_of(key, sizeof *key));
    for (unsigned way = 0; way < WAY_MAX; way++, at++) {
        struct registry_slot *slot = &r->slot[at & (SLOT_COUNT - 1)];
        if (slot->key.kind == REGISTRY_KEY_NONE || memcmp(&slot->key, key, sizeof *key) == 0) {
            return slot;
        }
    }
    return NULL;
}

bool registry_table_find(const struct registry *r, const struct registry_key *key,
                         struct registry_sighting *ret)
{
    const struct registry_slot *slot = slot_of(r, key);
    if (slot == NULL || slot->key.kind == REGISTRY_KEY_NONE) {
        return false;
    }
    *ret = (struct registry_sighting){.index = slot->index, .side = slot->side};
    return true;
}

bool registry_table_put(struct registry *r, const struct registry_key *key, uint32_t index,
                        unsigned side)
{
    struct registry_slot *slot = slot_of(r, key);
    if (slot == NULL || (slot->key.kind == REGISTRY_KEY_NONE && r->slot_count == SLOTS_USED_MAX)) {
        return false;
    }
    r->slot_count += slot->key.kind == REGISTRY_KEY_NONE;
    *slot = (struct registry_slot){.key = *key, .index = index, .side = side};
    return true;
}

bool registry_table_begin(struct registry *r, const struct frame *f, struct registry_sighting *ret)
{
    if (r->connection_count == REGISTRY_CONNECTION_MAX) {
        r->packets_left_out++;
        return false;
    }
    *ret = (struct registry_sighting){.index = r->connection_count++};
    struct registry_connection *c = &r->connection[ret->index];
    c->end[0] = f->src;
    c->end[1] = f->dst;
    return true;
}

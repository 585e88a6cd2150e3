// The store for Sends that came before their receive: segments in order, octets copied, bounded.
// What was stored counts as arrived in order; only its delivery waits.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/carve.h"
#include "rdmap/rx.h"

struct rnr_store {
    uint8_t *memory;
    size_t capacity; // octets
    size_t head;     // where the oldest record begins
    size_t tail;     // where the next one goes; head == tail: empty
};

void rnr_store_init(struct rnr_store *store, size_t capacity, struct carve *memory);

static inline bool rnr_store_is_empty(const struct rnr_store *store)
{
    return store->head == store->tail;
}

bool rnr_store_has_room(const struct rnr_store *store, size_t payload_len);
// There must be room.
void rnr_store_push(struct rnr_store *store, const struct rdmap_arrival *arrival);
// The oldest one; its payload lies in the store until it is popped. The store is not empty.
void rnr_store_peek(const struct rnr_store *store, struct rdmap_arrival *ret);
void rnr_store_pop(struct rnr_store *store);
void rnr_store_clear(struct rnr_store *store);

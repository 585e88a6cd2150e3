#include "iwarp/rnr_store.h"

#include <string.h>

#include "base/check.h"

enum { RECORD_ALIGN = 16 };

// A record is the arrival, then its payload.
static size_t record_len(size_t payload_len)
{
    size_t len = sizeof(struct rdmap_arrival) + payload_len;
    return (len + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

void rnr_store_init(struct rnr_store *store, size_t capacity, struct carve *memory)
{
    *store = (struct rnr_store){.memory = carve(memory, capacity, 1), .capacity = capacity};
}

bool rnr_store_has_room(const struct rnr_store *store, size_t payload_len)
{
    return record_len(payload_len) <= store->capacity - (store->tail - store->head);
}

void rnr_store_push(struct rnr_store *store, const struct rdmap_arrival *arrival)
{
    size_t len = record_len(arrival->payload.len);
    if (len > store->capacity - store->tail) {
        memmove(store->memory, store->memory + store->head, store->tail - store->head);
        store->tail -= store->head;
        store->head = 0;
    }
    CHECK(len <= store->capacity - store->tail);
    uint8_t *record = store->memory + store->tail;
    memcpy(record, arrival, sizeof *arrival);
    if (arrival->payload.len > 0) {
        memcpy(record + sizeof *arrival, arrival->payload.ptr, arrival->payload.len);
    }
    store->tail += len;
}

void rnr_store_peek(const struct rnr_store *store, struct rdmap_arrival *ret)
{
    CHECK(!rnr_store_is_empty(store));
    const uint8_t *record = store->memory + store->head;
    memcpy(ret, record, sizeof *ret);
    ret->payload.ptr = record + sizeof *ret;
    ret->segment.payload = ret->payload;
}

void rnr_store_pop(struct rnr_store *store)
{
    struct rdmap_arrival arrival;
    rnr_store_peek(store, &arrival);
    store->head += record_len(arrival.payload.len);
    if (rnr_store_is_empty(store)) {
        rnr_store_clear(store);
    }
}

void rnr_store_clear(struct rnr_store *store)
{
    store->head = 0;
    store->tail = 0;
}

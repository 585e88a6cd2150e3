// Slots: growing, taking, releasing and finding them.
#include "mem/slot.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "mem/stag.h"

void slot_queue_push(struct mem_table *table, struct slot_queue *queue, uint32_t index)
{
    slot_at(table, index)->link = SLOT_NONE;
    if (queue->count == 0) {
        queue->head = index;
    } else {
        slot_at(table, queue->tail)->link = index;
    }
    queue->tail = index;
    queue->count++;
}

uint32_t slot_queue_pop(struct mem_table *table, struct slot_queue *queue)
{
    CHECK(queue->count > 0);
    uint32_t index = queue->head;
    queue->head = slot_at(table, index)->link;
    queue->count--;
    return index;
}

static struct slot *chunk_create(void)
{
    return calloc(SLOT_CHUNK_COUNT, sizeof(struct slot));
}

int slots_grow(struct mem_table *table)
{
    uint32_t left = table->capacity - table->slot_count;
    if (left == 0) {
        return -ENOSPC;
    }
    struct slot *chunk = chunk_create();
    if (chunk == NULL) {
        return -ENOMEM;
    }
    uint32_t first = table->slot_count;
    uint32_t count = left < SLOT_CHUNK_COUNT ? left : SLOT_CHUNK_COUNT;
    table->chunks[first / SLOT_CHUNK_COUNT] = chunk;
    table->slot_count += count;
    for (uint32_t index = first; index < first + count; index++) {
        slot_queue_push(table, &table->free, index);
    }
    return 0;
}

// Gives a live slot the STag of its generation, or of the next one that has any.
static void slot_name(struct mem_table *table, struct slot *slot)
{
    while (!stag_encode(&table->cipher, slot->link, slot->generation, &slot->stag)) {
        slot->generation = (slot->generation + 1) % STAG_GENERATION_COUNT;
    }
}

// Takes from the queue of the kind. Only objects that are registered may let the table grow.
static int slot_pop(struct mem_table *table, enum slot_kind kind, uint32_t *ret_index)
{
    struct slot_queue *queue = kind == SLOT_SINK ? &table->free_sinks : &table->free;
    int err = -ENOSPC;
    if (kind != SLOT_SINK && queue->count < SLOT_FREE_MIN) {
        err = slots_grow(table);
    }
    if (queue->count == 0) {
        return err;
    }
    *ret_index = slot_queue_pop(table, queue);
    return 0;
}

static bool is_at_most(const struct mem_table *table, enum slot_kind kind)
{
    switch (kind) {
    case SLOT_REGION:
        return table->live[SLOT_REGION] >= table->region_max;
    case SLOT_WINDOW_1:
    case SLOT_WINDOW_2:
        return table->live[SLOT_WINDOW_1] + table->live[SLOT_WINDOW_2] >= table->window_max;
    default:
        return false;
    }
}

int slot_take(struct mem_table *table, enum slot_kind kind, struct slot **ret)
{
    uint32_t index = SLOT_NONE;
    int err = is_at_most(table, kind) ? -ENOMEM : slot_pop(table, kind, &index);
    if (err < 0) {
        return err;
    }
    struct slot *slot = slot_at(table, index);
    CHECK(slot->kind == SLOT_FREE);
    *slot = (struct slot){.generation = slot->generation, .kind = (uint8_t)kind, .link = index};
    slot_name(table, slot);
    table->live[kind]++;
    *ret = slot;
    return 0;
}

void slot_release(struct mem_table *table, struct slot *slot)
{
    uint32_t index = slot->link;
    struct slot_queue *queue = slot->kind == SLOT_SINK ? &table->free_sinks : &table->free;
    CHECK(slot->kind != SLOT_FREE);
    note_revoked(table);
    table->live[slot->kind]--;
    *slot = (struct slot){.generation = (slot->generation + 1) % STAG_GENERATION_COUNT};
    slot_queue_push(table, queue, index);
}

void slot_rename(struct mem_table *table, struct slot *slot)
{
    slot->generation = (slot->generation + 1) % STAG_GENERATION_COUNT;
    slot_name(table, slot);
    note_revoked(table);
}

void slot_renew(struct mem_table *table, struct slot *slot)
{
    slot->stag = stag_renew(&table->cipher, slot->link, slot->stag, &slot->generation);
    note_revoked(table);
}

struct slot *slot_find_name(struct mem_table *table, uint32_t stag)
{
    uint32_t *hint = &table->hints[(stag >> 8) % SLOT_HINT_COUNT];
    struct slot *slot = slot_at(table, *hint);
    if (slot->kind != SLOT_FREE && slot->stag >> 8 == stag >> 8) {
        return slot;
    }
    uint32_t index = stag_index(&table->cipher, stag);
    if (index >= table->slot_count) {
        return NULL;
    }
    slot = slot_at(table, index);
    if (slot->kind == SLOT_FREE || slot->stag >> 8 != stag >> 8) {
        return NULL;
    }
    *hint = index;
    return slot;
}

struct slot *slot_find(struct mem_table *table, uint32_t stag)
{
    struct slot *slot = slot_find_name(table, stag);
    return slot != NULL && slot->stag == stag ? slot : NULL;
}

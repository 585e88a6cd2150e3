// Creation, counters and invariants of the table.
#include "mem/table.h"

#include <stdlib.h>

#include "base/check.h"
#include "mem/slot.h"

struct mem_table *mem_table_create(const uint8_t key[STAG_KEY_LEN], uint32_t capacity,
                                   struct mem_probe probe)
{
    CHECK(capacity > 0);
    CHECK(capacity <= MEM_CAPACITY_MAX);
    struct mem_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        return NULL;
    }
    stag_cipher_init(&table->cipher, key);
    table->probe = probe;
    table->capacity = capacity;
    table->pd_search = 1;
    table->version = 1;
    table->region_max = table->window_max = UINT32_MAX;
    if (slots_grow(table) < 0) {
        free(table);
        return NULL;
    }
    return table;
}

void mem_table_limit(struct mem_table *table, uint32_t region_max, uint32_t window_max)
{
    table->region_max = region_max;
    table->window_max = window_max;
}

void mem_table_destroy(struct mem_table *table)
{
    if (table == NULL) {
        return;
    }
    for (unsigned i = 0; i < SLOT_CHUNKS_MAX; i++) {
        free(table->chunks[i]);
    }
    free(table->pds);
    free(table);
}

struct mem_live mem_table_live(const struct mem_table *table)
{
    struct mem_live live = {
        .regions = table->live[SLOT_REGION],
        .windows = table->live[SLOT_WINDOW_1] + table->live[SLOT_WINDOW_2],
        .oneshots = table->live[SLOT_ONESHOT],
        .sinks = table->live[SLOT_SINK],
    };
    for (uint32_t pd = 0; pd < table->pd_count; pd++) {
        live.pds += table->pds[pd].is_live;
    }
    return live;
}

uint64_t mem_table_version(const struct mem_table *table)
{
    return table->has_had_on_demand ? 0 : table->version;
}

uint64_t mem_table_verdict_count(const struct mem_table *table, enum mem_verdict verdict)
{
    CHECK(verdict < MEM_VERDICT_COUNT);
    return table->verdicts[verdict];
}

// What the walk over the slots adds up, to be compared with what the table keeps.
struct sums {
    uint32_t kinds[SLOT_KIND_COUNT];
    uint64_t windows_bound; // windows that are open
    uint64_t bindings;      // windows that regions believe in
};

static bool binding_is_sound(const struct mem_table *table, const struct slot *window)
{
    if (window->relation >= table->slot_count) {
        return false;
    }
    const struct slot *region = slot_at(table, window->relation);
    if (region->kind != SLOT_REGION || region->pd != window->pd || region->relation == 0) {
        return false;
    }
    if (window->addr < region->addr) {
        return false;
    }
    return range_check(0, region->length, (uint64_t)(window->addr - region->addr),
                       window->length) == MEM_OK;
}

static bool oneshot_is_sound(const struct slot *slot)
{
    const struct mem_list *list = slot->oneshot;
    return slot->is_private && slot->list_offset <= list->length &&
           slot->length <= list->length - slot->list_offset && list->cursor_index < list->count;
}

static bool slot_is_sound(const struct mem_table *table, uint32_t index, struct sums *sums)
{
    const struct slot *slot = slot_at(table, index);
    if (slot->kind >= SLOT_KIND_COUNT || slot->generation >= STAG_GENERATION_COUNT) {
        return false;
    }
    sums->kinds[slot->kind]++;
    if (slot->kind == SLOT_FREE) {
        return slot->stag == 0 && !slot->is_open;
    }
    if (slot->link != index) {
        return false;
    }
    uint32_t stag;
    if (!stag_encode(&table->cipher, index, slot->generation, &stag) ||
        stag_index(&table->cipher, stag) != index) {
        return false;
    }
    uint32_t compared = slot_is_window(slot) ? ~STAG_KEY_MASK : UINT32_MAX;
    if ((stag & compared) != (slot->stag & compared)) {
        return false;
    }
    if (slot->kind == SLOT_REGION) {
        sums->bindings += slot->relation;
    }
    if (slot->kind == SLOT_ONESHOT) {
        return pd_is_live(table, slot->pd) && (!slot->is_open || oneshot_is_sound(slot));
    }
    if (!slot_is_window(slot)) {
        return slot->is_open && (slot->kind == SLOT_SINK || pd_is_live(table, slot->pd));
    }
    sums->windows_bound += slot->is_open;
    return pd_is_live(table, slot->pd) && (!slot->is_open || binding_is_sound(table, slot));
}

static bool queue_is_sound(const struct mem_table *table, const struct slot_queue *queue)
{
    uint32_t index = queue->head;
    for (uint32_t left = queue->count; left > 0; left--) {
        if (index >= table->slot_count || slot_at(table, index)->kind != SLOT_FREE) {
            return false;
        }
        if (left == 1 && index != queue->tail) {
            return false;
        }
        index = slot_at(table, index)->link;
    }
    return true;
}

bool mem_table_check(const struct mem_table *table)
{
    struct sums sums = {0};
    for (uint32_t index = 0; index < table->slot_count; index++) {
        if (!slot_is_sound(table, index, &sums)) {
            return false;
        }
    }
    for (unsigned kind = SLOT_REGION; kind < SLOT_KIND_COUNT; kind++) {
        if (sums.kinds[kind] != table->live[kind]) {
            return false;
        }
    }
    if (sums.kinds[SLOT_FREE] != table->free.count + table->free_sinks.count ||
        sums.windows_bound != sums.bindings) {
        return false;
    }
    uint64_t objects = 0;
    for (uint32_t pd = 0; pd < table->pd_count; pd++) {
        objects += table->pds[pd].objects;
        if (!table->pds[pd].is_live && (table->pds[pd].objects || table->pds[pd].holders)) {
            return false;
        }
    }
    uint64_t expected = sums.kinds[SLOT_REGION];
    expected += sums.kinds[SLOT_WINDOW_1] + sums.kinds[SLOT_WINDOW_2];
    return objects == expected && queue_is_sound(table, &table->free) &&
           queue_is_sound(table, &table->free_sinks);
}

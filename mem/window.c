// Memory windows: binding and taking back.
#include <errno.h>

#include "base/check.h"
#include "mem/slot.h"
#include "mem/table.h"
#include "mem/verdict.h"

int mem_window_alloc(struct mem_table *table, enum mem_window_type type, uint32_t pd,
                     uint32_t *ret_stag)
{
    if (type != MEM_WINDOW_TYPE_1 && type != MEM_WINDOW_TYPE_2) {
        return -EINVAL;
    }
    if (!pd_is_live(table, pd)) {
        return -EINVAL;
    }
    struct slot *window;
    int err = slot_take(table, type == MEM_WINDOW_TYPE_1 ? SLOT_WINDOW_1 : SLOT_WINDOW_2, &window);
    if (err < 0) {
        return err;
    }
    window->pd = pd;
    table->pds[pd].objects++;
    *ret_stag = window->stag;
    return 0;
}

static void window_unbind(struct mem_table *table, struct slot *window)
{
    if (!window->is_open) {
        return;
    }
    struct slot *region = slot_at(table, window->relation);
    CHECK(region->kind == SLOT_REGION);
    CHECK(region->relation > 0);
    region->relation--;
    window->is_open = false;
    note_revoked(table);
}

// May this region carry this binding? The checks that do not concern the window.
static enum mem_verdict region_admits(const struct slot *region, uint32_t pd,
                                      const struct mem_binding *binding)
{
    const uint32_t writing = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC;
    if (region == NULL || region->kind != SLOT_REGION) {
        return MEM_INVALID_STAG;
    }
    if (region->pd != pd) {
        return MEM_WRONG_PD;
    }
    if (!(region->access & MEM_ACCESS_MW_BIND) || (region->access & MEM_ACCESS_ZERO_BASED)) {
        return MEM_ACCESS;
    }
    if ((binding->access & writing) && !(region->access & MEM_ACCESS_LOCAL_WRITE)) {
        return MEM_ACCESS;
    }
    return range_check(region->base_to, region->length, binding->addr, binding->length);
}

// May this window be bound so, now? The checks that do not concern the region.
static enum mem_verdict window_admits(const struct slot *window, struct mem_asker asker,
                                      const struct mem_binding *binding)
{
    if (window == NULL || !slot_is_window(window)) {
        return MEM_INVALID_STAG;
    }
    if (window->pd != asker.pd) {
        return MEM_WRONG_PD;
    }
    if (window->kind == SLOT_WINDOW_1 && binding->length == 0) {
        return MEM_OK;
    }
    // Only type 1 is bound again while it is open, and not with the key that it has.
    if (window->is_open && (window->kind == SLOT_WINDOW_2 || window->stag == binding->stag)) {
        return MEM_WINDOW_STATE;
    }
    if (binding->access & ~(uint32_t)MEM_ACCESS_ALL) {
        return MEM_ACCESS;
    }
    if (window->kind == SLOT_WINDOW_1 && (binding->access & MEM_ACCESS_ZERO_BASED)) {
        return MEM_ACCESS;
    }
    return binding->length == 0 ? MEM_BOUNDS : MEM_OK;
}

static void window_open(struct slot *window, struct slot *region, uint32_t qp_num,
                        const struct mem_binding *binding)
{
    window->relation = region->link;
    window->qp_num = qp_num;
    window->is_private = window->kind == SLOT_WINDOW_2;
    window->access = (uint8_t)(binding->access | (region->access & MEM_ACCESS_ON_DEMAND));
    window->base_to = binding->access & MEM_ACCESS_ZERO_BASED ? 0 : binding->addr;
    window->addr = slot_memory(region, binding->addr, binding->length).ptr;
    window->length = binding->length;
    window->early_end = 0;
    window->is_open = true;
    region->relation++;
}

enum mem_verdict mem_window_bind(struct mem_table *table, struct mem_asker asker,
                                 const struct mem_binding *binding)
{
    struct slot *window = slot_find_name(table, binding->stag);
    enum mem_verdict verdict = window_admits(window, asker, binding);
    if (verdict != MEM_OK) {
        return count_verdict(table, verdict);
    }
    if (binding->length == 0) {
        window_unbind(table, window);
        window->stag = binding->stag;
        return count_verdict(table, MEM_OK);
    }
    struct slot *region = slot_find(table, binding->lkey);
    verdict = region_admits(region, window->pd, binding);
    if (verdict != MEM_OK) {
        return count_verdict(table, verdict);
    }
    window_unbind(table, window);
    window->stag = binding->stag;
    window_open(window, region, asker.qp_num, binding);
    return count_verdict(table, MEM_OK);
}

int mem_window_dealloc(struct mem_table *table, uint32_t stag)
{
    struct slot *window = slot_find_name(table, stag);
    if (window == NULL || !slot_is_window(window)) {
        return -EINVAL;
    }
    window_unbind(table, window);
    table->pds[window->pd].objects--;
    slot_release(table, window);
    return 0;
}

uint32_t mem_windows_release_qp(struct mem_table *table, uint32_t qp_num)
{
    uint32_t count = 0;
    if (table->live[SLOT_WINDOW_2] == 0) {
        return 0;
    }
    for (uint32_t index = 0; index < table->slot_count; index++) {
        struct slot *slot = slot_at(table, index);
        if (slot->kind == SLOT_WINDOW_2 && slot->is_open && slot->qp_num == qp_num) {
            window_unbind(table, slot);
            count++;
        }
    }
    return count;
}

static enum mem_verdict invalidate(struct mem_table *table, struct mem_asker asker, uint32_t stag)
{
    struct slot *slot = slot_find(table, stag);
    enum mem_verdict verdict = slot_admit(slot, asker);
    if (verdict != MEM_OK) {
        return verdict;
    }
    if (slot->kind != SLOT_WINDOW_2) {
        return MEM_CANNOT_INVALIDATE;
    }
    window_unbind(table, slot);
    return MEM_OK;
}

// Where an open entry that a peer can take back keeps it; NULL: another entry.
static uint64_t *early_end_of(struct mem_table *table, uint32_t stag)
{
    struct slot *slot = slot_find(table, stag);
    if (slot == NULL || !slot->is_open) {
        return NULL;
    }
    return slot->kind == SLOT_WINDOW_2  ? &slot->early_end
           : slot->kind == SLOT_ONESHOT ? &slot->oneshot->early_end
                                        : NULL;
}

void mem_note_early(struct mem_table *table, uint32_t stag, uint64_t end)
{
    uint64_t *early_end = early_end_of(table, stag);
    if (early_end != NULL && *early_end < end) {
        *early_end = end;
    }
}

uint64_t mem_early_end(struct mem_table *table, uint32_t stag)
{
    const uint64_t *early_end = early_end_of(table, stag);
    return early_end != NULL ? *early_end : 0;
}

enum mem_verdict mem_invalidate(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                                bool remote)
{
    (void)remote; // the same for both: only type 2 windows can be taken back on a queue pair
    return count_verdict(table, invalidate(table, asker, stag));
}

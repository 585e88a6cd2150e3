// One-shot regions: scatter lists that come and go with one command of the peer.
#include <errno.h>

#include "base/check.h"
#include "base/span.h"
#include "mem/slot.h"
#include "mem/verdict.h"

int mem_oneshot_alloc(struct mem_table *table, struct mem_asker asker, uint32_t *ret_stag)
{
    if (!pd_is_live(table, asker.pd)) {
        return -EINVAL;
    }
    struct slot *slot;
    int err = slot_take(table, SLOT_ONESHOT, &slot);
    if (err < 0) {
        return err;
    }
    slot->pd = asker.pd;
    slot->qp_num = asker.qp_num;
    slot->is_private = true;
    *ret_stag = slot->stag;
    return 0;
}

static bool is_known(const struct mem_known *known, const struct mspan *e, bool writable)
{
    uintptr_t from = (uintptr_t)known->mapped.ptr, at = (uintptr_t)e->ptr;
    return (known->is_writable || !writable) && at >= from && at - from <= known->mapped.len &&
           e->len <= known->mapped.len - (at - from);
}

int mem_oneshot_probe(const struct mem_table *table, const struct mem_list *list, bool writable,
                      struct mem_known *known)
{
    const struct mem_probe *probe = &table->probe;
    for (uint32_t i = 0; i < list->count && probe->check != NULL; i++) {
        const struct mspan *e = &list->elements[i].octets;
        if (e->len == 0 || is_known(known, e, writable)) {
            continue;
        }
        if (probe->check(probe->ctx, e->ptr, e->len, writable, &known->mapped) < 0) {
            *known = (struct mem_known){0};
            return -EFAULT;
        }
        known->is_writable = writable;
    }
    return 0;
}

void mem_oneshot_open(struct mem_table *table, uint32_t stag, const struct mem_oneshot *region)
{
    struct slot *slot = slot_find(table, stag);
    CHECK(slot != NULL && slot->kind == SLOT_ONESHOT && !slot->is_open);
    CHECK(region->offset <= region->list->length);
    CHECK(region->length <= region->list->length - region->offset);
    slot->oneshot = region->list;
    slot->list_offset = region->offset;
    slot->length = region->length;
    slot->access = (uint8_t)region->access;
    slot->relation = region->cookie;
    slot->oneshot->early_end = 0;
    slot->is_open = true;
}

enum mem_verdict mem_oneshot_find(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                                  uint32_t *ret_cookie)
{
    const struct slot *slot = slot_find(table, stag);
    enum mem_verdict verdict = slot_admit(slot, asker);
    if (verdict == MEM_OK && slot->kind != SLOT_ONESHOT) {
        verdict = MEM_CANNOT_INVALIDATE;
    }
    if (verdict == MEM_OK) {
        *ret_cookie = slot->relation;
    }
    return count_verdict(table, verdict);
}

bool mem_is_oneshot(struct mem_table *table, uint32_t stag)
{
    const struct slot *slot = slot_find(table, stag);
    return slot != NULL && slot->kind == SLOT_ONESHOT;
}

void mem_oneshot_close(struct mem_table *table, uint32_t stag, uint32_t *ret_stag)
{
    struct slot *slot = slot_find(table, stag);
    CHECK(slot != NULL && slot->kind == SLOT_ONESHOT && slot->is_open);
    slot->is_open = false;
    slot->oneshot = NULL;
    slot_renew(table, slot);
    *ret_stag = slot->stag;
}

void mem_oneshot_free(struct mem_table *table, uint32_t stag)
{
    struct slot *slot = slot_find(table, stag);
    CHECK(slot != NULL && slot->kind == SLOT_ONESHOT);
    slot_release(table, slot);
}

static bool holds(const struct mem_element *e, uint64_t at)
{
    return at - e->at < e->octets.len; // wraps for an octet in front of it
}

// The element that holds the octet at `at`, which is inside the list: the last one that begins no
// later, as those without octets begin where the next one does.
static uint32_t search(const struct mem_list *list, uint64_t at)
{
    uint32_t low = 0, high = list->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (list->elements[middle].at <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Moves the cursor there.
static const struct mem_element *seek(struct mem_list *list, uint64_t at)
{
    const struct mem_element *e = &list->elements[list->cursor_index];
    if (!holds(e, at)) {
        bool is_next = list->cursor_index + 1 < list->count && holds(e + 1, at);
        list->cursor_index = is_next ? list->cursor_index + 1 : search(list, at);
        e = &list->elements[list->cursor_index];
        CHECK(holds(e, at));
    }
    return e;
}

void oneshot_cut(const struct slot *slot, uint64_t to, uint64_t len, struct mspan *ret_pieces,
                 unsigned pieces_max, unsigned *ret_count)
{
    struct mem_list *list = slot->oneshot;
    uint64_t at = slot->list_offset + to;
    unsigned count = 0;
    while (len > 0 && count < pieces_max) {
        const struct mem_element *e = seek(list, at);
        uint64_t skip = at - e->at;
        uint64_t take = e->octets.len - skip < len ? e->octets.len - skip : len;
        ret_pieces[count++] = mspan_of(e->octets.ptr + skip, (size_t)take);
        at += take;
        len -= take;
    }
    *ret_count = count;
}

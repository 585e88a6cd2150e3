// Sinks: the windows that RDMA Reads open over their own scatter lists.
#include <errno.h>

#include "base/check.h"
#include "base/sge.h"
#include "base/span.h"
#include "mem/slot.h"
#include "mem/verdict.h"

int mem_sinks_reserve(struct mem_table *table, uint32_t count)
{
    while (table->free.count < count) {
        int err = slots_grow(table);
        if (err < 0) {
            return err;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        slot_queue_push(table, &table->free_sinks, slot_queue_pop(table, &table->free));
    }
    return 0;
}

int mem_sink_open(struct mem_table *table, struct mem_asker asker, const struct sge *list,
                  unsigned count, uint64_t list_offset, uint64_t window_len, uint64_t base_to,
                  uint32_t *ret_stag)
{
    if (count > SGE_COUNT_MAX) {
        return -EINVAL;
    }
    uint64_t total = sge_total_len(list, count);
    if (list_offset > total || window_len > total - list_offset) {
        return -EINVAL;
    }
    if (window_len > 0 && window_len - 1 > UINT64_MAX - base_to) {
        return -EINVAL;
    }
    struct slot *sink;
    int err = slot_take(table, SLOT_SINK, &sink);
    if (err < 0) {
        return err;
    }
    sink->pd = asker.pd;
    sink->qp_num = asker.qp_num;
    sink->is_private = true;
    sink->list = list;
    sink->list_count = (uint8_t)count;
    sink->list_offset = list_offset;
    sink->length = window_len;
    sink->base_to = base_to;
    sink->is_open = true;
    *ret_stag = sink->stag;
    return 0;
}

int mem_sink_close(struct mem_table *table, uint32_t stag)
{
    struct slot *sink = slot_find(table, stag);
    if (sink == NULL || sink->kind != SLOT_SINK) {
        return -EINVAL;
    }
    slot_release(table, sink);
    return 0;
}

static enum mem_verdict sink_check(const struct slot *sink, struct mem_asker asker, uint64_t to,
                                   uint64_t len)
{
    enum mem_verdict verdict = slot_admit(sink, asker);
    if (verdict != MEM_OK) {
        return verdict;
    }
    if (sink->kind != SLOT_SINK) {
        return MEM_ACCESS;
    }
    return range_check(sink->base_to, sink->length, to, len);
}

// The pieces of [skip, skip + len) of the sink's list, which is known to hold them.
static enum mem_verdict list_cut(struct mem_table *table, const struct slot *sink, uint64_t skip,
                                 uint64_t len, struct mspan *ret_pieces, unsigned pieces_max,
                                 unsigned *ret_count)
{
    unsigned count = 0;
    for (const struct sge *sge = sink->list; len > 0; sge++) {
        CHECK(sge < sink->list + sink->list_count);
        if (skip >= sge->length) {
            skip -= sge->length;
            continue;
        }
        struct mspan element;
        if (local_resolve(table, sink->pd, sge, true, &element) != MEM_OK) {
            return MEM_LOCAL_ELEMENT;
        }
        uint64_t take = element.len - skip < len ? element.len - skip : len;
        CHECK(count < pieces_max);
        ret_pieces[count++] = mspan_of(element.ptr + skip, (size_t)take);
        len -= take;
        skip = 0;
    }
    *ret_count = count;
    return MEM_OK;
}

enum mem_verdict mem_resolve_sink(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                                  uint64_t to, uint64_t len, struct mspan *ret_pieces,
                                  unsigned pieces_max, unsigned *ret_count)
{
    const struct slot *sink = slot_find(table, stag);
    enum mem_verdict verdict = sink_check(sink, asker, to, len);
    if (verdict == MEM_OK) {
        verdict = list_cut(table, sink, sink->list_offset + (to - sink->base_to), len, ret_pieces,
                           pieces_max, ret_count);
    }
    return count_verdict(table, verdict);
}

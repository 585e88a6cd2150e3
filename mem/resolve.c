// From an STag and a range to memory: the checks that every placement and every read go through.
#include "base/check.h"
#include "base/span.h"
#include "mem/slot.h"
#include "mem/table.h"
#include "mem/verdict.h"

enum mem_verdict range_check(uint64_t base_to, uint64_t length, uint64_t to, uint64_t len)
{
    if (len > 0 && len - 1 > UINT64_MAX - to) {
        return MEM_WRAP;
    }
    if (to < base_to || to - base_to > length) {
        return MEM_BOUNDS;
    }
    return len > length - (to - base_to) ? MEM_BOUNDS : MEM_OK;
}

enum mem_verdict demand_check(const struct mem_table *table, const struct slot *slot,
                              struct mspan memory, bool writable)
{
    struct mspan known;
    if (!(slot->access & MEM_ACCESS_ON_DEMAND) || memory.len == 0 || table->probe.check == NULL) {
        return MEM_OK;
    }
    int error = table->probe.check(table->probe.ctx, memory.ptr, memory.len, writable, &known);
    return error == 0 ? MEM_OK : MEM_UNMAPPED;
}

static enum mem_verdict remote_check(const struct slot *slot, struct mem_asker asker, uint64_t to,
                                     uint64_t len, uint32_t access_needed)
{
    enum mem_verdict verdict = slot_admit(slot, asker);
    if (verdict != MEM_OK) {
        return verdict;
    }
    if (slot->kind == SLOT_SINK ||
        (slot->access & ~asker.denied & access_needed) != access_needed) {
        return MEM_ACCESS;
    }
    return range_check(slot->base_to, slot->length, to, len);
}

enum mem_verdict mem_resolve(struct mem_table *table, struct mem_asker asker, uint32_t stag,
                             uint64_t to, uint64_t len, uint32_t access_needed,
                             struct mspan *ret_pieces, unsigned pieces_max, unsigned *ret_count)
{
    CHECK(pieces_max > 0);
    const struct slot *slot = slot_find(table, stag);
    enum mem_verdict verdict = remote_check(slot, asker, to, len, access_needed);
    if (verdict == MEM_OK && slot->kind == SLOT_ONESHOT) {
        oneshot_cut(slot, to, len, ret_pieces, pieces_max, ret_count);
    } else if (verdict == MEM_OK) {
        const uint32_t writing = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC;
        ret_pieces[0] = slot_memory(slot, to, len);
        *ret_count = 1;
        verdict = demand_check(table, slot, ret_pieces[0], (access_needed & writing) != 0);
    }
    return count_verdict(table, verdict);
}

bool mem_is_relaxed(struct mem_table *table, uint32_t stag)
{
    const struct slot *slot = slot_find(table, stag);
    return slot != NULL && slot->kind == SLOT_REGION &&
           (slot->access & MEM_ACCESS_RELAXED_ORDERING) != 0;
}

enum mem_verdict local_resolve(struct mem_table *table, uint32_t pd, const struct sge *sge,
                               bool write, struct mspan *ret)
{
    if (sge->length == 0) {
        *ret = mspan_of(NULL, 0);
        return MEM_OK;
    }
    const struct slot *region = slot_find(table, sge->lkey);
    if (region == NULL || region->kind != SLOT_REGION) {
        return MEM_INVALID_STAG;
    }
    if (region->pd != pd) {
        return MEM_WRONG_PD;
    }
    if (write && !(region->access & MEM_ACCESS_LOCAL_WRITE)) {
        return MEM_ACCESS;
    }
    enum mem_verdict verdict = range_check(region->base_to, region->length, sge->addr, sge->length);
    if (verdict == MEM_OK) {
        *ret = slot_memory(region, sge->addr, sge->length);
        verdict = demand_check(table, region, *ret, write);
    }
    return verdict;
}

enum mem_verdict mem_resolve_sge(struct mem_table *table, uint32_t pd, const struct sge *sge,
                                 bool write, struct mspan *ret)
{
    return count_verdict(table, local_resolve(table, pd, sge, write, ret));
}

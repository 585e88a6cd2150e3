// Memory regions: registering, changing and deregistering.
#include <errno.h>

#include "base/check.h"
#include "base/sge.h"
#include "mem/mirror.h"
#include "mem/slot.h"
#include "mem/table.h"
#include "mem/verdict.h"

enum { REGION_ACCESS = MEM_ACCESS_ALL | MEM_ACCESS_ON_DEMAND | MEM_ACCESS_RELAXED_ORDERING };
STATIC_CHECK(SGE_COUNT_MAX <= UINT8_MAX);
STATIC_CHECK(REGION_ACCESS <= UINT8_MAX);

// What a region is to be, before it is one.
struct shape {
    uint32_t pd;
    uint32_t access;
    uint8_t *addr;
    uint64_t length;
    uint64_t base_to;
};

// The last octet of a range may have the highest number there is; the range must not go on at 0.
static bool passes_end(uint64_t first, uint64_t length)
{
    return length > 0 && length - 1 > UINT64_MAX - first;
}

static int shape_check(struct mem_table *table, const struct shape *shape)
{
    const uint32_t writing = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC;
    if (!pd_is_live(table, shape->pd)) {
        return -EINVAL;
    }
    if (shape->access & ~(uint32_t)REGION_ACCESS) {
        return -EINVAL;
    }
    if ((shape->access & writing) && !(shape->access & MEM_ACCESS_LOCAL_WRITE)) {
        return -EINVAL;
    }
    if (shape->length == 0) {
        return -EINVAL;
    }
    if (passes_end((uintptr_t)shape->addr, shape->length) ||
        passes_end(shape->base_to, shape->length)) {
        return -EINVAL;
    }
    if (table->probe.check == NULL || (shape->access & MEM_ACCESS_ON_DEMAND)) {
        return 0;
    }
    struct mspan known;
    return table->probe.check(table->probe.ctx, shape->addr, (size_t)shape->length,
                              shape->access & MEM_ACCESS_LOCAL_WRITE, &known);
}

static void region_write(struct mem_table *table, struct slot *region, const struct shape *shape)
{
    region->pd = shape->pd;
    region->access = (uint8_t)shape->access;
    region->addr = shape->addr;
    region->length = shape->length;
    region->base_to = shape->base_to;
    region->is_open = true;
    table->pds[shape->pd].objects++;
    table->has_had_on_demand |= (shape->access & MEM_ACCESS_ON_DEMAND) != 0;
    note_revoked(table); // it may have been another one
}

int mem_region_register(struct mem_table *table, uint32_t pd, void *addr, uint64_t length,
                        uint64_t iova, uint32_t access, uint32_t *ret_stag)
{
    struct shape shape = {
        .pd = pd,
        .access = access,
        .addr = addr,
        .length = length,
        .base_to = access & MEM_ACCESS_ZERO_BASED ? 0 : iova,
    };
    int err = shape_check(table, &shape);
    if (err < 0) {
        return err;
    }
    struct slot *region;
    err = slot_take(table, SLOT_REGION, &region);
    if (err < 0) {
        return err;
    }
    region_write(table, region, &shape);
    mirror_show(table, region);
    *ret_stag = region->stag;
    return 0;
}

static struct shape shape_changed(const struct slot *region, const struct mem_reregistration *r)
{
    struct shape shape = {
        .pd = region->pd,
        .access = region->access,
        .addr = region->addr,
        .length = region->length,
        .base_to = region->base_to,
    };
    if (r->changes & MEM_CHANGE_PD) {
        shape.pd = r->pd;
    }
    if (r->changes & MEM_CHANGE_ACCESS) {
        shape.access = r->access;
    }
    if (r->changes & MEM_CHANGE_TRANSLATION) {
        shape.addr = r->addr;
        shape.length = r->length;
        shape.base_to = r->iova;
    }
    if (shape.access & MEM_ACCESS_ZERO_BASED) {
        shape.base_to = 0;
    }
    return shape;
}

int mem_region_reregister(struct mem_table *table, uint32_t stag,
                          const struct mem_reregistration *r, uint32_t *ret_stag)
{
    struct slot *region = slot_find(table, stag);
    if (region == NULL || region->kind != SLOT_REGION) {
        return -EINVAL;
    }
    if (r->changes == 0 || (r->changes & ~(uint32_t)MEM_CHANGE_ALL)) {
        return -EINVAL;
    }
    if (region->relation > 0) {
        return -EBUSY;
    }
    struct shape shape = shape_changed(region, r);
    if (!(r->changes & MEM_CHANGE_TRANSLATION) && shape.base_to != region->base_to) {
        return -EINVAL;
    }
    int err = shape_check(table, &shape);
    if (err < 0) {
        return err;
    }
    mirror_withdraw(table, region);
    table->pds[region->pd].objects--;
    region_write(table, region, &shape);
    if (r->changes & MEM_CHANGE_TRANSLATION) {
        slot_rename(table, region);
    }
    mirror_show(table, region);
    *ret_stag = region->stag;
    return 0;
}

int mem_region_deregister(struct mem_table *table, uint32_t stag)
{
    struct slot *region = slot_find(table, stag);
    if (region == NULL || region->kind != SLOT_REGION) {
        return -EINVAL;
    }
    if (region->relation > 0) {
        return -EBUSY;
    }
    mirror_withdraw(table, region);
    table->pds[region->pd].objects--;
    slot_release(table, region);
    return 0;
}

enum mem_verdict mem_region_prefetch(struct mem_table *table, uint32_t pd, const struct sge *sge,
                                     bool write, bool mapped)
{
    const struct slot *region = slot_find(table, sge->lkey);
    if (region == NULL) {
        return MEM_INVALID_STAG;
    }
    if (region->pd != pd) {
        return MEM_WRONG_PD;
    }
    if (region->kind != SLOT_REGION || !(region->access & MEM_ACCESS_ON_DEMAND)) {
        return MEM_CANNOT_INVALIDATE;
    }
    if (write && !(region->access & MEM_ACCESS_LOCAL_WRITE)) {
        return MEM_ACCESS;
    }
    enum mem_verdict verdict = range_check(region->base_to, region->length, sge->addr, sge->length);
    if (verdict != MEM_OK || !mapped) {
        return verdict;
    }
    return demand_check(table, region, slot_memory(region, sge->addr, sge->length), write);
}

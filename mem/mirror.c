// The regions that peers of the same host may write into, as they see them.
#include "mem/mirror.h"

#include "base/check.h"
#include "base/key_mirror.h"
#include "mem/slot.h"
#include "mem/table.h"

void mem_table_show(struct mem_table *table, struct key_mirror *mirror,
                    struct mem_revocation revocation)
{
    CHECK(table->live[SLOT_REGION] == 0);
    table->mirror = mirror;
    table->revocation = revocation;
}

void mem_table_hide(struct mem_table *table)
{
    table->mirror = NULL;
}

void mirror_show(struct mem_table *table, const struct slot *region)
{
    const bool is_writable = (region->access & MEM_ACCESS_REMOTE_WRITE) != 0;
    if (table->mirror == NULL || !is_writable || (region->access & MEM_ACCESS_ON_DEMAND) != 0) {
        return;
    }
    const struct key key = {
        .generation = ++table->mirror_generation,
        .stag = region->stag,
        .pd = region->pd,
        .base_to = region->base_to,
        .length = region->length,
        .addr = (uint64_t)(uintptr_t)region->addr,
    };
    key_mirror_show(table->mirror, &key);
}

void mirror_withdraw(struct mem_table *table, const struct slot *region)
{
    const bool is_writable = (region->access & MEM_ACCESS_REMOTE_WRITE) != 0;
    uint64_t generation =
        table->mirror != NULL && is_writable ? key_mirror_withdraw(table->mirror, region->stag) : 0;
    if (generation != 0) {
        table->revocation.wait(table->revocation.ctx, generation);
    }
}

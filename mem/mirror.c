// The regions that peers of the same host may write into or read from, as they see them.
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

static unsigned rights_of(const struct slot *region)
{
    if ((region->access & MEM_ACCESS_ON_DEMAND) != 0) {
        return 0;
    }
    return ((region->access & MEM_ACCESS_REMOTE_WRITE) != 0 ? KEY_MAY_WRITE : 0U) |
           ((region->access & MEM_ACCESS_REMOTE_READ) != 0 ? KEY_MAY_READ : 0U);
}

void mirror_show(struct mem_table *table, const struct slot *region)
{
    const unsigned rights = rights_of(region);
    if (table->mirror == NULL || rights == 0) {
        return;
    }
    const struct key key = {
        .generation = ++table->mirror_generation,
        .stag = region->stag,
        .pd = region->pd,
        .base_to = region->base_to,
        .length = region->length,
        .addr = (uint64_t)(uintptr_t)region->addr,
        .rights = rights,
    };
    key_mirror_show(table->mirror, &key);
}

// Who reads looks at the key behind that: nobody waits for him.
void mirror_withdraw(struct mem_table *table, const struct slot *region)
{
    const unsigned rights = rights_of(region);
    uint64_t generation =
        table->mirror != NULL && rights != 0 ? key_mirror_withdraw(table->mirror, region->stag) : 0;
    if (generation != 0 && (rights & KEY_MAY_WRITE) != 0) {
        table->revocation.begin(table->revocation.ctx, generation);
    }
}

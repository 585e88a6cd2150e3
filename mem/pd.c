// Protection domains.
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "mem/slot.h"
#include "mem/table.h"

enum { PD_FIRST_COUNT = 16 };

bool pd_is_live(const struct mem_table *table, uint32_t pd)
{
    return pd < table->pd_count && table->pds[pd].is_live;
}

static int pds_resize(struct mem_table *table)
{
    uint32_t count = table->pd_count == 0 ? PD_FIRST_COUNT : 2 * table->pd_count;
    if (count > MEM_PD_COUNT_MAX + 1) {
        return -ENOSPC;
    }
    struct pd *pds = realloc(table->pds, count * sizeof *pds);
    if (pds == NULL) {
        return -ENOMEM;
    }
    for (uint32_t pd = table->pd_count; pd < count; pd++) {
        pds[pd] = (struct pd){0};
    }
    table->pds = pds;
    table->pd_count = count;
    return 0;
}

int mem_pd_alloc(struct mem_table *table, uint32_t *ret_pd)
{
    uint32_t pd = table->pd_search;
    while (pd < table->pd_count && table->pds[pd].is_live) {
        pd++;
    }
    if (pd >= table->pd_count) {
        int err = pds_resize(table);
        if (err < 0) {
            return err;
        }
    }
    table->pds[pd] = (struct pd){.is_live = true};
    table->pd_search = pd + 1;
    *ret_pd = pd;
    return 0;
}

int mem_pd_dealloc(struct mem_table *table, uint32_t pd)
{
    if (!pd_is_live(table, pd)) {
        return -EINVAL;
    }
    if (table->pds[pd].objects > 0 || table->pds[pd].holders > 0) {
        return -EBUSY;
    }
    table->pds[pd].is_live = false;
    table->pd_search = pd < table->pd_search ? pd : table->pd_search;
    return 0;
}

int mem_pd_hold(struct mem_table *table, uint32_t pd)
{
    if (!pd_is_live(table, pd)) {
        return -EINVAL;
    }
    table->pds[pd].holders++;
    return 0;
}

void mem_pd_release(struct mem_table *table, uint32_t pd)
{
    CHECK(pd_is_live(table, pd));
    CHECK(table->pds[pd].holders > 0);
    table->pds[pd].holders--;
}

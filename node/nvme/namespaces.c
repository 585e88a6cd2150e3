// The namespaces of a controller: the volumes of its subsystem that its host may see, by their
// numbers there, as the hardware resource table has them.

#include <string.h>

#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

struct nvme_namespace *nvme_namespace_find(struct nvme_controller *c, uint32_t nsid)
{
    bool is_possible = nsid >= 1 && nsid <= NVME_NAMESPACE_COUNT_MAX;
    struct nvme_namespace *ns = is_possible ? &c->namespaces[nsid - 1] : NULL;
    return ns != NULL && ns->volume.number != 0 ? ns : NULL;
}

uint32_t nvme_namespace_next(const struct nvme_controller *c, uint32_t nsid)
{
    while (nsid < NVME_NAMESPACE_COUNT_MAX && c->namespaces[nsid].volume.number == 0) {
        nsid++;
    }
    return nsid < NVME_NAMESPACE_COUNT_MAX ? nsid + 1 : 0;
}

uint32_t nvme_namespace_abilities(const struct nvme_controller *c)
{
    uint32_t abilities = 0;
    for (uint32_t nsid = 0; (nsid = nvme_namespace_next(c, nsid)) != 0;) {
        abilities |= c->namespaces[nsid - 1].volume.abilities;
    }
    return abilities;
}

static struct nvme_volume volume_of(const struct resource *row)
{
    return (struct nvme_volume){.number = row->volume,
                                .abilities = row->abilities,
                                .blocks = row->profile.size / row->profile.block_size,
                                .block_len = row->profile.block_size};
}

static bool is_same(const struct nvme_volume *a, const struct nvme_volume *b)
{
    return a->number == b->number && a->abilities == b->abilities && a->blocks == b->blocks &&
           a->block_len == b->block_len;
}

/* ---- as the table changes -------------------------------------------------------------------- */

static void put(struct nvme_controller *c, struct nvme_namespace *ns,
                const struct nvme_volume *volume)
{
    uint32_t masked = volume->number == ns->volume.number ? ns->masked_notices : 0;
    if (!is_same(volume, &ns->volume)) {
        ns->volume = *volume;
        ns->masked_notices = masked;
        ns->has_changed = c->has_news = true;
    }
}

// Is there a path to it from here?
static void access_put(struct nvme_controller *c, struct nvme_namespace *ns, bool is_inaccessible)
{
    if (ns->is_inaccessible != is_inaccessible) {
        ns->is_inaccessible = is_inaccessible;
        ns->access_changes++;
        c->access_changes++;
        c->has_access_news = true;
    }
}

// A volume is there from when it is known what it is; who has it keeps it while its RTA is started
// again, and when he is no longer on its list.
void nvme_namespaces_look(struct nvme_controller *c, const struct resource_table *table,
                          const struct resource *row)
{
    struct nvme_namespace *ns = &c->namespaces[nvme_nsid(row) - 1];
    bool is_known = row->profile.block_size > 0 && row->state != RESOURCE_FAILED;
    bool has_it = ns->volume.number == row->volume;
    bool is_others = !has_it && ns->volume.number != 0 && ns->seen == table->generation;
    if (is_others || !is_known || (!has_it && !nvme_may_see(c->target, row, &c->client))) {
        return;
    }
    ns->seen = table->generation;
    if (!has_it || row->state == RESOURCE_READY) {
        struct nvme_volume fresh = volume_of(row);
        put(c, ns, &fresh);
    }
    access_put(c, ns, row->state == RESOURCE_STANDBY);
}

// Those that the table no longer has. Is there one that it has?
bool nvme_namespaces_drop(struct nvme_controller *c, const struct resource_table *table)
{
    static const struct nvme_volume none = {.number = 0};
    bool has_any = false;
    for (uint32_t nsid = 0; (nsid = nvme_namespace_next(c, nsid)) != 0;) {
        struct nvme_namespace *ns = &c->namespaces[nsid - 1];
        if (ns->seen == table->generation) {
            has_any = true;
        } else {
            put(c, ns, &none);
            ns->is_inaccessible = false;
        }
    }
    return has_any;
}

void nvme_namespaces_begin(struct nvme_controller *c)
{
    const struct nvme_target_parts *parts = &c->target->parts;
    const struct resource_table *table = parts->uma->resources(parts->uma_ctx);
    char nqn[NVME_NQN_MAX];
    for (size_t i = 0; i < table->count; i++) {
        nvme_subsystem_nqn(&table->rows[i], nqn);
        if (strcmp(c->subnqn, nqn) == 0) {
            nvme_namespaces_look(c, table, &table->rows[i]);
        }
    }
    nvme_namespaces_read(c); // the host has yet to look
    for (uint32_t i = 0; i < NVME_NAMESPACE_COUNT_MAX; i++) {
        c->namespaces[i].access_changes = 0;
    }
    c->access_changes = 0;
    c->has_news = c->has_access_news = false;
}

/* ---- what the host is told of it ------------------------------------------------------------- */

void nvme_namespaces_read(struct nvme_controller *c)
{
    for (uint32_t i = 0; i < NVME_NAMESPACE_COUNT_MAX; i++) {
        c->namespaces[i].has_changed = false;
    }
}

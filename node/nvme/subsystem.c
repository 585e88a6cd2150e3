// Subsystems: rows of the hardware resource table, their names, and who may not have them.

#include <stdio.h>
#include <string.h>

#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/wire.h"
#include "text/show.h"

enum { LINE_MAX = 768, NAME_SHOWN_MAX = 256 };

void nvme_subsystem_nqn(const struct resource *volume, char ret[NVME_NQN_MAX])
{
    char uuid[TEXT_UUID_MAX];
    if (volume->nqn[0] != '\0') {
        snprintf(ret, NVME_NQN_MAX, "%s", volume->nqn);
        return;
    }
    snprintf(ret, NVME_NQN_MAX, "nqn.2014-08.org.nvmexpress:uuid:%s",
             text_uuid(volume->identity.uuid, uuid));
}

static const struct resource_table *table_of(const struct nvme_target *target)
{
    return target->parts.uma->resources(target->parts.uma_ctx);
}

const struct resource *nvme_resource_by_nqn(const struct nvme_target *target, const char *nqn)
{
    const struct resource_table *table = table_of(target);
    char name[NVME_NQN_MAX];
    for (size_t i = 0; i < table->count; i++) {
        nvme_subsystem_nqn(&table->rows[i], name);
        if (table->rows[i].state != RESOURCE_FAILED && strcmp(name, nqn) == 0) {
            return &table->rows[i];
        }
    }
    return NULL;
}

struct nvme_volume nvme_volume_of(const struct resource *row)
{
    return (struct nvme_volume){.number = row->volume,
                                .abilities = row->abilities,
                                .blocks = row->profile.size / row->profile.block_size,
                                .block_len = row->profile.block_size};
}

bool nvme_may_see(const struct nvme_target *target, const struct resource *row,
                  const struct client *client)
{
    return target->parts.uma->may_see(target->parts.uma_ctx, row->volume, client);
}

void nvme_say_refused(struct nvme_target *target, const struct client *client, const char *nqn,
                      const char *why)
{
    char line[LINE_MAX], host[NAME_SHOWN_MAX], subsystem[NAME_SHOWN_MAX];
    target->counters.refused++;
    snprintf(line, sizeof line, "nvme: host %s at %s is refused %s: %s",
             client->identity[0] != '\0' ? text_quote(client->identity, host, sizeof host)
                                         : "(no name)",
             client->address,
             nqn[0] != '\0' ? text_quote(nqn, subsystem, sizeof subsystem) : "(no subsystem)", why);
    target->parts.say(target->parts.ctx, client->host, line);
}

// Subsystems: rows of the hardware resource table that have one name, and who may not have them.

#include <stdio.h>
#include <string.h>

#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"
#include "text/show.h"

enum { LINE_MAX = 768, NAME_SHOWN_MAX = 256 };

void nvme_subsystem_nqn(const struct resource *volume, char ret[NVME_NQN_MAX])
{
    char uuid[TEXT_UUID_MAX];
    if (nvme_group(volume)[0] != '\0') {
        snprintf(ret, NVME_NQN_MAX, "%s", nvme_group(volume));
        return;
    }
    snprintf(ret, NVME_NQN_MAX, "nqn.2014-08.org.nvmexpress:uuid:%s",
             text_uuid(volume->identity.uuid, uuid));
}

void nvme_namespace_path(const struct resource *volume, char ret[NVME_PATH_MAX])
{
    char nqn[NVME_NQN_MAX];
    bool is_alone = nvme_group(volume)[0] == '\0' && nvme_nsid(volume) == 1;
    nvme_subsystem_nqn(volume, nqn);
    if (is_alone) {
        snprintf(ret, NVME_PATH_MAX, "%s", nqn);
    } else {
        snprintf(ret, NVME_PATH_MAX, "%s/%u", nqn, nvme_nsid(volume));
    }
}

const struct resource_table *nvme_resources(const struct nvme_target *target)
{
    return target->parts.uma->resources(target->parts.uma_ctx);
}

static enum nvme_found row_found(const struct nvme_target *target, const struct resource *row,
                                 const struct client *client)
{
    if (row->state == RESOURCE_FAILED) {
        return NVME_FOUND_NOTHING;
    }
    if (!nvme_may_see(target, row, client)) {
        return NVME_FOUND_NOT_ALLOWED;
    }
    return row->profile.block_size == 0 ? NVME_FOUND_NOT_READY : NVME_FOUND_READY;
}

enum nvme_found nvme_subsystem_find(const struct nvme_target *target, const char *nqn,
                                    const struct client *client)
{
    const struct resource_table *table = nvme_resources(target);
    enum nvme_found best = NVME_FOUND_NOTHING;
    char name[NVME_NQN_MAX];
    for (size_t i = 0; i < table->count; i++) {
        nvme_subsystem_nqn(&table->rows[i], name);
        enum nvme_found found = strcmp(name, nqn) == 0 ? row_found(target, &table->rows[i], client)
                                                       : NVME_FOUND_NOTHING;
        best = found > best ? found : best;
    }
    return best;
}

bool nvme_may_see(const struct nvme_target *target, const struct resource *row,
                  const struct client *client)
{
    return target->parts.uma->may_see(target->parts.uma_ctx, row->volume, client);
}

void nvme_service_name(enum nvme_trtype trtype, char ret[TTS_NAME_MAX])
{
    snprintf(ret, TTS_NAME_MAX, "%s", trtype == NVME_TRTYPE_RDMA ? "nvme-rdma" : "nvme-tcp");
}

bool nvme_may_see_by(const struct nvme_target *target, const struct resource *row,
                     const struct client *client, enum nvme_trtype trtype)
{
    struct client by = *client;
    nvme_service_name(trtype, by.service);
    return nvme_may_see(target, row, &by);
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

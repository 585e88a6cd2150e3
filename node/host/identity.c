// Identities of volumes: names (RFC 4122, version 5) of their origin on this machine. They are the
// same after each restart, and no state is kept for them.

#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "machine/machine.h"
#include "node/host/agent.h"
#include "node/interface/volume.h"

static void name(uint8_t ret[VOLUME_UUID_LEN], const char *kind, const char *machine,
                 const char *origin)
{
    char text[MACHINE_NAME_MAX + VOLUME_ORIGIN_MAX + 32];
    int len = snprintf(text, sizeof text, "weft:%s:%s:%s", kind, machine, origin);
    uuid_generate_sha1(ret, *uuid_get_template("url"), text, (size_t)len);
}

void host_identify(void *ctx, const struct volume_profile *profile, struct volume_identity *ret)
{
    char machine[MACHINE_NAME_MAX];
    machine_name(machine);
    name(ret->uuid, "uuid", machine, profile->origin);
    name(ret->alias, "nguid", machine, profile->origin);
}

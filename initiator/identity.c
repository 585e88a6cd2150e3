// Who this host is to targets: a name and a number that stay the same from one start to the next.

#include <stdio.h>
#include <stdlib.h>
#include <uuid/uuid.h>

#include "initiator/agent.h"
#include "machine/machine.h"

// Of names that weft derives from others: a namespace of its own, made once by chance.
static const uuid_t derived = {0x5b, 0x1f, 0x6a, 0x0d, 0x6c, 0x0e, 0x4b, 0x53,
                               0x9a, 0x77, 0x2e, 0x41, 0xd0, 0x8c, 0x3f, 0x92};

// The first line of a file. False: there is none.
static bool line_read(const char *path, char *ret, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool is_there = file != NULL && fgets(ret, (int)capacity, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    if (is_there) {
        ret[strcspn(ret, "\r\n")] = '\0';
    }
    return is_there && *ret != '\0';
}

static void name_derive(struct weft_nvme *nvme)
{
    char machine[MACHINE_NAME_MAX], text[UUID_STR_LEN];
    uuid_t uuid;
    machine_name(machine);
    uuid_generate_sha1(uuid, derived, machine, strlen(machine));
    uuid_unparse_lower(uuid, text);
    snprintf(nvme->host_nqn, sizeof nvme->host_nqn, "nqn.2014-08.org.nvmexpress:uuid:%s", text);
}

static bool host_id_is_set(const struct weft_nvme *nvme)
{
    static const uint8_t none[NVME_HOSTID_LEN];
    return memcmp(nvme->attr.host_id, none, sizeof none) != 0;
}

void initiator_identity_choose(struct weft_nvme *nvme)
{
    char text[64];
    bool is_default = nvme->attr.host_nqn == NULL;
    if (!is_default) {
        snprintf(nvme->host_nqn, sizeof nvme->host_nqn, "%.*s", NVME_NQN_MAX - 1,
                 nvme->attr.host_nqn);
    } else if (!line_read("/etc/nvme/hostnqn", nvme->host_nqn, NVME_NQN_MAX)) {
        name_derive(nvme);
        is_default = false;
    }
    bool has_file = is_default && line_read("/etc/nvme/hostid", text, sizeof text) &&
                    uuid_parse(text, nvme->attr.host_id) == 0;
    if (!has_file && !host_id_is_set(nvme)) {
        uuid_generate_sha1(nvme->attr.host_id, derived, nvme->host_nqn, strlen(nvme->host_nqn));
    }
}

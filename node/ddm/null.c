// null: reads zeroes, drops what is written. For measuring all that is not a device.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "node/ddm/drivers.h"
#include "node/ddm/parameters.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"

struct null {
    struct ddm ddm;
    uint64_t size;
};

static int null_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                     struct ddm **ret, struct why *ret_why)
{
    uint64_t size;
    int error = parameter_size_parse(target->object, &size, ret_why);
    if (error != 0) {
        return error;
    }
    struct null *null = calloc(1, sizeof *null);
    if (null == NULL) {
        return -ENOMEM;
    }
    *null = (struct null){.ddm = {.driver = &ddm_null, .host = *host}, .size = size};
    *ret = &null->ddm;
    return 0;
}

static int null_probe(struct ddm *ddm, struct volume_profile *ret)
{
    const struct null *null = (const struct null *)ddm;
    *ret = (struct volume_profile){.size = null->size,
                                   .abilities = VOLUME_CAN_WRITE | VOLUME_CAN_FUA |
                                                VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES |
                                                VOLUME_CAN_ZERO_FAST | VOLUME_CAN_EXTENTS,
                                   .block_size = 512,
                                   .alignment = 1,
                                   .preferred = 4096,
                                   .transfer_max = NODE_TRANSFER_MAX,
                                   .range_max = 1ULL << 40,
                                   .depth = 512,
                                   .driver = "null",
                                   .model = "null"};
    snprintf(ret->origin, sizeof ret->origin, "null:%llu", (unsigned long long)null->size);
    return 0;
}

static int null_submit(struct ddm *ddm, struct ddm_command *command)
{
    if (command->operation == NODE_READ) {
        memset(command->data, 0, command->data_len);
    } else if (command->operation == NODE_EXTENTS) {
        struct node_extent all = {.len = command->len,
                                  .flags = NODE_EXTENT_HOLE | NODE_EXTENT_ZERO};
        memcpy(command->data, &all, sizeof all);
        command->answer_len = sizeof all;
    }
    ddm_command_finish(command, NODE_OK, 0);
    return 0;
}

static int null_poll_fd(struct ddm *ddm)
{
    return -1;
}

static void null_poll(struct ddm *ddm, instant_ns now)
{
}

static void null_drain(struct ddm *ddm)
{
}

static void null_close(struct ddm *ddm)
{
    free(ddm);
}

static const char *const calls[] = {NULL};

const struct ddm_driver ddm_null = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "null",
    .summary = "reads zeroes, drops what is written",
    .object = "SIZE",
    .fence = "there is no I/O",
    .calls = calls,
    .open = null_open,
    .probe = null_probe,
    .submit = null_submit,
    .poll_fd = null_poll_fd,
    .poll = null_poll,
    .drain = null_drain,
    .close = null_close,
};

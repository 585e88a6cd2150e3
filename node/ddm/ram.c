// ram: a volume of memory. The memory is a file that has no name, kept by the UMA, so that it
// outlives the process that serves it. Pages that were never written, or were trimmed, take no
// room.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "node/ddm/drivers.h"
#include "node/ddm/parameters.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"

enum { PAGE_LEN = 4096, ZERO_LEN_MIN = 64 << 10 };

struct ram {
    struct ddm ddm;
    uint8_t *ptr;
    uint64_t size;
    int fd;
};

// The predecessor's memory, or new memory. 0 or a negative errno.
static int memory_take(struct ram *ram, int keepsake)
{
    struct stat status;
    ram->fd = keepsake;
    if (keepsake < 0) {
        ram->fd = memfd_create("weft-ram", MFD_CLOEXEC);
        if (ram->fd < 0 || ftruncate(ram->fd, (off_t)ram->size) != 0) {
            return -errno;
        }
    } else if (fstat(keepsake, &status) != 0 || (uint64_t)status.st_size != ram->size) {
        return -EINVAL;
    }
    ram->ptr = mmap(NULL, ram->size, PROT_READ | PROT_WRITE, MAP_SHARED, ram->fd, 0);
    if (ram->ptr == MAP_FAILED) {
        ram->ptr = NULL;
        return -errno;
    }
    return 0;
}

static void ram_close(struct ddm *ddm)
{
    struct ram *ram = (struct ram *)ddm;
    if (ram->ptr != NULL) {
        munmap(ram->ptr, ram->size);
    }
    if (ram->fd >= 0) {
        close(ram->fd);
    }
    free(ram);
}

static int ram_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                    struct ddm **ret, struct why *ret_why)
{
    uint64_t size;
    bool is_size = parameter_size_parse(target->object, &size, ret_why) == 0;
    if (is_size && size == 0) {
        why_say(ret_why, "a volume of memory has at least one octet");
        is_size = false;
    }
    struct ram *ram = is_size ? calloc(1, sizeof *ram) : NULL;
    if (ram == NULL) {
        if (host->keepsake >= 0) {
            close(host->keepsake); // ours, and nobody has it
        }
        return is_size ? -ENOMEM : -EINVAL;
    }
    *ram = (struct ram){.ddm = {.driver = &ddm_ram, .host = *host}, .size = size, .fd = -1};
    int error = memory_take(ram, host->keepsake);
    if (error != 0) {
        why_say(ret_why, "%llu octets of memory: %s", (unsigned long long)size, strerror(-error));
        ram_close(&ram->ddm);
        return error;
    }
    host->keep(host->ctx, ram->fd);
    *ret = &ram->ddm;
    return 0;
}

static int ram_probe(struct ddm *ddm, struct volume_profile *ret)
{
    const struct ram *ram = (const struct ram *)ddm;
    *ret = (struct volume_profile){.size = ram->size,
                                   .abilities = VOLUME_CAN_WRITE | VOLUME_CAN_FUA |
                                                VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES |
                                                VOLUME_CAN_ZERO_FAST | VOLUME_CAN_EXTENTS,
                                   .block_size = 512,
                                   .alignment = 1,
                                   .preferred = PAGE_LEN,
                                   .transfer_max = NODE_TRANSFER_MAX,
                                   .range_max = 1ULL << 40,
                                   .depth = 512,
                                   .driver = "ram",
                                   .model = "ram"};
    struct stat status;
    if (fstat(ram->fd, &status) != 0) {
        return -errno;
    }
    snprintf(ret->origin, sizeof ret->origin, "ram:%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino);
    return 0;
}

// Whole pages go back to the system; what is left of their neighbours is written.
static enum node_completion zero(struct ram *ram, uint64_t offset, uint64_t len, bool keeps_pages)
{
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (len == 0) {
        return NODE_OK;
    }
    if (!keeps_pages && len >= ZERO_LEN_MIN &&
        fallocate(ram->fd, mode, (off_t)offset, (off_t)len) == 0) {
        return NODE_OK;
    }
    memset(ram->ptr + offset, 0, len);
    return NODE_OK;
}

static enum node_completion extents(const struct ram *ram, struct ddm_command *command)
{
    struct node_extent *out = command->data;
    size_t most = command->data_len / sizeof *out, count = 0;
    uint64_t at = command->offset, end = command->offset + command->len;
    while (at < end && count < most) {
        off_t data = lseek(ram->fd, (off_t)at, SEEK_DATA);
        uint64_t data_at = data < 0 || (uint64_t)data > end ? end : (uint64_t)data;
        off_t hole = data_at > at ? (off_t)data_at : lseek(ram->fd, (off_t)at, SEEK_HOLE);
        uint64_t next = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
        out[count++] = (struct node_extent){
            .len = next - at, .flags = data_at > at ? NODE_EXTENT_HOLE | NODE_EXTENT_ZERO : 0};
        at = next;
    }
    command->answer_len = (uint32_t)(count * sizeof *out);
    return NODE_OK;
}

static int ram_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct ram *ram = (struct ram *)ddm;
    enum node_completion completion = NODE_OK;
    switch (command->operation) {
    case NODE_READ:
        memcpy(command->data, ram->ptr + command->offset, command->data_len);
        break;
    case NODE_WRITE:
        memcpy(ram->ptr + command->offset, command->data, command->data_len);
        break;
    case NODE_TRIM:
        completion = zero(ram, command->offset, command->len, false);
        break;
    case NODE_WRITE_ZEROES:
        completion = zero(ram, command->offset, command->len, (command->flags & NODE_NO_HOLE) != 0);
        break;
    case NODE_EXTENTS:
        completion = extents(ram, command);
        break;
    default:
        break;
    }
    ddm_command_finish(command, completion, 0);
    return 0;
}

static int ram_poll_fd(struct ddm *ddm)
{
    return -1;
}

static void ram_poll(struct ddm *ddm, instant_ns now)
{
}

static void ram_drain(struct ddm *ddm)
{
}

static const char *const calls[] = {"fallocate", NULL};

const struct ddm_driver ddm_ram = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "ram",
    .summary = "memory, gone when weft ends",
    .object = "SIZE",
    .fence = "only the process itself copies, so its end",
    .calls = calls,
    .open = ram_open,
    .probe = ram_probe,
    .submit = ram_submit,
    .poll_fd = ram_poll_fd,
    .poll = ram_poll,
    .drain = ram_drain,
    .close = ram_close,
};

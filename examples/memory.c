// A driver module in about a hundred lines: a volume of memory, by <weft/ddm.h> alone.
//
//     cc -shared -fPIC -o memory.so memory.c
//     weft serve 'module:./memory.so?mib=64'
//
// The memory is a file without a name. The node keeps a copy of its descriptor, so what has been
// written outlives this process; there is no I/O that could, so its end is the fence.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/ddm.h>

enum { MIB_MAX = 1 << 20 };

struct memory {
    const struct weft_ddm_host *host;
    uint64_t len;
    uint8_t *ptr;
    int fd;
};

static const char *const parameters[] = {"mib", NULL};

static void memory_close(void *device)
{
    struct memory *memory = device;
    if (memory->ptr != NULL) {
        munmap(memory->ptr, memory->len);
    }
    if (memory->fd >= 0) {
        close(memory->fd);
    }
    free(memory);
}

// A predecessor's memory, or new memory. False with errno.
static bool memory_take(struct memory *memory)
{
    struct stat status;
    memory->fd = memory->host->keepsake;
    if (memory->fd < 0) {
        memory->fd = memfd_create("memory", MFD_CLOEXEC);
        if (memory->fd < 0 || ftruncate(memory->fd, (off_t)memory->len) != 0) {
            return false;
        }
    } else if (fstat(memory->fd, &status) != 0 || (uint64_t)status.st_size != memory->len) {
        errno = ESTALE;
        return false;
    }
    void *ptr = mmap(NULL, memory->len, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    memory->ptr = ptr != MAP_FAILED ? ptr : NULL;
    return ptr != MAP_FAILED;
}

static int memory_open(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                       void **ret_device, struct weft_ddm_why *ret_why)
{
    const char *text = weft_ddm_parameter(target, "mib");
    char *end = NULL;
    unsigned long mib = text != NULL ? strtoul(text, &end, 10) : 0;
    if (mib == 0 || mib > MIB_MAX || *end != '\0') {
        snprintf(ret_why->text, sizeof ret_why->text, "mib=%.32s: it must be 1 to %d",
                 text != NULL ? text : "", MIB_MAX);
        return -EINVAL;
    }
    struct memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        return -ENOMEM;
    }
    *memory = (struct memory){.host = host, .len = (uint64_t)mib << 20, .fd = -1};
    if (!memory_take(memory)) {
        int error = -errno;
        snprintf(ret_why->text, sizeof ret_why->text, "%lu MiB of memory: %s", mib,
                 strerror(-error));
        memory_close(memory);
        return error;
    }
    host->keep(host->ctx, memory->fd);
    *ret_device = memory;
    return 0;
}

static int memory_probe(void *device, struct weft_ddm_profile *ret)
{
    const struct memory *memory = device;
    ret->abilities = WEFT_DDM_CAN_WRITE | WEFT_DDM_CAN_FUA | WEFT_DDM_CAN_WRITE_ZEROES;
    ret->volume_len = ret->range_max = memory->len;
    ret->block_len = 512;
    ret->alignment = 1;
    ret->preferred_len = 4096;
    ret->transfer_max = 1 << 20;
    ret->depth = 64;
    snprintf(ret->model, sizeof ret->model, "memory");
    snprintf(ret->origin, sizeof ret->origin, "%llu", (unsigned long long)memory->len);
    return 0;
}

// Everything has ended when it has begun, so there is nothing to poll for, and nothing to drain.
static int memory_submit(void *device, struct weft_ddm_command *command)
{
    struct memory *memory = device;
    uint8_t *at = memory->ptr + command->offset;
    if (command->operation == WEFT_DDM_READ) {
        memcpy(command->data, at, command->data_len);
    } else if (command->operation == WEFT_DDM_WRITE) {
        memcpy(at, command->data, command->data_len);
    } else if (command->operation == WEFT_DDM_WRITE_ZEROES) {
        memset(at, 0, command->len);
    }
    memory->host->complete(memory->host->ctx, command, 0);
    return 0;
}

// It copies: nothing more is asked of the system.
static const char *const calls[] = {NULL};

WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
    .version = WEFT_DDM_VERSION,
    .size = sizeof weft_ddm_module,
    .name = "memory",
    .fence = "the process's end: nobody else copies",
    .parameters = parameters,
    .open = memory_open,
    .probe = memory_probe,
    .submit = memory_submit,
    .close = memory_close,
    .calls = calls,
};

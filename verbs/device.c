// The one device of a process. Nothing here opens a descriptor or starts a thread: libraries that
// link libibverbs list devices in processes that never use one.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/front.h"

enum { PRIVATE_TAIL_LEN = 256 };

// Provider libraries of the system (libmlx5, libefa) tell their own devices by a pointer behind the
// public structure, so there is zeroed room behind it.
static struct {
    struct ibv_device device;
    uint64_t private_tail[PRIVATE_TAIL_LEN / sizeof(uint64_t)];
} the_device = {
    .device =
        {
            .node_type = IBV_NODE_RNIC,
            .transport_type = IBV_TRANSPORT_IWARP,
            .name = "weft0",
            .dev_name = "weft0",
            .dev_path = "/sys/class/infiniband_verbs/weft0",
            .ibdev_path = "/sys/class/infiniband/weft0",
        },
};

struct ibv_device *const front_device = &the_device.device;

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct ibv_device **list = calloc(2, sizeof *list);
    if (num_devices != NULL) {
        *num_devices = list != NULL;
    }
    if (list == NULL) {
        return front_null(ENOMEM);
    }
    list[0] = front_device;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
    return 0;
}

// FNV-1a, 64 bits.
static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
    }
    return hash;
}

// An EUI-64 that is the same in every process of a host and across its restarts. It is ours to
// choose, so it bears the local bit (0x02) and not the group bit (0x01) of its first octet.
__be64 ibv_get_device_guid(struct ibv_device *device)
{
    char text[128] = "weft ";
    size_t prefix_len = strlen(text);
    if (ibv_read_sysfs_file("/etc", "machine-id", text + prefix_len, sizeof text - prefix_len) <=
        0) {
        gethostname(text + prefix_len, sizeof text - prefix_len - 1);
    }
    uint64_t guid = hash_text(text);
    guid = (guid & ~(3ULL << 56)) | 2ULL << 56;
    return htobe64(guid);
}

/* ---- what librdmacm and ibv_devinfo of the system read --------------------------------------- */

const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path) {
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t len = read(fd, buf, size);
    close(fd);
    if (len <= 0) {
        return (int)len;
    }
    if (buf[len - 1] == '\n') {
        len--;
    } else if ((size_t)len == size) {
        return -1; // cut
    }
    buf[len] = '\0';
    return (int)len;
}

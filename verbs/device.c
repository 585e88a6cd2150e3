// The devices of a process, one per wire. Nothing here opens a descriptor or starts a thread:
// libraries that link libibverbs list devices in processes that never use one.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/device_wire.h"
#include "verbs/front.h"
#include "view/place.h"
#include "view/tree.h"
#include "view/wires.h"

static struct front_device devices[DEVICE_WIRE_COUNT];

static void device_fill(struct front_device *front, enum device_wire wire)
{
    const struct identity *identity = identity_of(wire);
    front->wire = wire;
    front->identity = identity;
    front->device.node_type = identity->node_type;
    front->device.transport_type = identity->transport;
    snprintf(front->device.name, sizeof front->device.name, "%s", identity->name);
    snprintf(front->device.dev_name, sizeof front->device.dev_name, "%s", identity->name);
    tree_verbs_path(place_root(), identity, front->device.dev_path);
    tree_device_path(place_root(), identity, front->device.ibdev_path);
}

static void devices_fill(void)
{
    for (enum device_wire wire = 0; wire < DEVICE_WIRE_COUNT; wire++) {
        device_fill(&devices[wire], wire);
    }
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    static pthread_once_t fill_once = PTHREAD_ONCE_INIT;
    pthread_once(&fill_once, devices_fill);
    struct ibv_device **list = calloc(DEVICE_WIRE_COUNT + 1, sizeof *list);
    int count = 0;
    for (enum device_wire wire = 0; list != NULL && wire < DEVICE_WIRE_COUNT; wire++) {
        if (view_wires() & (1U << wire)) {
            list[count++] = &devices[wire].device;
        }
    }
    if (num_devices != NULL) {
        *num_devices = count;
    }
    return list != NULL ? list : front_null(ENOMEM);
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
    return (int)front_device_of(device)->wire;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(identity_guid(front_device_of(device)->identity));
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

#include "node/ddm/nvme_path.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/check.h"
#include "text/endpoint.h"

enum { CONNECT_TIMEOUT_MS = 3000 };

STATIC_CHECK((int)WEFT_NVME_WHY_MAX <= (int)WHY_MAX); // the initiator writes its reasons into ours

enum event { DUE, MET, REFUSED, LOST, EVENT_COUNT };

enum { NEVER = NVME_PATH_STATE_COUNT };

static const uint8_t follows[NVME_PATH_STATE_COUNT][EVENT_COUNT] = {
    [NVME_PATH_DOWN] = {NVME_PATH_MEETING, NVME_PATH_UP, NVME_PATH_DOWN, NEVER},
    [NVME_PATH_MEETING] = {NEVER, NVME_PATH_UP, NVME_PATH_DOWN, NEVER},
    [NVME_PATH_UP] = {NEVER, NEVER, NEVER, NVME_PATH_DOWN},
};

static void go(struct nvme_path *path, enum event event)
{
    uint8_t next = follows[path->state][event];
    CHECK(next != NEVER);
    path->state = (enum nvme_path_state)next;
}

void nvme_path_init(struct nvme_path *path, int wake_fd)
{
    path->wake_fd = wake_fd;
    path->state = NVME_PATH_DOWN;
    list_init(&path->unsure);
    text_endpoint_format(path->address.host, path->address.port, path->name, sizeof path->name);
}

/* ---- meeting --------------------------------------------------------------------------------- */

static int namespace_find(const struct nvme_path *path, struct weft_nvme *controller,
                          struct weft_nvme_namespace *ret, struct why *ret_why)
{
    uint32_t nsid = path->address.nsid;
    int count = nsid != 0 ? 1 : weft_nvme_namespaces(controller, &nsid, 1, ret_why->text);
    if (count < 0) {
        return count;
    }
    if (count == 0) {
        why_say(ret_why, "the subsystem has no namespace");
        return -ENOENT;
    }
    return weft_nvme_identify(controller, nsid, ret, ret_why->text);
}

// The longest range that trim and write zeroes can both name.
static uint64_t range_max_of(const struct weft_nvme *controller, uint32_t nsid)
{
    uint64_t trim = weft_nvme_range_max_len(controller, nsid, WEFT_NVME_TRIM);
    uint64_t zeroes = weft_nvme_range_max_len(controller, nsid, WEFT_NVME_WRITE_ZEROES);
    return trim < zeroes ? trim : zeroes;
}

// Of another node's volume, what that one is made of.
static void lineage_find(struct weft_nvme *controller, uint32_t nsid, struct volume_lineage *ret)
{
    uint8_t said[VOLUME_LINEAGE_LEN] = {0};
    weft_nvme_vendor_data(controller, nsid, said, sizeof said, NULL);
    volume_lineage_parse(said, sizeof said, ret);
}

// Its own fields alone: others are at work beside the thread.
static int meet(struct nvme_path *path)
{
    struct weft_nvme *controller;
    const struct weft_nvme_attr attr = {.address = &path->address,
                                        .depth = path->depth,
                                        .keep_alive_ms = path->keep_alive_ms,
                                        .timeout_ms = CONNECT_TIMEOUT_MS};
    int error = weft_nvme_connect(&attr, &controller, path->why.text);
    if (error != 0) {
        return error;
    }
    error = namespace_find(path, controller, &path->facts.ns, &path->why);
    if (error != 0) {
        weft_nvme_disconnect(controller);
        return error;
    }
    weft_nvme_info(controller, &path->facts.info);
    lineage_find(controller, path->facts.ns.nsid, &path->facts.lineage);
    path->facts.range_max = range_max_of(controller, path->facts.ns.nsid);
    path->controller = controller;
    return 0;
}

int nvme_path_meet(struct nvme_path *path)
{
    path->error = meet(path);
    go(path, path->error == 0 ? MET : REFUSED);
    return path->error;
}

static void *meet_in_thread(void *ctx)
{
    struct nvme_path *path = ctx;
    path->error = meet(path);
    atomic_store(&path->has_met, true);
    eventfd_write(path->wake_fd, 1);
    return NULL;
}

bool nvme_path_meet_begin(struct nvme_path *path)
{
    atomic_store(&path->has_met, false);
    if (pthread_create(&path->thread, NULL, meet_in_thread, path) != 0) {
        return false;
    }
    go(path, DUE);
    return true;
}

bool nvme_path_meet_ended(struct nvme_path *path)
{
    if (path->state != NVME_PATH_MEETING || !atomic_load(&path->has_met)) {
        return false;
    }
    pthread_join(path->thread, NULL);
    go(path, path->error == 0 ? MET : REFUSED);
    return true;
}

/* ---- the end of it --------------------------------------------------------------------------- */

void nvme_path_lose(struct nvme_path *path)
{
    weft_nvme_disconnect(path->controller);
    path->controller = NULL;
    go(path, LOST);
}

void nvme_path_end(struct nvme_path *path)
{
    if (path->state == NVME_PATH_MEETING) {
        pthread_join(path->thread, NULL);
        go(path, path->error == 0 ? MET : REFUSED);
    }
    if (path->state == NVME_PATH_UP) {
        nvme_path_lose(path);
    }
}

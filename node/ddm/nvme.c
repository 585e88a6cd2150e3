// nvme+rdma, nvme+tcp: a namespace of another target, by <weft/nvme.h>. Over RDMA the target reads
// and writes the pool itself, so data moves once. It reaches no more of the pool than the command
// under way names: the rest, which is other volumes' too, is never lent.
//
// A connection that is lost is made again. Until then commands are kept, those that were at the
// target among them: all of them may be carried out twice. After `patience` they fail.
//
// No fence: with the process or the connection the target loses the memory that it would read from,
// but a write whose data it has already goes on there, and nothing tells when it is over.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <weft/nvme.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/ddm/drivers.h"
#include "node/ddm/parameters.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"

enum {
    DEPTH_DEFAULT = 128,
    URI_LEN = 1024,
    POLL_BATCH_MAX = 16, // polls, before others have their turn
    CONNECT_TIMEOUT_MS = 3000,
    KEEP_ALIVE_MS = 15000, // a loaded machine may leave the process waiting
    DRAIN_WAIT_MS = 100,
};

static const duration_ns connect_every_ns = 1 * NS_PER_S;
static const duration_ns patience_default_ns = 60 * NS_PER_S;

// A command at the target.
struct nvme_request {
    struct nvme *nvme;
    struct ddm_command *command;
    struct iovec memory;
    struct weft_nvme_io io;
    struct list_link link; // free
};

struct nvme {
    struct ddm ddm;
    struct weft_nvme_address address;
    duration_ns patience;
    unsigned depth;
    struct weft_nvme *controller; // NULL: not connected
    struct weft_nvme_info info;
    struct weft_nvme_namespace ns;
    uint64_t range_max; // octets that trim and write zeroes can both name
    int epoll_fd;       // the controller's descriptor, whichever it is
    bool has_more;      // to be polled
    instant_ns connect_at;
    instant_ns give_up_at;
    struct list_link held; // commands that are to be sent again, the oldest first
    struct list_link free;
    unsigned out_count;
    struct nvme_request *requests;
};

STATIC_CHECK((int)WEFT_NVME_WHY_MAX <= (int)WHY_MAX); // the initiator writes its reasons into ours

static const char *const keys[] = {"depth", "patience", NULL};

static void say(struct nvme *nvme, const char *what, const char *why)
{
    char line[WHY_MAX + WEFT_NVME_NAME_MAX];
    snprintf(line, sizeof line, "%s: %s", what, why);
    nvme->ddm.host.say(nvme->ddm.host.ctx, line);
}

/* ---- the connection -------------------------------------------------------------------------- */

// The namespace is still the one it was: else another volume would be written to.
static bool is_same(const struct nvme *nvme, const struct weft_nvme_namespace *found)
{
    const struct weft_nvme_namespace *ns = &nvme->ns;
    return ns->nsid == 0 ||
           (ns->nsid == found->nsid && ns->block_len == found->block_len &&
            ns->has_uuid == found->has_uuid && memcmp(ns->uuid, found->uuid, sizeof ns->uuid) == 0);
}

static int namespace_choose(struct nvme *nvme, struct weft_nvme *controller,
                            struct weft_nvme_namespace *ret, struct why *ret_why)
{
    uint32_t nsid = nvme->address.nsid;
    int count = nsid != 0 ? 1 : weft_nvme_namespaces(controller, &nsid, 1, ret_why->text);
    if (count < 0) {
        return count;
    }
    if (count == 0) {
        why_say(ret_why, "the subsystem has no namespace");
        return -ENOENT;
    }
    int error = weft_nvme_identify(controller, nsid, ret, ret_why->text);
    if (error == 0 && !is_same(nvme, ret)) {
        why_say(ret_why, "there is another volume now");
        return -ESTALE;
    }
    return error;
}

// The longest range that trim and write zeroes can both name.
static uint64_t range_max_of(const struct weft_nvme *controller, uint32_t nsid)
{
    uint64_t trim = weft_nvme_range_max_len(controller, nsid, WEFT_NVME_TRIM);
    uint64_t zeroes = weft_nvme_range_max_len(controller, nsid, WEFT_NVME_WRITE_ZEROES);
    return trim < zeroes ? trim : zeroes;
}

static int controller_open(struct nvme *nvme, struct why *ret_why)
{
    struct weft_nvme_namespace ns;
    struct weft_nvme *controller;
    const struct weft_nvme_attr attr = {.address = &nvme->address,
                                        .depth = nvme->depth,
                                        .keep_alive_ms = KEEP_ALIVE_MS,
                                        .timeout_ms = CONNECT_TIMEOUT_MS};
    int error = weft_nvme_connect(&attr, &controller, ret_why->text);
    if (error != 0) {
        return error;
    }
    error = namespace_choose(nvme, controller, &ns, ret_why);
    struct epoll_event event = {.events = EPOLLIN};
    if (error == 0 &&
        epoll_ctl(nvme->epoll_fd, EPOLL_CTL_ADD, weft_nvme_fd(controller), &event) != 0) {
        error = -errno;
    }
    if (error != 0) {
        weft_nvme_disconnect(controller);
        return error;
    }
    nvme->controller = controller;
    nvme->ns = ns;
    weft_nvme_info(controller, &nvme->info);
    nvme->range_max = range_max_of(controller, ns.nsid);
    nvme->has_more = true;
    return 0;
}

static void command_submit(struct nvme *nvme, struct ddm_command *command);

static void held_submit(struct nvme *nvme)
{
    struct list_link waiting, *link;
    list_move_all(&waiting, &nvme->held);
    while ((link = list_pop_head(&waiting)) != NULL) {
        command_submit(nvme, LIST_ENTRY(link, struct ddm_command, link));
    }
}

static void held_fail(struct nvme *nvme)
{
    struct list_link waiting, *link;
    list_move_all(&waiting, &nvme->held);
    while ((link = list_pop_head(&waiting)) != NULL) {
        ddm_command_finish(LIST_ENTRY(link, struct ddm_command, link), NODE_MEDIA, ENOTCONN);
    }
}

static void reconnect(struct nvme *nvme, instant_ns now)
{
    struct why why;
    if (controller_open(nvme, &why) == 0) {
        nvme->give_up_at = INSTANT_NEVER;
        say(nvme, nvme->address.nqn, "connected again");
        held_submit(nvme);
        return;
    }
    nvme->connect_at = instant_after(nvme->ddm.host.clock(nvme->ddm.host.ctx), connect_every_ns);
    if (nvme->give_up_at <= now) {
        held_fail(nvme); // and so does what comes meanwhile, but the next try may succeed
    }
}

// Everything that was at the target is in `held` now.
static void on_lost(struct nvme *nvme, instant_ns now)
{
    say(nvme, nvme->address.nqn, weft_nvme_why(nvme->controller));
    weft_nvme_disconnect(nvme->controller);
    nvme->controller = NULL;
    nvme->has_more = false;
    nvme->connect_at = now;
    nvme->give_up_at = instant_after(now, nvme->patience);
}

/* ---- commands -------------------------------------------------------------------------------- */

static enum node_completion completion_of(int error)
{
    switch (error) {
    case 0:
        return NODE_OK;
    case -ENOSPC:
        return NODE_NO_SPACE;
    case -EROFS:
        return NODE_READ_ONLY;
    case -EOPNOTSUPP:
        return NODE_UNSUPPORTED;
    case -EBUSY:
    case -ENOMEM:
        return NODE_RETRY;
    case -ERANGE:
        return NODE_RANGE;
    case -EINVAL:
    case -EMSGSIZE:
        return NODE_MALFORMED;
    default:
        return NODE_MEDIA;
    }
}

static bool is_connection_error(const struct weft_nvme_io *io)
{
    return io->status == 0 && (io->error == -ECONNRESET || io->error == -ETIMEDOUT);
}

static void on_complete(struct weft_nvme_io *io)
{
    struct nvme_request *request = io->context;
    struct nvme *nvme = request->nvme;
    struct ddm_command *command = request->command;
    list_push_tail(&nvme->free, &request->link);
    nvme->out_count--;
    if (is_connection_error(io)) {
        list_push_tail(&nvme->held, &command->link);
        return;
    }
    uint32_t detail = io->status != 0 ? io->status : (uint32_t)-io->error;
    ddm_command_finish(command, completion_of(io->error), detail);
}

static void io_fill(const struct nvme *nvme, struct nvme_request *request)
{
    static const enum weft_nvme_operation operations[NODE_DEVICE_OPERATION_COUNT] = {
        [NODE_READ] = WEFT_NVME_READ,
        [NODE_WRITE] = WEFT_NVME_WRITE,
        [NODE_FLUSH] = WEFT_NVME_FLUSH,
        [NODE_TRIM] = WEFT_NVME_TRIM,
        [NODE_WRITE_ZEROES] = WEFT_NVME_WRITE_ZEROES,
    };
    const struct ddm_command *command = request->command;
    bool has_data = command->operation == NODE_READ || command->operation == NODE_WRITE;
    bool may_fua = command->operation == NODE_WRITE || command->operation == NODE_WRITE_ZEROES;
    bool keeps = command->operation == NODE_WRITE_ZEROES && (command->flags & NODE_NO_HOLE) != 0;
    request->memory = (struct iovec){command->data, command->data_len};
    request->io = (struct weft_nvme_io){
        .operation = operations[command->operation],
        .flags = (may_fua && (command->flags & NODE_FUA) != 0 ? WEFT_NVME_FUA : 0) |
                 (keeps ? WEFT_NVME_NO_HOLE : 0),
        .nsid = nvme->ns.nsid,
        .offset = command->offset,
        .len = has_data ? command->data_len : command->len,
        .memory = &request->memory,
        .memory_count = 1,
        .on_complete = on_complete,
        .context = request};
}

// To the target, or kept until there is one.
static void command_submit(struct nvme *nvme, struct ddm_command *command)
{
    struct list_link *link = nvme->controller != NULL ? list_pop_head(&nvme->free) : NULL;
    if (link == NULL) {
        list_push_tail(&nvme->held, &command->link);
        return;
    }
    struct nvme_request *request = LIST_ENTRY(link, struct nvme_request, link);
    request->nvme = nvme;
    request->command = command;
    io_fill(nvme, request);
    int error = weft_nvme_submit(nvme->controller, &request->io);
    if (error == 0) {
        nvme->out_count++;
        return;
    }
    list_push_tail(&nvme->free, link);
    if (error == -EAGAIN || error == -ENOTCONN) {
        list_push_tail(&nvme->held, &command->link);
        nvme->has_more = true;
    } else {
        ddm_command_finish(command, completion_of(error), (uint32_t)-error);
    }
}

static int nvme_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct nvme *nvme = (struct nvme *)ddm;
    if (!list_is_empty(&nvme->held)) {
        list_push_tail(&nvme->held, &command->link); // behind those that came before
        return 0;
    }
    command_submit(nvme, command);
    return 0;
}

/* ---- progress -------------------------------------------------------------------------------- */

static int nvme_poll_fd(struct ddm *ddm)
{
    return ((struct nvme *)ddm)->epoll_fd;
}

static instant_ns nvme_next_deadline(struct ddm *ddm)
{
    const struct nvme *nvme = (const struct nvme *)ddm;
    if (nvme->controller == NULL) {
        return nvme->connect_at;
    }
    return nvme->has_more ? 0 : INSTANT_NEVER;
}

static void nvme_poll(struct ddm *ddm, instant_ns now)
{
    struct nvme *nvme = (struct nvme *)ddm;
    if (nvme->controller == NULL) {
        if (nvme->connect_at <= now) {
            reconnect(nvme, now);
        }
        return;
    }
    int completed = 1;
    for (unsigned i = 0; i < POLL_BATCH_MAX && completed > 0; i++) {
        completed = weft_nvme_poll(nvme->controller);
    }
    nvme->has_more = completed > 0;
    if (completed < 0) {
        on_lost(nvme, now);
    } else if (!list_is_empty(&nvme->held)) {
        held_submit(nvme);
    }
}

static void nvme_drain(struct ddm *ddm)
{
    struct nvme *nvme = (struct nvme *)ddm;
    while (nvme->controller != NULL && (nvme->out_count > 0 || !list_is_empty(&nvme->held))) {
        if (weft_nvme_wait(nvme->controller, DRAIN_WAIT_MS) < 0) {
            on_lost(nvme, nvme->ddm.host.clock(nvme->ddm.host.ctx));
        } else {
            held_submit(nvme);
        }
    }
    held_fail(nvme);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int nvme_probe(struct ddm *ddm, struct volume_profile *ret)
{
    struct nvme *nvme = (struct nvme *)ddm;
    struct why why;
    struct weft_nvme_namespace ns = nvme->ns;
    if (nvme->controller != NULL &&
        weft_nvme_identify(nvme->controller, ns.nsid, &ns, why.text) == 0 && is_same(nvme, &ns)) {
        nvme->ns = ns; // its size may have changed
    }
    const struct weft_nvme_info *info = &nvme->info;
    bool may_write = !nvme->ns.is_read_only;
    *ret = (struct volume_profile){
        .size = nvme->ns.len,
        .abilities = (may_write ? VOLUME_CAN_WRITE | VOLUME_CAN_FUA : 0) |
                     (info->has_volatile_cache ? VOLUME_CAN_FLUSH : 0) |
                     (may_write && info->can_trim ? VOLUME_CAN_TRIM : 0) |
                     (may_write && info->can_write_zeroes ? VOLUME_CAN_WRITE_ZEROES : 0),
        .block_size = nvme->ns.block_len,
        .alignment = nvme->ns.block_len,
        .preferred = nvme->ns.block_len > 4096 ? nvme->ns.block_len : 4096,
        .transfer_max = info->transfer_max_len,
        .range_max = nvme->range_max,
        .depth = info->depth,
    };
    snprintf(ret->driver, sizeof ret->driver, "%s", nvme->ddm.driver->name);
    snprintf(ret->model, sizeof ret->model, "%s", info->model);
    snprintf(ret->origin, sizeof ret->origin, "nvme:%s:%u", nvme->address.nqn, nvme->ns.nsid);
    return 0;
}

static void nvme_close(struct ddm *ddm)
{
    struct nvme *nvme = (struct nvme *)ddm;
    weft_nvme_disconnect(nvme->controller);
    if (nvme->epoll_fd >= 0) {
        close(nvme->epoll_fd);
    }
    free(nvme->requests);
    free(nvme);
}

static int target_read(struct nvme *nvme, const struct ddm_target *target, struct why *ret_why)
{
    char uri[URI_LEN];
    uint64_t depth = DEPTH_DEFAULT;
    snprintf(uri, sizeof uri, "%s:%s", nvme->ddm.driver->name, target->object);
    if (weft_nvme_address_parse(uri, &nvme->address, ret_why->text) != 0) {
        return -EINVAL;
    }
    if (nvme->address.nqn[0] == '\0') {
        why_say(ret_why, "it names no subsystem: //HOST[:PORT]/NQN[/NSID]");
        return -EINVAL;
    }
    nvme->patience = patience_default_ns;
    int error = parameter_duration(target, "patience", &nvme->patience, ret_why);
    if (error == 0) {
        error = parameter_size(target, "depth", &depth, ret_why);
    }
    if (error == 0 && (depth == 0 || depth > WEFT_NVME_DEPTH_MAX)) {
        why_say(ret_why, "depth must be 1 to %d", WEFT_NVME_DEPTH_MAX);
        return -EINVAL;
    }
    nvme->depth = (unsigned)depth;
    return error;
}

static int memory_take(struct nvme *nvme)
{
    nvme->requests = calloc(nvme->depth, sizeof *nvme->requests);
    if (nvme->requests == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < nvme->depth; i++) {
        list_push_tail(&nvme->free, &nvme->requests[i].link);
    }
    nvme->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return nvme->epoll_fd >= 0 ? 0 : -errno;
}

static int open_as(const struct ddm_driver *driver, const struct ddm_target *target,
                   const struct ddm_host *host, struct ddm **ret, struct why *ret_why)
{
    struct nvme *nvme = calloc(1, sizeof *nvme);
    if (nvme == NULL) {
        return -ENOMEM;
    }
    *nvme = (struct nvme){
        .ddm = {.driver = driver, .host = *host}, .epoll_fd = -1, .give_up_at = INSTANT_NEVER};
    list_init(&nvme->held);
    list_init(&nvme->free);
    int error = target_read(nvme, target, ret_why);
    if (error == 0) {
        error = memory_take(nvme);
        why_say(ret_why, "no memory, or no descriptors");
        error = error == 0 ? controller_open(nvme, ret_why) : error;
    }
    if (error != 0) {
        nvme_close(&nvme->ddm);
        return error;
    }
    *ret = &nvme->ddm;
    return 0;
}

static int nvme_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                     struct ddm **ret, struct why *ret_why)
{
    return open_as(&ddm_nvme, target, host, ret, ret_why);
}

static int nvme_tcp_open(const struct ddm_target *target, const struct ddm_host *host,
                         struct ddm *next, struct ddm **ret, struct why *ret_why)
{
    return open_as(&ddm_nvme_tcp, target, host, ret, ret_why);
}

const struct ddm_driver ddm_nvme = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "nvme+rdma",
    .summary = "a volume of an NVMe over RDMA target",
    .object = "//HOST[:PORT]/NQN[/NSID]",
    .keeps_pages = true,
    .fence = "none of ours: what has reached the target may go on there",
    .parameters = keys,
    .open = nvme_open,
    .probe = nvme_probe,
    .submit = nvme_submit,
    .poll_fd = nvme_poll_fd,
    .next_deadline = nvme_next_deadline,
    .poll = nvme_poll,
    .drain = nvme_drain,
    .close = nvme_close,
};

const struct ddm_driver ddm_nvme_tcp = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "nvme+tcp",
    .summary = "a volume of an NVMe over TCP target",
    .object = "//HOST[:PORT]/NQN[/NSID]",
    .keeps_pages = true,
    .fence = "none of ours: what has reached the target may go on there",
    .parameters = keys,
    .open = nvme_tcp_open,
    .probe = nvme_probe,
    .submit = nvme_submit,
    .poll_fd = nvme_poll_fd,
    .next_deadline = nvme_next_deadline,
    .poll = nvme_poll,
    .drain = nvme_drain,
    .close = nvme_close,
};

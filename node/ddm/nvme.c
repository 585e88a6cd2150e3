// nvme+rdma, nvme+tcp: a namespace of another target, by <weft/nvme.h>. Over RDMA the target reads
// and writes the pool itself, so data moves once. It reaches no more of the pool than the command
// under way names: the rest, which is other volumes' too, is never lent.
//
// A namespace may have several controllers, in several nodes (paths=): each is met and lost by
// itself (nvme_path.h), commands go by the best one (nvme_way.h), and nvme_paths.h has all of them.
//
// **Commands that were out** on a path that is lost are kept and sent again, by another path or by
// the same one: all of them may be carried out twice. A change goes by another path only once its
// old one is known to be quiet. Where there is no path, commands wait for one; after `patience`
// they fail.
//
// No fence: with the process or the connection the target loses the memory that it would read from,
// but a write whose data it has already goes on there, and nothing tells when it is over.

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/nvme.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/ddm/drivers.h"
#include "node/ddm/network.h"
#include "node/ddm/nvme_paths.h"
#include "node/ddm/nvme_way.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"

enum { DRAIN_WAIT_MS = 100 };

static const duration_ns look_every_ns = 100 * NS_PER_MS; // while commands wait for a path

// A command at the target.
struct nvme_request {
    struct nvme *nvme;
    unsigned path; // by which it went
    struct ddm_command *command;
    struct iovec memory;
    struct weft_nvme_io io;
    struct list_link link; // free
};

struct nvme {
    struct ddm ddm;
    struct nvme_paths paths;
    struct list_link held; // commands that are to be sent again, the oldest first
    struct list_link free;
    unsigned out_count;
    struct nvme_request *requests;
};

static const char *const keys[] = {"depth", "keep_alive", "paths", "patience", NULL};

static instant_ns clock_of(const struct nvme *nvme)
{
    return nvme->ddm.host.clock(nvme->ddm.host.ctx);
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
    case -EBADE:
        return NODE_RESERVED;
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

// By another path, or by this one when it is there again.
static void hold(struct nvme *nvme, struct nvme_request *request)
{
    struct ddm_command *command = request->command;
    bool is_lost = request->io.status == 0;
    bool is_unsure = is_lost && nvme_way_is_change(command->operation);
    list_push_tail(is_unsure ? &nvme->paths.each[request->path].unsure : &nvme->held,
                   &command->link);
}

static void on_complete(struct weft_nvme_io *io)
{
    struct nvme_request *request = io->context;
    struct nvme *nvme = request->nvme;
    list_push_tail(&nvme->free, &request->link);
    nvme->out_count--;
    if (is_connection_error(io)) {
        hold(nvme, request);
        return;
    }
    if (weft_nvme_is_path_status(io->status) && io->may_retry) {
        nvme_paths_failed(&nvme->paths, request->path);
        hold(nvme, request);
        return;
    }
    if (io->error == 0) {
        nvme_paths_heard(&nvme->paths, request->path);
    }
    uint32_t detail = io->status != 0 ? io->status : (uint32_t)-io->error;
    ddm_command_finish(request->command, completion_of(io->error), detail);
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
        .flags = WEFT_NVME_MORE | // nvme_flush_queue
                 (may_fua && (command->flags & NODE_FUA) != 0 ? WEFT_NVME_FUA : 0) |
                 (keeps ? WEFT_NVME_NO_HOLE : 0),
        .nsid = nvme->paths.facts.ns.nsid,
        .offset = command->offset,
        .len = has_data ? command->data_len : command->len,
        .memory = &request->memory,
        .memory_count = 1,
        .on_complete = on_complete,
        .context = request};
}

// By the path in use, or kept until there is one.
static void command_submit(struct nvme *nvme, struct ddm_command *command)
{
    int in_use = nvme->paths.in_use;
    struct list_link *link = in_use >= 0 ? list_pop_head(&nvme->free) : NULL;
    if (link == NULL) {
        list_push_tail(&nvme->held, &command->link);
        return;
    }
    struct nvme_request *request = LIST_ENTRY(link, struct nvme_request, link);
    request->nvme = nvme;
    request->path = (unsigned)in_use;
    request->command = command;
    io_fill(nvme, request);
    int error = weft_nvme_submit(nvme->paths.each[in_use].controller, &request->io);
    if (error == 0) {
        nvme->out_count++;
        return;
    }
    list_push_tail(&nvme->free, link);
    if (error == -EAGAIN || error == -ENOTCONN) {
        list_push_tail(&nvme->held, &command->link);
        nvme->paths.has_more = true;
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

static void nvme_flush_queue(struct ddm *ddm)
{
    struct nvme *nvme = (struct nvme *)ddm;
    if (nvme->paths.in_use >= 0) {
        weft_nvme_send(nvme->paths.each[nvme->paths.in_use].controller);
    }
}

static void held_submit(struct nvme *nvme)
{
    struct list_link waiting, *link;
    list_move_all(&waiting, &nvme->held);
    while ((link = list_pop_head(&waiting)) != NULL) {
        command_submit(nvme, LIST_ENTRY(link, struct ddm_command, link));
    }
    nvme_flush_queue(&nvme->ddm);
}

static void commands_fail(struct list_link *list)
{
    struct list_link waiting, *link;
    list_move_all(&waiting, list);
    while ((link = list_pop_head(&waiting)) != NULL) {
        ddm_command_finish(LIST_ENTRY(link, struct ddm_command, link), NODE_MEDIA, ENOTCONN);
    }
}

static void all_fail(struct nvme *nvme)
{
    for (unsigned i = 0; i < nvme->paths.count; i++) {
        commands_fail(&nvme->paths.each[i].unsure);
    }
    commands_fail(&nvme->held);
}

/* ---- progress -------------------------------------------------------------------------------- */

static int nvme_poll_fd(struct ddm *ddm)
{
    return ((struct nvme *)ddm)->paths.epoll_fd;
}

static instant_ns nvme_next_deadline(struct ddm *ddm)
{
    const struct nvme *nvme = (const struct nvme *)ddm;
    instant_ns at = nvme_paths_next_deadline(&nvme->paths);
    bool has_waiting = nvme->paths.in_use < 0 && !list_is_empty(&nvme->held);
    return has_waiting ? instant_min(at, instant_after(nvme->paths.now, look_every_ns)) : at;
}

static void nvme_poll(struct ddm *ddm, instant_ns now)
{
    struct nvme *nvme = (struct nvme *)ddm;
    nvme_paths_poll(&nvme->paths, now, &nvme->held);
    if (nvme->paths.give_up_at <= now) {
        all_fail(nvme); // and so does what comes meanwhile, but a path may come, too
    } else if (nvme->paths.in_use >= 0 && !list_is_empty(&nvme->held)) {
        held_submit(nvme);
    }
}

// A target of this host answers sooner than this process falls asleep and is woken.
static bool nvme_look_on(struct ddm *ddm, instant_ns now)
{
    struct nvme *nvme = (struct nvme *)ddm;
    int in_use = nvme->paths.in_use;
    bool has_news = nvme->out_count > 0 && in_use >= 0 &&
                    weft_nvme_wait(nvme->paths.each[in_use].controller, 0) != 0;
    if (has_news) {
        nvme_poll(ddm, now);
    }
    return has_news;
}

static void nvme_drain(struct ddm *ddm)
{
    struct nvme *nvme = (struct nvme *)ddm;
    while (nvme->out_count > 0 || (nvme->paths.in_use >= 0 && !list_is_empty(&nvme->held))) {
        struct pollfd ready = {.fd = nvme->paths.epoll_fd, .events = POLLIN};
        if (!nvme->paths.has_more) {
            poll(&ready, 1, DRAIN_WAIT_MS);
        }
        nvme_poll(ddm, clock_of(nvme));
    }
    all_fail(nvme);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int nvme_probe(struct ddm *ddm, struct volume_profile *ret)
{
    struct nvme *nvme = (struct nvme *)ddm;
    nvme_paths_size_look(&nvme->paths);
    const struct nvme_path_facts *facts = &nvme->paths.facts;
    const struct weft_nvme_info *info = &facts->info;
    uint32_t block_len = facts->ns.block_len;
    bool may_write = !facts->ns.is_read_only;
    *ret = (struct volume_profile){
        .size = facts->ns.len,
        .abilities = (may_write ? VOLUME_CAN_WRITE | VOLUME_CAN_FUA : 0) |
                     (info->has_volatile_cache ? VOLUME_CAN_FLUSH : 0) |
                     (may_write && info->can_trim ? VOLUME_CAN_TRIM : 0) |
                     (may_write && info->can_write_zeroes ? VOLUME_CAN_WRITE_ZEROES : 0),
        .block_size = block_len,
        .alignment = block_len,
        .preferred = block_len > 4096 ? block_len : 4096,
        .transfer_max = info->transfer_max_len,
        .range_max = facts->range_max,
        .depth = info->depth,
        .lineage = facts->lineage,
    };
    snprintf(ret->driver, sizeof ret->driver, "%s", nvme->ddm.driver->name);
    snprintf(ret->model, sizeof ret->model, "%s", info->model);
    snprintf(ret->origin, sizeof ret->origin, "nvme:%s:%u", info->nqn, facts->ns.nsid);
    return 0;
}

static void nvme_close(struct ddm *ddm)
{
    struct nvme *nvme = (struct nvme *)ddm;
    nvme_paths_close(&nvme->paths);
    free(nvme->requests);
    free(nvme);
}

static int memory_take(struct nvme *nvme, struct why *ret_why)
{
    unsigned depth = nvme->paths.each[0].depth;
    nvme->requests = calloc(depth, sizeof *nvme->requests);
    if (nvme->requests == NULL) {
        why_say(ret_why, "no memory for %u commands", depth);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < depth; i++) {
        list_push_tail(&nvme->free, &nvme->requests[i].link);
    }
    return 0;
}

static int open_as(const struct ddm_driver *driver, const struct ddm_target *target,
                   const struct ddm_host *host, struct ddm **ret, struct why *ret_why)
{
    struct nvme *nvme = calloc(1, sizeof *nvme);
    if (nvme == NULL) {
        why_say(ret_why, "no memory");
        return -ENOMEM;
    }
    nvme->ddm = (struct ddm){.driver = driver, .host = *host};
    list_init(&nvme->held);
    list_init(&nvme->free);
    int error = nvme_paths_open(&nvme->paths, driver->name, target, &nvme->ddm.host, ret_why);
    if (error == 0) {
        error = memory_take(nvme, ret_why);
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
    .calls = rnic_calls,
    .has_known_calls = network_rnic_is_known,
    .makes_threads = true,
    .reads_files = true,
    .open = nvme_open,
    .probe = nvme_probe,
    .submit = nvme_submit,
    .flush_queue = nvme_flush_queue,
    .poll_fd = nvme_poll_fd,
    .next_deadline = nvme_next_deadline,
    .poll = nvme_poll,
    .look_on = nvme_look_on,
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
    .calls = network_calls,
    .makes_threads = true,
    .reads_files = true,
    .open = nvme_tcp_open,
    .probe = nvme_probe,
    .submit = nvme_submit,
    .flush_queue = nvme_flush_queue,
    .poll_fd = nvme_poll_fd,
    .next_deadline = nvme_next_deadline,
    .poll = nvme_poll,
    .drain = nvme_drain,
    .close = nvme_close,
};

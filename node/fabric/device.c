// The RNICs that connections come over. Each has a protection domain, in which the
// pool is registered once for all connections, and one completion channel.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "base/lookout.h"
#include "base/time.h"
#include "base/why.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/loop/loop.h"

/* ---- completion events ----------------------------------------------------------------------- */

// A completion queue that was armed has something.
static void on_event(struct ibv_cq *cq, struct fabric_pair *p)
{
    ibv_ack_cq_events(cq, 1);
    p->device->event_count++;
    *(cq == p->recv_cq ? &p->is_recv_armed : &p->is_send_armed) = false;
    fabric_touch(p);
}

static void on_completions(void *ctx, uint32_t events)
{
    struct fabric_device *device = ctx;
    struct ibv_cq *cq;
    void *cq_context;
    while (ibv_get_cq_event(device->completions, &cq, &cq_context) == 0) {
        on_event(cq, cq_context);
    }
}

/* ---- the loop drives ------------------------------------------------------------------------- */

// What has come at the RNIC is done here and now, where its own thread would have to be woken first
// and then wake us.
static void drive(struct fabric_device *device)
{
    struct ibv_cq *cq;
    void *cq_context;
    device->drive.pass(device->completions);
    while (device->drive.event(device->completions, &cq, &cq_context) == 0) {
        on_event(cq, cq_context);
    }
}

static void on_rnic(void *ctx, uint32_t events)
{
    drive(ctx);
}

// Where it cannot be so, the RNIC's thread does it.
static void drive_begin(struct fabric_device *device)
{
    int fd = -1;
    if (weft_drive_find(&device->drive)) {
        fd = device->drive.begin(device->completions);
    }
    if (fd >= 0) {
        device->drive_watch = loop_watch(device->fabric->parts.loop, fd, EPOLLIN, on_rnic, device);
    }
    if (fd >= 0 && device->drive_watch == NULL) {
        device->drive.end(device->completions);
    }
}

// An answer brings the peer's next message, within one host sooner than a process falls asleep and
// is woken.
static bool lingers(struct fabric_device *device)
{
    instant_ns now = loop_clock();
    return lookout_goes_on(&device->lookout, device->event_count, now) &&
           loop_give_way(&device->lookout, now);
}

bool fabric_devices_may_sleep(struct fabric *fabric)
{
    bool may_sleep = true;
    for (struct list_link *l = fabric->devices.next; l != &fabric->devices; l = l->next) {
        struct fabric_device *device = LIST_ENTRY(l, struct fabric_device, link);
        if (device->drive_watch != NULL) {
            device->may_wait = !lingers(device) && device->drive.may_wait(device->completions) != 0;
            may_sleep &= device->may_wait;
        }
    }
    return may_sleep;
}

void fabric_devices_wake(struct fabric *fabric)
{
    for (struct list_link *l = fabric->devices.next; l != &fabric->devices; l = l->next) {
        struct fabric_device *device = LIST_ENTRY(l, struct fabric_device, link);
        if (!device->may_wait) {
            drive(device);
        }
        device->may_wait = device->drive_watch == NULL; // it may not have been asked before
    }
}

/* ---- made ------------------------------------------------------------------------------------ */

static struct ibv_comp_channel *channel_create(struct ibv_context *verbs)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(verbs);
    if (channel != NULL) {
        fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    }
    return channel;
}

// A foreign iWARP's RDMA Read goes to memory that the peer may write to. weft's does without that
// right: its sink STags are open for the very answer alone.
static unsigned sink_access_of(const struct fabric_device *device)
{
    bool is_foreign_iwarp =
        device->verbs->device->transport_type == IBV_TRANSPORT_IWARP && !device->has_oneshot;
    return IBV_ACCESS_LOCAL_WRITE | (is_foreign_iwarp ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0);
}

// The part as it is now. False: it cannot be.
static bool part_register(struct fabric_device *device, uint32_t unit)
{
    const struct fabric_parts *parts = &device->fabric->parts;
    struct fabric_part *part = &device->parts[unit];
    if (part->mr != NULL) {
        ibv_dereg_mr(part->mr);
    }
    part->mr = ibv_reg_mr(device->pd, node_pool_part(&parts->pool, unit), parts->pool.len,
                          (int)device->sink_access);
    part->generation = part->mr != NULL ? parts->pool.generations[unit] : 0;
    // weft finds memory by its address, others keep the pages that were there.
    *parts->pool_is_pinned |= part->mr != NULL && !device->has_oneshot;
    return part->mr != NULL;
}

// What there is by now, so that who has not enough is refused at the door.
static bool parts_register(struct fabric_device *device)
{
    const uint32_t *generations = device->fabric->parts.pool.generations;
    for (uint32_t unit = 0; unit < NODE_UNIT_COUNT_MAX; unit++) {
        if (generations[unit] != 0 && !part_register(device, unit)) {
            return false;
        }
    }
    return true;
}

uint32_t fabric_device_lkey(struct fabric_device *device, uint32_t unit)
{
    const struct fabric_part *part = &device->parts[unit];
    bool is_there = part->generation == device->fabric->parts.pool.generations[unit] ||
                    part_register(device, unit);
    return is_there ? part->mr->lkey : 0; // a key of nothing: the transfer fails
}

static bool device_open(struct fabric_device *device, struct why *ret_why)
{
    const struct fabric_parts *parts = &device->fabric->parts;
    struct ibv_device_attr attr;
    const char *what = "its limits cannot be had";
    if (ibv_query_device(device->verbs, &attr) == 0) {
        device->can_invalidate =
            (attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0 || device->has_oneshot;
        device->pd = ibv_alloc_pd(device->verbs);
        what = device->pd != NULL
                   ? "the pool cannot be registered (ulimit -l is too low, or --pool "
                     "too large)"
                   : "it has no protection domain";
    }
    if (device->pd != NULL && parts_register(device)) {
        device->completions = channel_create(device->verbs);
        what = "it has no completion channel";
    }
    if (device->completions != NULL) {
        device->watch =
            loop_watch(parts->loop, device->completions->fd, EPOLLIN, on_completions, device);
    }
    if (device->watch == NULL) {
        why_say(ret_why, "%s: %s", what, strerror(errno));
        return false;
    }
    drive_begin(device);
    return true;
}

void fabric_device_destroy(struct fabric_device *device)
{
    list_remove(&device->link);
    if (device->drive_watch != NULL) {
        device->drive.end(device->completions);
    }
    loop_unwatch(device->drive_watch);
    loop_unwatch(device->watch);
    if (device->completions != NULL) {
        ibv_destroy_comp_channel(device->completions);
    }
    for (unsigned i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        if (device->parts[i].mr != NULL) {
            ibv_dereg_mr(device->parts[i].mr);
        }
    }
    if (device->pd != NULL) {
        ibv_dealloc_pd(device->pd);
    }
    free(device);
}

struct fabric_device *fabric_device_find(struct fabric *fabric, struct ibv_context *verbs,
                                         struct why *ret_why)
{
    for (struct list_link *l = fabric->devices.next; l != &fabric->devices; l = l->next) {
        struct fabric_device *device = LIST_ENTRY(l, struct fabric_device, link);
        if (device->verbs == verbs) {
            return device;
        }
    }
    struct fabric_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        why_say(ret_why, "no memory");
        return NULL;
    }
    *device = (struct fabric_device){.fabric = fabric, .verbs = verbs, .may_wait = true};
    device->has_oneshot = weft_oneshot_find(&device->oneshot);
    device->sink_access = sink_access_of(device);
    list_init(&device->link);
    if (!device_open(device, ret_why)) {
        fabric_device_destroy(device);
        return NULL;
    }
    list_push_tail(&fabric->devices, &device->link);
    return device;
}

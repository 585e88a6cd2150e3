#include "node/unit/runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/lookout.h"
#include "base/time.h"
#include "node/ddm/registry.h"
#include "node/interface/cta_rta.h"
#include "node/interface/request.h"
#include "node/rta/formats.h"
#include "node/rta/rta.h"
#include "node/unit/channel.h"
#include "node/unit/confinement.h"

enum {
    DEVICE_COUNT_MAX = NODE_VOLUME_COUNT_MAX,
    BELL_BATCH = 256, // rings that are left in the pipe, which has room for thousands
};

struct device {
    struct runner *runner;
    int fd;
    struct ddm *ddm;
    struct loop_watch *watch;
};

struct runner {
    struct runner_parts parts;
    struct rta *rta;
    struct bus_end bus;
    bool has_ended;
    bool has_unsaid; // an answer that the socket had no room for: no more is read before it is out
    struct unit_message unsaid;
    int unsaid_keepsake;    // the device's
    unsigned bell_count;    // since the pipe was emptied
    uint64_t request_count; // that have come
    struct lookout lookout; // for the next one
    struct loop_member member;
    struct loop_watch *channel_watch;
    struct loop_watch *bell_watch;
    struct device devices[DEVICE_COUNT_MAX];
};

static void end(struct runner *r)
{
    if (r->has_ended) {
        return;
    }
    r->has_ended = true;
    if (r->parts.is_in_host) {
        r->parts.on_end(r->parts.ctx);
    } else {
        loop_stop(r->parts.loop);
    }
}

/* ---- ports of the RTA ------------------------------------------------------------------------ */

static bool port_send(void *ctx, const struct frame *frame)
{
    return bus_send(&((struct runner *)ctx)->bus, frame);
}

// A host of the same loop looks at the bus in any case before that sleeps.
static void port_ring(void *ctx)
{
    struct runner *r = ctx;
    if (!r->parts.is_in_host && bus_should_ring(&r->bus)) {
        eventfd_t one = 1;
        ssize_t written = write(r->parts.bell_cta, &one, sizeof one);
        (void)written; // a full counter rings as well
    }
}

static bool port_receive(void *ctx, struct frame *ret)
{
    struct runner *r = ctx;
    bool has_come = bus_receive(&r->bus, ret);
    r->request_count += has_come && ret->kind == FRAME_REQUEST;
    return has_come;
}

static int port_say(void *ctx, const struct unit_message *message, int keepsake)
{
    struct runner *r = ctx;
    if (r->has_unsaid) {
        return -EAGAIN; // not asked for: no more is read before the answer is out
    }
    int error = channel_send(r->parts.channel, message, keepsake);
    if (error == -EAGAIN) {
        r->has_unsaid = true;
        r->unsaid = *message;
        r->unsaid_keepsake = keepsake;
        loop_watch_change(r->channel_watch, EPOLLOUT);
        return 0;
    }
    return error;
}

static instant_ns part_clock(void *ctx)
{
    return loop_clock();
}

// Who waits for another node hears of no socket: it ends with its host all the same.
static void part_on_waiting(void *ctx, bool waits)
{
    const struct runner *r = ctx;
    struct pollfd channel = {.fd = r->parts.channel};
    prctl(PR_SET_PDEATHSIG, waits ? SIGKILL : 0);
    if (waits && poll(&channel, 1, 0) == 1 && (channel.revents & POLLHUP) != 0) {
        exit(EXIT_SUCCESS); // it is gone already
    }
}

static void part_say(void *ctx, const char *line)
{
    fprintf(stderr, "weft: %s\n", line);
}

static void part_drop(void *ctx, int keepsake)
{
    channel_drop(keepsake);
}

static void part_on_only(void *ctx, const struct ddm *chain)
{
    confinement_narrow(chain);
}

static void on_device(void *ctx, uint32_t events)
{
    struct device *device = ctx;
    rta_on_device(device->runner->rta, device->ddm, loop_now(device->runner->parts.loop));
}

static void part_watch(void *ctx, int fd, struct ddm *ddm)
{
    struct runner *r = ctx;
    for (unsigned i = 0; i < DEVICE_COUNT_MAX; i++) {
        struct device *device = &r->devices[i];
        if (device->watch == NULL) {
            *device = (struct device){.runner = r, .fd = fd, .ddm = ddm};
            device->watch = loop_watch(r->parts.loop, fd, EPOLLIN, on_device, device);
            return;
        }
    }
}

static void part_unwatch(void *ctx, int fd)
{
    struct runner *r = ctx;
    for (unsigned i = 0; i < DEVICE_COUNT_MAX; i++) {
        if (r->devices[i].watch != NULL && r->devices[i].fd == fd) {
            loop_unwatch(r->devices[i].watch);
            r->devices[i].watch = NULL;
        }
    }
}

/* ---- before a sleep -------------------------------------------------------------------------- */

// What has been answered brings the client's next request, often sooner than a process falls asleep
// and is woken: so it is looked for. True: frames have come. The host does the same for answers
// (host/linger.c).
static bool looks_for_requests(struct runner *r)
{
    instant_ns now = loop_clock();
    bool goes_on = lookout_goes_on(&r->lookout, r->request_count, now);
    while (goes_on && !bus_has_frames(&r->bus)) {
        goes_on = loop_give_way(&r->lookout, now);
        now = loop_clock();
        goes_on = goes_on && lookout_goes_on(&r->lookout, r->request_count, now);
    }
    return goes_on;
}

// A device that is waited for speaks by a descriptor, and some drivers know sooner. One loop with
// the host needs to look for nothing else.
static bool lingers(struct runner *r)
{
    if (rta_awaits_device(r->rta)) {
        return rta_look_on(r->rta, loop_clock());
    }
    return !r->parts.is_in_host && looks_for_requests(r);
}

/* ---- events ---------------------------------------------------------------------------------- */

// Watched by edges, so that a ring need not be read: the batch's end looks at the bus.
static void on_bell(void *ctx, uint32_t events)
{
    struct runner *r = ctx;
    char rings[4096];
    if (++r->bell_count == BELL_BATCH) {
        r->bell_count = 0;
        while (read(r->parts.bell_rta, rings, sizeof rings) == sizeof rings) {
        }
    }
}

// The answer that waits. False: it still does.
static bool unsaid_say(struct runner *r)
{
    if (r->has_unsaid &&
        channel_send(r->parts.channel, &r->unsaid, r->unsaid_keepsake) == -EAGAIN) {
        return false;
    }
    if (r->has_unsaid) {
        r->has_unsaid = false;
        loop_watch_change(r->channel_watch, EPOLLIN);
    }
    return true;
}

// Each message has one answer at most: who does not read answers is not read from.
static void on_channel(void *ctx, uint32_t events)
{
    struct runner *r = ctx;
    struct unit_message message;
    int keepsake = -1, got = -EAGAIN;
    while (unsaid_say(r) && (got = channel_receive(r->parts.channel, &message, &keepsake)) > 0) {
        if (!rta_on_message(r->rta, &message, keepsake, loop_now(r->parts.loop))) {
            end(r);
            return;
        }
    }
    if (got <= 0 && got != -EAGAIN && got != -EINTR) {
        end(r);
    }
}

static void leave_broken_bus(struct runner *r)
{
    fputs("weft: RTA: what the host put on the bus makes no sense\n", stderr);
    end(r);
}

static void on_batch_end(void *ctx, instant_ns now)
{
    struct runner *r = ctx;
    if (!r->has_ended && (!rta_on_bus(r->rta, now) || bus_is_broken(&r->bus))) {
        leave_broken_bus(r);
    }
    if (rta_is_drained(r->rta)) {
        end(r);
    }
}

static bool may_sleep(void *ctx)
{
    struct runner *r = ctx;
    return !lingers(r) && bus_sleep(&r->bus);
}

static void on_wake(void *ctx)
{
    bus_wake(&((struct runner *)ctx)->bus);
}

static instant_ns next_deadline(void *ctx)
{
    return rta_next_deadline(((struct runner *)ctx)->rta);
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct runner *r = ctx;
    if (!rta_on_deadline(r->rta, now) && !r->has_ended) {
        leave_broken_bus(r);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static const struct io_format *const formats[] = {&io_format_ata, &io_format_scsi, NULL};

static struct rta *agent_create(struct runner *r)
{
    struct rta_parts parts = {
        .bus = {.ctx = r, .send = port_send, .ring = port_ring, .receive = port_receive},
        .uma = {.ctx = r, .send = port_say},
        .pool = r->parts.pool.ptr,
        .pool_len = r->parts.pool.len,
        .is_alone = !r->parts.is_in_host,
        .landlock = r->parts.landlock,
        .on_only = r->parts.is_in_host ? NULL : part_on_only,
        .on_waiting = r->parts.is_in_host ? NULL : part_on_waiting,
        .formats = formats,
        .ddm_open = r->parts.is_in_host ? ddm_registry_open_in_host : ddm_registry_open,
        .ctx = r,
        .clock = part_clock,
        .say = part_say,
        .drop = part_drop,
        .watch = part_watch,
        .unwatch = part_unwatch,
    };
    return rta_create(&parts);
}

static void parts_close(struct runner_parts *parts)
{
    close(parts->channel);
    close(parts->bell_rta);
    close(parts->bell_cta);
    if (!parts->is_in_host) {
        segment_close(&parts->pool);
        segment_close(&parts->bus);
    }
}

struct runner *runner_create(const struct runner_parts *parts)
{
    struct runner *r = calloc(1, sizeof *r);
    if (r == NULL) {
        struct runner_parts mine = *parts;
        parts_close(&mine);
        return NULL;
    }
    r->parts = *parts;
    bus_end_init(&r->bus, parts->bus.ptr, false);
    r->rta = agent_create(r);
    r->member = (struct loop_member){.ctx = r,
                                     .on_batch_end = on_batch_end,
                                     .may_sleep = may_sleep,
                                     .on_wake = on_wake,
                                     .next_deadline = next_deadline,
                                     .on_deadline = on_deadline};
    loop_join(parts->loop, &r->member);
    r->channel_watch = loop_watch(parts->loop, parts->channel, EPOLLIN, on_channel, r);
    r->bell_watch = loop_watch(parts->loop, parts->bell_rta, EPOLLIN | EPOLLET, on_bell, r);
    if (r->rta == NULL || r->channel_watch == NULL || r->bell_watch == NULL) {
        runner_destroy(r);
        return NULL;
    }
    rta_start(r->rta);
    return r;
}

void runner_destroy(struct runner *r)
{
    loop_leave(r->parts.loop, &r->member);
    for (unsigned i = 0; i < DEVICE_COUNT_MAX; i++) {
        loop_unwatch(r->devices[i].watch);
    }
    loop_unwatch(r->channel_watch);
    loop_unwatch(r->bell_watch);
    if (r->rta != NULL) {
        rta_destroy(r->rta);
    }
    parts_close(&r->parts);
    free(r);
}

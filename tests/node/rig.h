// A CTA and an RTA on a bus of tests, with a TTS and a device that do what the test says, and a
// trace of all that is said between them.
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "node/cta/cta.h"
#include "node/rta/rta.h"
#include "tests/node/fake_bus.h"
#include "tests/pages.h"

enum {
    RIG_POOL_LEN = 2 * NODE_TRANSFER_MAX,
    RIG_VOLUME_LEN = 1 << 20,
    RIG_TRACE_MAX = 8192,
    RIG_COMMAND_MAX = 6000,
    RIG_VOLUME = 1,
    RIG_UNIT = 0,
    RIG_CONNECTION = (1 << NODE_CONNECTION_SLOT_BITS) | 5,
};

struct rig;

struct rig_device {
    struct ddm ddm;
    struct rig *rig;
};

struct rig {
    struct fake_bus bus;
    struct frame_port cta_port, rta_port; // of the bus, with the trace before them
    struct cta *cta;
    struct rta *rta;
    uint8_t *pool;
    instant_ns now;
    unsigned gave_up; // how often its process was told that no other device follows

    // The device: of memory; commands wait in `held` if it holds.
    uint8_t volume[RIG_VOLUME_LEN];
    bool holds;
    duration_ns device_takes_ns; // for a command
    bool answers_looks;          // ends one that it holds, when it is looked on for
    struct ddm_command *held[RIG_COMMAND_MAX];
    unsigned held_count;
    uint32_t transfer_max, depth, abilities;
    bool may_lose;
    unsigned window_asked, window_misses; // of reads by the window, and so many to come
    duration_ns window_takes_ns;
    enum node_completion device_says;
    unsigned device_says_count; // so often, then NODE_OK
    bool is_dumb;               // probing fails

    // The TTS: answers transfers at once unless it is slow.
    bool is_slow;
    struct service_request *transfers[RIG_COMMAND_MAX];
    unsigned transfer_count;
    unsigned completed, transferred;
    enum node_completion last_completion;

    // The UMA.
    enum connect_status route_status;
    unsigned route_answers;
    const char *broken;
    uint64_t (*reservations_store)(void *ctx); // set between rig_create and the first reservation
    struct unit_message said;                  // by the RTA, last
    char trace[RIG_TRACE_MAX];
};

static inline void rig_note(struct rig *rig, const char *format, ...)
{
    size_t len = strlen(rig->trace);
    va_list args;
    va_start(args, format);
    vsnprintf(rig->trace + len, sizeof rig->trace - len, format, args);
    va_end(args);
}

/* ---- the bus --------------------------------------------------------------------------------- */

static const char *const rig_kinds[] = {"?", "request", "result", "completion", "ack"};

static inline bool rig_cta_send(void *ctx, const struct frame *frame)
{
    struct rig *rig = ctx;
    rig_note(rig, "CTA>RTA %s\n", rig_kinds[frame->kind]);
    return fake_bus_send(&rig->bus.cta, frame);
}

static inline bool rig_rta_send(void *ctx, const struct frame *frame)
{
    struct rig *rig = ctx;
    rig_note(rig, "RTA>CTA %s\n", rig_kinds[frame->kind]);
    return fake_bus_send(&rig->bus.rta, frame);
}

static inline void rig_cta_ring(void *ctx)
{
    fake_bus_ring(&((struct rig *)ctx)->bus.cta);
}

static inline void rig_rta_ring(void *ctx)
{
    fake_bus_ring(&((struct rig *)ctx)->bus.rta);
}

static inline bool rig_cta_receive(void *ctx, struct frame *ret)
{
    return fake_bus_receive(&((struct rig *)ctx)->bus.cta, ret);
}

static inline bool rig_rta_receive(void *ctx, struct frame *ret)
{
    return fake_bus_receive(&((struct rig *)ctx)->bus.rta, ret);
}

/* ---- the device ------------------------------------------------------------------------------ */

static inline int rig_probe(struct ddm *ddm, struct volume_profile *ret)
{
    const struct rig *rig = ((struct rig_device *)ddm)->rig;
    *ret = (struct volume_profile){.size = RIG_VOLUME_LEN,
                                   .abilities = rig->abilities,
                                   .block_size = 512,
                                   .alignment = 1,
                                   .preferred = 4096,
                                   .transfer_max = rig->transfer_max,
                                   .range_max = 1 << 16,
                                   .depth = rig->depth,
                                   .driver = "rig"};
    return rig->is_dumb ? -EIO : 0;
}

static inline void rig_carry_out(struct rig *rig, struct ddm_command *command)
{
    rig->now += rig->device_takes_ns;
    if (rig->device_says_count > 0) {
        rig->device_says_count--;
        ddm_command_finish(command, rig->device_says, 5);
        return;
    }
    if (command->operation == NODE_READ) {
        memcpy(command->data, rig->volume + command->offset, command->len);
    } else if (command->operation == NODE_WRITE) {
        memcpy(rig->volume + command->offset, command->data, command->len);
    } else if (command->operation == NODE_WRITE_ZEROES) {
        memset(rig->volume + command->offset, 0, command->len);
    }
    ddm_command_finish(command, NODE_OK, 0);
}

static inline int rig_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct rig *rig = ((struct rig_device *)ddm)->rig;
    rig_note(rig, "RTA>DDM %s\n", node_operation_facts(command->operation)->name);
    if (rig->holds) {
        rig->held[rig->held_count++] = command;
    } else {
        rig_carry_out(rig, command);
    }
    return 0;
}

static inline int rig_poll_fd(struct ddm *ddm)
{
    return -1;
}

static inline void rig_poll(struct ddm *ddm, instant_ns now)
{
}

static inline bool rig_look_on(struct ddm *ddm, instant_ns now)
{
    struct rig *rig = ((struct rig_device *)ddm)->rig;
    if (rig->answers_looks) {
        rig_carry_out(rig, rig->held[--rig->held_count]);
    }
    return rig->answers_looks;
}

static inline void rig_drain(struct ddm *ddm)
{
}

static inline void rig_close(struct ddm *ddm)
{
    free(ddm);
}

static const struct ddm_driver rig_driver = {.version = DDM_VERSION,
                                             .self_size = sizeof(struct ddm_driver),
                                             .name = "rig",
                                             .probe = rig_probe,
                                             .submit = rig_submit,
                                             .poll_fd = rig_poll_fd,
                                             .poll = rig_poll,
                                             .look_on = rig_look_on,
                                             .drain = rig_drain,
                                             .close = rig_close};
static const struct ddm_driver rig_lossy_driver = {.version = DDM_VERSION,
                                                   .self_size = sizeof(struct ddm_driver),
                                                   .name = "rig",
                                                   .may_lose = true,
                                                   .probe = rig_probe,
                                                   .submit = rig_submit,
                                                   .poll_fd = rig_poll_fd,
                                                   .poll = rig_poll,
                                                   .drain = rig_drain,
                                                   .close = rig_close};

// The rig that opens devices now: `ddm_open` has no context of its own.
static struct rig *rig_opening;

static inline int rig_open(const char *uri, const struct ddm_host *host, struct ddm **ret,
                           struct why *ret_why)
{
    struct rig_device *device = calloc(1, sizeof *device);
    device->rig = rig_opening;
    device->ddm.driver = rig_opening->may_lose ? &rig_lossy_driver : &rig_driver;
    device->ddm.host = *host;
    *ret = &device->ddm;
    return 0;
}

/* ---- the TTS --------------------------------------------------------------------------------- */

static inline void rig_transfer(void *ctx, struct service_request *request, instant_ns now)
{
    struct rig *rig = ctx;
    rig_note(rig, "CTA>TTS transfer\n");
    if (rig->is_slow) {
        rig->transfers[rig->transfer_count++] = request;
        return;
    }
    rig->transferred++;
    rig_note(rig, "TTS>CTA transferred\n");
    cta_for_tts.transferred(rig->cta, request, NODE_OK, now);
}

static inline void rig_complete(void *ctx, struct service_request *request, instant_ns now)
{
    struct rig *rig = ctx;
    rig_note(rig, "CTA>TTS complete %s\n", node_completion_name(request->completion));
    rig->completed++;
    rig->last_completion = request->completion;
}

static const struct tts_for_cta rig_tts = {.transfer = rig_transfer, .complete = rig_complete};

/* ---- the UMA --------------------------------------------------------------------------------- */

static inline void rig_on_route(void *ctx, uint32_t connection, enum connect_status status)
{
    struct rig *rig = ctx;
    rig->route_status = status;
    rig->route_answers++;
}

static inline void rig_on_broken(void *ctx, uint32_t unit, const char *why)
{
    ((struct rig *)ctx)->broken = why;
}

static const struct uma_for_cta rig_uma = {.on_route = rig_on_route,
                                           .on_unit_broken = rig_on_broken};

static inline int rig_say(void *ctx, const struct unit_message *message, int keepsake)
{
    ((struct rig *)ctx)->said = *message;
    return 0;
}

/* ---- putting it together --------------------------------------------------------------------- */

static inline instant_ns rig_clock(void *ctx)
{
    return ((struct rig *)ctx)->now;
}

static inline void rig_watch(void *ctx, int fd, struct ddm *ddm)
{
}

static inline void rig_unwatch(void *ctx, int fd)
{
}

static char rig_last_line[256]; // that an RTA said to the operator

static inline void rig_say_line(void *ctx, const char *line)
{
    snprintf(rig_last_line, sizeof rig_last_line, "%s", line);
}

static inline void rig_on_only(void *ctx, const struct ddm *chain)
{
    ((struct rig *)ctx)->gave_up++;
}

static inline struct unit_message *rig_tell(struct rig *rig, struct unit_message message)
{
    memset(&rig->said, 0, sizeof rig->said);
    assert_true(rta_on_message(rig->rta, &message, -1, rig->now));
    return &rig->said;
}

// A process of the RTA that has opened the volume and knows the connection.
static inline void rig_rta_start(struct rig *rig)
{
    static const struct io_format *const formats[] = {NULL};
    struct rta_parts parts = {.bus = rig->rta_port,
                              .uma = {.ctx = rig, .send = rig_say},
                              .pool = rig->pool,
                              .pool_len = RIG_POOL_LEN,
                              .formats = formats,
                              .ddm_open = rig_open,
                              .ctx = rig,
                              .clock = rig_clock,
                              .on_only = rig_on_only,
                              .say = rig_say_line,
                              .watch = rig_watch,
                              .unwatch = rig_unwatch};
    rig_opening = rig;
    rig->rta = rta_create(&parts);
    assert_non_null(rig->rta);
    rig_tell(rig, (struct unit_message){.kind = UNIT_OPEN, .volume = RIG_VOLUME});
    assert_int_equal(rig->said.error, 0);
    rig_tell(rig, (struct unit_message){.kind = UNIT_CONNECTION_ADD,
                                        .volume = RIG_VOLUME,
                                        .connection = RIG_CONNECTION});
    assert_int_equal(rig->said.error, 0);
}

// The process is gone with all it held, the bus is new.
static inline void rig_rta_kill(struct rig *rig)
{
    cta_for_uma.unit_lost(rig->cta, RIG_UNIT, rig->now);
    rta_destroy(rig->rta);
    rig->rta = NULL;
    rig->held_count = 0;
    rig->bus.count[0] = rig->bus.count[1] = 0;
}

// The read window: the device's memory, as its page cache.
static inline bool rig_window_read(void *ctx, int fd, uint64_t offset, void *data, uint32_t len)
{
    struct rig *rig = ctx;
    rig->window_asked++;
    if (rig->window_misses > 0) {
        rig->window_misses--;
        return false;
    }
    memcpy(data, rig->volume + offset, len);
    rig->now += rig->window_takes_ns;
    return true;
}

static inline uint64_t rig_reservations_store(void *ctx)
{
    return ((struct rig *)ctx)->reservations_store(ctx);
}

// What a test has of the units' parts of the pool; NULL: memory is there.
static bool (*rig_parts_make)(void *ctx, uint32_t unit) __attribute__((unused));
static void (*rig_parts_drop)(void *ctx, uint32_t unit) __attribute__((unused));
static void (*rig_parts_trim)(void *ctx, uint32_t unit, uint64_t offset, uint64_t len)
    __attribute__((unused));

static inline struct rig *rig_create(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    fake_bus_init(&rig->bus, 1, 0, 0);
    rig->pool = pages_create(RIG_POOL_LEN);
    rig->now = 1;
    rig->transfer_max = NODE_TRANSFER_MAX;
    rig->depth = 64;
    rig->abilities =
        VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_TRIM | VOLUME_CAN_FLUSH;
    rig->cta_port = (struct frame_port){
        .ctx = rig, .send = rig_cta_send, .ring = rig_cta_ring, .receive = rig_cta_receive};
    rig->rta_port = (struct frame_port){
        .ctx = rig, .send = rig_rta_send, .ring = rig_rta_ring, .receive = rig_rta_receive};
    struct cta_parts parts = {.reservations_store = rig_reservations_store,
                              .reservations_ctx = rig,
                              .pool = {.ptr = rig->pool, .len = RIG_POOL_LEN},
                              .uma = &rig_uma,
                              .uma_ctx = rig,
                              .ctx = rig,
                              .part_make = rig_parts_make,
                              .part_drop = rig_parts_drop,
                              .part_trim = rig_parts_trim,
                              .window_read = rig_window_read,
                              .clock = rig_clock};
    rig->cta = cta_create(&parts);
    assert_non_null(rig->cta);
    assert_true(cta_for_uma.unit_add(rig->cta, RIG_UNIT, rig->cta_port));
    return rig;
}

static inline struct client_route rig_route(struct rig *rig, uint32_t connection)
{
    return (struct client_route){.connection = connection,
                                 .volume = RIG_VOLUME,
                                 .unit = RIG_UNIT,
                                 .tts = &rig_tts,
                                 .tts_ctx = rig};
}

// A rig whose connection is there and whose unit is ready.
static inline struct rig *rig_ready(void)
{
    struct rig *rig = rig_create();
    rig_rta_start(rig);
    struct client_route route = rig_route(rig, RIG_CONNECTION);
    cta_for_uma.route_add(rig->cta, &route);
    assert_int_equal(rig->route_status, CONNECT_OK);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig->trace[0] = '\0';
    return rig;
}

static inline void rig_destroy(struct rig *rig)
{
    assert_true(cta_check(rig->cta));
    cta_destroy(rig->cta);
    if (rig->rta != NULL) {
        rta_destroy(rig->rta);
    }
    pages_destroy(rig->pool, RIG_POOL_LEN);
    free(rig);
}

static inline struct service_request rig_request(unsigned operation, uint64_t offset, uint64_t len)
{
    bool has_data = operation == NODE_READ || operation == NODE_WRITE;
    return (struct service_request){.connection = RIG_CONNECTION,
                                    .operation = (uint8_t)operation,
                                    .offset = offset,
                                    .len = len,
                                    .data_len = has_data ? (uint32_t)len : 0,
                                    .deadline = INSTANT_NEVER};
}

static inline void rig_submit_request(struct rig *rig, struct service_request *request)
{
    rig_note(rig, "TTS>CTA submit %s\n", node_operation_facts(request->operation)->name);
    cta_for_tts.submit(rig->cta, request, rig->now);
}

// Both agents take what there is, until nothing moves.
static inline void rig_run(struct rig *rig)
{
    unsigned before;
    do {
        before = rig->bus.count[0] + rig->bus.count[1];
        cta_on_bus(rig->cta, RIG_UNIT, rig->now);
        cta_flush(rig->cta, rig->now);
        if (rig->rta != NULL) {
            assert_true(rta_on_bus(rig->rta, rig->now));
        }
    } while (rig->bus.count[0] + rig->bus.count[1] > 0 || before > 0);
}

// Lets the device carry out the command that it holds at `index`, and forgets it.
static inline void rig_release(struct rig *rig, unsigned index)
{
    struct ddm_command *command = rig->held[index];
    rig->held[index] = rig->held[--rig->held_count];
    rig_carry_out(rig, command);
}

// A remote transport agent with the test in the place of the UMA, the CTA and the devices.
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/rta/rta.h"
#include "tests/node/fake_bus.h"

enum {
    POOL_LEN = 1 << 20,
    SAID_MAX = 16,
    VOLUME = 7,
    CONNECTION = (3 << NODE_CONNECTION_SLOT_BITS) | 9,
    BLOCK = 512,
};

// What is said is kept; what devices do is as the test has it.
struct stage {
    struct rta *rta;
    struct fake_bus bus;
    uint8_t pool[POOL_LEN];
    instant_ns now;

    struct unit_message said[SAID_MAX];
    int said_keepsakes[SAID_MAX];
    unsigned said_count;
    int send_error;

    // The next device that is opened.
    struct volume_profile profile;
    int probe_error, open_error, poll_fd;
    int keeps, lends; // -1: nothing
    bool stands_by, has_filter, holds;
    struct ddm_host host; // that it was given
    char uri[64];

    struct ddm_command *held;
    struct ddm *opened; // the last: that at the end of its chain
    unsigned open_count, probe_count, closed_count, drained_count, polled_count;
    instant_ns polled_at, ends_at;

    int watched_fd, unwatched_fd;
    struct ddm *watched;
    const struct ddm *only;
    char waiting[8]; // how on_waiting was called: w, and g when it goes on
    char line[256];
    int dropped; // the last keepsake that was; -1: none
};

static struct stage stage;

/* ---- the device ------------------------------------------------------------------------------ */

static inline int device_probe(struct ddm *ddm, struct volume_profile *ret)
{
    stage.probe_count++;
    *ret = stage.profile;
    return stage.probe_error;
}

static inline int device_submit(struct ddm *ddm, struct ddm_command *command)
{
    if (stage.holds) {
        stage.held = command;
    } else {
        ddm_command_finish(command, NODE_OK, 0);
    }
    return 0;
}

static inline int device_poll_fd(struct ddm *ddm)
{
    return stage.poll_fd;
}

static inline void device_poll(struct ddm *ddm, instant_ns now)
{
    stage.polled_count++;
    stage.polled_at = now;
    if (stage.held != NULL) {
        ddm_command_finish(stage.held, NODE_OK, 0);
        stage.held = NULL;
    }
}

static inline instant_ns device_next_deadline(struct ddm *ddm)
{
    return stage.ends_at;
}

static inline void device_drain(struct ddm *ddm)
{
    stage.drained_count++;
}

static inline void device_close(struct ddm *ddm)
{
    stage.closed_count++;
    if (ddm->next != NULL) {
        device_close(ddm->next);
    }
    free(ddm);
}

#define DEVICE                                                                         \
    .version = DDM_VERSION, .self_size = sizeof(struct ddm_driver), .name = "device",  \
    .probe = device_probe, .submit = device_submit, .poll_fd = device_poll_fd,         \
    .poll = device_poll, .next_deadline = device_next_deadline, .drain = device_drain, \
    .close = device_close

static const struct ddm_driver plain = {DEVICE}, keeping = {DEVICE, .keeps_pages = true},
                               formatted = {DEVICE, .format = "second"},
                               strange = {DEVICE, .format = "third"};
static const struct ddm_driver *driver; // of the next device; filters are plain

static inline struct ddm *device_new(const struct ddm_host *host, const struct ddm_driver *of,
                                     struct ddm *next)
{
    struct ddm *device = calloc(1, sizeof *device);
    assert_non_null(device);
    *device = (struct ddm){.driver = of, .next = next, .host = *host};
    return device;
}

static inline int device_open(const char *uri, const struct ddm_host *host, struct ddm **ret,
                              struct why *ret_why)
{
    stage.open_count++;
    stage.host = *host;
    snprintf(stage.uri, sizeof stage.uri, "%s", uri);
    if (stage.stands_by) {
        host->stand_by(host->ctx, &stage.profile);
    }
    if (stage.keeps >= 0) {
        host->keep(host->ctx, stage.keeps);
    }
    if (stage.lends >= 0 && host->lend != NULL) {
        host->lend(host->ctx, stage.lends);
    }
    if (stage.open_error != 0) {
        why_say(ret_why, "no such device");
        return stage.open_error;
    }
    stage.opened = device_new(host, driver, NULL);
    *ret = stage.opened;
    if (stage.has_filter) {
        *ret = device_new(host, &plain, *ret);
    }
    return 0;
}

/* ---- who runs the agent ---------------------------------------------------------------------- */

static inline int stage_send(void *ctx, const struct unit_message *message, int keepsake)
{
    assert_ptr_equal(ctx, &stage.said);
    if (stage.send_error == 0) {
        assert_true(stage.said_count < SAID_MAX);
        stage.said[stage.said_count] = *message;
        stage.said_keepsakes[stage.said_count++] = keepsake;
    }
    return stage.send_error;
}

static inline instant_ns stage_clock(void *ctx)
{
    assert_ptr_equal(ctx, &stage);
    return stage.now;
}

static inline void stage_say(void *ctx, const char *line)
{
    snprintf(((struct stage *)ctx)->line, sizeof stage.line, "%s", line);
}

static inline void stage_drop(void *ctx, int keepsake)
{
    ((struct stage *)ctx)->dropped = keepsake;
}

static inline void stage_watch(void *ctx, int fd, struct ddm *ddm)
{
    ((struct stage *)ctx)->watched_fd = fd;
    stage.watched = ddm;
}

static inline void stage_unwatch(void *ctx, int fd)
{
    ((struct stage *)ctx)->unwatched_fd = fd;
}

static inline void stage_on_only(void *ctx, const struct ddm *chain)
{
    ((struct stage *)ctx)->only = chain;
}

static inline void stage_on_waiting(void *ctx, bool waits)
{
    struct stage *s = ctx;
    size_t len = strlen(s->waiting);
    snprintf(s->waiting + len, sizeof s->waiting - len, "%s", waits ? "w" : "g");
}

static inline enum node_completion no_command(const struct volume_profile *profile,
                                              struct ddm_command *command)
{
    return NODE_UNSUPPORTED;
}

static const struct io_format first_format = {.name = "first", .encode = no_command},
                              second_format = {.name = "second", .encode = no_command};
static const struct io_format *const formats[] = {&first_format, &second_format, NULL};

static inline struct rta_parts parts_of(void)
{
    return (struct rta_parts){.bus = fake_bus_port(&stage.bus.rta),
                              .uma = {.ctx = &stage.said, .send = stage_send},
                              .pool = stage.pool,
                              .pool_len = POOL_LEN,
                              .landlock = 4,
                              .formats = formats,
                              .ddm_open = device_open,
                              .ctx = &stage,
                              .clock = stage_clock,
                              .on_only = stage_on_only,
                              .on_waiting = stage_on_waiting,
                              .say = stage_say,
                              .drop = stage_drop,
                              .watch = stage_watch,
                              .unwatch = stage_unwatch};
}

static inline void begin_with(const struct rta_parts *parts)
{
    stage.rta = rta_create(parts);
    assert_non_null(stage.rta);
}

static inline int begin(void **state)
{
    stage = (struct stage){
        .now = 1000,
        .profile = {.size = 1 << 20,
                    .abilities = VOLUME_CAN_WRITE,
                    .block_size = BLOCK,
                    .alignment = BLOCK,
                    .preferred = 4096,
                    .transfer_max = 1 << 16,
                    .range_max = 1 << 16,
                    .depth = 8,
                    .driver = "device",
                    .origin = "an origin"},
        .poll_fd = -1,
        .keeps = -1,
        .lends = -1,
        .ends_at = INSTANT_NEVER,
        .watched_fd = -1,
        .unwatched_fd = -1,
        .dropped = -1,
    };
    fake_bus_init(&stage.bus, 1, 0, 0);
    driver = &plain;
    const struct rta_parts parts = parts_of();
    begin_with(&parts);
    return 0;
}

static inline int end(void **state)
{
    rta_destroy(stage.rta);
    return 0;
}

// What is said next, after the message; there is exactly one such word.
static inline const struct unit_message *told_with(const struct unit_message *message, int keepsake)
{
    unsigned before = stage.said_count = 0;
    assert_true(rta_on_message(stage.rta, message, keepsake, stage.now));
    assert_int_equal(stage.said_count, before + 1);
    assert_true(message->kind == UNIT_OPEN || stage.said_keepsakes[before] == -1);
    return &stage.said[before];
}

static inline const struct unit_message *told(struct unit_message message)
{
    return told_with(&message, -1);
}

static inline struct unit_message ask_open(uint32_t volume)
{
    return (struct unit_message){.kind = UNIT_OPEN, .volume = volume, .uri = "device:it"};
}

static inline void expect_said(const struct unit_message *said, const struct unit_message *wanted)
{
    assert_memory_equal(said, wanted, offsetof(struct unit_message, uri));
    assert_memory_equal(&said->profile, &wanted->profile, sizeof wanted->profile);
    assert_string_equal(said->why, wanted->why);
}

static inline void open_volume(uint32_t volume)
{
    assert_int_equal(told(ask_open(volume))->error, 0);
}

static inline void connect_volume(uint32_t volume, uint32_t connection)
{
    assert_int_equal(told((struct unit_message){.kind = UNIT_CONNECTION_ADD,
                                                .volume = volume,
                                                .connection = connection})
                         ->error,
                     0);
}

// The next request of the CTA, numbered so, of one block.
static inline void request(unsigned operation, uint64_t number, uint64_t offset)
{
    const struct frame frame = {.kind = FRAME_REQUEST,
                                .operation = (uint8_t)operation,
                                .sequence = (uint32_t)number,
                                .connection = CONNECTION,
                                .transaction = number << NODE_TRANSACTION_SLOT_BITS | number,
                                .offset = offset,
                                .len = BLOCK,
                                .buffer_len = BLOCK,
                                .deadline = INSTANT_NEVER};
    fake_bus_put(&stage.bus, 1, &frame);
}

// The result that the CTA receives next; -1: none.
static inline int result_next(void)
{
    struct frame frame;
    while (fake_bus_receive(&stage.bus.cta, &frame)) {
        if (frame.kind == FRAME_RESULT) {
            return frame.completion;
        }
    }
    return -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

// A unit management agent whose CTA, processes and TTS write down what they are asked for.
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

#include "node/uma/agent.h"

enum { NOTES_MAX = 8192 };

// A host whose CTA, processes and TTS write down what they are asked for.
struct stage {
    struct uma *uma;
    instant_ns now;
    char notes[NOTES_MAX];
    uint32_t volume; // of the last OPEN
    uint32_t connection;
    uint32_t limited; // the volume whose rate was set last ...
    struct volume_rate most;
    bool was_restart;
    bool has_room; // messages are counted against `room`
    unsigned room;
    int tts_error, spawn_error;
    char line[256]; // that was said last
    unsigned advertised;
    struct connect_request *connected;
    struct unit_message told; // the last message, and the descriptor beside it
    int told_fd;
    uint32_t forgotten; // the volume that the CTA was to forget last
};

static inline void note(struct stage *s, const char *format, ...)
{
    size_t len = strlen(s->notes);
    va_list args;
    va_start(args, format);
    vsnprintf(s->notes + len, sizeof s->notes - len, format, args);
    va_end(args);
}

static inline bool cta_unit_add(void *ctx, uint32_t unit, struct frame_port port)
{
    return true;
}

static inline void cta_unit_remove(void *ctx, uint32_t unit)
{
    note(ctx, "cta-remove ");
}

static inline void cta_unit_lost(void *ctx, uint32_t unit, instant_ns now)
{
    note(ctx, "cta-lost ");
}

static inline void cta_unit_ready(void *ctx, uint32_t unit, instant_ns now)
{
    note(ctx, "cta-ready ");
}

static inline void cta_route_add(void *ctx, const struct client_route *route)
{
    struct stage *s = ctx;
    note(s, "route-add ");
    uma_for_cta.on_route(s->uma, route->connection, CONNECT_OK);
}

static inline void cta_route_remove(void *ctx, uint32_t connection)
{
    note(ctx, "route-remove ");
}

static inline void cta_volume_remove(void *ctx, uint32_t volume)
{
    ((struct stage *)ctx)->forgotten = volume;
}

static inline void cta_unit_keep(void *ctx, uint32_t unit)
{
    note(ctx, "keep ");
}

static inline void cta_rate_set(void *ctx, uint32_t volume, const struct volume_rate *most)
{
    struct stage *s = ctx;
    s->limited = volume;
    s->most = *most;
}

static inline void cta_standby_set(void *ctx, uint32_t volume, bool stands_by, instant_ns now)
{
    note(ctx, stands_by ? "cta-standby " : "cta-ours ");
}

static inline void cta_window_set(void *ctx, uint32_t volume, int fd, uint64_t size)
{
    note(ctx, "window-%d:%llu ", fd, (unsigned long long)size);
}

static inline void cta_route_fail(void *ctx, uint32_t connection, instant_ns now)
{
    note(ctx, "route-fail ");
}

static const struct cta_for_uma fake_cta = {
    .unit_add = cta_unit_add,
    .unit_remove = cta_unit_remove,
    .unit_keep = cta_unit_keep,
    .unit_lost = cta_unit_lost,
    .unit_ready = cta_unit_ready,
    .route_add = cta_route_add,
    .route_remove = cta_route_remove,
    .volume_remove = cta_volume_remove,
    .window_set = cta_window_set,
    .rate_set = cta_rate_set,
    .standby_set = cta_standby_set,
    .route_fail = cta_route_fail,
};

static inline int part_spawn(void *ctx, uint32_t unit)
{
    note(ctx, "spawn ");
    return ((struct stage *)ctx)->spawn_error;
}

static inline void part_kill(void *ctx, uint32_t unit)
{
    note(ctx, "kill ");
}

static inline int part_send(void *ctx, uint32_t unit, const struct unit_message *message,
                            int keepsake)
{
    static const char *const names[] = {"?",      "hello",  "open",  "probe",   "close", "add",
                                        "remove", "status", "drain", "standby", "yield"};
    struct stage *s = ctx;
    if (s->has_room && s->room == 0) {
        note(s, "full ");
        return -EAGAIN;
    }
    s->room--;
    s->told = *message;
    s->told_fd = keepsake;
    note(s, "%s ", names[message->kind]);
    s->volume = message->kind == UNIT_OPEN ? message->volume : s->volume;
    s->was_restart = message->kind == UNIT_OPEN ? message->is_restart != 0 : s->was_restart;
    s->connection = message->kind == UNIT_CONNECTION_ADD ? message->connection : s->connection;
    return 0;
}

static inline struct frame_port part_bus(void *ctx, uint32_t unit)
{
    return (struct frame_port){0};
}

static inline void part_close_keepsake(void *ctx, int keepsake)
{
    note(ctx, "close-keepsake ");
}

static inline void part_identify(void *ctx, const struct volume_profile *profile,
                                 struct volume_identity *ret)
{
    memset(ret, 0x11, sizeof *ret);
}

static inline void part_say(void *ctx, const char *line)
{
    struct stage *s = ctx;
    snprintf(s->line, sizeof s->line, "%s", line);
}

static inline void part_on_stopped(void *ctx)
{
    note(ctx, "stopped ");
}

static inline int tts_start(void *ctx, struct why *ret_why)
{
    struct stage *s = ctx;
    note(s, "tts-start ");
    why_say(ret_why, "in use");
    return s->tts_error;
}

static inline void tts_advertise(void *ctx, const struct resource_table *table)
{
    ((struct stage *)ctx)->advertised++;
}

static inline void tts_on_connected(void *ctx, struct connect_request *request)
{
    struct stage *s = ctx;
    note(s, "connected-%d ", request->status);
    s->connected = request;
}

static inline void tts_drop(void *ctx, uint32_t connection)
{
    note(ctx, "drop ");
}

static inline void tts_stop(void *ctx)
{
    note(ctx, "tts-stop ");
}

static const struct tts_for_uma fake_tts = {
    .name = "fake",
    .start = tts_start,
    .advertise = tts_advertise,
    .on_connected = tts_on_connected,
    .drop = tts_drop,
    .stop = tts_stop,
};

static inline struct volume_wish wish(const char *name)
{
    struct volume_wish w = {0};
    snprintf(w.name, sizeof w.name, "%s", name);
    snprintf(w.unit, sizeof w.unit, "u");
    snprintf(w.uri, sizeof w.uri, "ram:1M");
    return w;
}

static inline struct stage *stage_create(void)
{
    struct stage *s = calloc(1, sizeof *s);
    struct uma_parts parts = {.ctx = s,
                              .spawn = part_spawn,
                              .kill = part_kill,
                              .send = part_send,
                              .bus = part_bus,
                              .close_keepsake = part_close_keepsake,
                              .identify = part_identify,
                              .say = part_say,
                              .on_stopped = part_on_stopped};
    s->now = NS_PER_S;
    s->uma = uma_create(&parts);
    uma_join_cta(s->uma, &fake_cta, s);
    uma_tts_add(s->uma, &fake_tts, s);
    return s;
}

static inline void stage_destroy(struct stage *s)
{
    uma_destroy(s->uma);
    free(s);
}

static inline void expect(struct stage *s, const char *notes)
{
    assert_string_equal(s->notes, notes);
    s->notes[0] = '\0';
}

static inline void hear(struct stage *s, struct unit_message message)
{
    uma_on_message(s->uma, 0, &message, -1, s->now);
}

static inline void say_hello(struct stage *s)
{
    hear(s, (struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION});
}

static inline struct unit_message opened(uint32_t volume)
{
    return (struct unit_message){.kind = UNIT_OPEN,
                                 .volume = volume,
                                 .profile = {.size = 1 << 20,
                                             .abilities = VOLUME_CAN_WRITE,
                                             .block_size = 512,
                                             .alignment = 1,
                                             .preferred = 4096,
                                             .transfer_max = 1 << 20,
                                             .range_max = 1 << 20,
                                             .depth = 8,
                                             .driver = "ram",
                                             .origin = "o"}};
}

static inline struct unit_message failed(uint32_t volume)
{
    return (struct unit_message){
        .kind = UNIT_OPEN, .volume = volume, .error = -ENOENT, .why = "nothing there"};
}

// A stage with one volume that is ready.
static inline struct stage *stage_ready(void)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    uma_start(s->uma, s->now);
    say_hello(s);
    hear(s, opened(s->volume));
    assert_true(uma_has_started(s->uma));
    s->notes[0] = '\0';
    return s;
}

static inline struct connect_request connect_to(struct stage *s, uint32_t volume)
{
    return (struct connect_request){.volume = volume, .tts = &fake_tts, .tts_ctx = s};
}

// A connection that is open.
static inline void stage_connect(struct stage *s, struct connect_request *request)
{
    *request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, request);
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = s->connection});
    assert_ptr_equal(s->connected, request);
    assert_int_equal(request->status, CONNECT_OK);
    s->notes[0] = '\0';
}

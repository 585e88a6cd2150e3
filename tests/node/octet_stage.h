// A target transport service on byte streams alone: a client whose octets the test says and hears,
// in hexadecimal, and behind it agents of the test's, with a volume in memory. The loop has a
// thread of its own; `stage_settle` waits until it has done what there is to do.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "node/interface/cta_tts.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/loop/loop.h"
#include "tests/octets.h"
#include "tests/pages.h"
#include "text/addresses.h"

enum {
    STAGE_VOLUME = 3, // and the next
    STAGE_CONNECTION = 7,
    STAGE_LEN = 96 << 20,
    STAGE_PATIENCE_S = 20,
    STAGE_TRACE_MAX = 4096,
    STAGE_HELD_MAX = 256,
    STAGE_OCTETS_MAX = 4096, // of one text
};

#define STAGE_ALL_ABILITIES                                                   \
    (VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_FUA | VOLUME_CAN_TRIM | \
     VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_ZERO_FAST | VOLUME_CAN_EXTENTS)

struct octet_stage {
    struct loop *loop;
    struct loop_watch *watch; // of the words
    struct addresses listen;
    char path[64];                 // of the socket; empty: it listens at a port of 127.0.0.1
    int client, words[2], echo[2]; // to the loop, and from it
    pthread_t thread;

    // The service, and what it is asked to do from within the loop.
    const struct tts_for_uma *tts;
    void *tts_ctx;

    // The UMA.
    struct resource rows[2];
    struct resource_table table;
    uint32_t hidden; // volume that the client may not see; 0: none
    const struct tts_for_cta *service;
    void *service_ctx;
    struct client asker;        // who connected last
    enum connect_status answer; // to who connects from now on
    unsigned connects, disconnects;

    // The CTA.
    uint8_t *volume, *buffer;
    struct node_extent extents[4]; // the answer to NODE_EXTENTS
    unsigned extent_count;
    enum node_completion completion; // of all that is asked from now on
    bool fails_late;                 // writes: when their data are there
    bool holds;
    struct service_request *held[STAGE_HELD_MAX];
    unsigned held_count;
    bool holds_data; // of a write: they are there, and have yet to land
    struct service_request *landing;
    char trace[STAGE_TRACE_MAX];  // what was asked, a line each
    enum node_completion outcome; // of the last transfer
};

/* ---- the UMA --------------------------------------------------------------------------------- */

static const struct resource_table *stage_resources(void *uma)
{
    return &((struct octet_stage *)uma)->table;
}

static bool stage_may_see(void *uma, uint32_t volume, const struct client *client)
{
    return volume != ((struct octet_stage *)uma)->hidden;
}

static void stage_connect(void *uma, struct connect_request *request)
{
    struct octet_stage *s = uma;
    s->service = request->service;
    s->service_ctx = request->tts_ctx;
    s->asker = request->client;
    request->status = s->answer;
    request->connection = STAGE_CONNECTION + s->connects++;
    request->tts->on_connected(request->tts_ctx, request);
}

static void stage_disconnect(void *uma, uint32_t connection)
{
    ((struct octet_stage *)uma)->disconnects++;
}

static const struct reservation *stage_no_reservation(void *uma, uint32_t volume)
{
    return NULL;
}

static const struct uma_for_tts stage_uma = {.resources = stage_resources,
                                             .may_see = stage_may_see,
                                             .connect = stage_connect,
                                             .disconnect = stage_disconnect,
                                             .reservation = stage_no_reservation};

/* ---- the CTA --------------------------------------------------------------------------------- */

static void stage_note(struct octet_stage *s, const struct service_request *request)
{
    size_t len = strlen(s->trace);
    snprintf(s->trace + len, sizeof s->trace - len, "%s %llu+%llu%s%s%s\n",
             node_operation_facts(request->operation)->name, (unsigned long long)request->offset,
             (unsigned long long)request->len, (request->flags & NODE_FUA) != 0 ? " fua" : "",
             (request->flags & NODE_NO_HOLE) != 0 ? " no hole" : "",
             (request->flags & NODE_FAST_ONLY) != 0 ? " fast" : "");
}

static void stage_carry_out(struct octet_stage *s, struct service_request *request, instant_ns now)
{
    bool is_write = node_operation_facts(request->operation)->moves_to_device;
    bool has_data = request->data_len > 0;
    request->completion = is_write && s->fails_late ? NODE_OK : s->completion;
    request->data = request->operation == NODE_READ ? s->volume + request->offset : s->buffer;
    request->buffer.len = request->data_len;
    if (request->operation == NODE_EXTENTS) {
        request->buffer.len = (uint32_t)(s->extent_count * sizeof s->extents[0]);
        memcpy(s->buffer, s->extents, request->buffer.len);
    }
    if (request->completion == NODE_OK && has_data) {
        s->service->transfer(s->service_ctx, request, now);
    } else {
        s->service->complete(s->service_ctx, request, now);
    }
}

static void stage_submit(void *cta, struct service_request *request, instant_ns now)
{
    struct octet_stage *s = cta;
    stage_note(s, request);
    if (s->holds) {
        assert_true(s->held_count < STAGE_HELD_MAX);
        s->held[s->held_count++] = request;
    } else {
        stage_carry_out(s, request, now);
    }
}

static void stage_land(struct octet_stage *s, struct service_request *request,
                       enum node_completion outcome, instant_ns now)
{
    request->completion = outcome == NODE_OK ? s->completion : outcome;
    if (request->completion == NODE_OK) {
        memcpy(s->volume + request->offset, s->buffer, request->len);
    }
    s->service->complete(s->service_ctx, request, now);
}

static void stage_transferred(void *cta, struct service_request *request,
                              enum node_completion outcome, instant_ns now)
{
    struct octet_stage *s = cta;
    s->outcome = outcome;
    if (!node_operation_facts(request->operation)->moves_to_device) {
        return;
    }
    if (s->holds_data && outcome == NODE_OK) {
        s->landing = request;
    } else {
        stage_land(s, request, outcome, now);
    }
}

static const struct reservation *stage_reservation(void *cta, uint32_t connection)
{
    return NULL;
}

static void stage_leave(void *cta, uint32_t connection, instant_ns now)
{
}

static void stage_unclaim(void *cta, uint32_t connection, bool of_any)
{
}

static const struct cta_for_tts stage_cta = {.submit = stage_submit,
                                             .transferred = stage_transferred,
                                             .leave = stage_leave,
                                             .reservation = stage_reservation,
                                             .unclaim = stage_unclaim};

/* ---- the loop, in a thread of its own -------------------------------------------------------- */

enum stage_word {
    STAGE_SETTLE = 's',
    STAGE_RELEASE = 'r',
    STAGE_LAND = 'l', // the write whose data are held
    STAGE_DROP = 'd',
    STAGE_ADVERTISE = 'a', // the table as it is now
    STAGE_STOP = 't',
    STAGE_QUIT = 'q'
};

// The oldest request that waits goes on.
static void stage_release_one(struct octet_stage *s)
{
    struct service_request *request = s->held[0];
    assert_true(s->held_count > 0);
    memmove(&s->held[0], &s->held[1], --s->held_count * sizeof s->held[0]);
    stage_carry_out(s, request, loop_now(s->loop));
}

static void stage_on_word(void *ctx, uint32_t events)
{
    struct octet_stage *s = ctx;
    char word = 0;
    assert_int_equal(read(s->words[0], &word, 1), 1);
    switch (word) {
    case STAGE_RELEASE:
        stage_release_one(s);
        break;
    case STAGE_LAND:
        stage_land(s, s->landing, NODE_OK, loop_now(s->loop));
        break;
    case STAGE_DROP:
        s->tts->drop(s->tts_ctx, STAGE_CONNECTION);
        break;
    case STAGE_ADVERTISE:
        s->tts->advertise(s->tts_ctx, &s->table);
        break;
    case STAGE_STOP:
        s->tts->stop(s->tts_ctx);
        break;
    case STAGE_QUIT:
        loop_stop(s->loop);
        break;
    default:
        break;
    }
    assert_int_equal(write(s->echo[1], &word, 1), 1);
}

static void *stage_run(void *ctx)
{
    loop_run(((struct octet_stage *)ctx)->loop);
    return NULL;
}

// Back when the loop has done it.
static inline void stage_tell(struct octet_stage *s, enum stage_word word)
{
    char octet = (char)word;
    assert_int_equal(write(s->words[1], &octet, 1), 1);
    assert_int_equal(read(s->echo[0], &octet, 1), 1);
}

// What was said has been taken, and what comes of it has gone out: two turns.
static inline void stage_settle(struct octet_stage *s)
{
    stage_tell(s, STAGE_SETTLE);
    stage_tell(s, STAGE_SETTLE);
}

/* ---- the client ------------------------------------------------------------------------------ */

static inline void say_octets(struct octet_stage *s, const void *octets, size_t len)
{
    assert_int_equal(send(s->client, octets, len, MSG_NOSIGNAL), len);
}

static inline void say(struct octet_stage *s, const char *text)
{
    uint8_t octets[STAGE_OCTETS_MAX];
    say_octets(s, octets, octets_of(text, octets, sizeof octets));
}

static inline void hear_octets(struct octet_stage *s, void *ret, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t part = recv(s->client, (uint8_t *)ret + got, len - got, MSG_WAITALL);
        assert_true(part > 0);
        got += (size_t)part;
    }
}

// The next octets are these.
static inline void hear(struct octet_stage *s, const char *text)
{
    uint8_t wanted[STAGE_OCTETS_MAX], heard[STAGE_OCTETS_MAX];
    size_t len = octets_of(text, wanted, sizeof wanted);
    hear_octets(s, heard, len);
    assert_memory_equal(heard, wanted, len);
}

// The node has closed the connection, and said nothing more.
static inline void hear_the_end(struct octet_stage *s)
{
    uint8_t octet;
    assert_int_equal(recv(s->client, &octet, 1, 0), 0);
}

static inline void hear_nothing(struct octet_stage *s)
{
    uint8_t octet;
    stage_settle(s);
    assert_int_equal(recv(s->client, &octet, 1, MSG_DONTWAIT), -1);
}

// What the CTA was asked since the last time.
static inline void expect_asked(struct octet_stage *s, const char *trace)
{
    stage_settle(s);
    assert_string_equal(s->trace, trace);
    s->trace[0] = '\0';
}

/* ---- putting it together --------------------------------------------------------------------- */

static char stage_said[1024]; // to the operator, last: of which host, and what

static void stage_say(void *ctx, const char *host, const char *line)
{
    snprintf(stage_said, sizeof stage_said, "%s: %s", host, line);
}

// Over IP, or (`by_unix`) by a socket in the file system.
static inline struct octet_stage *stage_create(bool by_unix)
{
    struct octet_stage *s = calloc(1, sizeof *s);
    s->listen.count = 1;
    snprintf(s->listen.of[0], ADDRESS_MAX, "127.0.0.1:0");
    if (by_unix) {
        snprintf(s->path, sizeof s->path, "/tmp/weft-stage.%d", (int)getpid());
        snprintf(s->listen.of[0], ADDRESS_MAX, "unix:%s", s->path);
    }
    s->volume = pages_create(STAGE_LEN);
    s->buffer = pages_create(STAGE_LEN);
    for (unsigned i = 0; i < 2; i++) {
        s->rows[i] = (struct resource){
            .volume = STAGE_VOLUME + i,
            .name = "disk",
            .state = RESOURCE_READY,
            .abilities = STAGE_ALL_ABILITIES,
            .profile = {.size = STAGE_LEN,
                        .block_size = 512,
                        .alignment = 1,
                        .preferred = 4096,
                        .driver = "ram"},
            .places = {[VOLUME_IN_SUBSYSTEM].member = 1, [VOLUME_IN_TARGET].member = 1}};
    }
    snprintf(s->rows[1].name, sizeof s->rows[1].name, "other");
    s->table = (struct resource_table){.count = 2, .rows = s->rows};
    s->loop = loop_create();
    assert_int_equal(pipe(s->words) | pipe(s->echo), 0);
    s->watch = loop_watch(s->loop, s->words[0], EPOLLIN, stage_on_word, s);
    return s;
}

static inline int stage_call_unix(const struct octet_stage *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", s->path);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    return client;
}

// The port is that of the volume's URI: scheme://127.0.0.1:PORT/...
static inline int stage_call_ip(const struct octet_stage *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char uri[512] = "";
    int client = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    assert_true(s->tts->uri(s->tts_ctx, &s->rows[0], 0, uri, sizeof uri));
    address.sin_port = htons((uint16_t)atoi(strstr(uri, "127.0.0.1:") + strlen("127.0.0.1:")));
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    return client;
}

// A connection more.
static inline int stage_call(const struct octet_stage *s)
{
    const struct timeval patience = {.tv_sec = STAGE_PATIENCE_S};
    int client = s->path[0] != '\0' ? stage_call_unix(s) : stage_call_ip(s);
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return client;
}

// From now on it serves, and the client is there.
static inline void stage_start(struct octet_stage *s, const struct tts_for_uma *tts, void *tts_ctx)
{
    struct why why = {""};
    s->tts = tts;
    s->tts_ctx = tts_ctx;
    assert_int_equal(tts->start(tts_ctx, &why), 0);
    s->client = stage_call(s);
    assert_int_equal(pthread_create(&s->thread, NULL, stage_run, s), 0);
}

// The loop stops; the service is the caller's to destroy before stage_destroy.
static inline void stage_end(struct octet_stage *s)
{
    stage_tell(s, STAGE_QUIT);
    pthread_join(s->thread, NULL);
}

static inline void stage_destroy(struct octet_stage *s)
{
    loop_unwatch(s->watch);
    loop_destroy(s->loop);
    close(s->client);
    if (s->path[0] != '\0') {
        unlink(s->path);
    }
    for (unsigned i = 0; i < 2; i++) {
        close(s->words[i]);
        close(s->echo[i]);
    }
    pages_destroy(s->volume, STAGE_LEN);
    pages_destroy(s->buffer, STAGE_LEN);
    free(s);
}

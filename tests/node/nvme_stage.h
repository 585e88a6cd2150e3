// NVMe controllers between a transport, a unit management agent and a CTA of tests: what they are
// told and asked is written down, and answered as the test says.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "node/nvme/controller.h"

enum {
    STAGE_VOLUME = 3,
    STAGE_BLOCK = 512,
    STAGE_BLOCKS = 2048,
    STAGE_REQUEST_MAX = 64,
    STAGE_ANSWER_MAX = 64,
    STAGE_DEPTH = 32,
};

#define STAGE_HOST "nqn.2026-11.test:host"

struct answer {
    uint16_t cid, status; // without DNR and MORE
    bool is_final;
    uint16_t sqhd, sqid;
    uint64_t result;
};

struct stage;

// A connection of the transport.
struct line {
    struct stage *stage;
    struct nvme_queue *queue;
    uint8_t scratch[NVME_SCRATCH_LEN];
    uint8_t data[NVME_SCRATCH_LEN]; // the host's
    enum nvme_status fetch_status;  // how fetching it ends
    uint16_t spoiled;               // ... of this command; 0: of each
    uint16_t cid;
    struct answer answers[STAGE_ANSWER_MAX];
    unsigned answer_count, delivered;
    uint8_t came[NVME_DATA_LEN_MAX]; // what was delivered last
    unsigned pieces;                 // that this came in
    enum nvme_status piece_status;   // of all of them but the last
    bool holds;                      // what is delivered stays here
    struct nvme_command *held;
    char closed[64]; // why it shall end
    unsigned woken;
};

struct stage {
    struct nvme_target *target;
    struct resource row;
    struct resource rows[3]; // of a group: `row` first
    struct resource_table table;
    instant_ns now;
    enum connect_status status; // the UMA's answer to all that want to connect
    bool is_slow;               // ... which comes by stage_answer
    struct connect_request *asked;
    unsigned connects, disconnects;
    uint32_t volume;                                     // of the last that wanted to connect
    const struct tts_for_cta *service;                   // of whoever has connected
    struct service_request *requests[STAGE_REQUEST_MAX]; // at the CTA
    unsigned request_count;
    enum node_completion outcome; // of the last transfer
    unsigned transfers;
    uint8_t hostid[NVME_HOSTID_LEN];     // of hosts that connect
    const struct reservation *book;      // of the volume; NULL: it has none
    struct reservation_request *reserve; // at the CTA; NULL: none
    char said[512];
};

/* ---- the UMA --------------------------------------------------------------------------------- */

static inline const struct resource_table *stage_resources(void *ctx)
{
    return &((struct stage *)ctx)->table;
}

static inline bool stage_may_see(void *ctx, uint32_t volume, const struct client *client)
{
    return true;
}

static inline void stage_answer(struct stage *s)
{
    struct connect_request *request = s->asked;
    s->asked = NULL;
    request->status = s->status;
    request->connection = ++s->connects;
    request->tts->on_connected(request->tts_ctx, request);
}

static inline void stage_connect(void *ctx, struct connect_request *request)
{
    struct stage *s = ctx;
    s->service = request->service;
    s->volume = request->volume;
    s->asked = request;
    if (!s->is_slow) {
        stage_answer(s);
    }
}

static inline void stage_disconnect(void *ctx, uint32_t connection)
{
    ((struct stage *)ctx)->disconnects++;
}

static inline void stage_say(void *ctx, const char *host, const char *text)
{
    struct stage *s = ctx;
    snprintf(s->said, sizeof s->said, "%s", text);
}

/* ---- the CTA --------------------------------------------------------------------------------- */

static inline void stage_submit(void *ctx, struct service_request *request, instant_ns now)
{
    struct stage *s = ctx;
    assert_true(s->request_count < STAGE_REQUEST_MAX);
    s->requests[s->request_count++] = request;
}

static inline void stage_transferred(void *ctx, struct service_request *request,
                                     enum node_completion outcome, instant_ns now)
{
    struct stage *s = ctx;
    s->outcome = outcome;
    s->transfers++;
}

static inline void stage_leave(void *ctx, uint32_t connection, instant_ns now)
{
}

static inline const struct reservation *stage_reservation(void *ctx, uint32_t connection)
{
    return ((struct stage *)ctx)->book;
}

static inline const struct reservation *stage_volume_reservation(void *ctx, uint32_t volume)
{
    return ((struct stage *)ctx)->book;
}

static inline void stage_reserve(void *ctx, struct reservation_request *request, instant_ns now)
{
    struct stage *s = ctx;
    assert_null(s->reserve);
    s->reserve = request;
}

// The reservation's request leaves the CTA.
static inline void stage_reserved(struct stage *s, enum reservation_outcome outcome)
{
    struct reservation_request *request = s->reserve;
    s->reserve = NULL;
    request->outcome = outcome;
    s->service->on_reserved(s->target, request, s->now);
}

// The first request at the CTA, which leaves it.
static inline struct service_request *stage_take(struct stage *s)
{
    assert_true(s->request_count > 0);
    struct service_request *request = s->requests[0];
    memmove(s->requests, s->requests + 1, --s->request_count * sizeof s->requests[0]);
    return request;
}

static inline void stage_complete(struct stage *s, struct service_request *request,
                                  enum node_completion completion)
{
    request->completion = completion;
    s->service->complete(s->target, request, s->now);
}

/* ---- the transport --------------------------------------------------------------------------- */

static inline void line_note(struct line *line, struct nvme_command *command)
{
    uint8_t cqe[NVME_CQE_LEN];
    nvme_command_cqe(command, cqe);
    uint16_t status = get_le16(cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT;
    assert_true(line->answer_count < STAGE_ANSWER_MAX);
    line->answers[line->answer_count++] =
        (struct answer){.cid = get_le16(cqe + NVME_CQE_OFF_CID),
                        .status = status & (uint16_t) ~(NVME_STATUS_DNR | NVME_STATUS_MORE),
                        .is_final = (status & NVME_STATUS_DNR) != 0,
                        .sqhd = get_le16(cqe + NVME_CQE_OFF_SQHD),
                        .sqid = get_le16(cqe + NVME_CQE_OFF_SQID),
                        .result = get_le64(cqe + NVME_CQE_OFF_RESULT)};
}

static inline void line_fetch(void *connection, struct nvme_command *command)
{
    struct line *line = connection;
    uint16_t cid = get_le16(command->sqe + NVME_SQE_OFF_CID);
    bool is_spoiled = line->spoiled == 0 || line->spoiled == cid;
    memcpy(command->data, line->data, command->data_len);
    nvme_command_done(command, is_spoiled ? line->fetch_status : NVME_OK, line->stage->now);
}

static inline void line_deliver(void *connection, struct nvme_command *command)
{
    struct line *line = connection;
    line->delivered += command->data_len;
    assert_true(command->data_at + command->data_len <= sizeof line->came);
    memcpy(line->came + command->data_at, command->data, command->data_len);
    line->pieces = command->data_at == 0 ? 1 : line->pieces + 1;
    if (command->has_more) {
        nvme_command_done(command, line->piece_status, line->stage->now);
        return;
    }
    if (line->holds) {
        assert_null(line->held);
        line->held = command;
        return;
    }
    line_note(line, command);
    nvme_command_done(command, NVME_OK, line->stage->now);
}

// What was held is delivered.
static inline void line_release(struct line *line)
{
    struct nvme_command *command = line->held;
    line->held = NULL;
    line_note(line, command);
    nvme_command_done(command, NVME_OK, line->stage->now);
}

static inline void line_respond(void *connection, struct nvme_command *command)
{
    line_note(connection, command);
    nvme_command_done(command, NVME_OK, ((struct line *)connection)->stage->now);
}

static inline void line_close(void *connection, const char *why)
{
    struct line *line = connection;
    snprintf(line->closed, sizeof line->closed, "%s", why);
}

static inline void line_wake(void *connection)
{
    ((struct line *)connection)->woken++;
}

static const struct nvme_transport stage_transport = {
    .name = "test",
    .trtype = NVME_TRTYPE_TCP,
    .sgl_kinds = NVME_SGL_KIND_IN_CAPSULE | NVME_SGL_KIND_TRANSPORT,
    .in_capsule_len_max = NVME_SCRATCH_LEN,
    .fetch = line_fetch,
    .deliver = line_deliver,
    .respond = line_respond,
    .close = line_close,
    .wake = line_wake,
};

static inline struct line *line_open(struct stage *s)
{
    struct line *line = calloc(1, sizeof *line);
    line->stage = s;
    struct nvme_queue_parts parts = {.target = s->target,
                                     .transport = &stage_transport,
                                     .connection = line,
                                     .command_count = STAGE_DEPTH,
                                     .qid = -1,
                                     .scratch = mspan_of(line->scratch, sizeof line->scratch),
                                     .host_address = "192.0.2.7:1",
                                     .host = "192.0.2.7",
                                     .local_address = "192.0.2.1"};
    line->queue = nvme_queue_create(&parts);
    assert_non_null(line->queue);
    return line;
}

// The connection ends, and all that was under way on it has.
static inline void line_end(struct line *line)
{
    nvme_queue_close(line->queue, line->stage->now);
    assert_true(nvme_queue_is_over(line->queue));
    nvme_queue_destroy(line->queue);
    free(line);
}

static inline void line_send(struct line *line, const uint8_t *sqe)
{
    assert_true(nvme_queue_on_capsule(line->queue, sqe, NVME_SCRATCH_LEN, NULL, line->stage->now));
}

static inline void sqe_fill(struct line *line, uint8_t sqe[NVME_SQE_LEN], uint8_t opcode,
                            uint32_t data_len)
{
    memset(sqe, 0, NVME_SQE_LEN);
    sqe[NVME_SQE_OFF_OPCODE] = opcode;
    sqe[NVME_SQE_OFF_FLAGS] = NVME_SQE_PSDT_SGL;
    put_le16(sqe + NVME_SQE_OFF_CID, ++line->cid);
    put_le32(sqe + NVME_SQE_OFF_NSID, 1);
    put_le32(sqe + NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_LENGTH, data_len);
    sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] =
        (opcode & NVME_OPCODE_DIRECTION_MASK) == NVME_OPCODE_TO_HOST ? NVME_SGL_TRANSPORT
                                                                     : NVME_SGL_IN_CAPSULE;
}

static inline struct answer line_answer(const struct line *line)
{
    assert_true(line->answer_count > 0);
    return line->answers[line->answer_count - 1];
}

/* ---- sessions -------------------------------------------------------------------------------- */

static inline struct answer line_connect_to(struct line *line, const char *nqn, const char *host,
                                            uint16_t qid, uint16_t cntlid, uint32_t kato_ms)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, NVME_FABRICS, NVME_CONNECT_DATA_LEN);
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_CONNECT;
    put_le16(sqe + NVME_CONNECT_OFF_QID, qid);
    put_le16(sqe + NVME_CONNECT_OFF_SQSIZE, STAGE_DEPTH - 1);
    put_le32(sqe + NVME_CONNECT_OFF_KATO, kato_ms);
    memset(line->data, 0, NVME_CONNECT_DATA_LEN);
    put_le16(line->data + NVME_CONNECT_DATA_OFF_CNTLID, cntlid);
    memcpy(line->data + NVME_CONNECT_DATA_OFF_HOSTID, line->stage->hostid, NVME_HOSTID_LEN);
    memcpy(line->data + NVME_CONNECT_DATA_OFF_SUBNQN, nqn, strlen(nqn));
    memcpy(line->data + NVME_CONNECT_DATA_OFF_HOSTNQN, host, strlen(host));
    line->answers[line->answer_count].status = 0xffff; // there may be none yet
    line_send(line, sqe);
    return line->answer_count > 0 ? line_answer(line) : (struct answer){.status = 0xffff};
}

// ... the subsystem of the volume.
static inline struct answer line_connect(struct line *line, const char *host, uint16_t qid,
                                         uint16_t cntlid, uint32_t kato_ms)
{
    char nqn[NVME_NQN_MAX];
    nvme_subsystem_nqn(&line->stage->row, nqn);
    return line_connect_to(line, nqn, host, qid, cntlid, kato_ms);
}

static inline void property_set(struct line *line, uint32_t property, uint64_t value)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, NVME_FABRICS, 0);
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_PROPERTY_SET;
    put_le32(sqe + NVME_PROPERTY_OFF_OFFSET, property);
    put_le64(sqe + NVME_PROPERTY_OFF_VALUE, value);
    line_send(line, sqe);
    assert_int_equal(line_answer(line).status, NVME_OK);
}

// An admin queue, its controller enabled and with leave for I/O queues; the controller's number.
static inline struct line *admin_open(struct stage *s, const char *host, uint32_t kato_ms,
                                      uint16_t *ret_cntlid)
{
    uint8_t sqe[NVME_SQE_LEN];
    struct line *line = line_open(s);
    struct answer answer = line_connect(line, host, 0, NVME_CNTLID_DYNAMIC, kato_ms);
    assert_int_equal(answer.status, NVME_OK);
    *ret_cntlid = (uint16_t)answer.result;
    property_set(line, NVME_PROPERTY_CC,
                 NVME_CC_EN | NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT |
                     NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT);
    sqe_fill(line, sqe, NVME_ADMIN_SET_FEATURES, 0);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_NUMBER_OF_QUEUES);
    put_le32(sqe + NVME_SQE_OFF_CDW11, 3 << 16 | 3);
    line_send(line, sqe);
    assert_int_equal(line_answer(line).status, NVME_OK);
    return line;
}

static inline struct stage *stage_create(uint32_t abilities)
{
    static const struct uma_for_tts uma = {stage_resources, stage_may_see, stage_connect,
                                           stage_disconnect, stage_volume_reservation};
    static const struct cta_for_tts cta = {.reservation = stage_reservation,
                                           .reserve = stage_reserve,
                                           .submit = stage_submit,
                                           .transferred = stage_transferred,
                                           .leave = stage_leave};
    struct stage *s = calloc(1, sizeof *s);
    s->now = 1000 * NS_PER_S;
    s->row = (struct resource){
        .volume = STAGE_VOLUME,
        .name = "disk",
        .places[VOLUME_IN_SUBSYSTEM] = {.member = 1},
        .state = RESOURCE_READY,
        .abilities = abilities,
        .profile = {.size = STAGE_BLOCKS * STAGE_BLOCK, .block_size = STAGE_BLOCK}};
    s->table = (struct resource_table){.count = 1, .rows = &s->row};
    s->target = nvme_target_create(&(struct nvme_target_parts){
        .uma = &uma, .uma_ctx = s, .cta = &cta, .cta_ctx = s, .say = stage_say, .ctx = s});
    assert_non_null(s->target);
    return s;
}

// The table has changed.
static inline void stage_advertise(struct stage *s)
{
    s->table.generation++;
    nvme_for_uma.advertise(s->target, &s->table);
}

// The volume, and two more, as one group: namespaces 1 to 3.
static inline void stage_group(struct stage *s)
{
    for (unsigned i = 0; i < 3; i++) {
        s->rows[i] = s->row;
        s->rows[i].volume += i;
        s->rows[i].places[VOLUME_IN_SUBSYSTEM] =
            (struct volume_place){.group = "group", .member = i + 1};
    }
    s->row = s->rows[0];
    s->table = (struct resource_table){.count = 3, .rows = s->rows};
}

static inline void stage_destroy(struct stage *s)
{
    nvme_target_destroy(s->target);
    free(s);
}

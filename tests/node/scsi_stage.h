// A SCSI target alone: a volume in memory behind it, whose CTA does what the test says, and two
// initiators before it, whose transport has all data at once or waits to be told.
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
#include "node/interface/request.h"
#include "node/scsi/device.h"

enum {
    STAGE_BLOCK_LEN = 512,
    STAGE_BLOCKS = 4096,
    STAGE_LEN = STAGE_BLOCKS * STAGE_BLOCK_LEN,
    STAGE_VOLUME = 7,
    STAGE_CONNECTION = 40, // and the next
    STAGE_HELD_MAX = 8,
    STAGE_TRACE_MAX = 4096,
    STAGE_ALL = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_FUA | VOLUME_CAN_TRIM |
                VOLUME_CAN_WRITE_ZEROES,
};

struct scsi_stage {
    struct scsi_target *target;
    struct it_nexus its[2];
    struct nexus nexuses[2];
    struct resource row;

    // The volume, and the CTA before it.
    uint8_t volume[STAGE_LEN], buffer[STAGE_LEN];
    const struct node_extent *extents; // the answer to NODE_EXTENTS
    unsigned extent_count;
    char trace[STAGE_TRACE_MAX]; // what was asked of the volume, a line each
    bool holds;                  // requests wait
    struct service_request *held[STAGE_HELD_MAX];
    unsigned held_count;
    unsigned fails_at, served; // the request that ends with `completion`; 0: none
    enum node_completion completion;
    uint32_t miscompare_at;
    bool is_writing;              // between transfer and transferred of a write
    enum node_completion outcome; // of the last transfer

    // Its reservation.
    struct reservation reservation;
    bool has_reservation;
    struct reservation_request reserved; // what was wished last
    enum reservation_outcome reserve_outcome;
    uint32_t unclaimed_by;
    bool unclaimed_any, may_claim;

    // The transport.
    uint8_t out[STAGE_LEN]; // what initiators have
    uint8_t in[STAGE_LEN];  // what they were given last
    uint32_t in_len;
    bool holds_fetch;
    bool holds_delivery;
    bool keeps_fetch; // what it forgets comes all the same
    struct scsi_task *fetching;
    unsigned forgotten;
    unsigned ended; // tasks
    unsigned turns; // tasks whose turn had come

    struct scsi_task task; // of stage_run
};

static struct scsi_stage *stage; // there is one: services have no other way to it

/* ---- the volume ------------------------------------------------------------------------------ */

static void stage_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void stage_note(const char *format, ...)
{
    size_t len = strlen(stage->trace);
    va_list args;
    va_start(args, format);
    vsnprintf(stage->trace + len, sizeof stage->trace - len, format, args);
    va_end(args);
}

static void stage_carry_out(struct service_request *request)
{
    request->completion = ++stage->served == stage->fails_at ? stage->completion : NODE_OK;
    request->data = stage->buffer;
    request->buffer.len = request->data_len;
    bool moves = request->completion == NODE_OK && request->data_len > 0;
    if (moves && request->operation == NODE_EXTENTS) {
        assert_true(stage->extent_count * sizeof *stage->extents <= request->data_len);
        request->buffer.len = (uint32_t)(stage->extent_count * sizeof *stage->extents);
        memcpy(stage->buffer, stage->extents, request->buffer.len);
    }
    if (moves && request->operation == NODE_READ) {
        memcpy(stage->buffer, stage->volume + request->offset, request->len);
    }
    if (moves) {
        stage->is_writing = request->operation == NODE_WRITE;
        scsi_for_cta.transfer(stage->target, request, 0);
        return;
    }
    if (request->completion == NODE_OK && request->operation == NODE_WRITE_ZEROES) {
        memset(stage->volume + request->offset, 0, request->len);
    }
    scsi_for_cta.complete(stage->target, request, 0);
}

static void stage_submit(void *cta, struct service_request *request, instant_ns now)
{
    assert_true(request->offset + request->len <= STAGE_LEN);
    assert_true(request->deadline == INSTANT_NEVER);
    stage_note("%s %llu+%llu%s%s\n", node_operation_facts(request->operation)->name,
               (unsigned long long)request->offset / STAGE_BLOCK_LEN,
               (unsigned long long)request->len / STAGE_BLOCK_LEN,
               (request->flags & NODE_FUA) != 0 ? " fua" : "",
               (request->flags & NODE_NO_HOLE) != 0 ? " allocated" : "");
    if (stage->holds) {
        stage->held[stage->held_count++] = request;
    } else {
        stage_carry_out(request);
    }
}

// The oldest that waits.
static inline void stage_release(void)
{
    struct service_request *request = stage->held[0];
    assert_true(stage->held_count > 0);
    memmove(&stage->held[0], &stage->held[1], --stage->held_count * sizeof stage->held[0]);
    stage_carry_out(request);
}

static void stage_transferred(void *cta, struct service_request *request,
                              enum node_completion outcome, instant_ns now)
{
    stage->outcome = outcome;
    uint8_t *at = stage->volume + request->offset;
    if (request->operation == NODE_COMPARE_AND_WRITE) {
        bool is_same = memcmp(at, stage->buffer, request->len) == 0;
        if (outcome == NODE_OK && is_same) {
            memcpy(at, stage->buffer + request->len, request->len);
        }
        request->completion = outcome == NODE_OK && !is_same ? NODE_MISCOMPARE : outcome;
        request->miscompare_at = stage->miscompare_at;
        scsi_for_cta.complete(stage->target, request, now);
    } else if (request->operation == NODE_OR_WRITE) {
        for (uint64_t i = 0; outcome == NODE_OK && i < request->len; i++) {
            at[i] |= stage->buffer[i];
        }
        request->completion = outcome;
        scsi_for_cta.complete(stage->target, request, now);
    } else if (request->operation == NODE_WRITE) {
        if (outcome == NODE_OK) {
            memcpy(at, stage->buffer, request->len);
        }
        request->completion = outcome;
        scsi_for_cta.complete(stage->target, request, now);
    }
}

static const struct reservation *stage_reservation(void *cta, uint32_t connection)
{
    return stage->has_reservation ? &stage->reservation : NULL;
}

static void stage_reserve(void *cta, struct reservation_request *request, instant_ns now)
{
    stage->reserved = *request;
    request->outcome = stage->reserve_outcome;
    scsi_for_cta.on_reserved(stage->target, request, now);
}

static bool stage_claim(void *cta, uint32_t connection)
{
    if (stage->may_claim) {
        stage->reservation.claimed_by = connection;
    }
    return stage->may_claim;
}

static void stage_unclaim(void *cta, uint32_t connection, bool of_any)
{
    stage->unclaimed_by = connection;
    stage->unclaimed_any = of_any;
}

static const struct cta_for_tts stage_cta = {.submit = stage_submit,
                                             .transferred = stage_transferred,
                                             .reservation = stage_reservation,
                                             .reserve = stage_reserve,
                                             .claim = stage_claim,
                                             .unclaim = stage_unclaim};

/* ---- the transport --------------------------------------------------------------------------- */

static inline void stage_fetch_now(struct scsi_task *task)
{
    stage->fetching = NULL;
    memcpy(task->data, stage->out, task->data_len);
    task_fetched(task, true, 0);
}

static void stage_fetch(struct scsi_task *task, instant_ns now)
{
    assert_true(task->data_len <= task->out_max);
    stage->fetching = task;
    if (!stage->holds_fetch) {
        stage_fetch_now(task);
    }
}

static bool stage_forget(struct scsi_task *task)
{
    stage->fetching = stage->fetching == task ? NULL : stage->fetching;
    stage->forgotten++;
    return !stage->keeps_fetch;
}

static void stage_deliver(struct scsi_task *task, instant_ns now)
{
    assert_true(task->data_len <= task->in_max);
    memcpy(stage->in, task->data, task->data_len);
    stage->in_len = task->data_len;
    if (!stage->holds_delivery) {
        stage->ended++;
        task_delivered(task, true, now);
    }
}

static void stage_respond(struct scsi_task *task, instant_ns now)
{
    stage->ended++;
}

static void stage_turn(struct scsi_task *task)
{
    stage->turns++;
}

static const struct scsi_transport stage_transport = {.fetch = stage_fetch,
                                                      .forget = stage_forget,
                                                      .deliver = stage_deliver,
                                                      .respond = stage_respond,
                                                      .turn = stage_turn};

/* ---- commands -------------------------------------------------------------------------------- */

#define CDB(...) ((const uint8_t[SCSI_CDB_LEN]){__VA_ARGS__})

// Begins a task of the initiator's, which takes and has so many octets.
static inline void stage_begin(struct scsi_task *task, unsigned initiator, const uint8_t *cdb,
                               uint32_t in_max, uint32_t out_max)
{
    *task = (struct scsi_task){
        .nexus = &stage->nexuses[initiator], .in_max = in_max, .out_max = out_max};
    memcpy(task->cdb, cdb, SCSI_CDB_LEN);
    stage->in_len = 0;
    task_execute(task, 0);
}

// The whole of it, by the first initiator, with what `out` has.
static inline enum scsi_status_code stage_run(const uint8_t *cdb, uint32_t in_max, uint32_t out_max)
{
    unsigned before = stage->ended;
    stage->trace[0] = '\0';
    stage_begin(&stage->task, 0, cdb, in_max, out_max);
    assert_int_equal(stage->ended, before + 1);
    assert_int_equal(stage->nexuses[0].scratch_len, 0);
    return stage->task.status;
}

static inline void expect_good(const uint8_t *cdb, uint32_t in_max, uint32_t out_max,
                               const char *trace)
{
    assert_int_equal(stage_run(cdb, in_max, out_max), SCSI_GOOD);
    assert_string_equal(stage->trace, trace);
}

static inline void expect_fault(const uint8_t *cdb, uint32_t in_max, uint32_t out_max,
                                enum scsi_fault fault)
{
    assert_int_equal(stage_run(cdb, in_max, out_max), SCSI_CHECK_CONDITION);
    assert_int_equal(stage->task.fault, fault);
}

// What is answered at once, whole.
static inline void expect_data(const uint8_t *cdb, const uint8_t *octets, uint32_t len)
{
    expect_good(cdb, UINT16_MAX, 0, "");
    assert_int_equal(stage->in_len, len);
    assert_memory_equal(stage->in, octets, len);
    assert_int_equal(stage->task.whole_len, len);
}

#define EXPECT_DATA(cdb, ...)                              \
    do {                                                   \
        static const uint8_t octets[] = {__VA_ARGS__};     \
        expect_data(cdb, octets, (uint32_t)sizeof octets); \
    } while (0)

// What the initiators are told of the volume from now on.
static inline void stage_advertise(void)
{
    const struct resource_table table = {.count = 1, .rows = &stage->row};
    scsi_target_advertise(stage->target, &table);
}

static inline void stage_become(uint32_t abilities)
{
    stage->row.abilities = abilities;
    stage_advertise();
    stage->nexuses[0].attentions = stage->nexuses[1].attentions = 0;
}

/* ---- putting it together --------------------------------------------------------------------- */

static inline int stage_setup(void **state)
{
    const struct scsi_target_parts parts = {.cta = &stage_cta};
    stage = calloc(1, sizeof *stage);
    stage->target = scsi_target_create(&parts);
    stage->row = (struct resource){.volume = STAGE_VOLUME,
                                   .name = "disk",
                                   .state = RESOURCE_READY,
                                   .abilities = STAGE_ALL,
                                   .profile = {.size = STAGE_LEN,
                                               .block_size = STAGE_BLOCK_LEN,
                                               .preferred = 8192,
                                               .lineage.count = 1}};
    for (unsigned i = 0; i < VOLUME_UUID_LEN; i++) {
        stage->row.identity.uuid[i] = (uint8_t)(0x80 + i);
        stage->row.profile.lineage.uuids[0][i] = (uint8_t)(0x40 + i);
    }
    for (uint32_t i = 0; i < STAGE_LEN; i++) {
        stage->volume[i] = (uint8_t)(i * 3 + i / 1000 + 1);
        stage->out[i] = (uint8_t)(i * 5 + i / 700 + 2);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct it_nexus *it = &stage->its[i];
        struct nexus *nexus = &stage->nexuses[i];
        *it = (struct it_nexus){.transport = &stage_transport,
                                .target = stage->target,
                                .target_name = "iqn.test:disk,t,0x0001",
                                .protocol = 5,
                                .protocol_version = 0x0960};
        snprintf(it->initiator_port, sizeof it->initiator_port, "iqn.host%u,i,0x80", i);
        it_nexus_begin(it);
        *nexus = (struct nexus){.it = it, .connection = STAGE_CONNECTION + i};
        assert_true(nexus_begin(nexus, &stage->row));
        nexus->attentions = 0;
    }
    return 0;
}

static inline int stage_teardown(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(stage->nexuses[i].scratch_len, 0);
        nexus_leave(&stage->nexuses[i]);
        nexus_end(&stage->nexuses[i]);
    }
    scsi_target_destroy(stage->target);
    free(stage);
    return 0;
}

#define STAGE_TEST(name) cmocka_unit_test_setup_teardown(name, stage_setup, stage_teardown)

// The life of a task: its data moved, itself given to the CTA, its end.

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

/* ---- ends ------------------------------------------------------------------------------------ */

static void scratch_destroy(struct scsi_task *task)
{
    task->nexus->scratch_len -= task->scratch_len;
    free(task->scratch);
    task->scratch = NULL;
    task->scratch_len = 0;
}

// The task is the transport's again once it has heard of this.
static void leave(struct scsi_task *task)
{
    scratch_destroy(task);
    order_leave(task);
    list_remove(&task->link);
}

static void respond(struct scsi_task *task, instant_ns now)
{
    leave(task);
    task->nexus->it->transport->respond(task, now);
}

void task_succeed(struct scsi_task *task, instant_ns now)
{
    task->status = SCSI_GOOD;
    respond(task, now);
}

void task_fail(struct scsi_task *task, enum scsi_fault fault, instant_ns now)
{
    task->nexus->it->target->counters.errors++;
    task->status = SCSI_CHECK_CONDITION;
    task->fault = fault;
    respond(task, now);
}

void task_fail_at(struct scsi_task *task, enum scsi_fault fault, uint64_t information,
                  instant_ns now)
{
    task->has_information = true;
    task->information = information;
    task_fail(task, fault, now);
}

void task_refuse(struct scsi_task *task, enum scsi_status_code status, instant_ns now)
{
    task->nexus->it->target->counters.refusals++;
    task->status = status;
    respond(task, now);
}

void task_conflict(struct scsi_task *task, instant_ns now)
{
    task->status = SCSI_RESERVATION_CONFLICT;
    respond(task, now);
}

uint32_t task_sense_emit(const struct scsi_task *task, uint8_t *ret)
{
    const struct logical_unit *unit = task->nexus->unit;
    struct scsi_sense sense = {.fault = task->fault,
                               .has_information = task->has_information,
                               .information = task->information,
                               .has_field = task->fails_by_naca,
                               .field = (uint8_t)(scsi_cdb_len(task->cdb[0]) - 1),
                               .bit = SCSI_NACA_BIT};
    return scsi_sense_emit(ret, &sense, unit != NULL && unit->mode.has_descriptor_sense);
}

/* ---- data ------------------------------------------------------------------------------------ */

bool task_scratch_create(struct scsi_task *task, uint32_t len, instant_ns now)
{
    struct nexus *nexus = task->nexus;
    CHECK(task->scratch == NULL && len > 0);
    bool has_room = len <= SCSI_SCRATCH_OF_NEXUS_MAX - nexus->scratch_len;
    task->scratch = has_room ? calloc(1, len) : NULL;
    if (task->scratch == NULL) {
        task_refuse(task, SCSI_TASK_SET_FULL, now);
        return false;
    }
    task->scratch_len = len;
    nexus->scratch_len += len;
    return true;
}

void task_transferred(struct scsi_task *task, enum node_completion outcome, instant_ns now)
{
    const struct scsi_target_parts *parts = &task->nexus->it->target->parts;
    parts->cta->transferred(parts->cta_ctx, &task->service, outcome, now);
}

void task_fetched(struct scsi_task *task, bool is_there, instant_ns now)
{
    CHECK(task->is_fetching);
    task->is_fetching = false;
    is_there &= !task->is_aborted;
    task->moved_len += is_there ? task->data_len : 0;
    if (task->on_fetched == NULL) {
        task_transferred(task, is_there ? NODE_OK : NODE_TRANSFER, now); // it completes
    } else if (is_there) {
        task->on_fetched(task, now);
    } else {
        task_fail(task, task->fault != FAULT_NONE ? task->fault : FAULT_TRANSFER, now);
    }
}

static void fetch(struct scsi_task *task, void *data, uint32_t len, instant_ns now)
{
    task->data = data;
    task->data_len = len;
    task->is_fetching = true;
    if (task->is_aborted) {
        task_fetched(task, false, now);
    } else {
        task->nexus->it->transport->fetch(task, now);
    }
}

void task_fetch(struct scsi_task *task, void *data, uint32_t len, instant_ns now)
{
    task->on_fetched = NULL;
    fetch(task, data, len, now);
}

void task_fetch_scratch(struct scsi_task *task, uint32_t len,
                        void (*on_fetched)(struct scsi_task *task, instant_ns now), instant_ns now)
{
    CHECK(len <= task->scratch_len);
    task->whole_len = len;
    if (task->out_max < len) {
        task_fail(task, FAULT_LIST_LENGTH, now);
        return;
    }
    task->on_fetched = on_fetched;
    fetch(task, task->scratch, len, now);
}

void task_delivered(struct scsi_task *task, bool is_there, instant_ns now)
{
    bool is_of_cta = task->data != task->scratch;
    leave(task);
    if (is_of_cta) {
        task_transferred(task, is_there ? NODE_OK : NODE_TRANSFER, now);
    }
}

void task_deliver(struct scsi_task *task, void *data, uint32_t len, instant_ns now)
{
    task->status = SCSI_GOOD;
    task->data = data;
    task->data_len = len < task->in_max ? len : task->in_max;
    if (task->is_aborted) {
        task_delivered(task, false, now);
        task->nexus->it->transport->respond(task, now);
    } else {
        order_leave(task); // initiators that are slow to take data keep nobody waiting
        task->is_delivering = true;
        task->nexus->it->transport->deliver(task, now);
    }
}

void task_deliver_scratch(struct scsi_task *task, uint32_t len, uint32_t max, instant_ns now)
{
    len = len < max ? len : max;
    CHECK(len <= task->scratch_len);
    task->whole_len = len;
    if (len == 0 || task->in_max == 0) {
        task_succeed(task, now);
    } else {
        task_deliver(task, task->scratch, len, now);
    }
}

/* ---- to the CTA ------------------------------------------------------------------------------ */

void task_submit(struct scsi_task *task, const struct task_way *way, enum node_operation operation,
                 unsigned flags, uint64_t lba, uint64_t blocks, instant_ns now)
{
    const struct nexus *nexus = task->nexus;
    const struct scsi_target_parts *parts = &nexus->it->target->parts;
    uint64_t len = blocks * task->block_len;
    bool swaps = operation == NODE_COMPARE_AND_WRITE;
    bool has_data =
        operation == NODE_READ || operation == NODE_WRITE || operation == NODE_OR_WRITE || swaps;
    uint32_t answer_len =
        operation == NODE_EXTENTS ? TASK_EXTENT_MAX * sizeof(struct node_extent) : 0;
    task->way = way;
    task->service =
        (struct service_request){.connection = nexus->connection,
                                 .operation = (uint8_t)operation,
                                 .flags = (uint16_t)flags,
                                 .offset = lba * task->block_len,
                                 .len = len,
                                 .data_len = has_data ? (uint32_t)len << swaps : answer_len,
                                 .deadline = INSTANT_NEVER};
    parts->cta->submit(parts->cta_ctx, &task->service, now);
}

void task_abort(struct scsi_task *task, instant_ns now)
{
    task->is_aborted = true;
    task->abort = ++task->nexus->it->target->abort_count;
    if (task->place == TASK_WAITS) {
        respond(task, now);
    } else if (task->is_fetching && task->nexus->it->transport->forget(task)) {
        task_fetched(task, false, now);
    }
}

// What is done with a command on its way: its data moved by the transport, itself given to the CTA,
// its response.

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_wire.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/sgl.h"

/* ---- ends of commands ------------------------------------------------------------------------ */

static void scratch_release(struct nvme_queue *queue, instant_ns now)
{
    struct list_link *l = queue->is_closed ? NULL : list_pop_head(&queue->scratch_waiters);
    queue->scratch_holder = NULL;
    if (l != NULL) {
        struct nvme_command *next = LIST_ENTRY(l, struct nvme_command, wait_link);
        queue->scratch_holder = next;
        next->on_scratch(next, now);
    }
}

void nvme_command_end(struct nvme_command *command, instant_ns now)
{
    struct nvme_queue *queue = command->queue;
    CHECK(queue->under_way > 0 && command->stage != NVME_FREE);
    command->stage = NVME_FREE;
    nvme_unbind(command);
    queue->under_way--;
    list_push_head(&queue->free, &command->wait_link);
    if (queue->scratch_holder == command) {
        scratch_release(queue, now);
    }
    queue->parts.transport->wake(queue->parts.connection);
}

void nvme_command_drop(struct nvme_command *command)
{
    CHECK(command->queue->is_closed);
    nvme_command_end(command, 0);
}

static void respond(struct nvme_command *command)
{
    struct nvme_queue *queue = command->queue;
    if (queue->is_closed) {
        nvme_command_drop(command);
        return;
    }
    command->stage = NVME_RESPONDING;
    queue->parts.transport->respond(queue->parts.connection, command);
}

void nvme_command_succeed(struct nvme_command *command)
{
    command->status = NVME_OK;
    respond(command);
}

static uint64_t lba_of(const struct nvme_command *command)
{
    return command->queue->qid != 0 ? get_le64(command->sqe + NVME_RW_OFF_SLBA) : 0;
}

static void log_error(struct nvme_controller *c, const struct nvme_command *command,
                      unsigned location)
{
    uint64_t count = ++c->error_count;
    c->errors[count % NVME_ERROR_LOG_COUNT] =
        (struct nvme_error){.count = count,
                            .lba = lba_of(command),
                            .nsid = get_le32(command->sqe + NVME_SQE_OFF_NSID),
                            .sqid = command->queue->qid,
                            .cid = get_le16(command->sqe + NVME_SQE_OFF_CID),
                            .status = command->status,
                            .location = (uint16_t)location};
}

void nvme_command_fail(struct nvme_command *command, unsigned status, unsigned location)
{
    struct nvme_controller *c = command->queue->controller;
    command->queue->target->counters.errors++;
    command->status = (uint16_t)(status | (c != NULL ? NVME_STATUS_MORE : 0));
    if (c != NULL) {
        log_error(c, command, location);
    }
    respond(command);
}

void nvme_command_refuse(struct nvme_command *command, unsigned status, unsigned location)
{
    nvme_command_fail(command, status | NVME_STATUS_DNR, location);
}

void nvme_command_abort(struct nvme_command *command, unsigned status)
{
    command->status = (uint16_t)status;
    respond(command);
}

static struct nvme_command *waiter_find(const struct list_link *waiters, uint16_t cid)
{
    for (struct list_link *l = waiters->next; l != waiters; l = l->next) {
        struct nvme_command *command = LIST_ENTRY(l, struct nvme_command, wait_link);
        if (get_le16(command->sqe + NVME_SQE_OFF_CID) == cid) {
            return command;
        }
    }
    return NULL;
}

// For the scratch or for its namespace. One of two that are fused does not end alone.
bool nvme_waiter_abort(struct nvme_queue *queue, uint16_t cid)
{
    struct nvme_command *command = waiter_find(&queue->scratch_waiters, cid);
    command = command != NULL ? command : waiter_find(&queue->unbound, cid);
    if (command == NULL || nvme_is_fused(command)) {
        return false;
    }
    list_remove(&command->wait_link);
    nvme_command_abort(command, NVME_ABORT_REQUESTED);
    return true;
}

void nvme_command_cqe(struct nvme_command *command, uint8_t *ret)
{
    struct nvme_queue *queue = command->queue;
    queue->head = queue->entries > 0 ? (queue->head + 1) % queue->entries : 0;
    put_le64(ret + NVME_CQE_OFF_RESULT, command->result);
    put_le16(ret + NVME_CQE_OFF_SQHD,
             queue->has_flow_control ? (uint16_t)queue->head : NVME_SQHD_NONE);
    put_le16(ret + NVME_CQE_OFF_SQID, queue->qid);
    memcpy(ret + NVME_CQE_OFF_CID, command->sqe + NVME_SQE_OFF_CID, 2);
    put_le16(ret + NVME_CQE_OFF_STATUS, (uint16_t)(command->status << NVME_CQE_STATUS_SHIFT));
}

/* ---- data ------------------------------------------------------------------------------------ */

void nvme_command_fetch(struct nvme_command *command)
{
    struct nvme_queue *queue = command->queue;
    command->stage = NVME_FETCHING;
    queue->parts.transport->fetch(queue->parts.connection, command);
}

void nvme_command_deliver(struct nvme_command *command)
{
    struct nvme_queue *queue = command->queue;
    command->status = NVME_OK;
    command->stage = NVME_DELIVERING;
    queue->parts.transport->deliver(queue->parts.connection, command);
}

// A capsule brings data, and takes none back: there descriptors are of other kinds.
static unsigned kinds_for(const struct nvme_command *command)
{
    unsigned direction = command->sqe[NVME_SQE_OFF_OPCODE] & NVME_OPCODE_DIRECTION_MASK;
    unsigned kinds = command->queue->parts.transport->sgl_kinds;
    return direction == NVME_OPCODE_TO_HOST ? kinds & ~(unsigned)NVME_SGL_KIND_IN_CAPSULE : kinds;
}

bool nvme_command_can_move(struct nvme_command *command, uint32_t len)
{
    enum nvme_status status =
        nvme_sgl_check(&command->sgl, kinds_for(command), command->in_capsule_len, len);
    if (status != NVME_OK) {
        nvme_command_refuse(command, status, NVME_SQE_OFF_SGL1);
    }
    return status == NVME_OK;
}

void nvme_scratch_take(struct nvme_command *command, uint32_t len,
                       void (*on_scratch)(struct nvme_command *command, instant_ns now),
                       instant_ns now)
{
    struct nvme_queue *queue = command->queue;
    CHECK(len <= queue->parts.scratch.len);
    command->data = queue->parts.scratch.ptr;
    command->data_len = len;
    command->on_scratch = on_scratch;
    if (queue->scratch_holder != NULL) {
        command->stage = NVME_WAITING;
        list_push_tail(&queue->scratch_waiters, &command->wait_link);
        return;
    }
    queue->scratch_holder = command;
    on_scratch(command, now);
}

void nvme_scratch_fetch(struct nvme_command *command,
                        void (*on_fetched)(struct nvme_command *command, instant_ns now))
{
    command->on_fetched = on_fetched;
    nvme_command_fetch(command);
}

void nvme_command_deliver_scratch(struct nvme_command *command, uint32_t len)
{
    command->data_len = len;
    nvme_command_deliver(command);
}

void nvme_command_deliver_piece(struct nvme_command *command, uint32_t len,
                                void (*on_delivered)(struct nvme_command *command, instant_ns now))
{
    command->has_more = true;
    command->on_fetched = on_delivered;
    nvme_command_deliver_scratch(command, len);
}

/* ---- to the CTA ------------------------------------------------------------------------------ */

void nvme_command_submit(struct nvme_command *command, enum node_operation operation,
                         unsigned flags, uint64_t offset, uint64_t len, instant_ns now)
{
    struct nvme_target *target = command->queue->target;
    bool swaps = operation == NODE_COMPARE_AND_WRITE;
    bool has_data =
        operation == NODE_READ || operation == NODE_WRITE || operation == NODE_COMPARE || swaps;
    command->stage = NVME_AT_CTA;
    command->service = (struct service_request){.connection = nvme_connection_of(command),
                                                .operation = (uint8_t)operation,
                                                .flags = (uint16_t)flags,
                                                .offset = offset,
                                                .len = len,
                                                .data_len = has_data ? (uint32_t)len << swaps : 0,
                                                .deadline = INSTANT_NEVER};
    target->parts.cta->submit(target->parts.cta_ctx, &command->service, now);
}

// Where the volume has no FUA of its own, a flush behind the command makes the same of it.
unsigned nvme_command_stable_flags(struct nvme_command *command)
{
    const struct nvme_controller *c = command->queue->controller;
    uint32_t abilities = c->namespaces[command->nsid - 1].volume.abilities;
    bool is_wished = (get_le16(command->sqe + NVME_RW_OFF_CONTROL) & NVME_RW_FUA) != 0;
    bool has_fua = (abilities & VOLUME_CAN_FUA) != 0;
    command->flushes_behind = is_wished && !has_fua && (abilities & VOLUME_CAN_FLUSH) != 0;
    return is_wished && has_fua ? NODE_FUA : 0;
}

bool nvme_command_flush_behind(struct nvme_command *command, instant_ns now)
{
    if (!command->flushes_behind) {
        return false;
    }
    command->flushes_behind = false;
    nvme_command_submit(command, NODE_FLUSH, 0, 0, 0, now);
    return true;
}

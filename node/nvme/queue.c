// Queues, and what comes to their commands: capsules and moved data from the transport, buffers and
// answers from the CTA.

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/request.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"
#include "node/nvme/sgl.h"

/* ---- a queue's life -------------------------------------------------------------------------- */

struct nvme_queue *nvme_queue_create(const struct nvme_queue_parts *parts)
{
    struct nvme_queue *queue =
        calloc(1, sizeof *queue + parts->command_count * sizeof queue->commands[0]);
    if (queue == NULL) {
        return NULL;
    }
    CHECK(parts->scratch.len >= NVME_SCRATCH_LEN);
    queue->parts = *parts;
    queue->target = parts->target;
    list_init(&queue->free);
    list_init(&queue->scratch_waiters);
    list_init(&queue->unbound);
    list_init(&queue->unsettled_link);
    for (uint32_t i = 0; i < parts->command_count; i++) {
        queue->commands[i].queue = queue;
        list_push_tail(&queue->free, &queue->commands[i].wait_link);
    }
    list_push_tail(&queue->target->queues, &queue->link);
    return queue;
}

void nvme_queue_destroy(struct nvme_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    struct nvme_target *target = queue->target;
    CHECK(nvme_queue_is_over(queue));
    nvme_bindings_end(queue);
    if (queue->controller != NULL) {
        nvme_controller_leave(queue->controller, queue);
    }
    list_remove(&queue->link);
    free(queue);
    nvme_connect_pending(target);
}

void nvme_queue_force_destroy(struct nvme_queue *queue)
{
    if (queue != NULL) {
        list_remove(&queue->link);
        list_remove(&queue->unsettled_link);
        free(queue);
    }
}

bool nvme_queue_is_idle(const struct nvme_queue *queue)
{
    return queue->under_way == 0;
}

bool nvme_queue_is_over(const struct nvme_queue *queue)
{
    return queue->is_closed && queue->under_way == 0 && queue->asked_nsid == 0;
}

bool nvme_queue_is_connected(const struct nvme_queue *queue)
{
    return queue->state == NVME_QUEUE_CONNECTED;
}

bool nvme_queue_has_flow_control(const struct nvme_queue *queue)
{
    return queue->has_flow_control;
}

static void drop_all(struct list_link *waiters)
{
    for (struct list_link *l; (l = list_pop_head(waiters)) != NULL;) {
        nvme_command_drop(LIST_ENTRY(l, struct nvme_command, wait_link));
    }
}

static void unbound_drop(struct nvme_queue *queue, instant_ns now)
{
    for (struct list_link *l; (l = list_pop_head(&queue->unbound)) != NULL;) {
        struct nvme_command *command = LIST_ENTRY(l, struct nvme_command, wait_link);
        if (nvme_is_fused(command)) {
            nvme_fused_complete(command, NODE_NO_VOLUME, now); // the other one, too
        } else {
            nvme_command_drop(command);
        }
    }
}

void nvme_queue_close(struct nvme_queue *queue, instant_ns now)
{
    struct nvme_controller *c = queue->controller;
    if (queue->is_closed) {
        return;
    }
    queue->is_closed = true;
    drop_all(&queue->scratch_waiters);
    unbound_drop(queue, now);
    if (queue->fused_first != NULL) {
        nvme_command_drop(queue->fused_first);
        queue->fused_first = NULL;
    }
    if (queue->connecting != NULL && queue->connecting->stage == NVME_WAITING) {
        nvme_command_drop(queue->connecting);
        queue->connecting = NULL;
    }
    if (c != NULL && c->queues[0] == queue) {
        drop_all(&c->event_requests);
        c->event_request_count = 0;
        nvme_controller_end(c, "its admin queue has ended");
    }
    nvme_unsettle(queue);
    queue->parts.transport->wake(queue->parts.connection);
}

/* ---- from the transport ---------------------------------------------------------------------- */

static void execute(struct nvme_command *command, instant_ns now)
{
    const uint8_t *sqe = command->sqe;
    if (nvme_fused_take(command, now)) {
        return;
    }
    if ((sqe[NVME_SQE_OFF_FLAGS] & NVME_SQE_PSDT_MASK) != NVME_SQE_PSDT_SGL) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_FLAGS);
    } else if (sqe[NVME_SQE_OFF_OPCODE] == NVME_FABRICS) {
        nvme_fabrics_execute(command, now);
    } else if (command->queue->state != NVME_QUEUE_CONNECTED) {
        nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_SQE_OFF_OPCODE);
    } else if (command->queue->qid == 0) {
        nvme_admin_execute(command, now);
    } else {
        nvme_io_execute(command, now);
    }
}

bool nvme_queue_on_capsule(struct nvme_queue *queue, const uint8_t *sqe, uint32_t in_capsule_len,
                           void *capsule, instant_ns now)
{
    struct list_link *l = list_pop_head(&queue->free);
    if (l == NULL) {
        return false;
    }
    struct nvme_command *command = LIST_ENTRY(l, struct nvme_command, wait_link);
    command->sgl = nvme_sgl_parse(sqe + NVME_SQE_OFF_SGL1);
    command->capsule = capsule;
    command->in_capsule_len = in_capsule_len;
    command->data = NULL;
    command->data_len = command->data_at = 0;
    command->has_more = false;
    command->nsid = 0;
    command->result = 0;
    command->transfer_status = NVME_OK;
    command->stage = NVME_WAITING;
    command->flushes_behind = false;
    command->compare = command->fused_write = NULL;
    memcpy(command->sqe, sqe, NVME_SQE_LEN);
    queue->under_way++;
    queue->target->counters.commands++;
    if (queue->controller != NULL) {
        queue->controller->heard_ns = now;
    }
    execute(command, now);
    return true;
}

// Data of the CTA's buffer have been moved, or have not.
static void service_moved(struct nvme_command *command, enum nvme_status status, instant_ns now)
{
    struct nvme_target *target = command->queue->target;
    bool is_read = command->stage == NVME_DELIVERING;
    command->transfer_status = (uint16_t)status;
    command->stage = NVME_AT_CTA;
    if (nvme_is_fused(command)) {
        nvme_fused_moved(command, now);
        return;
    }
    target->parts.cta->transferred(target->parts.cta_ctx, &command->service,
                                   status == NVME_OK ? NODE_OK : NODE_TRANSFER, now);
    if (is_read) {
        nvme_command_end(command, now);
    }
}

// Data of the scratch have been, and the command goes on.
static void scratch_moved(struct nvme_command *command, enum nvme_status status, instant_ns now)
{
    if (command->queue->is_closed) {
        nvme_command_drop(command);
    } else if (status != NVME_OK) {
        nvme_connect_forget(command->queue);
        nvme_command_fail(command, status, NVME_ERROR_NO_LOCATION);
    } else {
        command->on_fetched(command, now);
    }
}

void nvme_command_done(struct nvme_command *command, enum nvme_status status, instant_ns now)
{
    bool has_scratch = command->queue->scratch_holder == command;
    bool has_data = command->stage == NVME_FETCHING || command->stage == NVME_DELIVERING;
    CHECK(has_data || command->stage == NVME_RESPONDING);
    command->queue->target->counters.transfers_bad += status != NVME_OK && has_data;
    if (has_data && !has_scratch) {
        service_moved(command, status, now);
    } else if (command->stage == NVME_FETCHING || (has_data && command->has_more)) {
        scratch_moved(command, status, now);
    } else {
        nvme_command_end(command, now);
    }
}

/* ---- the CTA --------------------------------------------------------------------------------- */

static void on_transfer(void *ctx, struct service_request *service, instant_ns now)
{
    struct nvme_command *command = LIST_ENTRY(service, struct nvme_command, service);
    bool is_read = service->operation == NODE_READ;
    if (nvme_is_fused(command)) {
        nvme_fused_transfer(command, now);
        return;
    }
    if (nvme_io_take_buffer(command, now)) {
        return;
    }
    command->data = service->data;
    command->data_len = service->buffer.len;
    if (command->queue->is_closed) {
        command->stage = is_read ? NVME_DELIVERING : NVME_FETCHING;
        service_moved(command, NVME_DATA_TRANSFER_ERROR, now);
    } else if (is_read) {
        nvme_command_deliver(command);
    } else {
        nvme_command_fetch(command);
    }
}

static void on_complete(void *ctx, struct service_request *service, instant_ns now)
{
    struct nvme_command *command = LIST_ENTRY(service, struct nvme_command, service);
    if (nvme_is_fused(command)) {
        nvme_fused_complete(command, service->completion, now);
    } else if (command->queue->is_closed) {
        nvme_command_drop(command);
    } else {
        nvme_io_complete(command, service->completion, now);
    }
}

const struct tts_for_cta nvme_for_cta = {
    .transfer = on_transfer,
    .complete = on_complete,
    .on_reserved = nvme_on_reserved,
    .on_reservation = nvme_on_reservation,
};

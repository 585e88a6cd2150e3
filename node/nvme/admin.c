// Admin commands: what each is allowed to, async events.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

/* ---- async events ---------------------------------------------------------------------------- */

static const struct {
    uint32_t event, result;
} events[] = {
    {NVME_EVENT_NAMESPACE_ATTRIBUTES, NVME_EVENT_RESULT_NAMESPACE_ATTRIBUTES},
    {NVME_EVENT_ANA_CHANGE, NVME_EVENT_RESULT_ANA_CHANGE},
    {NVME_EVENT_DISCOVERY_CHANGE, NVME_EVENT_RESULT_DISCOVERY_CHANGE},
    {NVME_EVENT_RESERVATION, NVME_EVENT_RESULT_RESERVATION},
};

// Reports what is pending, as far as the host has asked for it and read what it was told before.
static void events_report(struct nvme_controller *c)
{
    for (unsigned i = 0; i < sizeof events / sizeof events[0]; i++) {
        uint32_t event = c->pending_events & c->enabled_events & ~c->masked_events;
        struct list_link *l;
        if ((event & events[i].event) == 0 || (l = list_pop_head(&c->event_requests)) == NULL) {
            continue;
        }
        struct nvme_command *command = LIST_ENTRY(l, struct nvme_command, wait_link);
        c->event_request_count--;
        c->pending_events &= ~events[i].event;
        c->masked_events |= events[i].event;
        command->result = events[i].result;
        nvme_command_succeed(command);
    }
}

void nvme_event_raise(struct nvme_controller *c, uint32_t event)
{
    c->pending_events |= event;
    events_report(c);
}

void nvme_event_read(struct nvme_controller *c, uint32_t event)
{
    c->masked_events &= ~event;
    events_report(c);
}

static void request_end(struct nvme_controller *c, struct nvme_command *command, unsigned status)
{
    c->event_request_count--;
    list_remove(&command->wait_link);
    nvme_command_abort(command, status);
}

// With the queue that they were sent to a former controller by, as hosts see it.
void nvme_events_abort(struct nvme_controller *c)
{
    c->pending_events = c->masked_events = 0;
    while (!list_is_empty(&c->event_requests)) {
        request_end(c, LIST_ENTRY(c->event_requests.next, struct nvme_command, wait_link),
                    NVME_ABORTED_SQ_DELETED);
    }
}

// False: no such request waits.
static bool event_request_abort(struct nvme_controller *c, uint16_t cid)
{
    for (struct list_link *l = c->event_requests.next; l != &c->event_requests; l = l->next) {
        struct nvme_command *command = LIST_ENTRY(l, struct nvme_command, wait_link);
        if (get_le16(command->sqe + NVME_SQE_OFF_CID) == cid) {
            request_end(c, command, NVME_ABORT_REQUESTED);
            return true;
        }
    }
    return false;
}

uint32_t nvme_events_offered(const struct nvme_controller *c)
{
    return c->is_discovery ? NVME_EVENT_DISCOVERY_CHANGE
                           : NVME_EVENT_NAMESPACE_ATTRIBUTES | NVME_EVENT_ANA_CHANGE;
}

static void execute_event_request(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    if (c->event_request_count == NVME_EVENT_REQUEST_MAX) {
        nvme_command_refuse(command, NVME_AER_LIMIT, NVME_SQE_OFF_OPCODE);
        return;
    }
    c->event_request_count++;
    command->stage = NVME_WAITING;
    list_push_tail(&c->event_requests, &command->wait_link);
    events_report(c);
}

/* ---- the commands ---------------------------------------------------------------------------- */

// Of the queue; what has begun ends by itself.
static bool waiter_abort(struct nvme_controller *c, uint16_t sqid, uint16_t cid)
{
    struct nvme_queue *queue = sqid <= NVME_IO_QUEUE_COUNT_MAX ? c->queues[sqid] : NULL;
    return queue != NULL && nvme_waiter_abort(queue, cid);
}

static void execute_abort(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    uint16_t sqid = get_le16(command->sqe + NVME_ABORT_OFF_SQID);
    uint16_t cid = get_le16(command->sqe + NVME_ABORT_OFF_CID);
    bool is_aborted = (sqid == 0 && event_request_abort(c, cid)) || waiter_abort(c, sqid, cid);
    command->result = is_aborted ? 0 : NVME_ABORT_NOT_ABORTED;
    nvme_command_succeed(command);
}

static void execute_keep_alive(struct nvme_command *command, instant_ns now)
{
    nvme_command_succeed(command); // that it came is enough
}

static const struct admin_facts {
    void (*execute)(struct nvme_command *command, instant_ns now);
    bool is_for_discovery;
    bool names_namespace; // it may
} commands[] = {
    [NVME_ADMIN_GET_LOG_PAGE] = {nvme_get_log, true, false},
    [NVME_ADMIN_IDENTIFY] = {nvme_identify, true, true},
    [NVME_ADMIN_ABORT] = {execute_abort, false, false},
    [NVME_ADMIN_SET_FEATURES] = {nvme_set_features, true, true},
    [NVME_ADMIN_GET_FEATURES] = {nvme_get_features, true, true},
    [NVME_ADMIN_ASYNC_EVENT_REQUEST] = {execute_event_request, true, false},
    [NVME_ADMIN_KEEP_ALIVE] = {execute_keep_alive, true, false},
};

uint32_t nvme_admin_effects(const struct nvme_controller *c, uint8_t opcode)
{
    bool is_known = opcode < sizeof commands / sizeof commands[0];
    const struct admin_facts *facts = is_known ? &commands[opcode] : NULL;
    if (opcode != NVME_FABRICS && (facts == NULL || facts->execute == NULL)) {
        return 0;
    }
    bool names_namespace = facts != NULL && facts->names_namespace;
    return NVME_EFFECTS_SUPPORTED | NVME_EFFECTS_OF_CONTROLLER |
           (names_namespace ? NVME_EFFECTS_OF_NAMESPACE : 0);
}

void nvme_admin_execute(struct nvme_command *command, instant_ns now)
{
    const struct nvme_controller *c = command->queue->controller;
    uint8_t opcode = command->sqe[NVME_SQE_OFF_OPCODE];
    bool is_known = opcode < sizeof commands / sizeof commands[0] &&
                    commands[opcode].execute != NULL &&
                    (!c->is_discovery || commands[opcode].is_for_discovery);
    bool needs_ready = opcode != NVME_ADMIN_KEEP_ALIVE;
    if (!is_known) {
        nvme_command_refuse(command, NVME_INVALID_OPCODE, NVME_SQE_OFF_OPCODE);
    } else if (needs_ready && (c->csts & NVME_CSTS_RDY) == 0) {
        nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_SQE_OFF_OPCODE);
    } else {
        commands[opcode].execute(command, now);
    }
}

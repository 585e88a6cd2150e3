// Admin commands: what each is allowed to, features, async events.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"
#include "node/nvme/pages.h"
#include "node/nvme/wire.h"

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

// With the queue that they were sent to a former controller by, as hosts see it.
void nvme_events_abort(struct nvme_controller *c)
{
    c->event_request_count = 0;
    c->pending_events = c->masked_events = 0;
    for (struct list_link *l; (l = list_pop_head(&c->event_requests)) != NULL;) {
        struct nvme_command *command = LIST_ENTRY(l, struct nvme_command, wait_link);
        nvme_command_abort(command, NVME_ABORTED_SQ_DELETED);
    }
}

static void execute_event_request(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    if (c->event_request_count == NVME_EVENT_REQUEST_MAX) {
        nvme_command_fail(command, NVME_AER_LIMIT | NVME_STATUS_DNR, NVME_SQE_OFF_OPCODE);
        return;
    }
    c->event_request_count++;
    command->stage = NVME_WAITING;
    list_push_tail(&c->event_requests, &command->wait_link);
    events_report(c);
}

/* ---- features -------------------------------------------------------------------------------- */

uint32_t nvme_events_offered(const struct nvme_controller *c)
{
    return c->is_discovery ? NVME_EVENT_DISCOVERY_CHANGE
                           : NVME_EVENT_NAMESPACE_ATTRIBUTES | NVME_EVENT_ANA_CHANGE;
}

static uint32_t queues_granted(const struct nvme_controller *c)
{
    uint32_t less_1 = c->is_discovery ? 0 : c->io_queue_count - 1;
    return less_1 | less_1 << 16;
}

static bool has_io_queues(const struct nvme_controller *c)
{
    bool has_any = false;
    for (unsigned i = 1; i <= NVME_IO_QUEUE_COUNT_MAX; i++) {
        const struct nvme_queue *queue = c->queues[i];
        has_any |= queue != NULL && !queue->is_closed && !queue->is_leaving;
    }
    return has_any;
}

// So many queues as the host wishes of both kinds, less 1; before it has any.
static void set_queue_count(struct nvme_command *command, uint32_t value)
{
    struct nvme_controller *c = command->queue->controller;
    uint32_t submission = value & 0xffff, completion = value >> 16;
    uint32_t wished = submission < completion ? submission : completion;
    if (submission == UINT16_MAX || completion == UINT16_MAX) {
        nvme_command_fail(command, NVME_INVALID_FIELD | NVME_STATUS_DNR, NVME_SQE_OFF_CDW11);
        return;
    }
    if (has_io_queues(c)) {
        nvme_command_fail(command, NVME_COMMAND_SEQUENCE_ERROR | NVME_STATUS_DNR,
                          NVME_SQE_OFF_CDW10);
        return;
    }
    c->io_queue_count = wished < NVME_IO_QUEUE_COUNT_MAX ? wished + 1 : NVME_IO_QUEUE_COUNT_MAX;
    command->result = queues_granted(c);
    nvme_command_succeed(command);
}

// Of a namespace, or of all. False: there is no such.
static bool notices_mask(struct nvme_controller *c, uint32_t nsid, uint32_t masked)
{
    struct nvme_namespace *ns = nvme_namespace_find(c, nsid);
    if (ns != NULL) {
        ns->masked_notices = masked;
        return true;
    }
    for (uint32_t i = 0; i < NVME_NAMESPACE_COUNT_MAX && nsid == NVME_NSID_ALL; i++) {
        c->namespaces[i].masked_notices = masked;
    }
    return nsid == NVME_NSID_ALL;
}

static void execute_set_features(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    uint32_t cdw10 = get_le32(command->sqe + NVME_SQE_OFF_CDW10);
    uint32_t value = get_le32(command->sqe + NVME_SQE_OFF_CDW11);
    uint32_t nsid = get_le32(command->sqe + NVME_SQE_OFF_NSID);
    uint8_t feature = (uint8_t)cdw10;
    if ((cdw10 & NVME_FEATURE_SAVE) != 0) {
        nvme_command_fail(command, NVME_FEATURE_NOT_SAVEABLE | NVME_STATUS_DNR,
                          NVME_SQE_OFF_CDW10 + 3);
        return;
    }
    switch (feature) {
    case NVME_FEATURE_NUMBER_OF_QUEUES:
        set_queue_count(command, value);
        return;
    case NVME_FEATURE_HOST_IDENTIFIER: // the Connect has told it
        nvme_command_fail(command, NVME_COMMAND_SEQUENCE_ERROR | NVME_STATUS_DNR,
                          NVME_SQE_OFF_CDW10);
        return;
    case NVME_FEATURE_ASYNC_EVENTS:
        c->enabled_events = (value & nvme_events_offered(c)) | NVME_EVENT_RESERVATION;
        break;
    case NVME_FEATURE_KEEP_ALIVE_TIMER:
        if (value > NVME_KATO_MAX_MS) {
            nvme_command_fail(command, NVME_KEEP_ALIVE_INVALID | NVME_STATUS_DNR,
                              NVME_SQE_OFF_CDW11);
            return;
        }
        nvme_keep_alive_begin(c, value, now);
        break;
    case NVME_FEATURE_RESERVATION_MASK:
        if (!notices_mask(c, nsid, value & NVME_NOTICE_MASK_ALL)) {
            nvme_command_fail(command, NVME_INVALID_NAMESPACE | NVME_STATUS_DNR, NVME_SQE_OFF_NSID);
            return;
        }
        break;
    case NVME_FEATURE_ARBITRATION:
    case NVME_FEATURE_POWER_MANAGEMENT:
    case NVME_FEATURE_TEMPERATURE:
    case NVME_FEATURE_ERROR_RECOVERY:
    case NVME_FEATURE_RESERVATION_PERSISTENCE: // by Reservation Register
    case NVME_FEATURE_VOLATILE_WRITE_CACHE:
    case NVME_FEATURE_WRITE_ATOMICITY:
        nvme_command_fail(command, NVME_FEATURE_NOT_CHANGEABLE | NVME_STATUS_DNR,
                          NVME_SQE_OFF_CDW10);
        return;
    default:
        nvme_command_fail(command, NVME_INVALID_FIELD | NVME_STATUS_DNR, NVME_SQE_OFF_CDW10);
        return;
    }
    nvme_command_succeed(command);
}

static void get_feature_of_namespace(struct nvme_command *command, uint8_t feature)
{
    uint32_t nsid = get_le32(command->sqe + NVME_SQE_OFF_NSID);
    const struct nvme_namespace *ns = nvme_namespace_find(command->queue->controller, nsid);
    if (ns == NULL) {
        nvme_command_fail(command, NVME_INVALID_NAMESPACE | NVME_STATUS_DNR, NVME_SQE_OFF_NSID);
        return;
    }
    const struct reservation *r = nvme_reservation_of(command->queue->controller, nsid);
    command->result =
        feature == NVME_FEATURE_RESERVATION_MASK ? ns->masked_notices : r != NULL && r->persists;
    nvme_command_succeed(command);
}

static void on_hostid_scratch(struct nvme_command *command, instant_ns now)
{
    memcpy(command->data, command->queue->controller->hostid, NVME_HOSTID_LEN);
    nvme_command_deliver_scratch(command, NVME_HOSTID_LEN);
}

// Over fabrics an identifier has 128 bits.
static void get_host_identifier(struct nvme_command *command, instant_ns now)
{
    if ((get_le32(command->sqe + NVME_SQE_OFF_CDW11) & NVME_HOSTID_EXTENDED) == 0) {
        nvme_command_fail(command, NVME_INVALID_FIELD | NVME_STATUS_DNR, NVME_SQE_OFF_CDW11);
    } else if (nvme_command_can_move(command, NVME_HOSTID_LEN)) {
        nvme_scratch_take(command, NVME_HOSTID_LEN, on_hostid_scratch, now);
    }
}

// There is no sensor whose temperature could be over the one or under the other.
static void get_temperature_threshold(struct nvme_command *command)
{
    unsigned which =
        get_le32(command->sqe + NVME_SQE_OFF_CDW11) >> NVME_TEMPERATURE_THSEL_SHIFT & 3;
    if (which > NVME_TEMPERATURE_UNDER) {
        nvme_command_fail(command, NVME_INVALID_FIELD | NVME_STATUS_DNR, NVME_SQE_OFF_CDW11 + 2);
        return;
    }
    command->result = which == NVME_TEMPERATURE_UNDER ? 0 : UINT16_MAX;
    nvme_command_succeed(command);
}

static void execute_get_features(struct nvme_command *command, instant_ns now)
{
    const struct nvme_controller *c = command->queue->controller;
    uint8_t feature = (uint8_t)get_le32(command->sqe + NVME_SQE_OFF_CDW10);
    switch (feature) {
    case NVME_FEATURE_NUMBER_OF_QUEUES:
        command->result = queues_granted(c);
        break;
    case NVME_FEATURE_ASYNC_EVENTS:
        command->result = c->enabled_events & nvme_events_offered(c);
        break;
    case NVME_FEATURE_KEEP_ALIVE_TIMER:
        command->result = c->kato_ms;
        break;
    case NVME_FEATURE_VOLATILE_WRITE_CACHE:
        command->result = (nvme_namespace_abilities(c) & VOLUME_CAN_FLUSH) != 0;
        break;
    case NVME_FEATURE_RESERVATION_MASK:
    case NVME_FEATURE_RESERVATION_PERSISTENCE:
        get_feature_of_namespace(command, feature);
        return;
    case NVME_FEATURE_HOST_IDENTIFIER:
        get_host_identifier(command, now);
        return;
    case NVME_FEATURE_TEMPERATURE:
        get_temperature_threshold(command);
        return;
    case NVME_FEATURE_ARBITRATION:
    case NVME_FEATURE_POWER_MANAGEMENT:
    case NVME_FEATURE_ERROR_RECOVERY:
    case NVME_FEATURE_WRITE_ATOMICITY:
        break; // what they steer is not there
    default:
        nvme_command_fail(command, NVME_INVALID_FIELD | NVME_STATUS_DNR, NVME_SQE_OFF_CDW10);
        return;
    }
    nvme_command_succeed(command);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void execute_abort(struct nvme_command *command, instant_ns now)
{
    command->result = 1; // not aborted: what has begun ends by itself
    nvme_command_succeed(command);
}

static void execute_keep_alive(struct nvme_command *command, instant_ns now)
{
    nvme_command_succeed(command); // that it came is enough
}

static const struct admin_facts {
    void (*execute)(struct nvme_command *command, instant_ns now);
    bool is_for_discovery;
} commands[] = {
    [NVME_ADMIN_GET_LOG_PAGE] = {nvme_get_log, true},
    [NVME_ADMIN_IDENTIFY] = {nvme_identify, true},
    [NVME_ADMIN_ABORT] = {execute_abort, false},
    [NVME_ADMIN_SET_FEATURES] = {execute_set_features, true},
    [NVME_ADMIN_GET_FEATURES] = {execute_get_features, true},
    [NVME_ADMIN_ASYNC_EVENT_REQUEST] = {execute_event_request, true},
    [NVME_ADMIN_KEEP_ALIVE] = {execute_keep_alive, true},
};

uint32_t nvme_admin_effects(const struct nvme_controller *c, uint8_t opcode)
{
    bool is_there = opcode == NVME_FABRICS || (opcode < sizeof commands / sizeof commands[0] &&
                                               commands[opcode].execute != NULL);
    return is_there ? NVME_EFFECTS_SUPPORTED : 0;
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
        nvme_command_fail(command, NVME_INVALID_OPCODE | NVME_STATUS_DNR, NVME_SQE_OFF_OPCODE);
    } else if (needs_ready && (c->csts & NVME_CSTS_RDY) == 0) {
        nvme_command_fail(command, NVME_COMMAND_SEQUENCE_ERROR | NVME_STATUS_DNR,
                          NVME_SQE_OFF_OPCODE);
    } else {
        commands[opcode].execute(command, now);
    }
}

// Fabrics commands: Connect, which makes a queue one of a controller, and properties.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/uma_tts.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

/* ---- Connect --------------------------------------------------------------------------------- */

// What a Connect asks for.
struct wish {
    uint16_t qid, sqsize, cntlid;
    uint32_t kato_ms;
    const uint8_t *hostid;
    char subnqn[NVME_NQN_MAX];
    char hostnqn[NVME_NQN_MAX];
};

static void connect_refuse(struct nvme_command *command, const struct wish *wish, unsigned status,
                           const char *why)
{
    struct nvme_queue *queue = command->queue;
    struct client client = {.address = ""};
    memcpy(client.address, queue->parts.host_address, sizeof client.address);
    memcpy(client.host, queue->parts.host, sizeof client.host);
    if (wish != NULL) {
        memcpy(client.identity, wish->hostnqn, sizeof wish->hostnqn);
    }
    queue->state = NVME_QUEUE_NEW;
    queue->connecting = NULL;
    nvme_say_refused(queue->target, &client, wish != NULL ? wish->subnqn : "", why);
    nvme_command_fail(command, status, NVME_ERROR_NO_LOCATION);
}

// The result says where the parameter stands that is wrong.
static void connect_refuse_parameter(struct nvme_command *command, const struct wish *wish,
                                     unsigned location, const char *why)
{
    command->result = location;
    connect_refuse(command, wish, NVME_CONNECT_INVALID | NVME_STATUS_DNR, why);
}

// A name ends within its field, and is no longer than names may be. A host may have none: there is
// nothing that it names here but itself, and SPDK's tools have none if they are not given one.
static bool name_take(char ret[NVME_NQN_MAX], const uint8_t *field)
{
    const uint8_t *end = memchr(field, '\0', NVME_NQN_MAX);
    if (end == NULL) {
        ret[0] = '\0';
        return false;
    }
    memcpy(ret, field, (size_t)(end - field) + 1);
    return true;
}

static void connected(struct nvme_command *command)
{
    struct nvme_queue *queue = command->queue;
    queue->state = NVME_QUEUE_CONNECTED;
    queue->connecting = NULL;
    queue->target->counters.queues++;
    command->result = queue->controller->cntlid;
    nvme_command_succeed(command);
}

// The queue as the Connect wants it.
static void adopt(struct nvme_queue *queue, const struct nvme_command *command,
                  const struct wish *wish)
{
    uint16_t attributes = get_le16(command->sqe + NVME_CONNECT_OFF_CATTR);
    queue->qid = wish->qid;
    queue->entries = wish->sqsize + 1U;
    queue->head = 0;
    queue->has_flow_control = (attributes & NVME_CATTR_NO_SQ_FLOW_CONTROL) == 0;
}

/* ---- an admin queue -------------------------------------------------------------------------- */

// Who the host is, as the UMA and the allow lists know it.
static struct client client_of(const struct nvme_queue *queue, const struct wish *wish)
{
    struct client client = {.address = ""};
    memcpy(client.address, queue->parts.host_address, sizeof client.address);
    memcpy(client.host, queue->parts.host, sizeof client.host);
    memcpy(client.identity, wish->hostnqn, sizeof wish->hostnqn);
    nvme_registrant_name(wish->hostid, client.registrant);
    nvme_service_name(queue->parts.transport->trtype, client.service);
    return client;
}

static void controller_begin(struct nvme_command *command, const struct wish *wish,
                             bool is_discovery, instant_ns now)
{
    struct nvme_queue *queue = command->queue;
    if (!nvme_controller_is_allowed(queue->target, queue->parts.host, is_discovery)) {
        connect_refuse(command, wish, NVME_CONNECT_BUSY, "too many controllers are of its address");
        return;
    }
    struct nvme_controller *c = nvme_controller_begin(queue->target);
    if (c == NULL) {
        connect_refuse(command, wish, NVME_CONNECT_BUSY,
                       "the node has as many controllers as it can");
        return;
    }
    c->is_discovery = is_discovery;
    c->client = client_of(queue, wish);
    memcpy(c->hostid, wish->hostid, sizeof c->hostid);
    memcpy(c->subnqn, wish->subnqn, sizeof c->subnqn);
    nvme_namespaces_begin(c);
    adopt(queue, command, wish);
    nvme_controller_join(c, queue);
    nvme_keep_alive_begin(c, wish->kato_ms, now);
    connected(command);
}

static void connect_admin(struct nvme_command *command, const struct wish *wish, instant_ns now)
{
    struct nvme_target *target = command->queue->target;
    struct client client = client_of(command->queue, wish);
    bool is_discovery = strcmp(wish->subnqn, NVME_DISCOVERY_NQN) == 0;
    enum nvme_found found =
        is_discovery ? NVME_FOUND_READY : nvme_subsystem_find(target, wish->subnqn, &client);
    if (wish->cntlid != NVME_CNTLID_DYNAMIC) {
        connect_refuse_parameter(command, wish, NVME_CONNECT_DATA_OFF_CNTLID | NVME_CONNECT_IN_DATA,
                                 "an admin queue names a controller");
    } else if (found == NVME_FOUND_NOTHING) {
        connect_refuse_parameter(command, wish, NVME_CONNECT_DATA_OFF_SUBNQN | NVME_CONNECT_IN_DATA,
                                 "there is no such subsystem");
    } else if (found == NVME_FOUND_NOT_ALLOWED) {
        connect_refuse(command, wish, NVME_CONNECT_INVALID_HOST | NVME_STATUS_DNR,
                       "it is not on the volume's list of clients (`allow`)");
    } else if (wish->kato_ms > NVME_KATO_MAX_MS) {
        connect_refuse_parameter(command, wish, NVME_CONNECT_OFF_KATO,
                                 "its keep-alive time-out is beyond an hour");
    } else if (target->is_stopping || found == NVME_FOUND_NOT_READY) {
        connect_refuse(command, wish, NVME_CONNECT_BUSY, "the volume is not ready");
    } else {
        controller_begin(command, wish, is_discovery, now);
    }
}

/* ---- an I/O queue ---------------------------------------------------------------------------- */

// The UMA has answered.
static void on_answered(struct nvme_queue *queue, enum connect_status status)
{
    struct nvme_command *command = queue->connecting;
    if (queue->is_closed) {
        queue->connecting = NULL;
        nvme_command_drop(command);
    } else if (status == CONNECT_OK) {
        bool is_first = nvme_controller_first_io(queue->controller) == NULL;
        connected(command);
        if (is_first) {
            nvme_bind_all(queue);
        }
    } else {
        bool may_retry = status == CONNECT_NOT_READY || status == CONNECT_TOO_MANY;
        nvme_say_refused(queue->target, &queue->connect.client, queue->controller->subnqn,
                         connect_status_name(status));
        queue->state = NVME_QUEUE_NEW;
        queue->connecting = NULL;
        nvme_controller_leave(queue->controller, queue);
        nvme_command_fail(
            command, may_retry ? NVME_CONNECT_BUSY : NVME_CONNECT_INVALID_HOST | NVME_STATUS_DNR,
            NVME_ERROR_NO_LOCATION);
    }
}

// Which parameter is wrong: its place, with the reason; 0: none.
static unsigned io_fault(const struct nvme_controller *c, const struct wish *wish,
                         const struct nvme_queue *queue, const char **ret_why)
{
    if (c == NULL) {
        *ret_why = "there is no such controller";
        return NVME_CONNECT_DATA_OFF_CNTLID | NVME_CONNECT_IN_DATA;
    }
    if (strcmp(c->subnqn, wish->subnqn) != 0) {
        *ret_why = "the controller is another subsystem's";
        return NVME_CONNECT_DATA_OFF_SUBNQN | NVME_CONNECT_IN_DATA;
    }
    if (strcmp(c->client.identity, wish->hostnqn) != 0) {
        *ret_why = "the controller is another host's";
        return NVME_CONNECT_DATA_OFF_HOSTNQN | NVME_CONNECT_IN_DATA;
    }
    if (memcmp(c->hostid, wish->hostid, sizeof c->hostid) != 0) {
        *ret_why = "the controller's host has another identifier";
        return NVME_CONNECT_DATA_OFF_HOSTID | NVME_CONNECT_IN_DATA;
    }
    if (c->is_discovery) { // nor namespaces that a queue could be bound to
        *ret_why = "a discovery controller has no I/O queues";
        return NVME_CONNECT_OFF_QID;
    }
    if (wish->qid > c->io_queue_count || c->queues[0]->parts.transport != queue->parts.transport) {
        *ret_why = "the queue was not granted";
        return NVME_CONNECT_OFF_QID;
    }
    return 0;
}

static void connect_io(struct nvme_command *command, const struct wish *wish)
{
    struct nvme_queue *queue = command->queue;
    struct nvme_controller *c = nvme_controller_find(queue->target, wish->cntlid);
    const char *why = NULL;
    unsigned fault = io_fault(c, wish, queue, &why);
    if (fault != 0) {
        connect_refuse_parameter(command, wish, fault, why);
    } else if ((c->csts & NVME_CSTS_RDY) == 0) {
        connect_refuse(command, wish, NVME_COMMAND_SEQUENCE_ERROR | NVME_STATUS_DNR,
                       "the controller is not enabled");
    } else if (c->queues[wish->qid] != NULL) {
        connect_refuse(command, wish, NVME_COMMAND_SEQUENCE_ERROR | NVME_STATUS_DNR,
                       "the queue is there already");
    } else {
        adopt(queue, command, wish);
        nvme_controller_join(c, queue);
        queue->connecting = command;
        command->stage = NVME_WAITING;
        nvme_bind_first(queue, nvme_namespace_next(c, 0), on_answered);
    }
}

static void on_connect_data(struct nvme_command *command, instant_ns now)
{
    const uint8_t *data = command->data;
    struct wish wish = {.qid = get_le16(command->sqe + NVME_CONNECT_OFF_QID),
                        .sqsize = get_le16(command->sqe + NVME_CONNECT_OFF_SQSIZE),
                        .kato_ms = get_le32(command->sqe + NVME_CONNECT_OFF_KATO),
                        .cntlid = get_le16(data + NVME_CONNECT_DATA_OFF_CNTLID),
                        .hostid = data + NVME_CONNECT_DATA_OFF_HOSTID};
    const bool has_end = name_take(wish.subnqn, data + NVME_CONNECT_DATA_OFF_SUBNQN);
    if (!has_end || wish.subnqn[0] == '\0') {
        connect_refuse_parameter(command, &wish,
                                 NVME_CONNECT_DATA_OFF_SUBNQN | NVME_CONNECT_IN_DATA,
                                 "the subsystem's name is empty or does not end");
    } else if (!name_take(wish.hostnqn, data + NVME_CONNECT_DATA_OFF_HOSTNQN)) {
        connect_refuse_parameter(command, &wish,
                                 NVME_CONNECT_DATA_OFF_HOSTNQN | NVME_CONNECT_IN_DATA,
                                 "the host's name does not end");
    } else if (wish.qid == 0) {
        connect_admin(command, &wish, now);
    } else {
        connect_io(command, &wish);
    }
}

void nvme_connect_forget(struct nvme_queue *queue)
{
    if (queue->state == NVME_QUEUE_CONNECTING) {
        queue->state = NVME_QUEUE_NEW;
    }
}

static void on_connect_scratch(struct nvme_command *command, instant_ns now)
{
    nvme_scratch_fetch(command, on_connect_data);
}

static void execute_connect(struct nvme_command *command, instant_ns now)
{
    struct nvme_queue *queue = command->queue;
    const uint8_t *sqe = command->sqe;
    uint16_t qid = get_le16(sqe + NVME_CONNECT_OFF_QID);
    uint16_t sqsize = get_le16(sqe + NVME_CONNECT_OFF_SQSIZE);
    if (queue->state != NVME_QUEUE_NEW) {
        nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_SQE_OFF_FCTYPE);
    } else if (get_le16(sqe + NVME_CONNECT_OFF_RECFMT) != 0) {
        connect_refuse(command, NULL, NVME_CONNECT_INCOMPATIBLE | NVME_STATUS_DNR,
                       "the record format is not 0");
    } else if (queue->parts.qid >= 0 && queue->parts.qid != qid) {
        connect_refuse_parameter(command, NULL, NVME_CONNECT_OFF_QID,
                                 "the queue is not the one that the connection is for");
    } else if (sqsize == 0 || sqsize >= NVME_QUEUE_DEPTH_MAX) {
        connect_refuse_parameter(command, NULL, NVME_CONNECT_OFF_SQSIZE,
                                 "a queue has 2 to 128 entries");
    } else if (nvme_command_can_move(command, NVME_CONNECT_DATA_LEN)) {
        queue->state = NVME_QUEUE_CONNECTING;
        nvme_scratch_take(command, NVME_CONNECT_DATA_LEN, on_connect_scratch, now);
    }
}

/* ---- properties ------------------------------------------------------------------------------ */

static uint64_t capabilities(void)
{
    return (NVME_QUEUE_DEPTH_MAX - 1) | NVME_CAP_CQR | UINT64_C(30) << NVME_CAP_TO_SHIFT |
           NVME_CAP_CSS_NVM;
}

static void execute_get(struct nvme_command *command)
{
    const struct nvme_controller *c = command->queue->controller;
    bool is_8 = (command->sqe[NVME_PROPERTY_OFF_ATTRIB] & 7) == 1;
    uint32_t offset = get_le32(command->sqe + NVME_PROPERTY_OFF_OFFSET);
    switch (offset) {
    case NVME_PROPERTY_CAP:
        command->result = capabilities();
        break;
    case NVME_PROPERTY_VS:
        command->result = NVME_VERSION_1_4;
        break;
    case NVME_PROPERTY_CC:
        command->result = c->cc;
        break;
    case NVME_PROPERTY_CSTS:
        command->result = c->csts;
        break;
    default:
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_PROPERTY_OFF_OFFSET);
        return;
    }
    if (is_8 != (offset == NVME_PROPERTY_CAP)) {
        command->result = 0;
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_PROPERTY_OFF_ATTRIB);
    } else {
        nvme_command_succeed(command);
    }
}

static bool is_possible(const struct nvme_controller *c, uint32_t cc)
{
    bool has_sizes = ((cc >> NVME_CC_IOSQES_SHIFT) & 15) == NVME_SQE_LEN_LOG2 &&
                     ((cc >> NVME_CC_IOCQES_SHIFT) & 15) == NVME_CQE_LEN_LOG2;
    return ((cc >> NVME_CC_CSS_SHIFT) & 7) == 0 && ((cc >> NVME_CC_MPS_SHIFT) & 15) == 0 &&
           ((cc >> NVME_CC_AMS_SHIFT) & 7) == 0 && (has_sizes || c->is_discovery);
}

static void configure(struct nvme_controller *c, uint32_t cc)
{
    bool was_enabled = (c->cc & NVME_CC_EN) != 0, is_enabled = (cc & NVME_CC_EN) != 0;
    bool is_shut = ((cc >> NVME_CC_SHN_SHIFT) & 3) != 0;
    c->cc = cc;
    if (!was_enabled && is_enabled) {
        c->csts = is_possible(c, cc) ? NVME_CSTS_RDY : NVME_CSTS_CFS;
    } else if (was_enabled && !is_enabled) {
        c->csts = 0;
        c->enabled_events = NVME_EVENT_RESERVATION; // which no host enables
        nvme_events_abort(c);
        c->io_queue_count = NVME_IO_QUEUE_COUNT_MAX; // until the host says how many
        nvme_controller_end_io(c, "the host has reset its controller");
    }
    // Nothing waits in volatile memory here that a Flush has not been sent for.
    c->csts = is_shut ? c->csts | NVME_CSTS_SHST_DONE : c->csts & ~NVME_CSTS_SHST_DONE;
}

static void execute_set(struct nvme_command *command)
{
    if ((command->sqe[NVME_PROPERTY_OFF_ATTRIB] & 7) != 0) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_PROPERTY_OFF_ATTRIB);
    } else if (get_le32(command->sqe + NVME_PROPERTY_OFF_OFFSET) != NVME_PROPERTY_CC) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_PROPERTY_OFF_OFFSET);
    } else {
        configure(command->queue->controller, get_le32(command->sqe + NVME_PROPERTY_OFF_VALUE));
        nvme_command_succeed(command);
    }
}

void nvme_fabrics_execute(struct nvme_command *command, instant_ns now)
{
    struct nvme_queue *queue = command->queue;
    uint8_t type = command->sqe[NVME_SQE_OFF_FCTYPE];
    bool is_property = type == NVME_FCTYPE_PROPERTY_GET || type == NVME_FCTYPE_PROPERTY_SET;
    bool is_admin = queue->state == NVME_QUEUE_CONNECTED && queue->qid == 0;
    if (type == NVME_FCTYPE_CONNECT) {
        execute_connect(command, now);
    } else if (is_property && is_admin && type == NVME_FCTYPE_PROPERTY_GET) {
        execute_get(command);
    } else if (is_property && is_admin) {
        execute_set(command);
    } else if (is_property) {
        nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_SQE_OFF_FCTYPE);
    } else {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_FCTYPE);
    }
}

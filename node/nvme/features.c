// Features: what each is to a controller, and who may change it.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

static uint32_t value_of(const struct nvme_command *command)
{
    return get_le32(command->sqe + NVME_SQE_OFF_CDW11);
}

static void tell(struct nvme_command *command, uint32_t value)
{
    command->result = value;
    nvme_command_succeed(command);
}

static uint32_t default_nothing(const struct nvme_controller *c)
{
    return 0;
}

// What they steer is not there.
static void get_nothing(struct nvme_command *command, instant_ns now)
{
    tell(command, 0);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static uint32_t queues(const struct nvme_controller *c, unsigned count)
{
    uint32_t less_1 = c->is_discovery ? 0 : count - 1;
    return less_1 | less_1 << 16;
}

static uint32_t queues_granted(const struct nvme_controller *c)
{
    return queues(c, c->io_queue_count);
}

static uint32_t default_queue_count(const struct nvme_controller *c)
{
    return queues(c, NVME_IO_QUEUE_COUNT_MAX);
}

static void get_queue_count(struct nvme_command *command, instant_ns now)
{
    tell(command, queues_granted(command->queue->controller));
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
static void set_queue_count(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    uint32_t submission = value_of(command) & 0xffff, completion = value_of(command) >> 16;
    uint32_t wished = submission < completion ? submission : completion;
    if (submission == UINT16_MAX || completion == UINT16_MAX) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW11);
    } else if (has_io_queues(c)) {
        nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_SQE_OFF_CDW10);
    } else {
        c->io_queue_count = wished < NVME_IO_QUEUE_COUNT_MAX ? wished + 1 : NVME_IO_QUEUE_COUNT_MAX;
        tell(command, queues_granted(c));
    }
}

/* ---- what a host is told, and how long it is waited for -------------------------------------- */

static void get_events(struct nvme_command *command, instant_ns now)
{
    const struct nvme_controller *c = command->queue->controller;
    tell(command, c->enabled_events & nvme_events_offered(c));
}

static void set_events(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    c->enabled_events = (value_of(command) & nvme_events_offered(c)) | NVME_EVENT_RESERVATION;
    nvme_command_succeed(command);
}

static void get_keep_alive(struct nvme_command *command, instant_ns now)
{
    tell(command, command->queue->controller->kato_ms);
}

static void set_keep_alive(struct nvme_command *command, instant_ns now)
{
    if (value_of(command) > NVME_KATO_MAX_MS) {
        nvme_command_refuse(command, NVME_KEEP_ALIVE_INVALID, NVME_SQE_OFF_CDW11);
        return;
    }
    nvme_keep_alive_begin(command->queue->controller, value_of(command), now);
    nvme_command_succeed(command);
}

// There is no sensor whose temperature could be over the one or under the other.
static void get_temperature_threshold(struct nvme_command *command, instant_ns now)
{
    unsigned which = value_of(command) >> NVME_TEMPERATURE_THSEL_SHIFT & 3;
    if (which > NVME_TEMPERATURE_UNDER) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW11 + 2);
    } else {
        tell(command, which == NVME_TEMPERATURE_UNDER ? 0 : UINT16_MAX);
    }
}

static void get_write_cache(struct nvme_command *command, instant_ns now)
{
    uint32_t abilities = nvme_namespace_abilities(command->queue->controller);
    tell(command, (abilities & VOLUME_CAN_FLUSH) != 0);
}

/* ---- the host -------------------------------------------------------------------------------- */

static void on_hostid_scratch(struct nvme_command *command, instant_ns now)
{
    memcpy(command->data, command->queue->controller->hostid, NVME_HOSTID_LEN);
    nvme_command_deliver_scratch(command, NVME_HOSTID_LEN);
}

// Over fabrics an identifier has 128 bits.
static void get_host_identifier(struct nvme_command *command, instant_ns now)
{
    if ((value_of(command) & NVME_HOSTID_EXTENDED) == 0) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW11);
    } else if (nvme_command_can_move(command, NVME_HOSTID_LEN)) {
        nvme_scratch_take(command, NVME_HOSTID_LEN, on_hostid_scratch, now);
    }
}

// The Connect has told it.
static void set_host_identifier(struct nvme_command *command, instant_ns now)
{
    nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_SQE_OFF_CDW10);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static uint32_t nsid_of(const struct nvme_command *command)
{
    return get_le32(command->sqe + NVME_SQE_OFF_NSID);
}

// NULL: there is none, and so says the status.
static struct nvme_namespace *namespace_of(struct nvme_command *command)
{
    struct nvme_namespace *ns = nvme_namespace_find(command->queue->controller, nsid_of(command));
    if (ns == NULL) {
        nvme_command_refuse(command, NVME_INVALID_NAMESPACE, NVME_SQE_OFF_NSID);
    }
    return ns;
}

static void get_reservation_mask(struct nvme_command *command, instant_ns now)
{
    const struct nvme_namespace *ns = namespace_of(command);
    if (ns != NULL) {
        tell(command, ns->masked_notices);
    }
}

static void set_reservation_mask_of_all(struct nvme_command *command, uint32_t masked)
{
    for (uint32_t i = 0; i < NVME_NAMESPACE_COUNT_MAX; i++) {
        command->queue->controller->namespaces[i].masked_notices = masked;
    }
    nvme_command_succeed(command);
}

static void set_reservation_mask(struct nvme_command *command, instant_ns now)
{
    uint32_t masked = value_of(command) & NVME_NOTICE_MASK_ALL;
    bool is_of_all = nsid_of(command) == NVME_NSID_ALL;
    struct nvme_namespace *ns = is_of_all ? NULL : namespace_of(command);
    if (is_of_all) {
        set_reservation_mask_of_all(command, masked);
    } else if (ns != NULL) {
        ns->masked_notices = masked;
        nvme_command_succeed(command);
    }
}

static void get_reservation_persistence(struct nvme_command *command, instant_ns now)
{
    if (namespace_of(command) != NULL) {
        const struct reservation *r =
            nvme_reservation_of(command->queue->controller, nsid_of(command));
        tell(command, r != NULL && r->persists);
    }
}

/* ---- the commands ---------------------------------------------------------------------------- */

static const struct feature_facts {
    uint8_t fid;
    bool is_of_namespace; // else of the controller
    void (*get)(struct nvme_command *command, instant_ns now);
    void (*set)(struct nvme_command *command, instant_ns now); // NULL: it stands
    // Before a host has set it. NULL: none can.
    uint32_t (*get_default)(const struct nvme_controller *c);
} features[] = {
    {NVME_FEATURE_ARBITRATION, false, get_nothing, NULL, NULL},
    {NVME_FEATURE_POWER_MANAGEMENT, false, get_nothing, NULL, NULL},
    {NVME_FEATURE_TEMPERATURE, false, get_temperature_threshold, NULL, NULL},
    {NVME_FEATURE_ERROR_RECOVERY, true, get_nothing, NULL, NULL},
    {NVME_FEATURE_VOLATILE_WRITE_CACHE, false, get_write_cache, NULL, NULL},
    {NVME_FEATURE_NUMBER_OF_QUEUES, false, get_queue_count, set_queue_count, default_queue_count},
    {NVME_FEATURE_WRITE_ATOMICITY, false, get_nothing, NULL, NULL},
    {NVME_FEATURE_ASYNC_EVENTS, false, get_events, set_events, default_nothing},
    {NVME_FEATURE_KEEP_ALIVE_TIMER, false, get_keep_alive, set_keep_alive, default_nothing},
    {NVME_FEATURE_HOST_IDENTIFIER, false, get_host_identifier, set_host_identifier, NULL},
    {NVME_FEATURE_RESERVATION_MASK, true, get_reservation_mask, set_reservation_mask,
     default_nothing},
    // Set by Reservation Register.
    {NVME_FEATURE_RESERVATION_PERSISTENCE, true, get_reservation_persistence, NULL, NULL},
};

static const struct feature_facts *facts_of(uint8_t fid)
{
    for (unsigned i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (features[i].fid == fid) {
            return &features[i];
        }
    }
    return NULL;
}

uint32_t nvme_feature_effects(uint8_t fid)
{
    const struct feature_facts *facts = facts_of(fid);
    if (facts == NULL) {
        return 0;
    }
    return NVME_SUPPORTED |
           (facts->is_of_namespace ? NVME_EFFECTS_OF_NAMESPACE : NVME_EFFECTS_OF_CONTROLLER);
}

void nvme_set_features(struct nvme_command *command, instant_ns now)
{
    uint32_t cdw10 = get_le32(command->sqe + NVME_SQE_OFF_CDW10);
    const struct feature_facts *facts = facts_of((uint8_t)cdw10);
    if ((cdw10 & NVME_FEATURE_SAVE) != 0) {
        nvme_command_refuse(command, NVME_FEATURE_NOT_SAVEABLE, NVME_SQE_OFF_CDW10 + 3);
    } else if (facts == NULL) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW10);
    } else if (facts->set == NULL) {
        nvme_command_refuse(command, NVME_FEATURE_NOT_CHANGEABLE, NVME_SQE_OFF_CDW10);
    } else {
        facts->set(command, now);
    }
}

static uint32_t capabilities(const struct feature_facts *facts)
{
    return (facts->is_of_namespace ? NVME_FEATURE_IS_OF_NAMESPACE : 0) |
           (facts->get_default != NULL ? NVME_FEATURE_IS_CHANGEABLE : 0);
}

// None can be saved, and what is not saved is the default (NVM Express 1.4 section 5.14.1).
void nvme_get_features(struct nvme_command *command, instant_ns now)
{
    const struct feature_facts *facts = facts_of(command->sqe[NVME_SQE_OFF_CDW10]);
    uint32_t select = get_le32(command->sqe + NVME_SQE_OFF_CDW10) >> NVME_FEATURE_SELECT_SHIFT &
                      NVME_FEATURE_SELECT_MASK;
    if (facts == NULL) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW10);
    } else if (select > NVME_SELECT_CAPABILITIES) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW10 + 1);
    } else if (select == NVME_SELECT_CAPABILITIES) {
        tell(command, capabilities(facts));
    } else if (select != NVME_SELECT_CURRENT && facts->get_default != NULL) {
        tell(command, facts->get_default(command->queue->controller));
    } else {
        facts->get(command, now);
    }
}

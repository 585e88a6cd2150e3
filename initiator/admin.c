// Commands that are waited for: those of the admin queue, and the one that makes a queue pair a
// queue of the controller.

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/poll_ms.h"
#include "clock/clock.h"
#include "initiator/agent.h"

enum { READY_WAIT_MS = 20 };

/* ---- one command ----------------------------------------------------------------------------- */

// Sends what is in the slot and waits for the answer. A command that is not answered in time ends
// the connection, since its answer and its data may still come.
static int run(struct initiator_slot *slot, const struct initiator_data *data, const char *name,
               struct initiator_admin_answer *ret, struct why *ret_why)
{
    struct weft_nvme *nvme = slot->queue->nvme;
    instant_ns until = instant_after(clock_now(), nvme->attr.timeout_ms * NS_PER_MS);
    *ret = (struct initiator_admin_answer){0};
    slot->answer = ret;
    int error = nvme->carrier->send(slot, data);
    if (error != 0) {
        initiator_slot_release(slot);
        return initiator_why(ret_why, error, "%s could not be sent: %s", name, strerror(-error));
    }
    while (!ret->is_there && !nvme->is_lost) {
        instant_ns now = clock_now();
        if (now >= until) {
            initiator_lose(nvme, -ETIMEDOUT, "%s was not answered within %u ms", name,
                           nvme->attr.timeout_ms);
            break;
        }
        bool has_more = weft_nvme_poll(nvme) != 0;
        // weft_nvme_wait looks for I/O alone, and would sleep over it.
        if (!ret->is_there && !has_more) {
            initiator_sleep(nvme, poll_ms(now, until));
        }
    }
    return ret->is_there
               ? 0
               : initiator_why(ret_why, nvme->lost_error, "%s: %s", name, nvme->lost_why.text);
}

int initiator_admin_run(struct weft_nvme *nvme, const struct initiator_admin_command *command,
                        struct initiator_admin_answer *ret, struct why *ret_why)
{
    if (nvme->is_lost) {
        return initiator_why(ret_why, -ENOTCONN, "%s: %s", command->name, nvme->lost_why.text);
    }
    struct initiator_slot *slot = initiator_queue_take(&nvme->admin);
    if (slot == NULL) {
        return initiator_why(ret_why, -EAGAIN, "%s: the admin queue is full", command->name);
    }
    uint8_t *sqe = initiator_slot_sqe(slot);
    initiator_admin_fill(sqe, command);
    if (command->fctype == NVME_FCTYPE_PROPERTY_SET && command->opcode == NVME_FABRICS) {
        put_le64(sqe + NVME_PROPERTY_OFF_VALUE, command->value);
    }
    const struct initiator_data data = initiator_admin_data(nvme, command);
    return run(slot, &data, command->name, ret, ret_why);
}

int initiator_admin_demand(struct weft_nvme *nvme, const struct initiator_admin_command *command,
                           uint64_t *ret_result, struct why *ret_why)
{
    struct initiator_admin_answer answer;
    int error = initiator_admin_run(nvme, command, &answer, ret_why);
    if (error != 0) {
        return error;
    }
    uint16_t status = answer.status & ~(NVME_STATUS_DNR | NVME_STATUS_MORE);
    if (status != NVME_OK) {
        char text[32];
        return initiator_why(ret_why, initiator_status_errno(status),
                             "the target answers %s with: %s", command->name,
                             weft_nvme_status_str(status, text));
    }
    if (ret_result != NULL) {
        *ret_result = answer.result;
    }
    return 0;
}

/* ---- Connect --------------------------------------------------------------------------------- */

static void connect_data_fill(const struct weft_nvme *nvme, uint8_t *data, bool is_admin)
{
    memset(data, 0, NVME_CONNECT_DATA_LEN);
    memcpy(data + NVME_CONNECT_DATA_OFF_HOSTID, nvme->attr.host_id, NVME_HOSTID_LEN);
    put_le16(data + NVME_CONNECT_DATA_OFF_CNTLID,
             is_admin ? NVME_CNTLID_DYNAMIC : nvme->info.controller);
    memcpy(data + NVME_CONNECT_DATA_OFF_SUBNQN, nvme->info.nqn, strlen(nvme->info.nqn));
    memcpy(data + NVME_CONNECT_DATA_OFF_HOSTNQN, nvme->host_nqn, strlen(nvme->host_nqn));
}

// The result says which octet was wrong, and of what.
static int say_invalid(const struct weft_nvme *nvme, uint64_t result, struct why *ret_why)
{
    unsigned octet = (uint16_t)result;
    if ((result & NVME_CONNECT_IN_DATA) != 0 && octet == NVME_CONNECT_DATA_OFF_SUBNQN) {
        return initiator_why(ret_why, -ENOENT, "%s:%s has no subsystem %s", nvme->address.host,
                             nvme->address.port, nvme->info.nqn);
    }
    if ((result & NVME_CONNECT_IN_DATA) != 0 && octet == NVME_CONNECT_DATA_OFF_HOSTNQN) {
        return initiator_why(ret_why, -EACCES, "the target does not take %s as a host's name",
                             nvme->host_nqn);
    }
    return initiator_why(ret_why, -EINVAL, "the target finds octet %u of the Connect %s wrong",
                         octet, (result & NVME_CONNECT_IN_DATA) != 0 ? "data" : "command");
}

static int connect_check(struct initiator_queue *queue, const struct initiator_admin_answer *answer,
                         struct why *ret_why)
{
    struct weft_nvme *nvme = queue->nvme;
    uint16_t status = answer->status & ~(NVME_STATUS_DNR | NVME_STATUS_MORE);
    char text[32];
    if (status == NVME_CONNECT_INVALID) {
        return say_invalid(nvme, answer->result, ret_why);
    }
    if (status == NVME_CONNECT_INVALID_HOST) {
        return initiator_why(ret_why, -EACCES, "%s does not let this host in (%s)", nvme->info.nqn,
                             nvme->host_nqn);
    }
    if (status != NVME_OK) {
        return initiator_why(ret_why, initiator_status_errno(status),
                             "the target answers Connect of queue %u with: %s", queue->number,
                             weft_nvme_status_str(status, text));
    }
    if ((answer->result >> 16 & 0xffff) != 0) {
        return initiator_why(ret_why, -EACCES, "%s wants this host to authenticate itself",
                             nvme->info.nqn);
    }
    uint16_t controller = (uint16_t)answer->result;
    if (queue->number > 0 && controller != nvme->info.controller) {
        return initiator_why(ret_why, -EPROTO, "queue %u is one of controller %u, not %u",
                             queue->number, controller, nvme->info.controller);
    }
    nvme->info.controller = controller;
    return 0;
}

int initiator_admin_connect(struct initiator_queue *queue, struct why *ret_why)
{
    struct weft_nvme *nvme = queue->nvme;
    struct initiator_admin_answer answer;
    bool is_admin = queue->number == 0;
    struct initiator_slot *slot = initiator_queue_take(queue);
    uint8_t *sqe = initiator_slot_sqe(slot);
    sqe[NVME_SQE_OFF_OPCODE] = NVME_FABRICS;
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_CONNECT;
    put_le16(sqe + NVME_CONNECT_OFF_QID, queue->number);
    put_le16(sqe + NVME_CONNECT_OFF_SQSIZE, (uint16_t)queue->depth);
    if (is_admin) {
        put_le32(sqe + NVME_CONNECT_OFF_KATO, nvme->attr.keep_alive_ms);
    }
    connect_data_fill(nvme, nvme->admin_data, is_admin);
    const struct initiator_data data = {.memory = &nvme->admin_piece,
                                        .len = NVME_CONNECT_DATA_LEN,
                                        .count = 1,
                                        .is_to_target = true};
    int error = run(slot, &data, "Connect", &answer, ret_why);
    return error != 0 ? error : connect_check(queue, &answer, ret_why);
}

/* ---- properties ------------------------------------------------------------------------------ */

static int property_get(struct weft_nvme *nvme, uint32_t property, const char *name, uint64_t *ret,
                        struct why *ret_why)
{
    struct initiator_admin_command command = {.opcode = NVME_FABRICS,
                                              .fctype = NVME_FCTYPE_PROPERTY_GET,
                                              .cdw10 = property == NVME_PROPERTY_CAP,
                                              .cdw11 = property,
                                              .name = name};
    return initiator_admin_demand(nvme, &command, ret, ret_why);
}

static int configure(struct weft_nvme *nvme, uint32_t value, struct why *ret_why)
{
    uint32_t sizes = NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT | NVME_CQE_LEN_LOG2
                                                                     << NVME_CC_IOCQES_SHIFT;
    struct initiator_admin_command command = {.opcode = NVME_FABRICS,
                                              .fctype = NVME_FCTYPE_PROPERTY_SET,
                                              .cdw11 = NVME_PROPERTY_CC,
                                              .value = sizes | value,
                                              .name = "Property Set CC"};
    return initiator_admin_demand(nvme, &command, NULL, ret_why);
}

// Polls CSTS until one of these bits is set.
static int await_status(struct weft_nvme *nvme, uint32_t bits, duration_ns within,
                        struct why *ret_why)
{
    instant_ns until = instant_after(clock_now(), within);
    for (;;) {
        uint64_t status;
        int error = property_get(nvme, NVME_PROPERTY_CSTS, "Property Get CSTS", &status, ret_why);
        if (error != 0 || (status & bits) != 0) {
            return error;
        }
        if ((status & NVME_CSTS_CFS) != 0) {
            return initiator_why(ret_why, -EIO, "%s says that it has failed", nvme->info.nqn);
        }
        if (clock_now() >= until) {
            return initiator_why(ret_why, -ETIMEDOUT, "%s does not become ready", nvme->info.nqn);
        }
        poll(NULL, 0, READY_WAIT_MS);
    }
}

int initiator_admin_enable(struct weft_nvme *nvme, struct why *ret_why)
{
    uint64_t version = 0;
    int error =
        property_get(nvme, NVME_PROPERTY_CAP, "Property Get CAP", &nvme->capabilities, ret_why);
    if (error == 0) {
        error = configure(nvme, NVME_CC_EN, ret_why);
    }
    if (error == 0) {
        uint8_t half_seconds = (uint8_t)(nvme->capabilities >> NVME_CAP_TO_SHIFT);
        error = await_status(nvme, NVME_CSTS_RDY, (half_seconds + 1) * NS_PER_S / 2, ret_why);
    }
    if (error == 0) {
        error = property_get(nvme, NVME_PROPERTY_VS, "Property Get VS", &version, ret_why);
    }
    nvme->info.version = (uint32_t)version;
    return error;
}

void initiator_admin_shut_down(struct weft_nvme *nvme)
{
    struct why unheard;
    if (configure(nvme, 1 << NVME_CC_SHN_SHIFT, &unheard) == 0) {
        await_status(nvme, NVME_CSTS_SHST_DONE, NS_PER_S, &unheard);
    }
}

/* ---- access ---------------------------------------------------------------------------------- */

int initiator_admin_access_begin(struct weft_nvme *nvme, struct why *ret_why)
{
    struct initiator_access *access = &nvme->access;
    const struct initiator_admin_command enable = {.opcode = NVME_ADMIN_SET_FEATURES,
                                                   .cdw10 = NVME_FEATURE_ASYNC_EVENTS,
                                                   .cdw11 = NVME_EVENT_ANA_CHANGE,
                                                   .name = "Set Features, events"};
    const struct initiator_admin_command read = initiator_access_command(access);
    struct initiator_admin_answer answer;
    int error = 0;
    if (access->has_events) {
        error = initiator_admin_run(nvme, &enable, &answer, ret_why);
        access->has_events = error == 0 && answer.status == NVME_OK;
    }
    if (error == 0 && access->has_events) {
        access->has_events = initiator_admin_event_request(nvme, &access->event);
    }
    if (error == 0 && (error = initiator_admin_run(nvme, &read, &access->log, ret_why)) == 0) {
        initiator_access_on_log(nvme);
    }
    return error;
}

/* ---- a discovery controller that is kept ----------------------------------------------------- */

int initiator_admin_watch_begin(struct weft_nvme *nvme, struct why *ret_why)
{
    struct initiator_watch *watch = &nvme->watch;
    const struct initiator_admin_command enable = {.opcode = NVME_ADMIN_SET_FEATURES,
                                                   .cdw10 = NVME_FEATURE_ASYNC_EVENTS,
                                                   .cdw11 = NVME_EVENT_DISCOVERY_CHANGE,
                                                   .name = "Set Features, events"};
    uint32_t offered = get_le32(nvme->admin_data + NVME_CTRL_OFF_OAES);
    if ((offered & NVME_EVENT_DISCOVERY_CHANGE) == 0) {
        return 0;
    }
    struct initiator_admin_answer answer;
    int error = initiator_admin_run(nvme, &enable, &answer, ret_why);
    watch->has_events = error == 0 && answer.status == NVME_OK &&
                        initiator_admin_event_request(nvme, &watch->event);
    return error;
}

bool weft_nvme_log_has_changed(const struct weft_nvme *nvme)
{
    return nvme->watch.has_changed;
}

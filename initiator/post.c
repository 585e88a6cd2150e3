// Commands of the admin queue that nobody waits for.

#include "clock/clock.h"
#include "initiator/agent.h"

void initiator_admin_fill(uint8_t *sqe, const struct initiator_admin_command *command)
{
    sqe[NVME_SQE_OFF_OPCODE] = command->opcode;
    put_le32(sqe + NVME_SQE_OFF_NSID, command->nsid);
    if (command->opcode == NVME_FABRICS) {
        put_le32(sqe + NVME_SQE_OFF_NSID, command->fctype);
    }
    put_le32(sqe + NVME_SQE_OFF_CDW10, command->cdw10);
    put_le32(sqe + NVME_SQE_OFF_CDW11, command->cdw11);
    put_le32(sqe + NVME_SQE_OFF_CDW12, command->cdw12);
    put_le32(sqe + NVME_SQE_OFF_CDW13, command->cdw13);
}

struct initiator_data initiator_admin_data(const struct weft_nvme *nvme,
                                           const struct initiator_admin_command *command)
{
    return (struct initiator_data){.memory =
                                       command->room != NULL ? command->room : &nvme->admin_piece,
                                   .len = command->data_len,
                                   .count = 1};
}

// Its answer goes to `answer`, or nowhere. False: no room.
static bool post(struct weft_nvme *nvme, const struct initiator_admin_command *command,
                 struct initiator_admin_answer *answer)
{
    struct initiator_slot *slot = initiator_queue_take(&nvme->admin);
    if (slot == NULL) {
        return false;
    }
    const struct initiator_data data = initiator_admin_data(nvme, command);
    initiator_admin_fill(initiator_slot_sqe(slot), command);
    slot->answer = answer;
    if (nvme->carrier->send(slot, &data) != 0) {
        initiator_slot_release(slot);
        return false;
    }
    return true;
}

bool initiator_admin_keep_alive(struct weft_nvme *nvme)
{
    const struct initiator_admin_command command = {.opcode = NVME_ADMIN_KEEP_ALIVE};
    return post(nvme, &command, NULL);
}

bool initiator_admin_event_request(struct weft_nvme *nvme, struct initiator_admin_answer *ret)
{
    const struct initiator_admin_command command = {.opcode = NVME_ADMIN_ASYNC_EVENT_REQUEST};
    *ret = (struct initiator_admin_answer){0};
    return post(nvme, &command, ret);
}

static void access_follow(struct weft_nvme *nvme)
{
    struct initiator_access *access = &nvme->access;
    if (access->event.is_there && initiator_access_on_event(access)) {
        access->has_events = initiator_admin_event_request(nvme, &access->event);
    }
    if (access->is_reading && access->log.is_there) {
        initiator_access_on_log(nvme);
    }
    if (access->is_stale && initiator_access_is_due(access, clock_now())) {
        const struct initiator_admin_command read = initiator_access_command(access);
        access->log = (struct initiator_admin_answer){0};
        access->is_reading = post(nvme, &read, &access->log);
        access->is_stale = !access->is_reading;
        access->read_at = clock_now();
    }
}

// What the event is does not matter: the log says what there is.
static void watch_follow(struct weft_nvme *nvme)
{
    struct initiator_watch *watch = &nvme->watch;
    if (!watch->has_events || !watch->event.is_there) {
        return;
    }
    bool is_good = watch->event.status == NVME_OK;
    watch->has_changed |= is_good;
    watch->has_events = is_good && initiator_admin_event_request(nvme, &watch->event);
}

void initiator_admin_follow(struct weft_nvme *nvme)
{
    if (nvme->access.is_known) {
        access_follow(nvme);
    }
    watch_follow(nvme);
}

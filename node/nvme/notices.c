// What controllers tell their hosts of reservations: notices, in the order they came, each read
// once from the log.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "node/interface/reservation.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"
#include "node/nvme/pages.h"
#include "node/nvme/wire.h"

static void notice_put(struct nvme_controller *c, uint8_t type)
{
    if ((c->masked_notices & 1U << type) != 0 || c->notice_count == NVME_NOTICE_MAX) {
        return;
    }
    c->notices[c->notice_count++] = type;
    nvme_event_raise(c, NVME_EVENT_RESERVATION);
}

void nvme_on_reservation(void *ctx, uint32_t connection, enum reservation_event event,
                         instant_ns now)
{
    static const uint8_t types[RESERVATION_EVENT_COUNT] = {
        [RESERVATION_REGISTRATION_PREEMPTED] = NVME_NOTICE_REGISTRATION_PREEMPTED,
        [RESERVATION_RELEASED] = NVME_NOTICE_RELEASED,
        [RESERVATION_CLEARED] = NVME_NOTICE_RESERVATION_PREEMPTED,
    };
    struct nvme_target *target = ctx;
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        struct nvme_controller *c = &target->controllers[i];
        const struct nvme_queue *first =
            c->is_used && !c->is_ending ? nvme_controller_first_io(c) : NULL;
        if (first != NULL && first->connection == connection && types[event] != 0) {
            notice_put(c, types[event]);
        }
    }
}

void nvme_notice_emit(const struct nvme_controller *c, uint8_t page[NVME_NOTICE_LEN])
{
    if (c->notice_count > 0) {
        put_le64(page + NVME_NOTICE_OFF_COUNT, c->notice_serial + 1);
        page[NVME_NOTICE_OFF_TYPE] = c->notices[0];
        page[NVME_NOTICE_OFF_LEFT] = (uint8_t)(c->notice_count - 1);
        put_le32(page + NVME_NOTICE_OFF_NSID, NVME_NSID);
    }
}

void nvme_notice_read(struct nvme_controller *c)
{
    if (c->notice_count > 0) {
        memmove(c->notices, c->notices + 1, --c->notice_count);
        c->notice_serial++;
    }
    if (c->notice_count > 0) {
        nvme_event_raise(c, NVME_EVENT_RESERVATION);
    }
}

// What controllers tell their hosts of reservations: notices, in the order they came, each read
// once from the log.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/reservation.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

static void notice_put(struct nvme_controller *c, uint8_t type, uint32_t nsid)
{
    bool is_masked = (c->namespaces[nsid - 1].masked_notices & 1U << type) != 0;
    if (is_masked || c->notice_count == NVME_NOTICE_MAX) {
        return;
    }
    c->notices[c->notice_count++] = (struct nvme_notice){.type = type, .nsid = nsid};
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
    const struct nvme_bound *bound = nvme_bound_find(ctx, connection);
    struct nvme_controller *c = bound != NULL ? bound->queue->controller : NULL;
    bool is_told = c != NULL && !c->is_ending && types[event] != 0 &&
                   nvme_controller_first_bound(c, bound->nsid) == bound->queue;
    if (is_told) {
        notice_put(c, types[event], bound->nsid);
    }
}

void nvme_notice_emit(const struct nvme_controller *c, uint8_t page[NVME_NOTICE_LEN])
{
    if (c->notice_count > 0) {
        put_le64(page + NVME_NOTICE_OFF_COUNT, c->notice_serial + 1);
        page[NVME_NOTICE_OFF_TYPE] = c->notices[0].type;
        page[NVME_NOTICE_OFF_LEFT] = (uint8_t)(c->notice_count - 1);
        put_le32(page + NVME_NOTICE_OFF_NSID, c->notices[0].nsid);
    }
}

void nvme_notice_read(struct nvme_controller *c)
{
    if (c->notice_count > 0) {
        memmove(c->notices, c->notices + 1, --c->notice_count * sizeof c->notices[0]);
        c->notice_serial++;
    }
    if (c->notice_count > 0) {
        nvme_event_raise(c, NVME_EVENT_RESERVATION);
    }
}

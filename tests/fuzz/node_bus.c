// Any frames on the bus. The first octet says at whom: a CTA with requests under way, whose RTA is
// hostile, or an RTA with a volume and a connection. The rest are frames.
#include <stddef.h>
#include <stdint.h>

#include "tests/node/rig.h"

enum { REQUEST_COUNT = 8, BLOCK = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Frames as they are, but with numbers that have a chance, where an octet of the frame asks for it.
static struct frame frame_at(const uint8_t *data, uint32_t number, const struct rig *rig)
{
    struct frame frame;
    memcpy(&frame, data, sizeof frame);
    if ((frame.detail & 1) == 0) {
        frame.sequence = number;
    }
    if ((frame.detail & 2) == 0) {
        frame.ack = frame.ack % (REQUEST_COUNT + 1);
    }
    if ((frame.detail & 4) == 0) {
        uint64_t slot = frame.transaction % REQUEST_COUNT;
        frame.transaction = (slot + 1) << NODE_TRANSACTION_SLOT_BITS | slot;
    }
    if ((frame.detail & 8) == 0) {
        frame.connection = RIG_CONNECTION;
    }
    return frame;
}

static void at_cta(const uint8_t *data, size_t size)
{
    struct rig *rig = rig_ready();
    struct service_request requests[REQUEST_COUNT];
    for (unsigned i = 0; i < REQUEST_COUNT; i++) {
        requests[i] = rig_request(i % 2 ? NODE_READ : NODE_FLUSH, 0, i % 2 ? BLOCK : 0);
        rig_submit_request(rig, &requests[i]);
    }
    cta_flush(rig->cta, rig->now);
    for (uint32_t i = 0; size >= sizeof(struct frame); i++) {
        struct frame frame = frame_at(data, i + 1, rig);
        fake_bus_put(&rig->bus, 0, &frame);
        data += sizeof frame;
        size -= sizeof frame;
    }
    cta_on_bus(rig->cta, RIG_UNIT, rig->now);
    cta_flush(rig->cta, rig->now);
    CHECK(rig->completed + rig->transferred <= REQUEST_COUNT);
    rig_destroy(rig); // checks the books
}

static void at_rta(const uint8_t *data, size_t size)
{
    struct rig *rig = rig_create();
    rig_rta_start(rig);
    bool is_sound = true;
    for (uint32_t i = 0; is_sound && size >= sizeof(struct frame); i++) {
        struct frame frame = frame_at(data, i + 1, rig);
        fake_bus_put(&rig->bus, 1, &frame);
        is_sound = rta_on_bus(rig->rta, rig->now);
        data += sizeof frame;
        size -= sizeof frame;
    }
    rig_destroy(rig);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        (data[0] % 2 == 0 ? at_cta : at_rta)(data + 1, size - 1);
    }
    return 0;
}

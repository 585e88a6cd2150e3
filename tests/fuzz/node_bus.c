// Any frames on the bus. The first octet says at whom: a CTA with requests under way, whose RTA is
// hostile, or an RTA with a volume and a connection. The rest are frames.
//
// Both stay from input to input, as they do in the product. After each the hostile RTA's process is
// gone, its successor answers what was not answered, and nothing of the input may be left in the
// CTA. An RTA that an input has broken, or left with something to do, ends and has a successor.
#include <stddef.h>
#include <stdint.h>

#include "tests/node/rig.h"

enum { REQUEST_COUNT = 8, BLOCK = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What either side has numbered so far on the bus to the RTA.
struct numbers {
    uint32_t sent, received;
};

// Frames as they are, but with numbers that have a chance, where an octet of the frame asks for it:
// such transactions are those of `requests`.
static struct frame frame_at(const uint8_t *data, uint32_t number, uint32_t ack,
                             const struct frame *requests)
{
    struct frame frame;
    memcpy(&frame, data, sizeof frame);
    if ((frame.detail & 1) == 0) {
        frame.sequence = number;
    }
    if ((frame.detail & 2) == 0) {
        frame.ack = ack + frame.ack % (REQUEST_COUNT + 1);
    }
    if ((frame.detail & 4) == 0) {
        frame.transaction = requests[frame.transaction % REQUEST_COUNT].transaction;
    }
    if ((frame.detail & 8) == 0) {
        frame.connection = RIG_CONNECTION;
    }
    return frame;
}

// All that the CTA has said since; the number of the last frame, which is what to acknowledge.
static uint32_t take_all(struct rig *rig, uint32_t last, bool answers)
{
    struct frame frame;
    uint32_t count = 0;
    while (fake_bus_receive(&rig->bus.rta, &frame)) {
        last = frame.kind == FRAME_ACK ? last : frame.sequence;
        if (frame.kind == FRAME_REQUEST && answers) {
            struct frame result = {.kind = FRAME_RESULT,
                                   .sequence = ++count,
                                   .ack = last,
                                   .connection = frame.connection,
                                   .transaction = frame.transaction,
                                   .completion = NODE_OK,
                                   .buffer_len = frame.buffer_len};
            fake_bus_put(&rig->bus, 0, &result);
        }
    }
    return last;
}

// The hostile process is gone; its successor answers what was not answered, and acknowledges all.
static void succeed(struct rig *rig)
{
    cta_for_uma.unit_lost(rig->cta, RIG_UNIT, rig->now);
    rig->bus.count[0] = rig->bus.count[1] = 0;
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    uint32_t last = take_all(rig, 0, true);
    cta_on_bus(rig->cta, RIG_UNIT, rig->now);
    cta_flush(rig->cta, rig->now);
    struct frame ack = {.kind = FRAME_ACK, .ack = take_all(rig, last, false)};
    fake_bus_put(&rig->bus, 0, &ack);
    cta_on_bus(rig->cta, RIG_UNIT, rig->now);
}

// What the hostile RTA is asked for, in the order in which it was sent.
static void take_requests(struct rig *rig, struct frame *ret)
{
    for (unsigned i = 0; i < REQUEST_COUNT; i++) {
        bool is_there = fake_bus_receive(&rig->bus.rta, &ret[i]);
        CHECK(is_there && ret[i].kind == FRAME_REQUEST);
    }
}

static void at_cta(struct rig *rig, const uint8_t *data, size_t size)
{
    struct service_request requests[REQUEST_COUNT];
    struct frame sent[REQUEST_COUNT];
    for (unsigned i = 0; i < REQUEST_COUNT; i++) {
        requests[i] = rig_request(i % 2 ? NODE_READ : NODE_FLUSH, 0, i % 2 ? BLOCK : 0);
        rig_submit_request(rig, &requests[i]);
    }
    cta_flush(rig->cta, rig->now);
    take_requests(rig, sent);
    for (uint32_t i = 0; size >= sizeof(struct frame); i++) {
        struct frame frame = frame_at(data, i + 1, 0, sent);
        fake_bus_put(&rig->bus, 0, &frame);
        data += sizeof frame;
        size -= sizeof frame;
    }
    cta_on_bus(rig->cta, RIG_UNIT, rig->now);
    cta_flush(rig->cta, rig->now);
    CHECK(rig->completed + rig->transferred <= REQUEST_COUNT && cta_check(rig->cta));
    succeed(rig);
    CHECK(rig->completed + rig->transferred == REQUEST_COUNT);
    CHECK(cta_pool_taken_len(rig->cta) == 0 && cta_check(rig->cta));
}

// Completes every result that the RTA has given. False: it broke, or will not come to rest.
static bool come_to_rest(struct rig *rig, struct numbers *numbers)
{
    struct frame said;
    while (fake_bus_receive(&rig->bus.cta, &said)) {
        numbers->sent = said.ack;
        numbers->received = said.kind == FRAME_ACK ? numbers->received : said.sequence;
        if (said.kind == FRAME_RESULT) {
            struct frame completion = {.kind = FRAME_COMPLETION,
                                       .sequence = numbers->sent + 1,
                                       .ack = numbers->received,
                                       .transaction = said.transaction,
                                       .connection = said.connection};
            fake_bus_put(&rig->bus, 1, &completion);
            if (!rta_on_bus(rig->rta, rig->now)) {
                return false;
            }
        }
    }
    return rta_under_way(rig->rta) == 0;
}

static void at_rta(struct rig *rig, const uint8_t *data, size_t size)
{
    static struct numbers numbers;
    struct frame requests[REQUEST_COUNT];
    bool is_sound = true;
    for (uint32_t i = 0; i < REQUEST_COUNT; i++) {
        requests[i].transaction = (uint64_t)(i + 1) << NODE_TRANSACTION_SLOT_BITS | i;
    }
    struct numbers before = numbers;
    for (uint32_t i = 1; is_sound && size >= sizeof(struct frame); i++) {
        struct frame frame = frame_at(data, before.sent + i, before.received, requests);
        fake_bus_put(&rig->bus, 1, &frame);
        is_sound = rta_on_bus(rig->rta, rig->now);
        data += sizeof frame;
        size -= sizeof frame;
    }
    if (!is_sound || !come_to_rest(rig, &numbers)) {
        rta_destroy(rig->rta);
        rig->bus.count[0] = rig->bus.count[1] = 0;
        rig_rta_start(rig);
        numbers = (struct numbers){0};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig *rig;
    if (rig == NULL) {
        rig = rig_ready();
    }
    if (size > 0) {
        rig->completed = rig->transferred = 0;
        rig->trace[0] = '\0';
        (data[0] % 2 == 0 ? at_cta : at_rta)(rig, data + 1, size - 1);
    }
    return 0;
}

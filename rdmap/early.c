#include "rdmap/early.h"

#include "base/check.h"
#include "mem/table.h"
#include "rdmap/refusal.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

const char *rdmap_held_name(enum rdmap_held held)
{
    static const char *const names[RDMAP_HELD_COUNT] = {
        [RDMAP_HELD_SENDS] = "sends",
        [RDMAP_HELD_READ_REQUESTS] = "read requests",
        [RDMAP_HELD_ATOMIC_REQUESTS] = "atomic requests",
        [RDMAP_HELD_READ_RESPONSES] = "read responses",
        [RDMAP_HELD_ATOMIC_RESPONSES] = "atomic responses",
        [RDMAP_HELD_SEND_OCTETS] = "octets of sends",
        [RDMAP_HELD_RESPONSE_OCTETS] = "octets of read responses",
        [RDMAP_HELD_WRITE_OCTETS] = "octets of writes",
    };
    return names[held];
}

uint32_t rdmap_held_messages(const struct place_counts *counts)
{
    uint32_t sum = 0;
    for (unsigned i = RDMAP_HELD_SENDS; i <= RDMAP_HELD_ATOMIC_RESPONSES; i++) {
        sum += counts->n[i];
    }
    return sum;
}

bool rdmap_may_place_early(const struct rdmap_stream *stream, const struct rdmap_arrival *a)
{
    switch (a->opcode) {
    case RDMAP_TERMINATE:
    case RDMAP_EXTENSION:
        return false;
    case RDMAP_WRITE:
        return stream->extensions_agreed || !a->is_last;
    case RDMAP_IMMEDIATE:
    case RDMAP_IMMEDIATE_SE:
        return stream->extensions_agreed;
    default:
        return true;
    }
}

enum rdmap_refusal rdmap_place_write_early(struct rdmap_stream *stream,
                                           const struct rdmap_arrival *a, uint64_t end)
{
    enum rdmap_refusal refusal = rdmap_place_write(stream, a);
    if (refusal == RDMAP_ACCEPTED && a->payload.len > 0) {
        mem_note_early(stream->mem, a->stag, stream->early_base + end);
    }
    return refusal;
}

enum rdmap_refusal rdmap_place_response_early(struct rdmap_stream *stream,
                                              const struct rdmap_arrival *a,
                                              const struct rdmap_expected_response *expected)
{
    uint64_t at = a->to - expected->sink_to; // wraps for an offset before the window
    if (at < expected->arrived_len || at > expected->length) {
        return RDMAP_REFUSED_RESPONSE_TO;
    }
    // What is left of the window is judged as if all before it had come.
    struct rdmap_expected_response rest = *expected;
    rest.arrived_len = (uint32_t)at;
    return rdmap_place_response(stream, a, &rest);
}

void rdmap_hold(const struct rdmap_arrival *a, struct place_counts *counts)
{
    static const struct {
        bool is_held;
        enum rdmap_held messages, octets;
    } classes[RDMAP_OPCODE_COUNT] = {
        [RDMAP_WRITE] = {true, RDMAP_HELD_COUNT, RDMAP_HELD_WRITE_OCTETS},
        [RDMAP_READ_REQUEST] = {true, RDMAP_HELD_READ_REQUESTS, RDMAP_HELD_COUNT},
        [RDMAP_READ_RESPONSE] = {true, RDMAP_HELD_READ_RESPONSES, RDMAP_HELD_RESPONSE_OCTETS},
        [RDMAP_SEND] = {true, RDMAP_HELD_SENDS, RDMAP_HELD_SEND_OCTETS},
        [RDMAP_SEND_INV] = {true, RDMAP_HELD_SENDS, RDMAP_HELD_SEND_OCTETS},
        [RDMAP_SEND_SE] = {true, RDMAP_HELD_SENDS, RDMAP_HELD_SEND_OCTETS},
        [RDMAP_SEND_SE_INV] = {true, RDMAP_HELD_SENDS, RDMAP_HELD_SEND_OCTETS},
        [RDMAP_IMMEDIATE] = {true, RDMAP_HELD_SENDS, RDMAP_HELD_SEND_OCTETS},
        [RDMAP_IMMEDIATE_SE] = {true, RDMAP_HELD_SENDS, RDMAP_HELD_SEND_OCTETS},
        [RDMAP_ATOMIC_REQUEST] = {true, RDMAP_HELD_ATOMIC_REQUESTS, RDMAP_HELD_COUNT},
        [RDMAP_ATOMIC_RESPONSE] = {true, RDMAP_HELD_ATOMIC_RESPONSES, RDMAP_HELD_COUNT},
    };
    CHECK(classes[a->opcode].is_held);
    if (classes[a->opcode].messages != RDMAP_HELD_COUNT) {
        counts->n[classes[a->opcode].messages] += a->is_last;
    }
    if (classes[a->opcode].octets != RDMAP_HELD_COUNT) {
        counts->n[classes[a->opcode].octets] += (uint32_t)a->payload.len;
    }
}

void rdmap_rx_advance(struct rdmap_stream *stream, const struct place_counts *counts,
                      uint32_t send_mo)
{
    stream->rx[DDP_QN_SEND].msn += counts->n[RDMAP_HELD_SENDS];
    stream->rx[DDP_QN_SEND].mo = send_mo;
    stream->rx[DDP_QN_READ_REQUEST].msn +=
        counts->n[RDMAP_HELD_READ_REQUESTS] + counts->n[RDMAP_HELD_ATOMIC_REQUESTS];
    stream->rx[DDP_QN_ATOMIC_RESPONSE].msn += counts->n[RDMAP_HELD_ATOMIC_RESPONSES];
    if (counts->n[RDMAP_HELD_SENDS] > 0) {
        stream->written_len = 0;
    }
    uint32_t written_len = counts->n[RDMAP_HELD_WRITE_OCTETS];
    if (written_len > 0) { // of one Write, whose end is to come, if anybody will ask for its length
        stream->written_len = written_len + (stream->is_write_open ? stream->written_len : 0);
        stream->is_write_open = true;
    }
}

bool rdmap_is_written_behind(const struct rdmap_stream *stream, uint32_t stag, uint64_t end)
{
    return mem_early_end(stream->mem, stag) > stream->early_base + end;
}

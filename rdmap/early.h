// Segments beyond a hole of the stream: placed now, delivered when the hole is closed. What they
// then deliver is counted, hole by hole, in the classes below; the counters travel through TCP,
// which adds them up where ranges join (base/port_place.h).
//
//     rdmap_rx_check_early    rdmap/rx.h: all that the header tells, as in order
//     rdmap_may_place_early   is this a kind of segment that can be placed out of turn?
//     rdmap_place_*_early     to memory
//     rdmap_hold              what it holds back
//     rdmap_rx_advance        the hole is closed: the stream moves on
//
// A segment that would be refused in order is not refused early: it waits, and is met in order.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_place.h"
#include "ddp/coverage.h"
#include "rdmap/rx.h"

// Messages are counted by their Last segment. Octets are counted modulo 2^32: they say how far the
// message has come that is open where a range ends.
enum rdmap_held {
    RDMAP_HELD_SENDS,           // messages for receives: so many completions appear
    RDMAP_HELD_READ_REQUESTS,   // in their slots of the read queue, waiting for the doorbell
    RDMAP_HELD_ATOMIC_REQUESTS, // likewise, not executed
    RDMAP_HELD_READ_RESPONSES,  // complete
    RDMAP_HELD_ATOMIC_RESPONSES,
    RDMAP_HELD_SEND_OCTETS,
    RDMAP_HELD_RESPONSE_OCTETS, // of Read Responses
    RDMAP_HELD_WRITE_OCTETS,
    RDMAP_HELD_COUNT,
};
STATIC_CHECK((int)RDMAP_HELD_COUNT <= (int)PLACE_CLASS_COUNT);
const char *rdmap_held_name(enum rdmap_held held); // "sends" ...
// Of all kinds that have an effect of their own: all but Writes.
uint32_t rdmap_held_messages(const struct place_counts *counts);

// Terminate and extension messages are held back as a whole. So is what ends a Write of a peer that
// does not say in its Immediate Data how long the Write before it was: that is counted in order.
bool rdmap_may_place_early(const struct rdmap_stream *stream, const struct rdmap_arrival *arrival);

// A Write whose FPDU ends at `end` in the stream: noted at an STag that the peer can take back.
enum rdmap_refusal rdmap_place_write_early(struct rdmap_stream *stream,
                                           const struct rdmap_arrival *arrival, uint64_t end);

// A Read Response segment, anywhere in the window of its request. `arrived_len` of `expected` is
// what has been delivered of it.
enum rdmap_refusal rdmap_place_response_early(struct rdmap_stream *stream,
                                              const struct rdmap_arrival *arrival,
                                              const struct rdmap_expected_response *expected);

// What the segment holds back, added to `counts`.
void rdmap_hold(const struct rdmap_arrival *arrival, struct place_counts *counts);

// All that `counts` counts has been delivered; `send_mo` octets of the Send that is open now.
void rdmap_rx_advance(struct rdmap_stream *stream, const struct place_counts *counts,
                      uint32_t send_mo);

// Was anything written through this STag by what lies behind `end` in the stream? Then an in-order
// receiver would come upon a Write to an STag that has been taken back.
bool rdmap_is_written_behind(const struct rdmap_stream *stream, uint32_t stag, uint64_t end);

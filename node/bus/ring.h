// The bus: two rings of frames in memory that two processes share, one per direction, each with one
// producer and one consumer.
//
// The other side may be killed between any two instructions, and may write anything anywhere in the
// memory. So what an end relies on lies in its own struct, not in the shared one: there it only
// publishes. An index from the other side is read once, and must make sense; one that does not
// breaks the bus for good (bus_is_broken).
//
// Waking: a consumer that is about to sleep says so (bus_sleep) and looks again; a producer that
// has put frames asks whether to ring (bus_should_ring). One of the two sees the other's store, so
// no frame is slept through.
//
// Threads: each end is used by one at a time.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/interface/cta_rta.h"

enum { BUS_RING_COUNT = 1024, BUS_LINE_LEN = 64 };

struct bus_ring {
    _Alignas(BUS_LINE_LEN) _Atomic uint32_t head;      // frames put so far; the producer's
    _Alignas(BUS_LINE_LEN) _Atomic uint32_t tail;      // frames taken so far; the consumer's
    _Alignas(BUS_LINE_LEN) _Atomic uint32_t is_asleep; // the consumer sets it, the producer clears
    _Alignas(BUS_LINE_LEN) struct frame frames[BUS_RING_COUNT];
};

// What lies in the shared memory; all zero is an empty bus.
struct bus_memory {
    struct bus_ring to_rta;
    struct bus_ring to_cta;
};

struct bus_end {
    struct bus_ring *tx;
    struct bus_ring *rx;
    uint32_t tx_head;
    uint32_t rx_tail;
    bool is_broken;
};

// The end of the CTA, or of the RTA, of an empty bus.
void bus_end_init(struct bus_end *end, struct bus_memory *memory, bool is_cta);

// False: no room.
bool bus_send(struct bus_end *end, const struct frame *frame);

// False: nothing is there.
bool bus_receive(struct bus_end *end, struct frame *ret);

// Something is there. Tells the other side nothing.
bool bus_has_frames(struct bus_end *end);

// An index of the other side made no sense: nothing is sent or received any more.
bool bus_is_broken(const struct bus_end *end);

// The caller wants to sleep until the other side rings. False: something is there, do not.
bool bus_sleep(struct bus_end *end);

// The caller is awake again: no more ringing.
void bus_wake(struct bus_end *end);

// After sends: does the other side sleep? Asked once, answered once: the caller rings then.
bool bus_should_ring(struct bus_end *end);

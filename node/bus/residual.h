// A residual message store: what turns a bus that may lose and repeat into frames that arrive once
// each and in order. It numbers what it sends and keeps it until it is acknowledged; when time runs
// out it sends it all again. It takes what it receives in order of number, drops repeats and what
// lies beyond a gap, and acknowledges with whatever goes back.
//
// A bus in shared memory loses nothing. What it can lose is the other side's attention, and for
// that the time-out is the remedy too.
//
// Credits: at most `window` frames are out at a time. Who has no credit waits for an
// acknowledgement.
//
// Sans-I/O: the port carries, `now` is the clock. One thread at a time. Memory is taken in create.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "node/interface/cta_rta.h"

struct residual_counters {
    uint64_t resent;     // frames, sent again
    uint64_t duplicates; // dropped: had been received
    uint64_t gaps;       // dropped: one before it is missing
    uint64_t refusals;   // broken: unknown kinds, acknowledgements of what was never numbered
};

struct residual_store {
    struct frame_port port;
    void (*on_ack)(void *ctx, const struct frame *frame); // each frame, when it is acknowledged
    void *ctx;
    struct frame *frames; // by number, modulo the window
    uint32_t window;      // a power of two
    uint32_t una;         // the oldest that is not acknowledged
    uint32_t unsent;      // the oldest that the bus had no room for
    uint32_t nxt;         // the next number
    uint32_t rcv_nxt;     // the next number expected from the other side
    bool owes_ack;        // something was received since the last frame went out
    bool ack_is_urgent;   // and the other side waits for the acknowledgement
    bool should_ring;     // what went out since the last ring must be seen soon
    instant_ns ring_at_ns;
    instant_ns resend_at_ns;
    duration_ns timeout_ns; // the next one; doubles
    struct residual_counters counters;
};

enum residual_verdict {
    RESIDUAL_NOTHING, // no frame is there
    RESIDUAL_FRAME,
    RESIDUAL_BROKEN, // it acknowledges what was never sent, or is no frame at all
};

// `window`: a power of two. NULL without memory.
struct residual_store *residual_create(struct frame_port port, uint32_t window,
                                       void (*on_ack)(void *ctx, const struct frame *frame),
                                       void *ctx);
void residual_destroy(struct residual_store *store);

// The other side begins anew: nothing is kept, numbers begin at 1. Counters stay.
void residual_reset(struct residual_store *store);

bool residual_can_send(const struct residual_store *store);

// Numbers, keeps and sends; there is a credit. `is_lazy`: the other side need not be woken for it
// at once.
void residual_send(struct residual_store *store, struct frame frame, bool is_lazy, instant_ns now);

// The next frame in order. Acknowledgements among what comes are taken on the way.
enum residual_verdict residual_receive(struct residual_store *store, struct frame *ret,
                                       instant_ns now);

// The end of a batch: what the bus had no room for, an acknowledgement that is owed, the ring.
void residual_flush(struct residual_store *store);

// As residual_flush, and the other side shall acknowledge at once: somebody waits for it.
void residual_hurry(struct residual_store *store);

instant_ns residual_next_deadline(const struct residual_store *store);

// Receive first: the acknowledgement may be there. Then what is overdue rings, or goes out again.
void residual_on_deadline(struct residual_store *store, instant_ns now);

// The receive port between TCP and what stands above it (MPA, or a plain consumer of octets): every
// octet of the stream is offered for *placement* when it arrives, in order or beyond a hole, and
// its *delivery* is told, strictly in order, when nothing is missing before it any more.
//
// TCP implements neither end of a buffer: who places octets says so, and TCP keeps only those that
// the port wants to see again. What a placed range holds back (messages complete but not
// deliverable) travels through TCP as counters of PLACE_CLASS_COUNT classes that mean nothing to
// TCP: it adds them up where ranges join and hands them back where their hole closes.
//
// Positions count the octets of one direction of the stream from 0, the octet behind the SYN.
//
// All calls come from within tcp_on_segment, tcp_resume and tcp_set_window, in the thread of their
// caller. The port must not call the same connection from within, but to ask how much of what was
// sent is acknowledged; it queues what it has to say.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum { PLACE_CLASS_COUNT = 8 };

struct place_counts {
    uint32_t n[PLACE_CLASS_COUNT];
};

// What is placed beyond holes: a wish of the device's owner, and what comes of it for a stream.
enum placement {
    PLACEMENT_EARLY,  // beyond holes, wherever an FPDU can be told; the peer is one that begins
                      // segments with FPDUs, and lets nobody else choose where they begin
    PLACEMENT_STRICT, // beyond holes where a marker tells, nowhere else
    PLACEMENT_OFF,    // in order only
    PLACEMENT_COUNT,
};

enum place_order {
    PLACE_IN_ORDER,    // nothing is missing before: placing is delivering
    PLACE_BEYOND_HOLE, // something is missing before
    PLACE_FROM_BUFFER, // as IN_ORDER, after an answer of PLACE_BUFFER: acknowledged already
};

// Octets offered. They are readable during the call only.
struct place_offer {
    uint64_t position;
    struct span octets; // at least one
    enum place_order order;
    bool is_segment_start; // the first octet is the first of the segment that brought it
    bool is_segment_end;   // the last octet is the last of that segment
};

enum place_verdict {
    PLACE_PLACED, // done with: where they belong, or taken. Never offered again
    PLACE_BUFFER, // not now. TCP keeps them (if it has room) and offers them again in order; in
                  // order: the port is stalled until tcp_resume
    PLACE_DROP,   // as though they had not arrived: neither kept nor acknowledged, the peer sends
                  // them again. Not for FROM_BUFFER
    PLACE_VERDICT_COUNT,
};

// `len` comes filled in with the length of the offer. A verdict on less than that is about the
// first `len` octets; what follows is offered by a call of its own, unless `verdict` is BUFFER in
// order, which is about all that follows. Zero octets PLACED are not allowed.
// `counts` come zeroed; for PLACED beyond a hole they say what these octets hold back.
struct place_answer {
    size_t len;
    struct place_counts counts;
};

struct place_port {
    enum place_verdict (*place)(void *ctx, const struct place_offer *offer,
                                struct place_answer *answer);
    // Nothing is missing any more before or in the octets [position, end), which had been placed
    // beyond a hole: they and what they held back (`counts`, of all answers in that range together)
    // are deliverable. False: not now; asked again by tcp_resume, and nothing behind is handed up
    // until then.
    bool (*on_advance)(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts);
    // For who records them, else NULL. A hole of `len` octets at `position` has opened, and is
    // known by its number until it closes. Then `len` octets lie behind it, and hold back `counts`:
    // they are delivered now, or joined to what the hole before holds back.
    void (*on_hole_opened)(void *ctx, uint32_t number, uint64_t position, uint64_t len);
    void (*on_hole_closed)(void *ctx, uint32_t number, uint64_t len,
                           const struct place_counts *counts);
    void *ctx;
};

static inline void place_counts_add(struct place_counts *to, const struct place_counts *more)
{
    for (unsigned i = 0; i < PLACE_CLASS_COUNT; i++) {
        to->n[i] += more->n[i];
    }
}

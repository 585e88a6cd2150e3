// One direction of a TCP connection as it was captured: segments in any order become octets in
// order. What lies beyond a hole is kept in a window; each range there has the hole before it, with
// the span that draws it.
//
//        next       range 0         range 1
//     ────┤  hole  ├───────┤ hole ├─────────┤        at most DIRECTION_WINDOW_LEN beyond `next`
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum {
    DIRECTION_WINDOW_LEN = 1 << 23,
    DIRECTION_RANGE_MAX = 256,
    DIRECTION_CLOSED_MAX = 16,
};

struct direction_range {
    uint64_t left, right;
    uint32_t span;  // of the hole before it
    uint32_t early; // FPDUs in it that were placed early
};

struct direction {
    bool is_begun;
    uint32_t base;   // the sequence number of octet 0
    uint64_t next;   // octets before it have all come
    uint8_t *window; // octets of the ranges, each at its number modulo the length
    unsigned range_count;
    struct direction_range range[DIRECTION_RANGE_MAX];
};

enum direction_arrival {
    DIRECTION_IN_ORDER,
    DIRECTION_BEYOND,    // of a hole
    DIRECTION_OLD,       // all of it had come before
    DIRECTION_UNREACHED, // beyond the window: the octets between were not captured
};

struct direction_news {
    enum direction_arrival arrival;
    uint64_t position;   // of the first octet of `octets`
    struct span octets;  // what is new of the segment
    bool has_old;        // … and part of it is not
    uint64_t opened_len; // octets of the hole that it opened; 0: none
    unsigned range;      // DIRECTION_BEYOND: the range that holds it now
    unsigned closed_count;
    struct direction_range closed[DIRECTION_CLOSED_MAX]; // what stood behind the holes it closed
};

// False: no memory.
bool direction_create(struct direction *d);
void direction_destroy(struct direction *d);

// The first octet of the stream has this sequence number.
void direction_begin(struct direction *d, uint32_t seq);
// A segment with at least one octet. With DIRECTION_IN_ORDER its octets, then those that
// direction_take gives, are the stream's next.
void direction_arrive(struct direction *d, uint32_t seq, struct span payload,
                      struct direction_news *ret);
// The next octets in order that had come before; false: there are none.
bool direction_take(struct direction *d, struct span *ret);
// The first hole's octets were not captured: goes on behind it, where the first range begins.
void direction_skip(struct direction *d);
// Begins anew behind what was not captured, with an empty window.
void direction_jump(struct direction *d, uint64_t position);

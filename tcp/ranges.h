// What lies beyond holes: one sorted array of ranges of the sequence space, which carries both what
// TCP must know (where octets are, for acknowledging) and what the layers above must (what each
// hole holds back, until it closes). Hole i lies just before range i.
//
//        nxt        r[0]           r[1]     r[2]
//     ────┤  hole  ├──────┤  hole ├─────┼────────┤
//                   placed         placed buffered
//
// Ranges of one kind that touch are one, their counters added up. A placed and a buffered one never
// join: buffered octets are still to be looked at, in order.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/carve.h"
#include "base/port_place.h"
#include "tcp/seq.h"

struct tcp_range {
    tcp_seq left;  // of the first octet
    tcp_seq right; // behind the last
    bool is_buffered;
    uint16_t slot; // of what it holds back: that is long, and stays where it is when ranges move
};

struct tcp_ranges {
    struct tcp_range *range;   // from `count` to `used` only the slots mean anything: they are free
    struct place_counts *held; // by slot
    unsigned count;
    unsigned used; // the most there ever were: what lies behind has never been touched
    unsigned max;
    uint64_t *comparisons; // counts them: what a search costs is bounded
};

enum tcp_ranges_added {
    TCP_RANGES_OPENED,   // a range of its own
    TCP_RANGES_EXTENDED, // one became longer
    TCP_RANGES_JOINED,   // two became one
};

// Its arrays lie in `memory`. `max` is at least 1; `comparisons` is added to.
void tcp_ranges_init(struct tcp_ranges *r, unsigned max, uint64_t *comparisons,
                     struct carve *memory);

// The first range that ends behind `seq`: the one that holds it, or the next; `count` if there is
// none.
unsigned tcp_ranges_find(const struct tcp_ranges *r, tcp_seq seq);

// What range `i` holds back.
static inline const struct place_counts *tcp_ranges_held(const struct tcp_ranges *r, unsigned i)
{
    return &r->held[r->range[i].slot];
}

static inline bool tcp_ranges_is_full(const struct tcp_ranges *r)
{
    return r->count == r->max;
}

// Adds [left, right), none of which may be there yet, at `*at`, as tcp_ranges_find says of `left`.
// There must be room, unless it touches one of its kind. `*at` becomes the range that now holds it.
enum tcp_ranges_added tcp_ranges_add(struct tcp_ranges *r, unsigned *at, tcp_seq left,
                                     tcp_seq right, bool is_buffered,
                                     const struct place_counts *held);

// Takes the octets before `seq`, which the first range holds, off it; all of it: the range goes.
void tcp_ranges_trim_first(struct tcp_ranges *r, tcp_seq seq);

// Stops the program unless the ranges are sorted, not empty, and joined where they must be.
void tcp_ranges_check(const struct tcp_ranges *r);

// Whose the queue pairs of a capture's records are (wire/journal.h): a record names one by number,
// and another record says which connection carries it. Both are matched here with the connections
// of the registry.
//
// A queue pair may have several connections, one after the other: a record belongs to the latest
// that was told of before it, or, of what was posted before there was any, to the first. One of
// datagrams (UD) has all its partners at a time: it is known by its number alone, at the side that
// sent first if both ends have the same.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_journal.h"
#include "base/time.h"
#include "draw/capture.h"
#include "draw/registry.h"

enum { OWNERS_MAX = 1 << 14 };

struct owner {
    unsigned origin; // the capture: 0 or 1
    uint32_t qp_num;
    uint64_t from, to; // numbers of records, `to` not included
    bool tells_holes;  // of its stream itself
    instant_ns at;
    struct journal_carried carried;
};

struct owners {
    struct owner *owner;
    uint32_t count;
    uint64_t left_out; // beyond OWNERS_MAX
};

// False: no memory.
bool owners_create(struct owners *o);
void owners_destroy(struct owners *o);

// A record of the first reading.
void owners_see(struct owners *o, unsigned origin, const struct capture_record *record);

// The side of the connection that the owner's queue pair is; 2: none of it.
unsigned owner_side(const struct owner *owner, const struct registry_connection *c);

static inline bool owner_has(const struct owner *o, unsigned origin, const struct capture_record *r)
{
    return o->origin == origin && o->qp_num == r->what.qp_num && r->number >= o->from &&
           r->number < o->to;
}

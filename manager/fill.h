// Fills descriptors with octets of the requests whose turn it is.
#pragma once

#include "manager/slots.h"
#include "manager/turns.h"

struct filler {
    struct turns *turns;
    struct slots *slots;
    struct descriptor *scratch; // to count transfers in
    struct weft_rdma_counters *counters;
};

// How many work requests the rest of a request needs, if it begins in a descriptor of its own: a
// dry run of what fill_slots() does.
uint64_t transfers_left(const struct filler *filler, const struct progress *progress);

// Fills up to `max` free slots; returns how many. Fewer: no slot is free, or no octets wait.
uint32_t fill_slots(const struct filler *filler, uint32_t max);

// Placement into the list of a work request: the octets of a message that took a receive, or of the
// answer to a Read or an atomic. Any offset, in any order; segments in order never walk the list
// from its start.
#pragma once

#include <stdint.h>

#include "base/sge.h"
#include "base/span.h"
#include "mem/table.h"

// A list, and where in it the last placement ended.
struct scatter {
    const struct sge *list; // lives in the work request
    uint32_t count;
    uint32_t index;       // cursor: element
    uint64_t element_len; // cursor: octets of that element that are behind it
    uint64_t offset;      // cursor: octets of the list that are behind it
    uint64_t length;      // of the whole list
    struct mspan rest;    // what is known of the memory at the cursor, within its element
    uint64_t version;     // ... as long as mem_table_version is this
};

enum scatter_verdict {
    SCATTER_OK,
    SCATTER_TOO_LONG, // it does not fit, nothing was placed
    SCATTER_LOCAL,    // a local key of the list is not usable
};

void scatter_init(struct scatter *scatter, const struct sge *list, uint32_t count);

// The places of octets [offset, offset + len) of the list, len > 0, in at most `max` pieces. 0:
// they do not fit, are in more, or a local key is not usable.
unsigned scatter_places(struct mem_table *mem, uint32_t pd, struct scatter *scatter,
                        uint64_t offset, uint64_t len, struct mspan *ret, unsigned max);

// `payload` to `offset` of the list, whose local keys are of domain `pd`.
enum scatter_verdict scatter_place(struct mem_table *mem, uint32_t pd, struct scatter *scatter,
                                   uint64_t offset, struct span payload);

// A scatter/gather element: a piece of local memory as a work request names it. The layout is that
// of struct ibv_sge, which verbs/ asserts, so that a list can be copied as it is.
#pragma once

#include <stdint.h>

struct sge {
    uint64_t addr;   // address in the program, or in the region's own numbering (iova)
    uint32_t length; // octets; 0 names nothing and is legal
    uint32_t lkey;   // STag of the local region
};

enum { SGE_COUNT_MAX = 32 }; // elements in one work request, sends, receives and read sinks alike

static inline uint64_t sge_total_len(const struct sge *list, unsigned count)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < count; i++) {
        total += list[i].length;
    }
    return total;
}

// Which octets of messages have been placed beyond holes of the stream. Segments in order continue
// their message octet by octet; those placed early cannot be held against that, so it is noted here
// what they cover: nothing is written twice, and a message whose last segment has come is complete
// only if every octet of it has. Otherwise a peer could have us hand up a message with stale octets
// of our own in it.
//
// One table serves all messages of a stream. A message that came in one segment needs no entry.
// Once delivery has passed octets they are trimmed off.
//
// A fixed number of entries: when it is full, more waits in TCP's buffer. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { DDP_COVERAGE_MAX = 128 };

// Octets [from, to) of the message `key`: any number that tells messages apart.
struct ddp_cover {
    uint64_t key;
    uint32_t from, to;
};

struct ddp_coverage {
    unsigned count;
    struct ddp_cover entry[DDP_COVERAGE_MAX]; // sorted; those of one message do not touch
};

static inline void ddp_coverage_init(struct ddp_coverage *coverage)
{
    coverage->count = 0;
}

// Is any octet of [from, to) covered?
bool ddp_coverage_overlaps(const struct ddp_coverage *coverage, uint64_t key, uint32_t from,
                           uint32_t to);
// Are all? True for none.
bool ddp_coverage_holds(const struct ddp_coverage *coverage, uint64_t key, uint32_t from,
                        uint32_t to);
// Is anything of this message in the table?
bool ddp_coverage_knows(const struct ddp_coverage *coverage, uint64_t key);

// Adds [from, to), which must not overlap. False: no room.
bool ddp_coverage_add(struct ddp_coverage *coverage, uint64_t key, uint32_t from, uint32_t to);
// The octets of this message before `to` have been delivered.
void ddp_coverage_trim(struct ddp_coverage *coverage, uint64_t key, uint32_t to);

// Verifies the order of the entries; false when it is broken.
bool ddp_coverage_check(const struct ddp_coverage *coverage);

// The memory of one stream between two processes of a host (sealed.h).
//
// "Active" is the side that connected, "passive" the one that accepted. Pages come into being when
// they are first written, so all that a stream needs before it has carried much lies in one: the
// page in the middle has the passive side's last octets, the words, and the active side's first
// ones, and the passive side begins with its last ones.
//
//     |<-------------- ring_len ------------->|           |<-------------- ring_len ------------->|
//     +----------------------------+----------+-----------+----------+----------------------------+
//     | the passive side's octets  |  first   |   words   |  first   | the active side's octets   |
//     +----------------------------+----------+-----------+----------+----------------------------+
//                                  |<------------ a page ----------->|
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "link/local/octet_ring.h"
#include "link/local/slot.h"

enum local_side { LOCAL_ACTIVE, LOCAL_PASSIVE };

// Of the words.
enum local_memory_offset {
    LOCAL_MEMORY_ACTIVE_RING = 0,      // control of the ring that the active side writes
    LOCAL_MEMORY_PASSIVE_RING = 512,   // ... that the passive side writes
    LOCAL_MEMORY_ACCEPTED = 1024,      // 64 bits, the passive side's: 1 + its number (channel.h)
    LOCAL_MEMORY_SWITCHED = 1088,      // 64 bits, the active side's: 1 + octets it sent by TCP
    LOCAL_MEMORY_ACTIVE_END = 1152,    // 64 bits: enum local_end, what the active side has ended
    LOCAL_MEMORY_PASSIVE_END = 1216,   // ... the passive side
    LOCAL_MEMORY_ACTIVE_NUMBER = 1280, // 64 bits: the active side's number
    LOCAL_MEMORY_ACTIVE_SLOT = 1408,   // of who writes into the passive side's memory (slot.h)
    LOCAL_MEMORY_PASSIVE_SLOT = 1536,  // ... into the active side's
    LOCAL_MEMORY_ACTIVE_GATE = 1664,   // the active side's: the passive one may write
    LOCAL_MEMORY_PASSIVE_GATE = 1792,  // the passive side's
    LOCAL_MEMORY_WORDS_LEN = 2048,
};

enum {
    LOCAL_MEMORY_PAGE = 4096,
    LOCAL_MEMORY_FIRST = (LOCAL_MEMORY_PAGE - LOCAL_MEMORY_WORDS_LEN) / 2, // octets of each side
};

enum local_end {
    LOCAL_END_NONE,
    LOCAL_END_SHUT,    // it sends nothing more: FIN, behind what is in its ring
    LOCAL_END_ABORTED, // it is gone: a reset
};

struct local_memory {
    uint8_t *base; // NULL: none; the words, in the midst of it
    uint32_t ring_len;
};

// New memory, zeroed; its descriptor is the caller's to hand over and to close. 0 or a negative
// errno.
int local_memory_create(uint32_t ring_len, struct local_memory *ret, int *ret_fd);
// Memory that somebody hands over; the descriptor stays the caller's. -EINVAL: its length is not
// that of two such rings, or its seals leave somebody free to change that.
int local_memory_adopt(int fd, uint32_t ring_len, struct local_memory *ret);
// Harmless when there is none.
void local_memory_release(struct local_memory *m);

// The ring that `side` writes.
struct octet_ring local_memory_ring(const struct local_memory *m, enum local_side side);

static inline _Atomic uint64_t *local_memory_word(const struct local_memory *m,
                                                  enum local_memory_offset offset)
{
    return (_Atomic uint64_t *)(void *)(m->base + offset);
}

// In which `side` says that it pushes.
static inline struct local_slot *local_memory_slot(const struct local_memory *m,
                                                   enum local_side side)
{
    bool is_active = side == LOCAL_ACTIVE;
    return (struct local_slot *)(void *)(m->base + (is_active ? LOCAL_MEMORY_ACTIVE_SLOT
                                                              : LOCAL_MEMORY_PASSIVE_SLOT));
}

// By which `side` lets the other push.
static inline struct local_gate *local_memory_gate(const struct local_memory *m,
                                                   enum local_side side)
{
    bool is_active = side == LOCAL_ACTIVE;
    return (struct local_gate *)(void *)(m->base + (is_active ? LOCAL_MEMORY_ACTIVE_GATE
                                                              : LOCAL_MEMORY_PASSIVE_GATE));
}

static inline _Atomic uint64_t *local_memory_end(const struct local_memory *m, enum local_side side)
{
    return local_memory_word(m, side == LOCAL_ACTIVE ? LOCAL_MEMORY_ACTIVE_END
                                                     : LOCAL_MEMORY_PASSIVE_END);
}

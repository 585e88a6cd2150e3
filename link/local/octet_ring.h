// A ring of octets in memory that two processes share: one writes, one reads, without a system call
// or a lock. A side that goes to sleep says so beforehand, and the other is told to wake it; how is
// its own business.
//
//   writer   put ... publish          copies in, shows it; `publish` tells if the reader sleeps
//   reader   readable ... release     looks at what has come where it lies, gives the room back;
//                                     `release` tells whether the writer sleeps
//   both     sleep, rise              before sleeping, and when awake again
//
// A stream uses it as it is. Who wants records asks for `room` first, so that a record is put whole
// or not at all, and publishes behind it; the reader copies a record's header out and sees whether
// the rest has come.
//
// **What the other side writes is hostile.** Its index is read once per look and held against what
// is possible; a look that finds nonsense breaks the ring on this side for good, and the verdict
// names it. Octets may change while they are looked at: what decides about anything is copied out
// first (octet_ring_copy), what is only copied on may lie where it is.
//
// No I/O, no allocation. A writer and a reader are one thread's at a time each, and need nothing
// between them but this memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

// The control block, in octets: each word has cache lines of its own, since it has one side that
// writes it (the two *_SLEEPS: the side that sleeps sets it, the other takes it back).
enum octet_ring_offset {
    OCTET_RING_WRITTEN = 0,         // 64 bits: octets that were ever published; the writer's
    OCTET_RING_TAKEN = 128,         // 64 bits: octets that were ever given back; the reader's
    OCTET_RING_READER_SLEEPS = 256, // 64 bits: not 0: is to be woken when anything has come
    OCTET_RING_WRITER_SLEEPS = 384, // 64 bits: is to be woken when there is so much room; 0: awake
    OCTET_RING_CONTROL_LEN = 512,
};

enum { OCTET_RING_LEN_MAX = 1 << 30 };

#define OCTET_RING_VERDICTS(X)                                                         \
    X(OK, "ok")                                                                        \
    X(WRITTEN_WRONG, "the writer's index is beyond what the ring holds, or went back") \
    X(TAKEN_WRONG, "the reader's index is beyond what was written, or went back")

enum octet_ring_verdict {
#define X(name, text) OCTET_RING_##name,
    OCTET_RING_VERDICTS(X)
#undef X
        OCTET_RING_VERDICT_COUNT
};

const char *octet_ring_verdict_name(enum octet_ring_verdict verdict);

// Where a ring lies. Zeroed memory is an empty ring.
struct octet_ring {
    uint8_t *control; // OCTET_RING_CONTROL_LEN octets, aligned to a cache line
    uint8_t *octets;  // `len` of them
    uint32_t len;     // a power of two, at most OCTET_RING_LEN_MAX
    uint32_t first;   // where the first octet of all lies: below `len`
};

static inline bool octet_ring_len_is_good(uint64_t len)
{
    return len > 0 && len <= OCTET_RING_LEN_MAX && (len & (len - 1)) == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

// Pieces of so many octets and more go past the writer's caches, unless its `is_near` says through.
enum { OCTET_RING_FAR_LEN_MIN = 4096 };

struct octet_ring_writer {
    struct octet_ring ring;
    enum octet_ring_verdict verdict; // other than OK: nothing has room any more
    bool is_near;                    // whether long pieces go through our caches; its user's
    uint64_t put;                    // octets copied in
    uint64_t taken;                  // octets given back, as far as was looked
};

void octet_ring_writer_init(struct octet_ring_writer *w, const struct octet_ring *ring);

// Octets that may be put now.
size_t octet_ring_room(struct octet_ring_writer *w);
// May so many be put now? The other side's word is looked at only if that was not so at the last.
bool octet_ring_has_room(struct octet_ring_writer *w, size_t len);
// Copies in what there is room for, from the front; returns how much.
size_t octet_ring_put(struct octet_ring_writer *w, struct span octets);
// Shows the reader what was put so far, in the middle of more.
void octet_ring_show(struct octet_ring_writer *w);
// Shows the reader all that was put. True: it sleeps and must be woken; said once per sleep.
bool octet_ring_publish(struct octet_ring_writer *w);
// The reader sleeps, as far as is known: nothing follows from that.
bool octet_ring_reader_sleeps(const struct octet_ring_writer *w);
// Everything that was published has been given back.
bool octet_ring_is_drained(struct octet_ring_writer *w);
// From now on the reader wakes who waits for `wanted` octets of room (at least 1). False: there is
// room already, and nobody is to sleep.
bool octet_ring_writer_sleep(struct octet_ring_writer *w, size_t wanted);
void octet_ring_writer_rise(struct octet_ring_writer *w);

/* ---- reading --------------------------------------------------------------------------------- */

struct octet_ring_reader {
    struct octet_ring ring;
    enum octet_ring_verdict verdict; // other than OK: nothing comes any more
    uint64_t taken;                  // octets given back
    uint64_t written;                // octets published, as far as was looked
};

void octet_ring_reader_init(struct octet_ring_reader *r, const struct octet_ring *ring);

// What is looked at next is asked for in advance (base/fetch.h).
void octet_ring_reader_fetch(const struct octet_ring_reader *r);
// Octets that have come and were not given back.
size_t octet_ring_available(struct octet_ring_reader *r);
// Have `len` octets come behind the first `offset`?
bool octet_ring_has(struct octet_ring_reader *r, size_t offset, size_t len);
// The first of them as far as they lie side by side; empty: none has come.
struct span octet_ring_readable(struct octet_ring_reader *r);
// Copies out octets from `offset` behind the first, wherever the ring ends; as many as have come.
// Returns how many. None is given back.
size_t octet_ring_copy(struct octet_ring_reader *r, size_t offset, struct mspan into);
// `len` octets from `offset` behind the first, where they lie; empty: they have not all come, or
// lie on both sides of the ring's end.
struct span octet_ring_at(struct octet_ring_reader *r, size_t offset, size_t len);
// Gives the first `len` octets back, which must be available. True: the writer sleeps and has room
// enough now; said once per sleep.
bool octet_ring_release(struct octet_ring_reader *r, size_t len);
// From now on the writer wakes us. False: something is there already, and nobody is to sleep.
bool octet_ring_reader_sleep(struct octet_ring_reader *r);
void octet_ring_reader_rise(struct octet_ring_reader *r);

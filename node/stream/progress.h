// What a client owes for memory of the pool that is lent to it: within its TTS's patience, all of
// what is awaited, or PROGRESS_LEN octets of it. One for each direction of a connection.
#pragma once

#include <stdbool.h>

#include "base/time.h"

enum { PROGRESS_LEN = 1 << 20 };

struct progress {
    bool is_awaited;
    instant_ns deadline; // while it is
    uint64_t moved;      // octets since the deadline was set
};

static inline void progress_set(struct progress *p, duration_ns patience, instant_ns now)
{
    p->deadline = instant_after(now, patience);
    p->moved = 0;
}

// Is the client's part awaited now? Asked at the end of each batch.
static inline void progress_await(struct progress *p, bool is_awaited, duration_ns patience,
                                  instant_ns now)
{
    if (is_awaited && !p->is_awaited) {
        progress_set(p, patience, now);
    }
    p->is_awaited = is_awaited;
}

static inline void progress_note(struct progress *p, uint64_t moved, duration_ns patience,
                                 instant_ns now)
{
    p->moved += moved;
    if (p->moved >= PROGRESS_LEN) {
        progress_set(p, patience, now);
    }
}

static inline instant_ns progress_deadline(const struct progress *p)
{
    return p->is_awaited ? p->deadline : INSTANT_NEVER;
}

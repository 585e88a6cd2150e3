// When who looks on in vain gives the processor away (sched_yield). If the other side waits for
// this very one, to keep it is to wait for oneself, and the sooner it goes the better; if the other
// side has one of its own, to keep it costs nobody anything; and a stranger who wants it keeps it
// for a whole slice. What came of the last time says which: only who was back soon, and found
// something, has given it to the other side.
#pragma once

#include <stdbool.h>

#include "base/time.h"

#define GIVING_WAY_PATIENCE_NS (250 * NS_PER_US) // while nothing is known
#define GIVING_WAY_SOON_NS     (20 * NS_PER_US)  // the other side was there the last time
#define GIVING_WAY_HELD_NS     (2 * NS_PER_US)   // a call that took longer let somebody else go
#define GIVING_WAY_SLICE_NS    (2 * NS_PER_MS)   // who takes so long does not wait for us

struct giving_way {
    instant_ns since_ns;   // nothing was found since then; 0: something was, or it was given away
    duration_ns lasted_ns; // the last time, until it is known what came of it; 0: it is
    bool is_due;
    bool is_shared; // the other side waits for this processor
};

static inline void giving_way_on_found(struct giving_way *g)
{
    const duration_ns lasted_ns = g->lasted_ns;
    const bool is_shared = lasted_ns == 0
                               ? g->is_shared
                               : lasted_ns > GIVING_WAY_HELD_NS && lasted_ns < GIVING_WAY_SLICE_NS;
    *g = (struct giving_way){.is_shared = is_shared};
}

static inline void giving_way_on_nothing(struct giving_way *g, instant_ns now)
{
    g->since_ns = g->since_ns == 0 ? now : g->since_ns;
    g->is_due = now - g->since_ns >= (g->is_shared ? GIVING_WAY_SOON_NS : GIVING_WAY_PATIENCE_NS);
}

// Whether it is time; then it is given away, by whoever has asked alone.
static inline bool giving_way_take(struct giving_way *g)
{
    const bool is_due = g->is_due;
    g->is_due = false;
    return is_due;
}

// It was given away, and came back after so long.
static inline void giving_way_on_given(struct giving_way *g, duration_ns lasted_ns)
{
    const bool was_in_vain = g->lasted_ns != 0; // the time before
    *g = (struct giving_way){.lasted_ns = lasted_ns + 1, .is_shared = g->is_shared && !was_in_vain};
}

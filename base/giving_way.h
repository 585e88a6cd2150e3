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
#define GIVING_WAY_HELD_NS     (2 * NS_PER_US)   // who was away for longer let somebody else go
#define GIVING_WAY_TURN_NS     (500 * NS_PER_US) // who takes so long does not wait for us

struct giving_way {
    instant_ns looked_ns; // the last time
    instant_ns since_ns;  // the first time since something was found, or it was given away; 0: none
    instant_ns given_ns;  // when it was given away, since something was found; 0: it was not
    duration_ns away_ns;  // ... and until the next look; 0: there was none
    bool is_due;
    bool is_shared; // the other side waits for this processor
};

// Looks on now. It is not known yet whether something is found.
static inline void giving_way_on_look(struct giving_way *g, instant_ns now)
{
    if (g->given_ns != 0 && g->away_ns == 0) {
        g->away_ns = now - g->given_ns;
    }
    g->looked_ns = now;
    g->since_ns = g->since_ns == 0 ? now : g->since_ns;
    g->is_due = now - g->since_ns >= (g->is_shared ? GIVING_WAY_SOON_NS : GIVING_WAY_PATIENCE_NS);
}

// The program has slept since, or may have: its last look has nothing to do with the next.
static inline void giving_way_on_rest(struct giving_way *g)
{
    *g = (struct giving_way){.is_shared = g->is_shared};
}

static inline void giving_way_on_found(struct giving_way *g)
{
    if (g->away_ns != 0) {
        g->is_shared = g->away_ns >= GIVING_WAY_HELD_NS && g->away_ns < GIVING_WAY_TURN_NS;
    }
    giving_way_on_rest(g);
}

// Whether it is time, nothing having been found. It is given away then.
static inline bool giving_way_take(struct giving_way *g)
{
    const bool is_due = g->is_due, was_in_vain = g->given_ns != 0;
    if (is_due) {
        *g = (struct giving_way){.given_ns = g->looked_ns,
                                 .is_shared = g->is_shared && !was_in_vain};
    }
    return is_due;
}

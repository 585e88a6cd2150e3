// Many deadlines of which the earliest is wanted: a pairing heap whose nodes live in the objects
// that they are about, so that nothing is allocated and no room runs out. Arming and looking at
// the earliest cost a few comparisons; taking and disarming cost the logarithm of their number, in
// the long run. Deadlines of one instant come in the order in which they were armed.
//
//     deadline_arm(&d, &object->deadline, at_ns)      whenever it changes
//     deadlines_next(&d)                              how long to sleep
//     while ((one = deadlines_take_due(&d, now)))     serve DEADLINE_ENTRY(one, ...)
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

// All zero when its object is made: not armed.
struct deadline {
    instant_ns at_ns;
    uint64_t turn; // among those of the same instant; 0: not armed
    struct deadline *child, *next;
    struct deadline *prev; // the sibling before it, or the parent of the first
};

// All zero when it is made: empty.
struct deadlines {
    struct deadline *first;
    uint64_t turn; // the last that was given out
};

#define DEADLINE_ENTRY(d, type, member) ((type *)((char *)(d)-offsetof(type, member)))

static inline bool deadline_is_armed(const struct deadline *d)
{
    return d->turn != 0;
}

static inline instant_ns deadline_at(const struct deadline *d)
{
    return deadline_is_armed(d) ? d->at_ns : INSTANT_NEVER;
}

static inline bool deadlines_has_any(const struct deadlines *all)
{
    return all->first != NULL;
}

// The instant of the earliest.
static inline instant_ns deadlines_next(const struct deadlines *all)
{
    return deadlines_has_any(all) ? all->first->at_ns : INSTANT_NEVER;
}

// At `at_ns`, whether it was armed or not: who is moved comes behind those already there, who stays
// keeps its turn. INSTANT_NEVER disarms.
void deadline_arm(struct deadlines *all, struct deadline *d, instant_ns at_ns);
// Harmless when it is not armed.
void deadline_disarm(struct deadlines *all, struct deadline *d);
// Disarms and returns the earliest, of at least one.
struct deadline *deadlines_take_first(struct deadlines *all);

// Disarms and returns the earliest of those whose instant has come, or NULL. Who is served is armed
// again for later than `now`, else a loop meets it again. It is asked in every pass of those who
// keep deadlines, and mostly in vain.
static inline struct deadline *deadlines_take_due(struct deadlines *all, instant_ns now)
{
    return deadlines_has_any(all) && all->first->at_ns <= now ? deadlines_take_first(all) : NULL;
}

void deadlines_check(const struct deadlines *all);

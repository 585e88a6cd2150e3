// Many deadlines of which the earliest is wanted: a heap. Setting, moving and removing one costs
// the logarithm of their number, looking at the earliest nothing.
#pragma once

#include <stdint.h>

#include "base/time.h"

// Lives in the object that it is about; all zero when it is made.
struct net_timer {
    instant_ns at_ns;
    uint32_t place; // in the heap, counted from 1; 0: not running
};

struct net_timers {
    struct net_timer **heap; // heap[0] is not used
    uint32_t count, room;
};

void net_timers_init(struct net_timers *t);
void net_timers_fini(struct net_timers *t);
// Room for so many at a time, never less than before. -ENOMEM.
int net_timers_resize(struct net_timers *t, uint32_t room);

// `at_ns`, whether it was running or not; INSTANT_NEVER stops it. There must be room.
void net_timers_set(struct net_timers *t, struct net_timer *timer, instant_ns at_ns);
// The earliest, or NULL.
struct net_timer *net_timers_first(const struct net_timers *t);
instant_ns net_timers_next_deadline(const struct net_timers *t);
void net_timers_check(const struct net_timers *t);

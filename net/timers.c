#include "net/timers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"

enum { ROOM_MIN = 64 };

void net_timers_init(struct net_timers *t)
{
    *t = (struct net_timers){0};
}

void net_timers_fini(struct net_timers *t)
{
    CHECK(t->count == 0);
    free(t->heap);
}

int net_timers_resize(struct net_timers *t, uint32_t room)
{
    if (room <= t->room) {
        return 0;
    }
    room = room < 2 * t->room ? 2 * t->room : room;
    room = room < ROOM_MIN ? ROOM_MIN : room;
    struct net_timer **grown = realloc(t->heap, ((size_t)room + 1) * sizeof(struct net_timer *));
    if (grown == NULL) {
        return -ENOMEM;
    }
    t->heap = grown;
    t->room = room;
    return 0;
}

static void put(struct net_timers *t, uint32_t place, struct net_timer *timer)
{
    t->heap[place] = timer;
    timer->place = place;
}

// Lets `timer` rise from `place` past those that are later; returns where it may stand.
static uint32_t rise(struct net_timers *t, uint32_t place, const struct net_timer *timer)
{
    while (place > 1 && t->heap[place / 2]->at_ns > timer->at_ns) {
        put(t, place, t->heap[place / 2]);
        place /= 2;
    }
    return place;
}

static uint32_t sink(struct net_timers *t, uint32_t place, const struct net_timer *timer)
{
    for (;;) {
        uint32_t child = 2 * place;
        if (child < t->count && t->heap[child + 1]->at_ns < t->heap[child]->at_ns) {
            child++;
        }
        if (child > t->count || t->heap[child]->at_ns >= timer->at_ns) {
            return place;
        }
        put(t, place, t->heap[child]);
        place = child;
    }
}

static void settle(struct net_timers *t, uint32_t place, struct net_timer *timer)
{
    put(t, sink(t, rise(t, place, timer), timer), timer);
}

static void stop(struct net_timers *t, struct net_timer *timer)
{
    uint32_t place = timer->place;
    struct net_timer *last = t->heap[t->count--];
    timer->place = 0;
    if (last != timer) {
        settle(t, place, last);
    }
}

void net_timers_set(struct net_timers *t, struct net_timer *timer, instant_ns at_ns)
{
    if (timer->place != 0 && timer->at_ns == at_ns) {
        return;
    }
    timer->at_ns = at_ns;
    if (at_ns == INSTANT_NEVER) {
        if (timer->place != 0) {
            stop(t, timer);
        }
    } else if (timer->place != 0) {
        settle(t, timer->place, timer);
    } else {
        CHECK(t->count < t->room);
        settle(t, ++t->count, timer);
    }
}

struct net_timer *net_timers_first(const struct net_timers *t)
{
    return t->count == 0 ? NULL : t->heap[1];
}

instant_ns net_timers_next_deadline(const struct net_timers *t)
{
    return t->count == 0 ? INSTANT_NEVER : t->heap[1]->at_ns;
}

void net_timers_check(const struct net_timers *t)
{
    CHECK(t->count <= t->room);
    for (uint32_t place = 1; place <= t->count; place++) {
        CHECK(t->heap[place]->place == place);
        CHECK(place == 1 || t->heap[place / 2]->at_ns <= t->heap[place]->at_ns);
    }
}

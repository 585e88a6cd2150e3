// Whether who waits looks on for a moment before it falls asleep. The other side often does
// something sooner than two processes fall asleep and are woken again: then neither has to. If
// nothing comes more was lost than a sleep, so it is done as long as it pays nearly always, and now
// and then. A link does it as long as it pays at all (base/lingering.h), since it does it for less
// long.
//
// **Who looks on gives way** (sched_yield, by the caller). Of a client, a host and an RTA on two
// processors two look on, and the third, who has the work, is to have a processor at once. To go
// around so costs a tenth of a wake-up. A stranger who wants the processor keeps it for a whole
// slice, which is far worse than to sleep: who sleeps has it back as soon as there is something to
// do. So when giving way took as long as that, the processor is kept for some times, and left at
// the first interruption. Who came by is not there the next time, so it is a few times behind the
// first stranger, and twice as many behind each that is met before all has been calm for a while.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define LOOKOUT_NS      (100 * NS_PER_US) // where it gives way: three or four hand-overs
#define LOOKOUT_KEPT_NS (50 * NS_PER_US)  // where not: an idle processor takes most of it to wake
#define LOOKOUT_OWN_NS  (2 * NS_PER_US)   // who answers sooner has a processor of its own
#define LOOKOUT_GAP_NS  (10 * NS_PER_US)  // somebody else had the processor that is kept
#define LOOKOUT_TURN_NS (500 * NS_PER_US) // who takes so long does not wait for us

enum {
    LOOKOUT_LOSS = 4,                     // so many times that paid make up for one that did not
    LOOKOUT_DOUBT_MAX = 4 * LOOKOUT_LOSS, // then it is tried
    LOOKOUT_SLEEPS = 64,                  // ... before every 64th sleep
    LOOKOUT_KEPT_MIN = 16,                // the so many-th behind a stranger's turn gives way again
    LOOKOUT_KEPT_MAX = 1024,              // ... where strangers are always there
    LOOKOUT_CALM = 1024,                  // so many that gave way and met none forget them
};

struct lookout {
    unsigned doubt;       // LOOKOUT_LOSS for each loss, less what has paid since
    unsigned sleep_count; // since that was too much
    unsigned kept;        // this one does not give way, nor do so many less one behind it
    unsigned kept_len;    // so many since the last stranger; 0: forgotten
    unsigned calm;        // so many have given way since
    // Of the one under way:
    uint64_t count; // of what had come when it began
    bool is_on;
    instant_ns begun_ns;
};

// Asked once before each sleep.
static inline bool lookout_is_worth_it(struct lookout *l)
{
    return l->doubt < LOOKOUT_DOUBT_MAX || ++l->sleep_count % LOOKOUT_SLEEPS == 0;
}

static inline void lookout_doubt(struct lookout *l, unsigned more)
{
    unsigned doubt = l->doubt + more;
    l->doubt = doubt < LOOKOUT_DOUBT_MAX ? doubt : LOOKOUT_DOUBT_MAX;
}

static inline void lookout_note(struct lookout *l, bool has_paid)
{
    if (has_paid) {
        l->doubt -= l->doubt > 0;
    } else {
        lookout_doubt(l, LOOKOUT_LOSS);
    }
}

static inline bool lookout_gives_way(const struct lookout *l)
{
    return l->kept == 0;
}

// One of those that do not give way is over; or all has been calm for one more.
static inline void lookout_forget(struct lookout *l)
{
    if (l->kept > 0) {
        l->kept--;
    } else if (l->is_on && l->kept_len > 0 && ++l->calm == LOOKOUT_CALM) {
        l->kept_len = 0;
    }
}

// Before a sleep. Whether it is on says lookout_lasts.
static inline void lookout_begin(struct lookout *l, instant_ns now)
{
    l->is_on = lookout_is_worth_it(l);
    lookout_forget(l);
    l->begun_ns = now;
}

static inline void lookout_end(struct lookout *l, bool has_paid)
{
    if (l->is_on) {
        l->is_on = false;
        lookout_note(l, has_paid);
    }
}

// Nothing has come by now. False: sleep.
static inline bool lookout_lasts(struct lookout *l, instant_ns now)
{
    duration_ns len = lookout_gives_way(l) ? LOOKOUT_NS : LOOKOUT_KEPT_NS;
    if (now >= instant_after(l->begun_ns, len)) {
        lookout_end(l, false);
    }
    return l->is_on;
}

// In turns: behind each thing that has come the next one is looked for. Asked in each turn that
// would end in a sleep; so many have come by now. False: sleep.
static inline bool lookout_goes_on(struct lookout *l, uint64_t count, instant_ns now)
{
    if (l->count != count) {
        lookout_end(l, true);
        l->count = count;
        lookout_begin(l, now);
    }
    return lookout_lasts(l, now);
}

// Between two looks: whether the processor is to be given away now (lookout_turn asks).
static inline bool lookout_is_to_give_way(const struct lookout *l, instant_ns now)
{
    return lookout_gives_way(l) && now >= instant_after(l->begun_ns, LOOKOUT_OWN_NS);
}

static inline void lookout_note_stranger(struct lookout *l)
{
    unsigned len = 2 * l->kept_len;
    len = len < LOOKOUT_KEPT_MIN ? LOOKOUT_KEPT_MIN : len;
    l->kept = l->kept_len = len < LOOKOUT_KEPT_MAX ? len : LOOKOUT_KEPT_MAX;
    l->calm = 0;
}

// So long passed between two looks. False: somebody else wants the processor, and it is over. One
// who came by is a loss, two are two, and then it is not worth it.
static inline bool lookout_note_gap(struct lookout *l, duration_ns gap)
{
    bool is_strangers = gap >= LOOKOUT_TURN_NS;
    if (is_strangers) {
        lookout_note_stranger(l);
    }
    if (is_strangers || (!lookout_gives_way(l) && gap >= LOOKOUT_GAP_NS)) {
        l->is_on = false;
        lookout_doubt(l, l->kept_len / LOOKOUT_KEPT_MIN * LOOKOUT_LOSS);
    }
    return l->is_on;
}

// Between two looks, the first of them at `now`: gives way if it is time. False: it is over, since
// somebody else wants the processor.
static inline bool lookout_turn(struct lookout *l, instant_ns now, instant_ns (*tell_now)(void),
                                int (*give_way)(void))
{
    if (lookout_is_to_give_way(l, now)) {
        give_way();
    }
    return lookout_note_gap(l, tell_now() - now);
}

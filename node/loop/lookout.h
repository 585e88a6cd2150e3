// Whether a member looks on for a moment before the loop falls asleep. The other side often does
// something sooner than two processes fall asleep and are woken again: then neither has to. But who
// looks on keeps a processor from those who may need it, and loses more than a sleep if nothing
// comes: so it is done as long as it pays nearly always, and now and then. A link does it as long
// as it pays at all (base/lingering.h), since it does it for less long.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define LOOKOUT_NS     (50 * NS_PER_US) // an idle processor takes most of it to wake
#define LOOKOUT_GAP_NS (10 * NS_PER_US) // between two looks: somebody else had the processor

enum {
    LOOKOUT_LOSS = 4,                     // so many times that paid make up for one that did not
    LOOKOUT_DOUBT_MAX = 4 * LOOKOUT_LOSS, // then it is tried
    LOOKOUT_SLEEPS = 64,                  // ... before every 64th sleep
};

struct lookout {
    unsigned doubt;       // LOOKOUT_LOSS for each loss, less what has paid since
    unsigned sleep_count; // since that was too much
    // While it is kept in turns (lookout_goes_on):
    uint64_t count; // of what had come when it began
    bool is_on;
    instant_ns until_ns;
};

// Asked once before each sleep.
static inline bool lookout_is_worth_it(struct lookout *l)
{
    return l->doubt < LOOKOUT_DOUBT_MAX || ++l->sleep_count % LOOKOUT_SLEEPS == 0;
}

static inline void lookout_note(struct lookout *l, bool has_paid)
{
    unsigned doubt = has_paid ? l->doubt - (l->doubt > 0) : l->doubt + LOOKOUT_LOSS;
    l->doubt = doubt < LOOKOUT_DOUBT_MAX ? doubt : LOOKOUT_DOUBT_MAX;
}

static inline void lookout_end(struct lookout *l, bool has_paid)
{
    if (l->is_on) {
        l->is_on = false;
        lookout_note(l, has_paid);
    }
}

// Between two looks that follow at once: somebody else wants the processor. Who sleeps has it back
// as soon as there is something to do; who has spent its share of it on looking has not.
static inline bool lookout_is_disturbed(struct lookout *l, instant_ns before, instant_ns now)
{
    bool is_disturbed = now - before >= LOOKOUT_GAP_NS;
    if (is_disturbed) {
        l->is_on = false;
        l->doubt = LOOKOUT_DOUBT_MAX;
    }
    return is_disturbed;
}

// In turns: behind each thing that has come the next one is looked for. Asked in each turn that
// would end in a sleep; so many have come by now. False: sleep.
static inline bool lookout_goes_on(struct lookout *l, uint64_t count, instant_ns now)
{
    if (l->count != count) {
        lookout_end(l, true);
        l->count = count;
        l->is_on = lookout_is_worth_it(l);
        l->until_ns = instant_after(now, LOOKOUT_NS);
    }
    if (now >= l->until_ns) {
        lookout_end(l, false);
    }
    return l->is_on;
}

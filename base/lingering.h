// Whether to look on for a moment before falling asleep: the other side often does something sooner
// than two processes fall asleep and are woken again. It keeps a processor from who would do it if
// there are not enough of them, so it is done as long as it pays, and now and then.
#pragma once

#include <stdbool.h>

enum {
    LINGERING_LOSSES_MAX = 4, // so often in a row it may have been for nothing
    LINGERING_SLEEPS = 16,    // ... then it is tried before every 16th sleep
};

struct lingering {
    unsigned losses;      // in a row, as many as count
    unsigned sleep_count; // since those were too many
};

// Asked once before each sleep.
static inline bool lingering_is_worth_it(struct lingering *l)
{
    return l->losses < LINGERING_LOSSES_MAX || ++l->sleep_count % LINGERING_SLEEPS == 0;
}

static inline void lingering_note(struct lingering *l, bool has_paid)
{
    l->losses = has_paid ? 0 : l->losses + (l->losses < LINGERING_LOSSES_MAX);
}

// Whether to look on for a moment before falling asleep: the other side often answers sooner than
// two processes fall asleep and are woken again. It keeps a processor from who would answer if
// there are not enough of them, so it is done as long as it pays, and now and then.
#pragma once

#include <stdbool.h>

enum {
    LINGER_LOSSES_MAX = 4, // so often in a row it may have been for nothing
    LINGER_SLEEPS = 16,    // ... then it is tried before every 16th sleep
};

struct bus_linger {
    unsigned losses; // in a row
    unsigned sleep_count;
};

// Asked once before each sleep.
static inline bool bus_linger_is_worth_it(struct bus_linger *linger)
{
    return linger->losses < LINGER_LOSSES_MAX || ++linger->sleep_count % LINGER_SLEEPS == 0;
}

static inline void bus_linger_note(struct bus_linger *linger, bool has_paid)
{
    linger->losses = has_paid ? 0 : linger->losses + 1;
}

// A bar on standard error, while something long is being done; only on a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *word; // "copying"
    double started_at_s, shown_at_s;
    bool is_shown;
};

void progress_begin(struct progress *progress, const char *word);
// `done` of `all` octets, UINT64_MAX if nobody knows; draws at most some times a second.
void progress_show(struct progress *progress, uint64_t done, uint64_t all);
// Takes the bar away. Seconds since the beginning.
double progress_end(struct progress *progress);

// Is standard error a terminal?
bool progress_is_wanted(void);

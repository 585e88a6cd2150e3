// What the kernel says of a process: what it has given up. The word of the process itself is not
// asked.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct privileges {
    bool has_no_new_privs;
    uint64_t capabilities; // that it has, 1 << CAP_...
    unsigned filters;      // of seccomp, beside those that the node itself runs under
};

// All zero for a process that is gone.
struct privileges privileges_of(pid_t pid);

// In one word: "device": it can what its device takes; "common": what any device may take; "none".
const char *privileges_word(const struct privileges *p);

// Copies one place to another, several pieces at a time, or compares the two.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/place.h"
#include "cli/volume.h"

struct progress;

struct copy_wish {
    unsigned depth;     // pieces on their way at a time
    bool is_sparse;     // pieces of zeroes are told, not written
    bool is_comparison; // read both and compare; nothing is written
};

struct copy_report {
    uint64_t len;                         // octets copied or compared
    uint64_t zero_len;                    // of them, told as zeroes
    int error;                            // the first: a negative errno,
    char answer[VOLUME_ANSWER_MAX];       // what the target said, if it did,
    uint64_t error_at;                    // where,
    const struct copy_place *error_place; // and who; NULL: the places differ at error_at
};

// 0; or -1, with the reason in the report. `progress` may be NULL.
int copy_run(struct copy_place *from, struct copy_place *to, const struct copy_wish *wish,
             struct progress *progress, struct copy_report *ret);

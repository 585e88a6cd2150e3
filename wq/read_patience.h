// How long an answer is waited for. The time counts for the oldest request, and what starts it anew
// is what brings that one on, so that no peer keeps read contexts by sending something else:
//
//     the request leaves, or becomes the oldest, or was answered in part
//     READ_PROGRESS_LEN octets more of answers, or of what stands before a request that is to leave
//     READ_PROGRESS_LEN octets more of a message that is no answer, of READ_OVERTAKING_MAX such
//     messages at most: they are not interleaved, and one that had begun is sent to its end
//
// No allocation: two lengths, a count and an instant.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

enum {
    READ_PROGRESS_LEN = 32 * 1024,
    // One message was under way when the request left, another may have begun before it arrived.
    READ_OVERTAKING_MAX = 2,
};

struct read_patience {
    instant_ns since_ns;       // when it was started anew
    uint64_t gained_len;       // octets since then that bring the oldest request on
    uint64_t overtaking_len;   // ... and of the message that is no answer, while that goes on
    unsigned overtaking_count; // such messages that started it anew since the request came on
    bool has_overtaken;        // the one that goes on did
};

void read_patience_restart(struct read_patience *p, instant_ns now);
void read_patience_on_progress(struct read_patience *p, uint64_t len, instant_ns now);
// A part of a message that is no answer.
void read_patience_on_other(struct read_patience *p, uint64_t len, bool is_last, instant_ns now);

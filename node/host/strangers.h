// What is said about strangers, on standard error: they decide how often, so it is bounded by where
// they come from and altogether. A line that is let through tells how many were not.
#pragma once

#include "base/time.h"
#include "node/interface/uma_tts.h"

enum strangers_limits {
    STRANGERS_COUNT_MAX = 64, // hosts that are known at a time; the one longest silent is forgotten
    STRANGERS_BURST = 10,     // lines of one host at once, then one in STRANGERS_SECONDS
    STRANGERS_SECONDS = 5,
    STRANGERS_BURST_OF_ALL = 100,
    STRANGERS_LINE_MAX = 768, // octets
};

// A bucket of leave to speak; the time at which it would be full.
struct stranger_bucket {
    instant_ns full_ns;
};

struct strangers {
    struct stranger_bucket all;
    struct stranger {
        char host[CLIENT_HOST_MAX];
        struct stranger_bucket bucket;
        instant_ns heard_ns; // 0: the slot is free
        uint64_t suppressed;
    } known[STRANGERS_COUNT_MAX];
};

// The line, as it may be said now; false: it may not.
bool strangers_line(struct strangers *strangers, const char *host, const char *line, instant_ns now,
                    char ret[STRANGERS_LINE_MAX]);

// What a node has said last, on standard error, and when: for who looks later.
#pragma once

#include <stdint.h>
#include <time.h>

enum { HOST_EVENT_MAX = 64, HOST_EVENT_LEN = 256 };

// All zero: nothing has been said.
struct host_events {
    uint64_t count; // that were said; the last HOST_EVENT_MAX of them are known
    struct host_event {
        time_t at;
        char text[HOST_EVENT_LEN]; // cut off, and UTF-8
    } ring[HOST_EVENT_MAX];
};

void host_event_add(struct host_events *events, time_t at, const char *text);
// So many before the latest, which is 0. NULL: there were no more, or they are forgotten.
const struct host_event *host_event_back(const struct host_events *events, unsigned back);

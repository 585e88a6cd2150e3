// A control group's memory where the kernel takes no trigger for it, as from who does not own it.
// When it meets its limits (memory.events, which anybody may wait for), it is looked at for two
// seconds how long its tasks stood still (memory.pressure). A group that meets its limit with pages
// that are easily had back is not short of memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct pressure_events {
    int fd;                   // memory.events; -1: not awaited
    int stall_fd;             // memory.pressure; -1: the kernel counts no standstill
    instant_ns window_end_ns; // 0: there was no reason to look
    uint64_t stalled_us;      // ... when the window began
    uint64_t met_count;       // ... likewise, of limits met
};

void pressure_events_open(struct pressure_events *e, const char *group_folder);
void pressure_events_close(struct pressure_events *e);
// For poll(2), POLLPRI: not while a window is open, or each meeting of the limit would wake.
int pressure_events_poll_fd(const struct pressure_events *e);
// `has_news`: there is a reason to look. True: a window has ended in which memory was short.
bool pressure_events_look(struct pressure_events *e, bool has_news, instant_ns now);

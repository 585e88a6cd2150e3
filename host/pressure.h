// Is memory short? As the kernel tells it (PSI): tasks stood still for want of memory, those of the
// nearest control group around this process that has a limit, else those of this machine. Reads
// then make do with less (rnic/reads.h).
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "base/time.h"
#include "host/pressure_events.h"

struct cgroup_memory;

enum pressure_source { PRESSURE_MACHINE, PRESSURE_GROUP, PRESSURE_EVENTS, PRESSURE_SOURCE_COUNT };

struct pressure {
    int fds[PRESSURE_EVENTS];      // what tells by itself (a trigger); -1: the kernel refused
    struct pressure_events events; // the group's where it takes no trigger
    bool is_short;
    instant_ns calm_at_ns;     // is_short: when it is over, if nothing is told till then
    duration_ns calm_after_ns; // so long nothing must be told; 0: no shortage has been yet
};

// Asks to be told. Kernels without PSI, and those before Linux 6.5 unless for root, refuse
// triggers; so do groups that are somebody else's.
void pressure_open(struct pressure *p, const struct cgroup_memory *group);
void pressure_close(struct pressure *p);
// Does the kernel tell anything?
bool pressure_is_told(const struct pressure *p);
// For poll(2): whom to ask, and until when it may be over. -1: nothing is awaited but the kernel's
// word.
void pressure_poll_set(const struct pressure *p, struct pollfd ret[PRESSURE_SOURCE_COUNT]);
int pressure_timeout_ms(const struct pressure *p, instant_ns now);
// After poll(2), also after its time-out. True: is_short has changed.
bool pressure_look(struct pressure *p, const struct pollfd polled[PRESSURE_SOURCE_COUNT],
                   instant_ns now);

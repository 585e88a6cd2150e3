// Is memory short? As the kernel tells it (PSI, /proc/pressure/memory): tasks of this machine stood
// still for want of memory. Reads then make do with less (rnic/reads.h).
#pragma once

#include <stdbool.h>

#include "base/time.h"

struct pressure {
    int fd; // for poll(2), POLLPRI; -1: the kernel tells nothing
    bool is_short;
    instant_ns calm_at_ns; // is_short: when it is over, if nothing is told till then
};

// Asks to be told. Kernels without PSI, and those before Linux 6.5 unless for root, refuse.
void pressure_open(struct pressure *p);
void pressure_close(struct pressure *p);
// For poll(2): until it may be over. -1: nothing is awaited but the kernel's word.
int pressure_timeout_ms(const struct pressure *p, instant_ns now);
// After poll(2), also after its time-out. True: is_short has changed.
bool pressure_look(struct pressure *p, short revents, instant_ns now);

// Runs one RTA on a loop: its end of the bus, its socket to the UMA, the descriptors of its
// devices. In a process of its own the loop is the RTA's alone (process.h); in the host's it is the
// host's.
#pragma once

#include <stdbool.h>

#include "node/bus/ring.h"
#include "node/loop/loop.h"
#include "node/unit/segment.h"

struct runner;

// What the RTA is given; all descriptors become the runner's, also on failure.
struct runner_parts {
    struct loop *loop;
    int channel;         // to the UMA
    int bell_rta;        // the reading end of a pipe that does not block: the CTA has rung
    int bell_cta;        // an eventfd: rings the CTA
    struct segment pool; // closed with the runner, unless it is the host's own
    struct segment bus;  // a struct bus_memory
    bool is_in_host;     // the segments are the host's own
    uint32_t landlock;   // that confines the process
    // In the host: the UMA is gone, or the RTA has ended as it was asked. A loop that is the RTA's
    // alone stops.
    void (*on_end)(void *ctx);
    void *ctx;
};

// NULL without memory or descriptors.
struct runner *runner_create(const struct runner_parts *parts);
void runner_destroy(struct runner *runner);

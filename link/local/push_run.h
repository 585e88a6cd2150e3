// Which Writes are many that follow each other, to which nobody answers: to wake the peer once for
// all of them costs less than a system call for each.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

enum { LOCAL_PUSH_RUN_MAX = 8 }; // more than so many are a stream

#define LOCAL_PUSH_RUN_GAP_NS (20 * NS_PER_US) // Writes of a stream follow each other faster

struct push_run {
    unsigned count;   // Writes since the peer last did anything, side by side
    uint64_t heard;   // ... as it was then
    instant_ns at_ns; // the last of them
};

// Another one is about to go. True: what the peer has done is to be looked at (push_run_hear). That
// lies in lines of its processor's cache, so it is asked for where a run begins, and where it would
// be a stream.
static inline bool push_run_note(struct push_run *run, instant_ns now)
{
    const bool follows = now < instant_after(run->at_ns, LOCAL_PUSH_RUN_GAP_NS);
    run->count = follows ? run->count + 1 : 0;
    run->at_ns = now;
    return run->count == 0 || run->count >= LOCAL_PUSH_RUN_MAX;
}

// So much has the peer done, of all times: it is a count that grows.
static inline void push_run_hear(struct push_run *run, uint64_t heard)
{
    run->count = heard == run->heard ? run->count : 0;
    run->heard = heard;
}

static inline bool push_run_is_stream(const struct push_run *run)
{
    return run->count >= LOCAL_PUSH_RUN_MAX;
}

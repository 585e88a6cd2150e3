// What work queues count, whatever carries them.
#pragma once

#include <stdint.h>

#include "base/counter.h"

#define WQ_COUNTERS(X)                                                             \
    X(send_completions, "send work requests completed, unsignalled ones too")      \
    X(send_flushed, "send work requests flushed")                                  \
    X(recv_completions, "receive work requests completed")                         \
    X(recv_flushed, "receive work requests flushed")                               \
    X(send_errors, "send work requests that failed")                               \
    X(recv_errors, "receive work requests that failed")                            \
    X(fence_waits, "times that a fenced work request had to wait")                 \
    X(ord_waits, "times that a read or atomic had to wait for the ORD limit")      \
    X(context_waits, "times that a read or atomic had to wait for a read context") \
    X(binds, "windows bound")                                                      \
    X(local_invalidations, "windows invalidated by the program")                   \
    X(write_flushes, "zero-length reads sent behind writes")                       \
    X(oneshot_advertised, "one-shot regions opened and advertised")                \
    X(oneshot_closed, "one-shot regions that a Send of the peer closed")           \
    X(oneshot_detached, "one-shot regions detached when the stream ended")         \
    X(oneshot_revoked, "one-shot regions taken back by the program")               \
    X(cq_overruns, "completions that found the CQ full")

struct wq_counters {
#define X(name, text) uint64_t name;
    WQ_COUNTERS(X)
#undef X
};

// Adds what work queues that go have counted to those before them.
void wq_counters_add(struct wq_counters *total, const struct wq_counters *counters);
// Calls `each` for every counter.
void wq_counters_each(const struct wq_counters *counters, counter_each each, void *ctx);

// How long work requests take, from post to completion, by operation.
//
// Not each is measured: small ones would feel two looks at the clock. One in LATENCY_SAMPLE_MEAN
// is, after a gap drawn anew each time, so that a program that does the same again and again is not
// always met at the same place of it. Who posts notes the instant in the entry; when it completes
// successfully the work queues tell their owner (wq_config.on_sampled), who has a clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/prng.h"
#include "base/time.h"
#include "wq/wqe.h"

enum latency_operation {
    LATENCY_SEND,
    LATENCY_WRITE,
    LATENCY_READ,
    LATENCY_ATOMIC,
    LATENCY_OPERATION_COUNT
};

const char *latency_operation_name(enum latency_operation operation); // "send"

// Of samples, in nanoseconds.
struct latency {
    struct histogram of[LATENCY_OPERATION_COUNT];
};

// Windows' bindings and invalidations, which no peer sees, are left out.
void latency_note(struct latency *latency, enum wqe_opcode opcode, duration_ns duration);

enum { LATENCY_SAMPLE_MEAN = 16 }; // work requests

// Which work requests of a queue are measured; its poster's.
struct latency_sampler {
    struct prng gaps;
    uint32_t left; // until the next
};

// 1 … 2 * LATENCY_SAMPLE_MEAN - 1, each as likely.
static inline uint32_t latency_gap(struct latency_sampler *sampler)
{
    return 1 + prng_below(&sampler->gaps, 2 * LATENCY_SAMPLE_MEAN - 1);
}

static inline void latency_sampler_init(struct latency_sampler *sampler, uint64_t seed)
{
    prng_init(&sampler->gaps, seed);
    sampler->left = latency_gap(sampler);
}

// Is the work request that is posted now to be measured?
static inline bool latency_sampler_next(struct latency_sampler *sampler)
{
    if (--sampler->left > 0) {
        return false;
    }
    sampler->left = latency_gap(sampler);
    return true;
}

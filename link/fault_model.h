// What a bad path does to packets: drawn, packet by packet, from one seed. The fault device
// (link/device/fault.h) and the simulated wire (link/wire.h) do what is drawn here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/span.h"
#include "base/time.h"

enum { FAULT_ONE = 1000000 }; // shares are in millionths

enum fault_side { FAULT_SIDE_OUT = 1, FAULT_SIDE_IN = 2 };

struct fault_config {
    uint32_t loss, reorder, duplicate, corrupt; // shares of all packets
    uint32_t burst;                             // packets lost in a row, on average; at least 1
    duration_ns delay_ns, jitter_ns;            // each packet: delay_ns to delay_ns + jitter_ns
    duration_ns reorder_ns;                     // and one that is to come late, up to so much more
    uint64_t seed;
    unsigned sides; // enum fault_side: which packets; corruption is always of what comes in
};

#define FAULT_VALUES                                                                      \
    "some of loss=P%, burst=N, reorder=P%, duplicate=P%, corrupt=P%, delay=T, jitter=T, " \
    "reorder-delay=T, seed=N, side=out|in|both, with commas between"

// Reads "loss=1%,reorder=5%,delay=10ms,seed=7". False: it cannot be understood.
bool fault_config_parse(const char *text, struct fault_config *ret);
static inline bool fault_config_is_none(const struct fault_config *c)
{
    return c->loss + c->reorder + c->duplicate + c->corrupt == 0 && c->delay_ns + c->jitter_ns == 0;
}

#define FAULT_COUNTERS(X)       \
    X(packets, "packets")       \
    X(lost, "of them lost")     \
    X(reordered, "made late")   \
    X(duplicated, "sent twice") \
    X(corrupted, "changed")

struct fault_counters {
#define X(name, text) uint64_t name;
    FAULT_COUNTERS(X)
#undef X
};

struct fault_model {
    struct fault_config config;
    struct prng rng;
    bool is_losing; // within a burst, which began then
    instant_ns burst_at_ns;
    struct fault_counters counters;
};

// What becomes of one packet: `count` copies (0: lost), the i-th `delay_ns[i]` late.
struct fault_fate {
    unsigned count;
    duration_ns delay_ns[2];
};

void fault_model_init(struct fault_model *m, const struct fault_config *config);
struct fault_fate fault_model_draw(struct fault_model *m, instant_ns now);
// Changes one bit of the packet, now and then.
void fault_model_corrupt(struct fault_model *m, struct mspan packet);

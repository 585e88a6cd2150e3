// Two NICs on a simulated net with any number of connections between them, driven by hand: nic 0's
// queue pairs read from nic 1's memory. Each reader has a place of its own in nic 0's memory, with
// a fence before and behind it, and every place is compared with what lies at the peer.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/prng.h"
#include "rnic/create.h"
#include "rnic/internal.h"
#include "rnic/reads.h"
#include "sim/path.h"

enum {
    CROWD_PLACE_LEN = 64 * 1024, // what one reader has
    CROWD_FENCE_LEN = 64,
    CROWD_SOURCE_LEN = 256 * 1024,
};

struct crowd_nic {
    struct crowd *crowd;
    struct rnic *rnic;
    struct rnic_cq *cq;
    uint32_t pd, stag;
    uint8_t *memory;
    size_t memory_len;
};

struct crowd_end {
    struct crowd_nic *nic;
    struct rnic_qp *qp;
    struct rnic_ep *ep;
    bool is_established;
    // Of nic 0: the read under way.
    uint32_t index, len, from;
    unsigned completed, failed; // reads
    uint64_t octets;
    instant_ns posted_ns, worst_ns; // the longest that a read took
};

struct crowd_options {
    unsigned count;            // connections
    struct rnic_config nic[2]; // read_* and extensions; the rest has defaults
    duration_ns delay_max_ns;  // 0: 1 us
    bool is_lossy;             // our own TCP, over a wire that loses packets
    uint64_t seed;
};

struct crowd {
    instant_ns now_ns;
    struct sim_path path;
    struct crowd_nic nic[2];
    struct rnic_ep *listener;
    unsigned count, accepted;
    struct crowd_end *end[2];
    struct prng prng;
};

struct rnic_config crowd_config(uint32_t contexts, uint32_t allotment_len);
struct crowd *crowd_open(const struct crowd_options *options); // connected
// Everything has been given back.
void crowd_close(struct crowd *c);

// Reader `i` reads `len` octets from a drawn place; one at a time.
void crowd_read(struct crowd *c, unsigned i, uint32_t len);
bool crowd_is_reading(const struct crowd *c, unsigned i);
// One look at both NICs and the net; completions are taken and their memory compared. Time goes on
// when nothing moves. False: nothing will ever move again.
bool crowd_step(struct crowd *c);
// The octets of one request at either end of connection `i`.
uint32_t crowd_request_len(const struct crowd *c, unsigned side, unsigned i);

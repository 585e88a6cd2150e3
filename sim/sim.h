// The simulator: whole NICs in one process, on virtual time, with programs that post, connect, err
// and go away at random, and oracles that watch. One 64-bit seed draws everything.
//
//     params.c          what the seed draws first
//     path.c            what carries the connections
//     report.c          failures, traces
//     run.c             the clock, the loop
//     mailbox.c         events, until a program looks
//     ep_stream.c       ends of connections that are streams
//     ep_conn.c         ... that are packets
//     node.c            a NIC and what a program makes on it
//     drain.c           completions, taken out
//     phase.c           the life of one connection
//     connecting.c      ... how it begins
//     side.c            ... its two ends
//     flow.c            datagrams and unreliable connections, and their oracle
//     traffic.c         work requests
//     stranger.c        packets that nobody has asked for
//     trouble.c         faults and programs that go away
//     oracle_memory.c   shadow memory
//     oracle_order.c    completions and deliveries
//     tamper.c          what proves that the oracles can fail
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/time.h"
#include "base/trace.h"
#include "sim/flow.h"
#include "sim/node.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/path.h"
#include "sim/stranger.h"
#include "sim/tamper.h"

enum { SIM_REPORT_LEN = 512 };
#define SIM_RECV_WR_ID (UINT64_C(1) << 63) // set in the numbers of receives

struct sim {
    struct sim_params params;
    struct prng rng;
    instant_ns now_ns;
    uint64_t step; // turns of the loop
    struct sim_path path;
    struct sim_stranger stranger;
    struct sim_node node[SIM_NODE_MAX];
    struct sim_pair pair[SIM_PAIR_MAX];
    struct sim_flow flow[SIM_FLOW_MAX];
    uint32_t connections_left;
    uint64_t wr_id_next;
    instant_ns program_at_ns; // when the programs look next
    duration_ns idle_ns;      // how long they wait when nothing happens
    uint64_t activity;        // counts whatever happens
    struct sim_tamper tamper;
    // The net of datagrams: cut no more before; cut until then for longer than anybody waits.
    instant_ns whole_until_ns, dark_until_ns;
    struct trace trace; // what the devices say; silent unless the run is traced
    bool is_traced;
    bool has_failed;
    char report[SIM_REPORT_LEN]; // what differs, once it has failed
    // Figures of the run.
    uint64_t completions, deliveries, ended_connections, faults;
    uint64_t commands; // of one-shot RDMA, closed
};

// Runs the seed to its end. False: `sim->report` says what differs. The simulation is gone then.
bool sim_run(struct sim *sim, uint64_t seed, enum sim_wire wire, bool is_traced,
             const struct sim_tamper *tamper);
// As above with these parameters.
bool sim_run_params(struct sim *sim, const struct sim_params *params, bool is_traced,
                    const struct sim_tamper *tamper);

// The first failure counts.
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(const struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The programs, or those of one node, take everything out of the completion queues.
void sim_drain(struct sim *sim);
void sim_node_drain(struct sim_node *node);

// True once in `one_in` draws.
static inline bool sim_draw(struct sim *sim, uint32_t one_in)
{
    return prng_below(&sim->rng, one_in) == 0;
}

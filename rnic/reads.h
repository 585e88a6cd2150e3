// The reads of a device as a whole: its allotment, which events change while it runs, and what its
// scheduler counts.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "qp/allotment_policy.h"
#include "qp/read_sched.h"

struct rnic;

struct rnic_reads {
    uint32_t allotment_len, allotment_base_len; // octets; 0: undivided. See qp/allotment_policy.h
    bool is_memory_short;
    // What one request of a connection may fetch now, where both ends' wishes count: the least and
    // the most of so many connections. 0: undivided, or no connection.
    uint32_t in_force_min_len, in_force_max_len, connection_count;
    uint32_t context_count, contexts_in_use, waiting_count;
    uint64_t changes[ALLOTMENT_EVENT_COUNT]; // of the device's allotment, by event
    struct read_sched_counters counters;
};
struct rnic_reads rnic_reads(struct rnic *rnic);

// Commands of an operator or of the program. Every connection's peer is told.
void rnic_reads_set_allotment(struct rnic *rnic, uint32_t allotment_len);
// ... as if none had been given: the setting, bent by all that bends it.
void rnic_reads_release_allotment(struct rnic *rnic);
// Memory is short as long as one source says so.
enum rnic_memory_source {
    RNIC_MEMORY_TOLD = 1,   // by an operator or the program
    RNIC_MEMORY_SENSED = 2, // by the kernel
};
void rnic_reads_set_memory(struct rnic *rnic, enum rnic_memory_source source, bool is_short);

// Lock held, once a pass: looks from time to time who waits and how full the pipes are.
void reads_on_pass(struct rnic *rnic, instant_ns now);
// Lock held.
struct rnic_reads reads_query(const struct rnic *rnic);

// The reads of a device as a whole: its allotment, which events change while it runs, and what its
// scheduler counts.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "report/report.h"
#include "wq/allotment_policy.h"
#include "wq/read_sched.h"

struct rnic;
struct rnic_qp;

struct report_reads rnic_reads(struct rnic *rnic);

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
// Lock held. Every queue pair takes the wish of the device's policy, and tells its peer.
void reads_spread(struct rnic *rnic, uint32_t old_len, enum allotment_event event, instant_ns now);
// Lock held.
struct report_reads reads_query(const struct rnic *rnic);
// Is it connected, by a transport that divides Reads? `state` is what its transport says.
bool reads_are_of(const struct rnic_qp *qp, enum qp_state state);

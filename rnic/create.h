// Making an RNIC by hand: what a process does once (host/process.h) and a simulation many times.
#pragma once

#include <stdint.h>

#include "base/port_datagram.h"
#include "base/port_link.h"
#include "base/time.h"
#include "base/trace.h"
#include "mem/table.h"
#include "rnic/config.h"
#include "rnic/rnic.h"

enum { RNIC_KEY_LEN = 16 };

struct rnic_parts {
    const char *name; // in what it tells of itself; NULL: "weft0"
    struct rnic_config config;
    // Owned by the RNIC from here on, also when creation fails; one of both.
    struct link *link;               // of streams
    struct datagram_link *datagrams; // of packets
    struct rnic_port port;           // ... from where; the first has to be had, others are left out
    instant_ns (*clock)(void *ctx);  // never goes back
    void *clock_ctx;
    struct trace *trace;            // NULL: none
    struct mem_probe probe;         // asked at registration; check NULL: every buffer is believed
    uint8_t stag_key[RNIC_KEY_LEN]; // random: what makes STags unguessable
    uint32_t qp_num_first;          // random: the first QP number, where the link gives none
    uint32_t half_open_max;         // accepted connections without a Request; 0: the default
    bool is_simulated;              // no thread: drives only in rnic_step
};

// -ENOMEM, what starting the thread failed with, or why none of the addresses can be had.
int rnic_create(const struct rnic_parts *parts, struct rnic **ret);
// Ends every connection by reset; every object of the RNIC has been destroyed before.
void rnic_destroy(struct rnic *rnic);

// One pass over all there is to do now; true if anything moved. For simulations.
bool rnic_step(struct rnic *rnic);
// When there will be something to do by itself; INSTANT_NEVER: only after input.
instant_ns rnic_next_deadline(struct rnic *rnic);

// Around a fork: nobody drives between hold and resume. In the child, in place of resume: the
// RNIC is left behind, its objects answer -EIO and may be destroyed, the peer sees nothing.
void rnic_hold(struct rnic *rnic);
void rnic_resume(struct rnic *rnic);
void rnic_abandon(struct rnic *rnic);

// Before the process exits: waits, at most `handing_ns`, until what was posted has been handed to
// the link, and ends the thread. A link whose TCP ends with the process closes its connections
// then, and is waited for, at most `acking_ns`, until the peers have acknowledged that. False: that
// could not be, since this thread is in the middle of a call (exit in a signal handler); it must
// not use the RNIC any more.
bool rnic_flush(struct rnic *rnic, duration_ns handing_ns, duration_ns acking_ns);

// What is alive, for "resources back to zero".
struct rnic_live {
    uint32_t pds, regions, windows, oneshots, sinks, qps, cqs, srqs, endpoints;
};
struct rnic_live rnic_live(struct rnic *rnic);

// Streams between devices of one process, on virtual time: a link for the simulator. Several links
// hang on one net, each with addresses of its own. Octets arrive when the net's clock says so, cut
// and joined at random points; one seed draws everything.
//
//   sim.c          the links: struct link_ops
//   sim_net.c      what happens between them: arrivals, connecting, ends, faults
//
// What kernel TCP does and programs stumble over is done here too: closing with unread octets, or
// octets that arrive behind a close, reset the connection; what had arrived before a reset can
// still be read; connecting is over before the listener accepts.
#pragma once

#include <netinet/in.h>

#include "base/port_link.h"
#include "base/time.h"

struct sim_net;

enum { SIM_LINK_ADDR_MAX = 4 };

struct sim_net_config {
    uint64_t seed;
    instant_ns (*clock)(void *ctx);
    void *clock_ctx;
    duration_ns delay_max_ns; // whatever travels takes 1..delay_max_ns
    uint32_t window_len;      // octets of one direction under way or unread, at most
    uint32_t piece_max_len;   // octets that arrive at a time, unless all do
    uint32_t emss;            // what `emss` of every stream says
    // A silent peer is found after so long: -ETIMEDOUT. Also what a connect to a host of
    // 10.0.0.0/8 that is not there waits; other addresses that are not there are unreachable.
    duration_ns peer_timeout_ns;
};

// NULL: no memory.
struct sim_net *sim_net_create(const struct sim_net_config *config);
// All links have been destroyed before. NULL is allowed.
void sim_net_destroy(struct sim_net *net);

// A link with these IPv4 addresses, 1..SIM_LINK_ADDR_MAX. NULL: no memory.
struct link *sim_net_attach(struct sim_net *net, const struct in_addr *addrs, unsigned count);

// When something will happen by itself; INSTANT_NEVER: only after a call.
instant_ns sim_net_next_event(const struct sim_net *net);
// Everything that is due by now happens; true if anything was.
bool sim_net_advance(struct sim_net *net);

enum sim_fault {
    SIM_FAULT_RESET,   // both ends are reset
    SIM_FAULT_FIN,     // one direction ends wherever it is, also inside a message
    SIM_FAULT_SILENCE, // nothing arrives any more: both ends find it after the peer time-out
    SIM_FAULT_STALL,   // nothing arrives for less than the peer time-out
    SIM_FAULT_CORRUPT, // one octet under way changes; never in the first SIM_CORRUPT_FIRST
    SIM_FAULT_COUNT,
};
// Start-up frames carry no CRC, so that nothing could be expected of a device after a change there.
enum { SIM_CORRUPT_FIRST = 1200 };

// Strikes the connection that has an end at `end`. False: there is none, or (SIM_FAULT_CORRUPT)
// nothing is under way that may change.
bool sim_net_strike(struct sim_net *net, enum sim_fault fault, const struct sockaddr_in *end);
const char *sim_fault_name(enum sim_fault fault);

// What carries the connections of a simulation: streams that break as the kernel's TCP does
// (link/sim.h), IP packets over a bad wire, with our own TCP at both ends (link/wire.h), or packets
// of RoCEv2 over a net of datagrams (link/datagram/sim.h).
#pragma once

#include <netinet/in.h>

#include "base/time.h"
#include "link/datagram/sim.h"
#include "link/fault_model.h"
#include "link/sim.h"
#include "link/wire.h"
#include "sim/params.h"

struct rnic_parts;

struct sim_path {
    struct sim_net *net; // one of the three
    struct wire *wire;
    struct datagram_net *datagrams;
    uint32_t path_mtu; // of its devices
    bool has_ipv6;
    struct fault_config faults; // of the net of datagrams, while nothing is cut
    instant_ns cut_until;       // INSTANT_NEVER: it is whole
};

// False: no memory.
bool sim_path_make(struct sim_path *path, const struct sim_params *params, uint64_t seed,
                   instant_ns (*clock)(void *ctx), void *clock_ctx);
void sim_path_end(struct sim_path *path);
// The link, or the port, of a device with this address. False: no memory.
bool sim_path_attach(struct sim_path *path, const struct in_addr *addr, struct rnic_parts *parts);
// An address of the simulation as packets of RoCE have it: mapped, or one of IPv6.
struct in6_addr sim_path_addr(const struct sim_path *path, const struct in_addr *addr);
// As in link/sim.h.
instant_ns sim_path_next_event(const struct sim_path *path);
bool sim_path_advance(struct sim_path *path, instant_ns now);
// Packets are not struck one by one: a wire is bad as a whole, from the beginning.
bool sim_path_strike(struct sim_path *path, enum sim_fault fault, const struct sockaddr_in *end);
// A net of datagrams carries nothing until then.
void sim_path_cut(struct sim_path *path, instant_ns until);

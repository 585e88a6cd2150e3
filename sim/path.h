// What carries the connections of a simulation: streams that break as the kernel's TCP does
// (link/sim.h), or IP packets over a bad wire, with our own TCP at both ends (link/wire.h).
#pragma once

#include <netinet/in.h>

#include "base/port_link.h"
#include "base/time.h"
#include "link/sim.h"
#include "link/wire.h"
#include "sim/params.h"

struct sim_path {
    struct sim_net *net; // one of the two
    struct wire *wire;
};

// False: no memory.
bool sim_path_make(struct sim_path *path, const struct sim_params *params, uint64_t seed,
                   instant_ns (*clock)(void *ctx), void *clock_ctx);
void sim_path_end(struct sim_path *path);
struct link *sim_path_attach(struct sim_path *path, const struct in_addr *addr);
// As in link/sim.h.
instant_ns sim_path_next_event(const struct sim_path *path);
bool sim_path_advance(struct sim_path *path);
// Packets are not struck one by one: a wire is bad as a whole, from the beginning.
bool sim_path_strike(struct sim_path *path, enum sim_fault fault, const struct sockaddr_in *end);

// What the programs post: work requests of every kind, of drawn sizes, over drawn pieces of memory.
#pragma once

#include "sim/pair.h"

// Posts one drawn work request, if there is room. `may_err`: it may be a wrong one.
void sim_traffic_send(struct sim_side *side, bool may_err);
// Posts one receive of a drawn shape that takes any message, if there is room. `may_err`: it may be
// too short, or in memory that is not registered.
void sim_traffic_recv(struct sim_side *side, bool may_err);

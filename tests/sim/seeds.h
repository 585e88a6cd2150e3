// Runs the simulator over seeds, on one wire:
//
//     test_sim_seeds               seeds 1..N; N is WEFT_SIM_SEEDS, or 300, or 20000 with WEFT_SOAK
//     SEED=7 test_sim_seeds        this one; also: test_sim_seeds 7 [COUNT]
//     SEED=7 TRACE=1 …             with everything that happens, on stderr
#pragma once

#include "sim/sim.h"

// What main returns.
int seeds_main(int argc, char **argv, enum sim_wire wire);

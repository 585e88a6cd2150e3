// Which of a process's devices are up: one may come up at any time, and goes with the process.
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "base/device_wire.h"

struct rnic;

// In the order of their wires; gives back how many.
static inline unsigned devices_up(struct rnic *_Atomic rnics[DEVICE_WIRE_COUNT],
                                  struct rnic *ret[DEVICE_WIRE_COUNT])
{
    unsigned count = 0;
    for (unsigned wire = 0; wire < DEVICE_WIRE_COUNT; wire++) {
        ret[count] = atomic_load(&rnics[wire]);
        count += ret[count] != NULL;
    }
    return count;
}

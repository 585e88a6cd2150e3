// The RNICs of a process, one per wire, which share nothing. What the program itself asks of their
// reads (<weft/reads.h>) is in reads.c.
#pragma once

#include "base/device_wire.h"
#include "rnic/rnic.h"

// Brought up on first use (a thread, a link; with the first of them the control socket); NULL with
// *ret_error a negative errno when the environment refuses. The child of a fork gets its own:
// objects of the parent's answer -EIO there and may still be destroyed. From any thread.
// `port`: what carries queue pairs by packets starts with it; NULL with streams.
struct rnic *host_rnic(enum device_wire wire, const struct rnic_port *port, int *ret_error);

// Those that are up, in the order of their wires, and how many; where none is, that of streams is
// brought up. A negative errno: it cannot be.
int host_rnics(struct rnic *ret[DEVICE_WIRE_COUNT]);

// What reaches a running process from outside, on a thread of its own: the kernel's word that
// memory is short (host/pressure.h), and the control socket, by which `weft stat` and others speak
// to it. An abstract Unix socket named "weft.<uid>.<pid>", so that nothing is left behind in any
// file system; it answers its own user and root. A request is one line, the answer is JSON until
// the end of the stream:
//
//     stat                          the counters (rnic/stat.h), an object and line per device
//     reads                         how Reads are divided: that part of the same
//     reads allotment OCTETS        changes it, then the same
//     reads memory short|enough     likewise
#pragma once

#include <stdbool.h>

#include "base/device_wire.h"

struct rnic;

// Starts the thread that answers for the RNICs that are up by then or later. Failure is not an
// error of theirs: the process is only not seen.
void control_start(struct rnic *_Atomic rnics[DEVICE_WIRE_COUNT], bool senses_pressure);
// In the child of a fork: lets go of what the parent has open.
void control_abandon(void);

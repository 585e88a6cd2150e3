// What reaches a running process from outside, on a thread of its own: the kernel's word that
// memory is short (host/pressure.h), and the control socket, by which `weft stat` and others speak
// to it. An abstract Unix socket named "weft.<uid>.<pid>", so that nothing is left behind in any
// file system; it answers its own user and root. A request is one line, the answer is JSON until
// the end of the stream:
//
//     stat                          the counters (rnic/stat.h)
//     reads                         how Reads are divided: that part of the same
//     reads allotment OCTETS        changes it, then the same
//     reads memory short|enough     likewise
#pragma once

#include <stdbool.h>

struct rnic;

// Starts the thread that answers. Failure is not an error of the RNIC: the process is only not
// seen.
void control_start(struct rnic *rnic, bool senses_pressure);
// In the child of a fork: lets go of what the parent has open.
void control_abandon(void);

// The control socket: how `weft stat` and others speak to a running process. An abstract Unix
// socket named "weft.<uid>.<pid>", so that nothing is left behind in any file system; it answers
// its own user and root. A request is one line, the answer is JSON until the end of the stream:
//
//     stat                          the counters (rnic/stat.h)
//     reads                         how Reads are divided: that part of the same
//     reads allotment OCTETS        changes it, then the same
//     reads memory short|enough     likewise
#pragma once

struct rnic;

// Starts the thread that answers. Failure is not an error of the RNIC: the process is only not
// seen.
void control_start(struct rnic *rnic);
// In the child of a fork: lets go of the parent's socket.
void control_abandon(void);

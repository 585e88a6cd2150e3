// Sockets that a service manager has opened and passed to this process, by the protocol of
// sd_listen_fds(3): descriptors from 3 on, LISTEN_FDS says how many, LISTEN_PID for which process,
// LISTEN_FDNAMES what they are called, parted by colons (FileDescriptorName= of a socket unit);
// without that each is called "unknown".
#pragma once

#include <stdbool.h>

#include "base/why.h"

// Is an address "fd:NAME", a socket that was passed?
bool passed_is(const char *address);

// A descriptor of the caller's own, non-blocking, of the socket in "fd:NAME", which must be the
// only one of that name and a stream socket that listens; what was passed stays open, to be had
// again. Or a negative errno with the reason in `ret_why`.
int passed_open(const char *address, struct why *ret_why);

// Keeps the programs that this process starts from having what was passed to it.
void passed_keep(void);

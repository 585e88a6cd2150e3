// For the fronts: what stays open for a program has no number of a standard descriptor, which
// daemons close and use again (link/descriptor.h).
#pragma once

#include "link/descriptor.h"

// Returns the descriptor, by another number if need be; -1 and errno if there is no room, when it
// is closed, or if it is negative itself.
static inline int host_descriptor(int fd)
{
    return descriptor_above_standard(fd);
}

// The files that a process writes for its user because a variable of the environment says so: a
// capture, its counters, a trace. The name may be a slip of the pen, or lie in a folder that others
// write to, so nothing is written over that weft has not written before: the first octets tell.
#pragma once

#include <stdbool.h>

#include "base/span.h"

enum { OWN_FILE_HEAD_LEN = 96 };

// A descriptor to write to, of a file that is made if need be, for its user's eyes only; or a
// negative errno. `flags`: as of open(2), beside those that make it so.
//
//     -EPERM   it is somebody else's, or has a second name
//     -ELOOP   a symbolic link of somebody else's but root
//     -EEXIST  it is no file but a folder, or `is_ours` says no to its first OWN_FILE_HEAD_LEN
//              octets, fewer if it is shorter; an empty one is not asked about
//
// Pipes and devices are taken as they are.
int own_file_open(const char *path, int flags, bool (*is_ours)(struct span head));

// What went wrong, and what to do: behind a colon.
const char *own_file_error(int error);

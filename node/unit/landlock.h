// Landlock: what a process gives up by itself, for good, of what its user may do. The kernel keeps
// it apart from processes that have not given up the same (their memory, /proc of theirs).
//
// What a kernel does not know is left out: nothing before 5.13, signals from 6.12 on.
#pragma once

#include <stdint.h>

// The version that the kernel has; 0: none, or it is refused.
uint32_t landlock_version(void);

// No program is executed; no process outside is signalled or traced. The version in force; 0: none.
uint32_t landlock_from_others(void);

// No file is opened, made or removed.
void landlock_from_files(void);

// How much memory this process may have: the tightest limit of its cgroup and those around it.
#pragma once

#include <stdint.h>

// UINT64_MAX: none that this process can see.
uint64_t memory_limit(void);

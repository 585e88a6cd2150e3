// The control group that limits a process's memory, as the kernel's files tell it. Version 2 has
// one hierarchy, and limits in memory.max and memory.high; version 1 has a hierarchy for memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { CGROUP_FOLDER_LEN = 1024 };

struct cgroup_memory {
    char folder[CGROUP_FOLDER_LEN]; // the nearest group with a limit, from the own one up; "": none
    bool is_version_1;              // ... of the old kind, which tells no pressure of a group
    uint64_t most_len;              // beyond it the kernel ends processes; UINT64_MAX: none does
};

// `proc` is the process's folder: "/proc/self". A group that cannot be seen, as that of a container
// from inside, has no limit here.
void cgroup_memory_find(const char *proc, struct cgroup_memory *ret);

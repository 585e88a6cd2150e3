// Is this memory mapped, and writable? Asked at registration, so that a bad buffer is an EFAULT
// there and not a fault in the engine later. Nothing is read, written, populated or pinned.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

struct mapping {
    int maps_fd; // /proc/self/maps, or -1: then every buffer is believed
    atomic_bool
        has_no_query; // the kernel is older than PROCMAP_QUERY (6.11): the text is read instead
};

void mapping_init(struct mapping *mapping);
void mapping_fini(struct mapping *mapping);

// 0, or -EFAULT. Shape of struct mem_probe; `ctx` is a struct mapping. From any thread.
int mapping_probe(void *ctx, void *addr, size_t len, bool writable, struct mspan *ret_known);

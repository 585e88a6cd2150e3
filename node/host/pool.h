// The pool: a part of memory for each RTA, which its process has and no other (cta_tts.h). All of
// them lie in one range of addresses of the host's, so that where octets are says whose they are.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/unit/segment.h"

struct pool {
    uint64_t len;   // of a part
    void *range;    // of all parts; NULL: there is no pool
    bool is_pinned; // a device holds pages by their place in memory: none is given back
    uint32_t generation;
    uint32_t generations[NODE_UNIT_COUNT_MAX];
    struct segment parts[NODE_UNIT_COUNT_MAX];
};

// The range, without any part. 0 or a negative errno.
int pool_create(struct pool *pool, uint64_t len);
// Zeroes are allowed.
void pool_destroy(struct pool *pool);

// As the CTA and TTSs see it; valid as long as `pool`.
struct node_pool pool_view(const struct pool *pool);

// Octets of memory that the part takes now.
uint64_t pool_part_memory(const struct pool *pool, uint32_t unit);

// As cta_parts has them; the context is the struct pool.
bool pool_part_make(void *pool, uint32_t unit);
void pool_part_drop(void *pool, uint32_t unit);
void pool_part_trim(void *pool, uint32_t unit, uint64_t offset, uint64_t len);

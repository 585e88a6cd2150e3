// Batches: what an endpoint gathers for one call of the link. A shard keeps those that nobody uses.
#pragma once

#include "base/list.h"
#include "mpa/tx.h"
#include "wire/mpa.h"

struct shard;

enum {
    BATCH_OCTETS_MAX = 512 * 1024, // in one batch: the CRC's pass leaves them in the L2 cache
    BATCH_COPY_MAX = 128 * 1024,   // ... once so much of it is copied: the peer takes the next
                                   // while this one is made, and both stay near to the core
    BATCH_ARENA_LEN = BATCH_COPY_MAX + 2 * (MPA_FPDU_MAX_LEN + 1024),
};

// With its arena behind it.
struct batch {
    struct list_link idle_link;
    struct mpa_batch mpa;
};

struct batch *batch_create(void); // NULL: no memory
void batch_destroy(struct batch *batch);

// Lock held. A batch to gather into, or NULL when there is no memory; and back.
struct batch *shard_batch_borrow(struct shard *shard);
void shard_batch_return(struct shard *shard, struct batch *batch);

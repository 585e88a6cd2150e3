#include "rnic/batch.h"

#include <stdlib.h>

#include "base/check.h"
#include "rnic/shard.h"

struct batch *batch_create(void)
{
    struct batch *batch = malloc(sizeof *batch + BATCH_ARENA_LEN);
    if (batch != NULL) {
        list_init(&batch->idle_link);
    }
    return batch;
}

void batch_destroy(struct batch *batch)
{
    free(batch);
}

struct batch *shard_batch_borrow(struct shard *shard)
{
    CHECK(shard_is_held(shard));
    struct list_link *l = list_pop_head(&shard->batches);
    return l != NULL ? LIST_ENTRY(l, struct batch, idle_link) : batch_create();
}

void shard_batch_return(struct shard *shard, struct batch *batch)
{
    CHECK(shard_is_held(shard));
    list_push_head(&shard->batches, &batch->idle_link);
}

#include "rnic/carry.h"

#include <stdlib.h>

#include "base/check.h"
#include "rnic/shard.h"

enum { CARRY_IDLE_MAX = 16 }; // more have been in use when many peers stopped inside an FPDU

struct fpdu_carry *shard_carry_borrow(struct shard *shard)
{
    CHECK(shard_is_held(shard));
    struct list_link *l = list_pop_head(&shard->carries);
    if (l == NULL) {
        struct fpdu_carry *made = malloc(sizeof *made);
        if (made != NULL) {
            list_init(&made->idle_link);
        }
        return made;
    }
    shard->idle_carry_count--;
    return LIST_ENTRY(l, struct fpdu_carry, idle_link);
}

void shard_carry_return(struct shard *shard, struct fpdu_carry *carry)
{
    CHECK(shard_is_held(shard));
    if (shard->idle_carry_count >= CARRY_IDLE_MAX) {
        free(carry);
        return;
    }
    shard->idle_carry_count++;
    list_push_head(&shard->carries, &carry->idle_link);
}

void shard_carries_free(struct shard *shard)
{
    struct list_link *l;
    while ((l = list_pop_head(&shard->carries)) != NULL) {
        free(LIST_ENTRY(l, struct fpdu_carry, idle_link));
    }
}

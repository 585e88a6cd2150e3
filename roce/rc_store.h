// Room for packets that came before those they stand behind: so many blocks for all queue pairs of
// a device, each of which keeps RC_HELD_MAX at most. One thread at a time, as the queue pairs.
#pragma once

#include <stdint.h>

#include "base/check.h"

enum {
    RC_STORE_BLOCK_LEN = 4096, // the largest path MTU
    RC_STORE_BLOCKS = 1024,    // of a device: 4 MiB, of which nothing is touched that is not used
};

struct rc_store;

// NULL: no memory. All blocks have to be back when it is destroyed; NULL is allowed.
struct rc_store *rc_store_create(uint32_t block_count);
void rc_store_destroy(struct rc_store *store);

// NULL: all are taken, or there is no store.
uint8_t *rc_store_take(struct rc_store *store);
void rc_store_give(struct rc_store *store, uint8_t *block);

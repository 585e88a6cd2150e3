#include "roce/rc_store.h"

#include <stdlib.h>

struct rc_store {
    uint8_t *blocks;
    uint8_t **given_back; // a stack
    uint32_t given_count;
    uint32_t fresh; // those before have been taken at least once
    uint32_t block_count;
};

struct rc_store *rc_store_create(uint32_t block_count)
{
    struct rc_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    store->block_count = block_count;
    store->blocks = malloc((size_t)block_count * RC_STORE_BLOCK_LEN);
    store->given_back = malloc(block_count * sizeof *store->given_back);
    if (store->blocks == NULL || store->given_back == NULL) {
        free(store->given_back);
        free(store->blocks);
        free(store);
        return NULL;
    }
    return store;
}

void rc_store_destroy(struct rc_store *store)
{
    if (store != NULL) {
        CHECK(store->given_count == store->fresh);
        free(store->given_back);
        free(store->blocks);
        free(store);
    }
}

uint8_t *rc_store_take(struct rc_store *store)
{
    if (store == NULL) {
        return NULL;
    }
    if (store->given_count > 0) {
        return store->given_back[--store->given_count];
    }
    return store->fresh < store->block_count
               ? store->blocks + (size_t)store->fresh++ * RC_STORE_BLOCK_LEN
               : NULL;
}

void rc_store_give(struct rc_store *store, uint8_t *block)
{
    CHECK(store->given_count < store->fresh);
    store->given_back[store->given_count++] = block;
}

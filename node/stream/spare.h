// Buffers for what comes in, one for each connection that has something unused in it: connections
// that are silent have none. One that is given back stays for the next connection.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct spare {
    uint8_t *ptr;
};

// NULL without memory.
static inline uint8_t *spare_take(struct spare *spare, size_t len)
{
    uint8_t *ptr = spare->ptr;
    spare->ptr = NULL;
    return ptr != NULL ? ptr : malloc(len);
}

// NULL is allowed.
static inline void spare_give(struct spare *spare, uint8_t *ptr)
{
    if (spare->ptr == NULL) {
        spare->ptr = ptr;
    } else {
        free(ptr);
    }
}

static inline void spare_fini(struct spare *spare)
{
    free(spare->ptr);
}

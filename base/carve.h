// Several arrays in one block of memory: what an object is made of is taken at once, given back at
// once, and the pages behind the first are touched when they are used.
//
//     struct carve c = {.len = 0};        how long must the block be?
//     object_init(&scratch, &c);          calls carve for each of its arrays
//     c = (struct carve){.block = malloc(c.len)};
//     object_init(object, &c);            the same calls again
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { CARVE_ALIGN = 16 };

struct carve {
    uint8_t *block; // NULL: it is only measured
    size_t len;     // carved so far
};

// `count` elements of `each` octets, with whatever was in the block before; NULL while measuring.
static inline void *carve(struct carve *c, size_t count, size_t each)
{
    size_t at = c->len;
    c->len += (count * each + CARVE_ALIGN - 1) / CARVE_ALIGN * CARVE_ALIGN;
    return c->block == NULL ? NULL : c->block + at;
}

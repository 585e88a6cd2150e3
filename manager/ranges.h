// Ranges of octets, and whether any two of them have octets in common.
//
// Ranges that come in ascending order need not be kept: range_is_behind() tells. Others are
// gathered and sorted.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t start;
    uint64_t len;      // start + len does not wrap
    uint32_t key;      // ranges of different keys have nothing in common
    const void *whose; // the caller's
};

struct ranges {
    struct range *items;
    size_t count;
    size_t capacity;
};

// Whether `next` lies behind `before`: by key, then by place.
bool range_is_behind(const struct range *next, const struct range *before);

void ranges_init(struct ranges *ranges);
void ranges_fini(struct ranges *ranges);

// Empties it and makes room for `count` ranges; it never shrinks. False: no memory.
bool ranges_resize(struct ranges *ranges, size_t count);

// Adds a range; there is room.
void ranges_add(struct ranges *ranges, struct range range);

// Sorts them, and returns one that overlaps with the one before it, or NULL.
const struct range *ranges_find_overlap(struct ranges *ranges);

#include "manager/ranges.h"

#include <stdlib.h>

#include "base/check.h"

bool range_is_behind(const struct range *next, const struct range *before)
{
    return next->key > before->key ||
           (next->key == before->key && next->start >= before->start + before->len);
}

void ranges_init(struct ranges *ranges)
{
    *ranges = (struct ranges){0};
}

void ranges_fini(struct ranges *ranges)
{
    free(ranges->items);
    ranges_init(ranges);
}

bool ranges_resize(struct ranges *ranges, size_t count)
{
    ranges->count = 0;
    if (count <= ranges->capacity) {
        return true;
    }
    struct range *items = reallocarray(ranges->items, count, sizeof *items);
    if (items == NULL) {
        return false;
    }
    ranges->items = items;
    ranges->capacity = count;
    return true;
}

void ranges_add(struct ranges *ranges, struct range range)
{
    CHECK(ranges->count < ranges->capacity);
    ranges->items[ranges->count++] = range;
}

static bool starts_before(const struct range *a, const struct range *b)
{
    return a->key < b->key || (a->key == b->key && a->start < b->start);
}

// Lets items[at] sink to its place in the heap of the first `count`; its root is the last in order.
static void heap_sink(struct range *items, size_t at, size_t count)
{
    struct range sinking = items[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && starts_before(&items[child], &items[child + 1])) {
            child++;
        }
        if (!starts_before(&sinking, &items[child])) {
            break;
        }
        items[at] = items[child];
    }
    items[at] = sinking;
}

// Heapsort: in place, and n log n whatever the order.
static void ranges_sort(struct ranges *ranges)
{
    for (size_t at = ranges->count / 2; at > 0; at--) {
        heap_sink(ranges->items, at - 1, ranges->count);
    }
    for (size_t left = ranges->count; left > 1; left--) {
        struct range last = ranges->items[0];
        ranges->items[0] = ranges->items[left - 1];
        ranges->items[left - 1] = last;
        heap_sink(ranges->items, 0, left - 1);
    }
}

const struct range *ranges_find_overlap(struct ranges *ranges)
{
    ranges_sort(ranges);
    for (size_t i = 1; i < ranges->count; i++) {
        if (!range_is_behind(&ranges->items[i], &ranges->items[i - 1])) {
            return &ranges->items[i];
        }
    }
    return NULL;
}

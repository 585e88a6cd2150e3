#include "ddp/coverage.h"

#include <string.h>

#include "base/check.h"

// The first entry that ends behind `from` of this message, or stands behind the message.
static unsigned find(const struct ddp_coverage *c, uint64_t key, uint32_t from)
{
    unsigned low = 0, high = c->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        const struct ddp_cover *e = &c->entry[middle];
        if (e->key < key || (e->key == key && e->to <= from)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_of(const struct ddp_coverage *c, unsigned i, uint64_t key)
{
    return i < c->count && c->entry[i].key == key;
}

bool ddp_coverage_overlaps(const struct ddp_coverage *c, uint64_t key, uint32_t from, uint32_t to)
{
    unsigned i = find(c, key, from);
    return from < to && is_of(c, i, key) && c->entry[i].from < to;
}

bool ddp_coverage_holds(const struct ddp_coverage *c, uint64_t key, uint32_t from, uint32_t to)
{
    unsigned i = find(c, key, from);
    return from >= to || (is_of(c, i, key) && c->entry[i].from <= from && to <= c->entry[i].to);
}

bool ddp_coverage_knows(const struct ddp_coverage *c, uint64_t key)
{
    return is_of(c, find(c, key, 0), key);
}

static void remove_entries(struct ddp_coverage *c, unsigned at, unsigned count)
{
    c->count -= count;
    memmove(&c->entry[at], &c->entry[at + count], (c->count - at) * sizeof c->entry[0]);
}

bool ddp_coverage_add(struct ddp_coverage *c, uint64_t key, uint32_t from, uint32_t to)
{
    CHECK(!ddp_coverage_overlaps(c, key, from, to));
    unsigned i = find(c, key, from);
    bool joins_before = i > 0 && is_of(c, i - 1, key) && c->entry[i - 1].to == from;
    bool joins_after = is_of(c, i, key) && c->entry[i].from == to;
    if (from == to) {
        return true;
    }
    if (joins_before && joins_after) {
        c->entry[i - 1].to = c->entry[i].to;
        remove_entries(c, i, 1);
    } else if (joins_before) {
        c->entry[i - 1].to = to;
    } else if (joins_after) {
        c->entry[i].from = from;
    } else if (c->count == DDP_COVERAGE_MAX) {
        return false;
    } else {
        memmove(&c->entry[i + 1], &c->entry[i], (c->count - i) * sizeof c->entry[0]);
        c->entry[i] = (struct ddp_cover){key, from, to};
        c->count++;
    }
    return true;
}

void ddp_coverage_trim(struct ddp_coverage *c, uint64_t key, uint32_t to)
{
    unsigned first = find(c, key, 0), end = find(c, key, to);
    if (is_of(c, end, key) && c->entry[end].from < to) {
        c->entry[end].from = to;
    }
    remove_entries(c, first, end - first);
}

bool ddp_coverage_check(const struct ddp_coverage *c)
{
    if (c->count > DDP_COVERAGE_MAX) {
        return false;
    }
    for (unsigned i = 0; i < c->count; i++) {
        const struct ddp_cover *e = &c->entry[i];
        if (e->from >= e->to) {
            return false;
        }
        if (i > 0 && (e[-1].key > e->key || (e[-1].key == e->key && e[-1].to >= e->from))) {
            return false;
        }
    }
    return true;
}

#include "tcp/ranges.h"

#include <string.h>

#include "base/check.h"

void tcp_ranges_init(struct tcp_ranges *r, unsigned max, uint64_t *comparisons,
                     struct carve *memory)
{
    CHECK(max > 0);
    CHECK(max <= UINT16_MAX);
    *r = (struct tcp_ranges){
        .range = carve(memory, max, sizeof r->range[0]),
        .held = carve(memory, max, sizeof r->held[0]),
        .max = max,
        .comparisons = comparisons,
    };
}

unsigned tcp_ranges_find(const struct tcp_ranges *r, tcp_seq seq)
{
    unsigned low = 0, left = r->count, steps = 0;
    while (left > 0) { // the same steps whatever is sought: nothing for the processor to guess
        unsigned half = (left + 1) / 2;
        low += half * (r->range[low + half - 1].right <= seq);
        left -= half;
        steps++;
    }
    *r->comparisons += steps;
    return low;
}

// A range of its own at `at`.
static void insert(struct tcp_ranges *r, unsigned at, struct tcp_range range,
                   const struct place_counts *held)
{
    CHECK(r->count < r->max);
    if (r->count == r->used) {
        r->range[r->count].slot = (uint16_t)r->used++;
    }
    range.slot = r->range[r->count].slot;
    memmove(&r->range[at + 1], &r->range[at], (r->count - at) * sizeof r->range[0]);
    r->range[at] = range;
    r->held[range.slot] = *held;
    r->count++;
}

static void remove_at(struct tcp_ranges *r, unsigned at)
{
    uint16_t slot = r->range[at].slot;
    r->count--;
    memmove(&r->range[at], &r->range[at + 1], (r->count - at) * sizeof r->range[0]);
    r->range[r->count].slot = slot;
}

static void hold_more(struct tcp_ranges *r, unsigned i, const struct place_counts *more)
{
    place_counts_add(&r->held[r->range[i].slot], more);
}

enum tcp_ranges_added tcp_ranges_add(struct tcp_ranges *r, unsigned *at, tcp_seq left,
                                     tcp_seq right, bool is_buffered,
                                     const struct place_counts *held)
{
    unsigned i = *at;
    struct tcp_range *before = i > 0 ? &r->range[i - 1] : NULL;
    struct tcp_range *after = i < r->count ? &r->range[i] : NULL;
    CHECK(left < right);
    CHECK(before == NULL || before->right <= left);
    CHECK(after == NULL || right <= after->left);
    bool joins_before =
        before != NULL && before->right == left && before->is_buffered == is_buffered;
    bool joins_after = after != NULL && after->left == right && after->is_buffered == is_buffered;
    if (joins_before) {
        *at = i - 1;
        before->right = right;
        hold_more(r, i - 1, held);
        if (!joins_after) {
            return TCP_RANGES_EXTENDED;
        }
        before->right = after->right;
        hold_more(r, i - 1, tcp_ranges_held(r, i));
        remove_at(r, i);
        return TCP_RANGES_JOINED;
    }
    if (joins_after) {
        after->left = left;
        hold_more(r, i, held);
        return TCP_RANGES_EXTENDED;
    }
    insert(r, i, (struct tcp_range){.left = left, .right = right, .is_buffered = is_buffered},
           held);
    return TCP_RANGES_OPENED;
}

void tcp_ranges_trim_first(struct tcp_ranges *r, tcp_seq seq)
{
    CHECK(r->count > 0);
    CHECK(r->range[0].left <= seq);
    CHECK(seq <= r->range[0].right);
    r->range[0].left = seq;
    if (seq == r->range[0].right) {
        remove_at(r, 0);
    }
}

void tcp_ranges_check(const struct tcp_ranges *r)
{
    CHECK(r->count <= r->used);
    CHECK(r->used <= r->max);
    for (unsigned i = 0; i < r->count; i++) {
        const struct tcp_range *range = &r->range[i];
        CHECK(range->left < range->right);
        if (i > 0) {
            CHECK(range[-1].right <= range->left);
            CHECK(range[-1].right < range->left || range[-1].is_buffered != range->is_buffered);
        }
    }
}

#include "draw/direction.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/serial.h"
#include "draw/story.h"

bool direction_create(struct direction *d)
{
    *d = (struct direction){.window = malloc(DIRECTION_WINDOW_LEN)};
    return d->window != NULL;
}

void direction_destroy(struct direction *d)
{
    free(d->window);
    d->window = NULL;
}

void direction_begin(struct direction *d, uint32_t seq)
{
    d->is_begun = true;
    d->base = seq;
    d->next = 0;
    d->range_count = 0;
}

void direction_jump(struct direction *d, uint64_t position)
{
    d->next = position;
    d->range_count = 0;
}

void direction_skip(struct direction *d)
{
    CHECK(d->range_count > 0);
    d->next = d->range[0].left;
}

static size_t window_at(uint64_t position)
{
    return (size_t)(position % DIRECTION_WINDOW_LEN);
}

static void window_put(struct direction *d, uint64_t position, struct span octets)
{
    size_t at = window_at(position);
    size_t first = DIRECTION_WINDOW_LEN - at < octets.len ? DIRECTION_WINDOW_LEN - at : octets.len;
    memcpy(d->window + at, octets.ptr, first);
    memcpy(d->window, octets.ptr + first, octets.len - first);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void range_remove(struct direction *d, unsigned i)
{
    memmove(&d->range[i], &d->range[i + 1], (--d->range_count - i) * sizeof d->range[0]);
}

static void note_closed(struct direction_news *news, const struct direction_range *range)
{
    if (news->closed_count < DIRECTION_CLOSED_MAX) {
        news->closed[news->closed_count++] = *range;
    }
}

// Joins what [left, right) touches or covers to range `i`.
static void range_absorb(struct direction *d, unsigned i, struct direction_news *news)
{
    struct direction_range *r = &d->range[i];
    while (i + 1 < d->range_count && d->range[i + 1].left <= r->right) {
        const struct direction_range *behind = &d->range[i + 1];
        note_closed(news, behind);
        r->right = behind->right > r->right ? behind->right : r->right;
        r->early += behind->early;
        range_remove(d, i + 1);
    }
}

// False: there are too many ranges.
static bool range_open(struct direction *d, unsigned i, uint64_t left, uint64_t right,
                       struct direction_news *news)
{
    if (d->range_count == DIRECTION_RANGE_MAX) {
        return false;
    }
    memmove(&d->range[i + 1], &d->range[i], (d->range_count++ - i) * sizeof d->range[0]);
    d->range[i] = (struct direction_range){.left = left, .right = right, .span = STORY_NONE};
    news->opened_len = left - (i == 0 ? d->next : d->range[i - 1].right);
    return true;
}

// The first range that ends at or behind `position`.
static unsigned range_find(const struct direction *d, uint64_t position)
{
    unsigned i = 0;
    while (i < d->range_count && d->range[i].right < position) {
        i++;
    }
    return i;
}

static void arrive_beyond(struct direction *d, struct direction_news *news)
{
    uint64_t left = news->position, right = left + news->octets.len;
    unsigned i = range_find(d, left);
    news->arrival = DIRECTION_BEYOND;
    if (i < d->range_count && d->range[i].left <= left && d->range[i].right >= right) {
        news->arrival = DIRECTION_OLD;
        return;
    }
    if (i < d->range_count && d->range[i].left <= right) {
        // A hole is as long as it was when it opened, also where it is filled from behind.
        d->range[i].left = left < d->range[i].left ? left : d->range[i].left;
        d->range[i].right = right > d->range[i].right ? right : d->range[i].right;
        range_absorb(d, i, news);
    } else if (!range_open(d, i, left, right, news)) {
        news->arrival = DIRECTION_UNREACHED;
        return;
    }
    news->range = i;
    window_put(d, left, news->octets);
}

// What follows the hole: it may reach beyond what had come there.
static void arrive_behind(struct direction *d, struct span octets, struct direction_news *news)
{
    struct direction_range *first = &d->range[0];
    const uint64_t left = first->left, right = left + octets.len;
    note_closed(news, first);
    if (right > first->right) {
        window_put(d, left, octets);
        first->right = right;
        range_absorb(d, 0, news);
    }
}

static void arrive_in_order(struct direction *d, struct direction_news *news)
{
    uint64_t right = news->position + news->octets.len;
    if (d->range_count > 0 && right >= d->range[0].left) {
        const struct span whole = news->octets;
        right = d->range[0].left;
        news->octets.len = (size_t)(right - news->position);
        arrive_behind(d, span_skip(whole, news->octets.len), news);
    }
    d->next = right;
    news->arrival = DIRECTION_IN_ORDER;
}

void direction_arrive(struct direction *d, uint32_t seq, struct span payload,
                      struct direction_news *ret)
{
    *ret = (struct direction_news){.octets = payload};
    int64_t ahead = serial_diff(seq, d->base + (uint32_t)d->next);
    if (ahead < 0 && (uint64_t)-ahead >= payload.len) {
        ret->arrival = DIRECTION_OLD;
        return;
    }
    if (ahead < 0) {
        ret->octets = span_skip(payload, (size_t)-ahead);
        ret->has_old = true;
        ahead = 0;
    }
    ret->position = d->next + (uint64_t)ahead;
    if ((uint64_t)ahead + ret->octets.len > DIRECTION_WINDOW_LEN) {
        ret->arrival = DIRECTION_UNREACHED;
    } else if (ahead == 0) {
        arrive_in_order(d, ret);
    } else {
        arrive_beyond(d, ret);
    }
}

bool direction_take(struct direction *d, struct span *ret)
{
    if (d->range_count == 0 || d->range[0].left > d->next) {
        return false;
    }
    struct direction_range *r = &d->range[0];
    size_t at = window_at(d->next), len = (size_t)(r->right - d->next);
    len = len < DIRECTION_WINDOW_LEN - at ? len : DIRECTION_WINDOW_LEN - at;
    *ret = span_of(d->window + at, len);
    d->next += len;
    r->left = d->next;
    if (r->left == r->right) {
        range_remove(d, 0);
    }
    return true;
}

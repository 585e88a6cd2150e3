#include "tcp/receive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/carve.h"
#include "base/check.h"
#include "base/span.h"
#include "wire/tcp.h"

// One segment's octets, as they came.
struct arrival {
    tcp_seq left;
    tcp_seq right;
    const uint8_t *octets;
    struct tcp_block twice; // what of them was there already; empty: nothing
};

// A part of them, [left, right), where nothing is there yet. `at`: the first range behind it.
struct gap {
    tcp_seq left;
    tcp_seq right;
    unsigned at;
};

// A place in the table that range_max does not count: for what a port that stalls leaves in order.
enum { FRONT_RANGE_COUNT = 1 };

void tcp_receive_init(struct tcp_receive *r, const struct tcp_config *config,
                      struct tcp_counters *counters, struct carve *memory)
{
    *r = (struct tcp_receive){
        .port = config->place,
        .counters = counters,
        .window_len = config->window_len,
        .buffer_len = config->buffer_len,
    };
    tcp_ranges_init(&r->ranges, config->range_max + FRONT_RANGE_COUNT, &counters->range_comparisons,
                    memory);
    r->buffer = carve(memory, config->buffer_len, 1);
}

void tcp_receive_begin(struct tcp_receive *r, uint32_t irs)
{
    r->first = tcp_seq_first(irs) + 1;
    r->handed = r->nxt = r->edge = r->first;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static size_t ring_index(const struct tcp_receive *r, tcp_seq seq)
{
    return (size_t)((seq - r->ring_begin) % r->buffer_len);
}

// How many octets from `seq` on, up to `right`, have a place in the ring.
static uint64_t ring_room(const struct tcp_receive *r, tcp_seq seq, tcp_seq right)
{
    tcp_seq end = tcp_seq_min(right, r->handed + r->buffer_len);
    return end > seq ? end - seq : 0;
}

static void ring_store(struct tcp_receive *r, tcp_seq seq, const uint8_t *octets, size_t len)
{
    if (r->buffered_len == 0) { // what little is buffered stays in few pages
        r->ring_begin = r->handed;
    }
    size_t at = ring_index(r, seq);
    size_t first = len < r->buffer_len - at ? len : r->buffer_len - at;
    memcpy(r->buffer + at, octets, first);
    memcpy(r->buffer, octets + first, len - first);
    r->buffered_len += (uint32_t)len;
    r->counters->octets_buffered += len;
    if (r->counters->buffered_peak < r->buffered_len) {
        r->counters->buffered_peak = r->buffered_len;
    }
}

/* ---- holes, told to who records them --------------------------------------------------------- */

// Where the hole before range `at` begins, or would.
static tcp_seq hole_begin(const struct tcp_receive *r, unsigned at)
{
    return at > 0 ? r->ranges.range[at - 1].right : r->nxt;
}

static void tell_opened(const struct tcp_receive *r, unsigned at, tcp_seq begin)
{
    const struct tcp_range *behind = &r->ranges.range[at];
    if (r->port.on_hole_opened != NULL && begin < behind->left) {
        r->port.on_hole_opened(r->port.ctx, behind->slot, begin - r->first, behind->left - begin);
    }
}

static void tell_closed(const struct tcp_receive *r, unsigned at)
{
    const struct tcp_range *behind = &r->ranges.range[at];
    if (r->port.on_hole_closed != NULL) {
        r->port.on_hole_closed(r->port.ctx, behind->slot, behind->right - behind->left,
                               tcp_ranges_held(&r->ranges, at));
    }
}

// Octets up to `right` reach the range behind the gap: is there no hole before it any more? Octets
// of the other kind are a range of their own, and the hole is that one's.
static bool closes_hole(const struct tcp_receive *r, const struct gap *g, tcp_seq right,
                        bool is_buffered)
{
    const struct tcp_range *behind = g->at < r->ranges.count ? &r->ranges.range[g->at] : NULL;
    return behind != NULL && behind->left == right &&
           (hole_begin(r, g->at) == g->left || behind->is_buffered != is_buffered);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

// The block that range `i` lies in.
static struct tcp_block block_around(const struct tcp_ranges *ranges, unsigned i)
{
    unsigned low = i, high = i;
    while (low > 0 && ranges->range[low - 1].right == ranges->range[low].left) {
        low--;
    }
    while (high + 1 < ranges->count && ranges->range[high].right == ranges->range[high + 1].left) {
        high++;
    }
    return (struct tcp_block){ranges->range[low].left, ranges->range[high].right};
}

// The latest block goes to the front; those that have become part of it go.
static void note_recent(struct tcp_receive *r, struct tcp_block block)
{
    struct tcp_block kept[TCP_SACK_BLOCK_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < r->recent_count && count + 1 < TCP_SACK_BLOCK_MAX; i++) {
        if (r->recent[i].right <= block.left || block.right <= r->recent[i].left) {
            kept[count++] = r->recent[i];
        }
    }
    r->recent[0] = block;
    memcpy(&r->recent[1], kept, count * sizeof kept[0]);
    r->recent_count = count + 1;
}

// A run that goes on where the last one ended is one with it: who counts what was sent in vain
// counts octets.
static void report_duplicate(struct tcp_receive *r, struct tcp_block run)
{
    struct tcp_block *next = &r->dsack[r->dsack_count];
    if (r->dsack_count > 0 && next[-1].right == run.left) {
        next[-1].right = run.right;
    } else if (r->dsack_count < TCP_DSACK_MAX) {
        *next = run;
        r->dsack_count++;
    }
}

// Of one segment the first run alone is told (RFC 2883 section 4).
static void note_duplicate(struct arrival *a, tcp_seq left, tcp_seq right)
{
    if (a->twice.left == a->twice.right) {
        a->twice = (struct tcp_block){left, right};
    }
}

// RCV.NXT moves over every range that it reaches, and over the FIN.
static void advance_nxt(struct tcp_receive *r)
{
    const struct tcp_ranges *ranges = &r->ranges;
    for (unsigned i = tcp_ranges_find(ranges, r->nxt);
         i < ranges->count && ranges->range[i].left <= r->nxt; i++) {
        r->counters->holes_closed++;
        r->nxt = ranges->range[i].right;
    }
    if (r->has_fin && r->nxt == r->fin) {
        r->nxt++;
    }
}

// The first `len` octets of a gap have been placed or buffered.
static void fill(struct tcp_receive *r, const struct gap *g, uint64_t len, bool is_buffered,
                 const struct place_counts *held)
{
    struct tcp_counters *c = r->counters;
    tcp_seq right = g->left + len;
    unsigned i = g->at;
    tcp_seq begin = hole_begin(r, i);
    if (closes_hole(r, g, right, is_buffered)) {
        tell_closed(r, i);
    }
    enum tcp_ranges_added added = tcp_ranges_add(&r->ranges, &i, g->left, right, is_buffered, held);
    if (g->left > r->nxt) {
        c->holes_opened += added == TCP_RANGES_OPENED;
        c->holes_merged += added == TCP_RANGES_JOINED;
        note_recent(r, block_around(&r->ranges, i));
        if (added == TCP_RANGES_OPENED) {
            tell_opened(r, i, begin);
        }
    } else {
        r->nxt = right;
    }
    if (c->ranges_peak < r->ranges.count) {
        c->ranges_peak = r->ranges.count;
    }
    c->octets_in += len;
}

// The range that ends where the gap begins; NULL.
static const struct tcp_range *range_before(const struct tcp_receive *r, const struct gap *g)
{
    const struct tcp_range *before = g->at > 0 ? &r->ranges.range[g->at - 1] : NULL;
    return before != NULL && before->right == g->left ? before : NULL;
}

static enum tcp_refusal keep(struct tcp_receive *r, const struct arrival *a, const struct gap *g)
{
    static const struct place_counts none;
    const struct tcp_range *before = range_before(r, g);
    uint64_t len = ring_room(r, g->left, g->right);
    if (tcp_ranges_is_full(&r->ranges) && (before == NULL || !before->is_buffered)) {
        return TCP_REFUSED_RANGES_FULL;
    }
    if (len > 0) {
        ring_store(r, g->left, a->octets + (g->left - a->left), len);
        fill(r, g, len, true, &none);
    }
    return g->left + len == g->right ? TCP_TAKEN : TCP_REFUSED_BUFFER_FULL;
}

static enum tcp_refusal keep_all(struct tcp_receive *r, const struct arrival *a, struct gap *g)
{
    enum tcp_refusal refusal = keep(r, a, g);
    g->left = g->right;
    return refusal;
}

/* ---- offering -------------------------------------------------------------------------------- */

static enum place_verdict offer(struct tcp_receive *r, const struct arrival *a, tcp_seq left,
                                tcp_seq right, enum place_order order, struct place_answer *answer)
{
    struct place_offer o = {
        .position = left - r->first,
        .octets = span_of(a->octets + (left - a->left), right - left),
        .order = order,
        .is_segment_start = order != PLACE_FROM_BUFFER && left == a->left,
        .is_segment_end = order != PLACE_FROM_BUFFER && right == a->right,
    };
    *answer = (struct place_answer){.len = right - left};
    enum place_verdict verdict = r->port.place(r->port.ctx, &o, answer);
    CHECK(answer->len <= right - left);
    CHECK(verdict == PLACE_BUFFER || answer->len > 0);
    return verdict;
}

// A gap at `nxt`, with nothing kept before it: placing is delivering. `g->left` moves behind what
// has been dealt with.
static enum tcp_refusal take_in_order(struct tcp_receive *r, const struct arrival *a, struct gap *g)
{
    while (g->left < g->right) {
        struct place_answer answer;
        switch (offer(r, a, g->left, g->right, PLACE_IN_ORDER, &answer)) {
        case PLACE_PLACED:
            g->left += answer.len;
            r->handed = r->nxt = g->left;
            r->counters->octets_in += answer.len;
            if (r->ranges.count > 0 && r->ranges.range[0].left == r->nxt) {
                tell_closed(r, 0);
            }
            break;
        case PLACE_BUFFER:
            r->is_stalled = true;
            r->counters->stalls++;
            return keep_all(r, a, g);
        default:
            g->left += answer.len;
            return TCP_REFUSED_PLACE_DROP;
        }
    }
    return TCP_TAKEN;
}

// Are range_max ranges in use? What is beyond holes leaves the place at the front alone.
static bool is_full_beyond_holes(const struct tcp_receive *r)
{
    return r->ranges.count + FRONT_RANGE_COUNT >= r->ranges.max;
}

// A gap beyond a hole; `g->left` as above. When the table is full, only what makes the range before
// it longer is taken: of what is placed there must be a record.
static enum tcp_refusal take_beyond_hole(struct tcp_receive *r, const struct arrival *a,
                                         struct gap *g)
{
    struct place_answer answer;
    const struct tcp_range *before = range_before(r, g);
    bool is_full = is_full_beyond_holes(r);
    if (is_full && before == NULL) {
        g->left = g->right;
        return TCP_REFUSED_RANGES_FULL;
    }
    if (is_full && before->is_buffered) {
        return keep_all(r, a, g);
    }
    enum place_verdict verdict = offer(r, a, g->left, g->right, PLACE_BEYOND_HOLE, &answer);
    struct gap part = {g->left, g->left + answer.len, g->at};
    g->left = answer.len > 0 ? part.right : g->right;
    switch (verdict) {
    case PLACE_PLACED:
        fill(r, &part, answer.len, false, &answer.counts);
        r->counters->octets_placed_early += answer.len;
        return TCP_TAKEN;
    case PLACE_BUFFER:
        return is_full ? TCP_REFUSED_RANGES_FULL : keep(r, a, &part);
    default:
        return TCP_REFUSED_PLACE_DROP;
    }
}

/* ---- handing up ------------------------------------------------------------------------------ */

// The first range holds buffered octets at `handed`.
static void hand_up_buffered(struct tcp_receive *r)
{
    const struct tcp_range *first = &r->ranges.range[0];
    size_t at = ring_index(r, r->handed);
    uint64_t len = first->right - r->handed;
    len = len < r->buffer_len - at ? len : r->buffer_len - at;
    struct arrival a = {r->handed, r->handed + len, r->buffer + at};
    struct place_answer answer;
    enum place_verdict verdict = offer(r, &a, a.left, a.right, PLACE_FROM_BUFFER, &answer);
    CHECK(verdict != PLACE_DROP);
    if (verdict == PLACE_BUFFER) {
        r->is_stalled = true;
        r->counters->stalls++;
        return;
    }
    r->handed += answer.len;
    r->buffered_len -= (uint32_t)answer.len;
    tcp_ranges_trim_first(&r->ranges, r->handed);
}

// The first range was placed, and all before it has been handed up.
static void hand_up_placed(struct tcp_receive *r)
{
    const struct tcp_range *first = &r->ranges.range[0];
    if (!r->port.on_advance(r->port.ctx, r->handed - r->first, first->right - r->first,
                            tcp_ranges_held(&r->ranges, 0))) {
        r->is_stalled = true;
        r->counters->stalls++;
        return;
    }
    r->handed = first->right;
    tcp_ranges_trim_first(&r->ranges, r->handed);
}

static void hand_up(struct tcp_receive *r)
{
    while (!r->is_stalled && r->ranges.count > 0 && r->ranges.range[0].left == r->handed) {
        if (r->ranges.range[0].is_buffered) {
            hand_up_buffered(r);
        } else {
            hand_up_placed(r);
        }
    }
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static enum tcp_refusal take_gap(struct tcp_receive *r, const struct arrival *a, struct gap *g)
{
    if (g->left != r->nxt) {
        return take_beyond_hole(r, a, g);
    }
    bool is_open = r->handed == r->nxt && !r->is_stalled;
    enum tcp_refusal refusal = is_open ? take_in_order(r, a, g) : keep_all(r, a, g);
    advance_nxt(r);
    hand_up(r);
    return refusal;
}

// Everything in [left, right) that is not there yet.
static enum tcp_refusal take_gaps(struct tcp_receive *r, struct arrival *a, tcp_seq left,
                                  tcp_seq right)
{
    enum tcp_refusal refusal = TCP_TAKEN;
    while (left < right) {
        if (left < r->nxt) { // a range that was reached meanwhile
            note_duplicate(a, left, tcp_seq_min(r->nxt, right));
            left = r->nxt;
            continue;
        }
        struct gap g = {left, right, tcp_ranges_find(&r->ranges, left)};
        if (g.at < r->ranges.count) {
            const struct tcp_range *next = &r->ranges.range[g.at];
            if (next->left <= left) {
                note_duplicate(a, left, tcp_seq_min(next->right, a->right));
                left = next->right;
                continue;
            }
            g.right = tcp_seq_min(right, next->left);
        }
        enum tcp_refusal one = take_gap(r, a, &g);
        refusal = refusal == TCP_TAKEN ? one : refusal;
        left = g.left;
    }
    return refusal;
}

void tcp_receive_note_duplicate(struct tcp_receive *r, tcp_seq left, tcp_seq right)
{
    if (left < r->nxt && left >= r->first) {
        report_duplicate(r, (struct tcp_block){left, tcp_seq_min(right, r->nxt)});
    }
}

enum tcp_refusal tcp_receive_octets(struct tcp_receive *r, tcp_seq seq, struct span octets)
{
    struct arrival a = {.left = seq, .right = seq + octets.len, .octets = octets.ptr};
    tcp_seq right = tcp_seq_min(a.right, r->edge);
    enum tcp_refusal refusal = TCP_TAKEN;
    if (r->has_fin && right > r->fin) {
        right = r->fin;
        refusal = TCP_REFUSED_DATA_AFTER_FIN;
    }
    if (a.left < r->nxt && a.left >= r->first) {
        note_duplicate(&a, a.left, tcp_seq_min(a.right, r->nxt));
    }
    uint64_t octets_before = r->counters->octets_in;
    enum tcp_refusal taken = take_gaps(r, &a, tcp_seq_max(a.left, r->nxt), right);
    if (a.twice.left < a.twice.right) {
        report_duplicate(r, a.twice);
    }
    if (taken == TCP_TAKEN && refusal == TCP_TAKEN && r->counters->octets_in == octets_before) {
        return a.right > r->edge ? TCP_REFUSED_NOT_ACCEPTABLE : TCP_REFUSED_DUPLICATE;
    }
    return refusal != TCP_TAKEN ? refusal : taken;
}

enum tcp_refusal tcp_receive_fin(struct tcp_receive *r, tcp_seq seq)
{
    const struct tcp_ranges *ranges = &r->ranges;
    if (r->has_fin) {
        return seq == r->fin ? TCP_TAKEN : TCP_REFUSED_DATA_AFTER_FIN;
    }
    if (seq < r->nxt || (ranges->count > 0 && ranges->range[ranges->count - 1].right > seq)) {
        return TCP_REFUSED_DATA_AFTER_FIN;
    }
    r->has_fin = true;
    r->fin = seq;
    advance_nxt(r);
    return TCP_TAKEN;
}

bool tcp_receive_fin_is_reached(const struct tcp_receive *r)
{
    return r->has_fin && r->nxt > r->fin;
}

bool tcp_receive_fin_is_handed(const struct tcp_receive *r)
{
    return r->has_fin && r->handed == r->fin && !r->is_stalled;
}

void tcp_receive_resume(struct tcp_receive *r)
{
    r->is_stalled = false;
    hand_up(r);
}

/* ---- what the peer is told ------------------------------------------------------------------- */

uint32_t tcp_receive_window(const struct tcp_receive *r, uint32_t step)
{
    tcp_seq wish = r->handed + r->window_len;
    uint32_t least = step < r->window_len / 2 ? step : r->window_len / 2;
    tcp_seq edge = wish >= r->edge + least ? tcp_seq_max(wish, r->edge) : r->edge;
    return edge > r->nxt ? (uint32_t)(edge - r->nxt) : 0;
}

void tcp_receive_on_window_sent(struct tcp_receive *r, uint32_t window)
{
    r->edge = tcp_seq_max(r->edge, r->nxt + window);
}

static struct tcp_sack_block on_wire(struct tcp_block block)
{
    return (struct tcp_sack_block){tcp_seq_wire(block.left), tcp_seq_wire(block.right)};
}

static bool is_recent(const struct tcp_receive *r, struct tcp_block block)
{
    for (unsigned i = 0; i < r->recent_count; i++) {
        if (r->recent[i].left == block.left) {
            return true;
        }
    }
    return false;
}

// The block that holds what came twice, if that lies beyond a hole; else an empty one.
static struct tcp_block duplicate_holder(const struct tcp_receive *r)
{
    tcp_seq left = r->dsack_count > 0 ? r->dsack[0].left : r->nxt;
    unsigned i = tcp_ranges_find(&r->ranges, left);
    bool is_beyond_hole = left > r->nxt && i < r->ranges.count;
    return is_beyond_hole ? block_around(&r->ranges, i) : (struct tcp_block){0};
}

unsigned tcp_receive_sack(const struct tcp_receive *r, struct tcp_sack_block *blocks, unsigned max)
{
    const struct tcp_ranges *ranges = &r->ranges;
    struct tcp_block holder = duplicate_holder(r);
    unsigned count = 0;
    if (r->dsack_count > 0 && max > 0) {
        blocks[count++] = on_wire(r->dsack[0]); // what holds it follows, even if it is just that
    }
    if (holder.left < holder.right && count < max) {
        blocks[count++] = on_wire(holder);
    }
    for (unsigned i = 0; i < r->recent_count && count < max; i++) {
        if (r->recent[i].left > r->nxt && r->recent[i].left != holder.left) {
            blocks[count++] = on_wire(r->recent[i]);
        }
    }
    for (unsigned i = 0; i < ranges->count && count < max; i++) {
        struct tcp_block block = block_around(ranges, i);
        if (block.left > r->nxt && block.left != holder.left && !is_recent(r, block)) {
            blocks[count++] = on_wire(block);
        }
        while (i + 1 < ranges->count && ranges->range[i + 1].right <= block.right) {
            i++;
        }
    }
    return count;
}

void tcp_receive_on_sack_sent(struct tcp_receive *r)
{
    if (r->dsack_count > 0) {
        r->dsack_count--;
        memmove(&r->dsack[0], &r->dsack[1], r->dsack_count * sizeof r->dsack[0]);
    }
}

void tcp_receive_forget_duplicates(struct tcp_receive *r)
{
    r->dsack_count = 0;
}

void tcp_receive_check(const struct tcp_receive *r)
{
    uint64_t buffered = 0;
    tcp_ranges_check(&r->ranges);
    CHECK(r->first <= r->handed);
    CHECK(r->handed <= r->nxt);
    CHECK(r->is_stalled || r->handed == r->nxt || tcp_receive_fin_is_reached(r));
    CHECK(!r->has_fin || r->nxt <= r->fin + 1);
    for (unsigned i = 0; i < r->ranges.count; i++) {
        const struct tcp_range *range = &r->ranges.range[i];
        CHECK(range->left >= r->handed);
        CHECK(!range->is_buffered || range->right <= r->handed + r->buffer_len);
        buffered += range->is_buffered ? range->right - range->left : 0;
    }
    CHECK(buffered == r->buffered_len);
}

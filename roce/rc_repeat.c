// What a weft end says has arrived beyond a hole, and what is therefore lost and leaves again
// alone. In the manner of RFC 6675: a packet is lost when three that left later have arrived, or
// the last that left at all; by the order in which they left, the last time, so that what left
// again and was lost again is found too.
#include <stdlib.h>
#include <string.h>

#include "roce/rc_internal.h"
#include "wire/sack.h"

enum { SENT_MIN = 16 }; // packets out that are remembered at first

// NULL: nothing is known of it.
static struct rc_sent *find(const struct rc_repeat *r, uint64_t mark)
{
    struct rc_sent *s = r->capacity > 0 ? &r->sent[mark & (r->capacity - 1)] : NULL;
    return s != NULL && s->mark == mark ? s : NULL;
}

static void set_lost(struct rc_repeat *r, struct rc_sent *s, bool is_lost)
{
    if (s->is_lost != is_lost) {
        r->lost_count += is_lost ? 1U : UINT32_MAX;
        r->lost_span += is_lost ? s->span : -(uint64_t)s->span;
        s->is_lost = is_lost;
    }
}

static void set_here(struct rc_repeat *r, struct rc_sent *s, bool is_here)
{
    if (s->is_here != is_here) {
        r->here_count += is_here ? 1U : UINT32_MAX;
        s->is_here = is_here;
    }
}

static void forget(struct rc_repeat *r, struct rc_sent *s)
{
    set_lost(r, s, false);
    set_here(r, s, false);
}

void rc_repeat_clear(struct rc_repeat *r)
{
    if (r->capacity > 0) {
        memset(r->sent, 0, r->capacity * sizeof *r->sent);
    }
    r->here_count = r->lost_count = 0;
    r->lost_span = 0;
    r->here_end = r->placed_end = 0;
    r->placed_count = 0;
    memset(r->placed, 0, sizeof r->placed);
}

// For so many at a time. Without memory it stays as it is.
static __attribute__((noinline)) void sent_resize(struct rc_repeat *r, uint64_t count)
{
    uint32_t capacity = r->capacity > 0 ? r->capacity : SENT_MIN;
    while (capacity < count && capacity < RC_HELD_MAX) {
        capacity *= 2;
    }
    struct rc_sent *sent = calloc(capacity, sizeof *sent);
    if (sent == NULL) {
        return;
    }
    for (uint32_t i = 0; i < r->capacity; i++) {
        if (r->sent[i].mark != 0) {
            sent[r->sent[i].mark & (capacity - 1)] = r->sent[i];
        }
    }
    free(r->sent);
    r->sent = sent;
    r->capacity = capacity;
}

// Where this packet is remembered, together with all that are out before it. Where there is no
// memory for so many, of two packets with the same place the later one is; of what is forgotten
// nothing leaves again alone. NULL: there is none at all.
static struct rc_sent *slot_for(struct rc_requester *q, uint64_t mark)
{
    struct rc_repeat *r = &q->repeat;
    const uint64_t count = mark - q->acked_mark + 1;
    if (count > r->capacity && r->capacity < RC_HELD_MAX) {
        sent_resize(r, count);
    }
    return r->capacity > 0 ? &r->sent[mark & (r->capacity - 1)] : NULL;
}

void rc_repeat_has_left(struct rc *rc, uint64_t mark, uint64_t end)
{
    struct rc_repeat *r = &rc->req.repeat;
    struct rc_sent *s = slot_for(&rc->req, mark);
    if (s == NULL) {
        return;
    }
    bool is_again = s->mark == mark;
    forget(r, s);
    *s = (struct rc_sent){
        .mark = mark,
        .sent_at = rc->wq.now,
        .order = ++r->order,
        .span = (uint32_t)(end - mark),
        .is_again = is_again,
    };
}

/* ---- what has arrived ------------------------------------------------------------------------ */

// What left twice within a round trip may have arrived by its first way, and tells nothing of what
// left between.
static void learn_order(struct rc *rc, const struct rc_sent *s)
{
    struct rc_repeat *r = &rc->req.repeat;
    bool is_sure = !s->is_again || rc->wq.now - s->sent_at >= rc->req.congestion.least_ns;
    if (is_sure && s->order > r->newest) {
        r->newest = s->order;
    }
}

void rc_repeat_passed(struct rc *rc, uint64_t before)
{
    struct rc_repeat *r = &rc->req.repeat;
    for (uint64_t mark = before; mark < rc->req.acked_mark; mark++) {
        if (r->here_count + r->lost_count == 0 || mark - before >= RC_HELD_MAX) {
            return;
        }
        struct rc_sent *s = find(r, mark);
        if (s != NULL) {
            learn_order(rc, s);
            forget(r, s);
        }
    }
}

static bool is_lost(const struct rc_repeat *r, const struct rc_sent *s)
{
    return !s->is_here && !s->is_lost &&
           (s->order + RC_LATER_ONES <= r->newest || r->newest == r->order);
}

// What is before the missing one is here, or its answer is on its way.
static bool find_lost(struct rc *rc, uint64_t missing_mark)
{
    struct rc_repeat *r = &rc->req.repeat;
    uint32_t before = r->lost_count;
    for (uint64_t mark = missing_mark; mark < r->here_end; mark++) {
        struct rc_sent *s = mark >= rc->req.acked_mark ? find(r, mark) : NULL;
        if (s != NULL && is_lost(r, s)) {
            set_lost(r, s, true);
        }
    }
    return r->lost_count > before;
}

void rc_repeat_on_sack(struct rc *rc, uint64_t missing_mark, const struct sack *sack)
{
    struct rc_repeat *r = &rc->req.repeat;
    for (uint32_t i = 0; i < sack->bit_count; i++) {
        uint64_t mark = missing_mark + 1 + i;
        struct rc_sent *s = sack_has(sack, i) && mark < rc->req.sent_mark ? find(r, mark) : NULL;
        if (s != NULL && mark >= rc->req.acked_mark) {
            learn_order(rc, s);
            set_lost(r, s, false);
            set_here(r, s, true);
            r->here_end = r->here_end < mark + 1 ? mark + 1 : r->here_end;
        }
    }
    if (find_lost(rc, missing_mark)) {
        congestion_on_loss(&rc->req.congestion, rc->wq.now);
    }
}

// Unless it was within a round trip.
static bool ask_again(struct rc *rc, uint64_t mark, uint64_t end)
{
    struct rc_repeat *r = &rc->req.repeat;
    struct rc_sent *s = slot_for(&rc->req, mark);
    duration_ns rtt_ns = rc->req.congestion.srtt_ns; // 0: not known
    bool is_known = s != NULL && s->mark == mark;
    bool is_asked = is_known && s->is_again && (rtt_ns == 0 || rc->wq.now - s->sent_at < rtt_ns);
    if (s == NULL || is_asked || (is_known && s->is_lost)) {
        return false;
    }
    forget(r, s);
    *s = (struct rc_sent){.mark = mark, .span = (uint32_t)(end - mark), .order = r->order};
    set_lost(r, s, true);
    r->here_end = r->here_end < mark + 1 ? mark + 1 : r->here_end;
    return true;
}

// Of one request: each run that is missing.
static bool ask_for_missing(struct rc *rc, const struct rc_out *o, uint64_t before)
{
    const struct rc_requester *q = &rc->req;
    uint64_t mark = o->first < q->acked_mark ? q->acked_mark : o->first;
    bool has_asked = false;
    while (mark < o->end && mark < before) {
        uint64_t end = rc_early_next(q, mark, o->end);
        has_asked |= end > mark && ask_again(rc, mark, end);
        for (mark = end; mark < o->end && rc_early_is_placed(q, mark); mark++) {
        }
    }
    return has_asked;
}

void rc_repeat_answers(struct rc *rc, uint64_t before)
{
    struct rc_requester *q = &rc->req;
    bool has_asked = false;
    for (uint32_t i = 0; i < q->count && rc_out_at(q, i)->first < before; i++) {
        const struct rc_out *o = rc_out_at(q, i);
        has_asked |= o->context != NULL && ask_for_missing(rc, o, before);
    }
    if (has_asked) {
        q->probe.end = RC_MARK_NONE;
        congestion_on_loss(&q->congestion, rc->wq.now);
    }
}

/* ---- what leaves again ----------------------------------------------------------------------- */

const struct rc_sent *rc_repeat_next(const struct rc_requester *q)
{
    const struct rc_repeat *r = &q->repeat;
    for (uint64_t mark = q->acked_mark; r->lost_count > 0 && mark < r->here_end; mark++) {
        const struct rc_sent *s = find(r, mark);
        if (s != NULL && s->is_lost) {
            return s;
        }
    }
    return NULL;
}

// Answers to Reads that come before one that is missing. A Read has a PSN for each packet of its
// answer, so where each belongs is known, and it is placed at once; that the Read is done, and all
// that stands before it, is told in order. What is placed is not asked for again.
#include "base/span.h"
#include "roce/rc_internal.h"
#include "wq/read_task.h"
#include "wq/scatter.h"

static uint64_t *word_of(struct rc_requester *q, uint64_t mark)
{
    return &q->repeat.placed[mark / 64 % (RC_HELD_MAX / 64)];
}

static uint64_t bit_of(uint64_t mark)
{
    return UINT64_C(1) << mark % 64;
}

// Nothing is placed so far ahead that two marks had the same bit.
bool rc_early_is_placed(const struct rc_requester *q, uint64_t mark)
{
    return mark < q->repeat.placed_end &&
           (q->repeat.placed[mark / 64 % (RC_HELD_MAX / 64)] & bit_of(mark)) != 0;
}

void rc_early_pass(struct rc_requester *q, uint64_t mark)
{
    if (rc_early_is_placed(q, mark)) {
        *word_of(q, mark) &= ~bit_of(mark);
        q->repeat.placed_count--;
    }
}

static const struct rc_out *find(const struct rc_requester *q, uint64_t mark)
{
    uint32_t i = 0;
    while (i < q->count && rc_out_at(q, i)->end <= mark) {
        i++;
    }
    return i < q->count ? rc_out_at(q, i) : NULL;
}

// First, or Only, at the beginning, and behind it where the peer may have been asked anew; of a
// weft end each missing run was.
static bool begins_right(const struct rc *rc, const struct rc_out *o, const struct roce_packet *p,
                         uint64_t mark)
{
    bool may_begin = mark < rc->req.inside_mark || rc->greeting.is_known;
    return p->facts->begins ? mark == o->first || may_begin : mark > o->first;
}

// Its place in the answer says how long it is and how it is called, but for the last of a weft
// end's run.
bool rc_is_read_packet(const struct rc *rc, const struct rc_out *o, const struct roce_packet *p,
                       uint64_t mark)
{
    if (o->context == NULL || o->context->task->kind == READ_KIND_ATOMIC) {
        return false;
    }
    uint64_t left = o->context->length - (mark - o->first) * rc_pmtu(rc);
    bool is_last = mark + 1 == o->end;
    bool ends_right = p->facts->ends == is_last || (p->facts->ends && rc->greeting.is_known);
    return p->facts->kind == ROCE_KIND_READ && begins_right(rc, o, p, mark) && ends_right &&
           p->payload.len == (is_last ? left : rc_pmtu(rc));
}

bool rc_early_place(struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    struct rc_requester *q = &rc->req;
    const struct rc_out *o = find(q, mark);
    if (mark - q->acked_mark >= RC_HELD_MAX || o == NULL || !rc_is_read_packet(rc, o, p, mark)) {
        return false;
    }
    if (rc_early_is_placed(q, mark)) {
        return true;
    }
    uint64_t offset = (mark - o->first) * rc_pmtu(rc);
    if (p->payload.len > 0 &&
        wq_answer_place(&rc->wq, o->context, offset, p->payload) != SCATTER_OK) {
        return false; // it fails in its turn
    }
    *word_of(q, mark) |= bit_of(mark);
    q->repeat.placed_end = q->repeat.placed_end < mark + 1 ? mark + 1 : q->repeat.placed_end;
    q->repeat.placed_count++;
    rc->counters.early_answers++;
    return true;
}

uint64_t rc_early_next(const struct rc_requester *q, uint64_t mark, uint64_t end)
{
    while (mark < end && mark < q->repeat.placed_end && !rc_early_is_placed(q, mark)) {
        mark++;
    }
    return mark < q->repeat.placed_end ? mark : end;
}

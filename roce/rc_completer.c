// What the peer answers. One mark says it all: the peer is done with everything before. Messages
// are acknowledged up to a PSN; a Read or an atomic by its own answer alone, so who acknowledges
// what is behind one has answered it, and the answer was lost: it is asked for again.
#include "base/span.h"
#include "base/trace.h"
#include "roce/rc_internal.h"
#include "wire/aeth.h"
#include "wq/read_task.h"
#include "wq/scatter.h"
#include "wq/status.h"

/* ---- progress -------------------------------------------------------------------------------- */

static struct send_wqe *wqe_of(struct rc *rc, const struct rc_out *o)
{
    return o->context != NULL ? o->context->task->cookie : wq_send_at(&rc->wq, o->handle);
}

static void drop_oldest(struct rc_requester *q)
{
    q->credits.done_count = rc_out_at(q, 0)->claim;
    q->head = (q->head + 1) & (q->capacity - 1);
    q->count--;
    q->send_index -= q->send_index > 0 ? 1 : 0;
}

void rc_complete_progress(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    const uint64_t before = q->heard_mark;
    if (q->acked_mark == before) {
        return;
    }
    q->heard_mark = q->acked_mark;
    q->timeout_count = q->not_ready_count = 0;
    q->tail.count = 0;
    q->hold_until = 0;
    rc_requester_advanced(rc, q->acked_mark - before);
    rc_requester_arm(rc);
    wq_on_released(&rc->wq, q->acked_mark, (q->acked_mark - before) * rc_pmtu(rc));
    wq_on_settled(&rc->wq, q->acked_mark);
}

// Everything before `mark` is acknowledged. False: an answer of before is missing.
static bool move_on(struct rc_requester *q, uint64_t mark)
{
    while (q->acked_mark < mark && rc_out_at(q, 0)->context == NULL) {
        uint64_t end = rc_out_at(q, 0)->end;
        q->acked_mark = end < mark ? end : mark;
        if (q->acked_mark == end) {
            drop_oldest(q);
        }
    }
    return q->acked_mark >= mark;
}

// The same, where more than that follows from what came.
static bool advance(struct rc *rc, uint64_t mark)
{
    bool is_whole = move_on(&rc->req, mark);
    rc_complete_progress(rc);
    return is_whole;
}

// Once, until something is acknowledged or nothing comes for too long.
static void go_back_once(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    if (q->told_mark != q->acked_mark) {
        q->told_mark = q->acked_mark;
        congestion_on_loss(&q->congestion, rc->wq.now);
        rc_requester_go_back(rc);
    }
}

// A weft end has answered what is before `mark`: what of it is missing is asked for again alone.
static void on_answer_missed(struct rc *rc, uint64_t mark)
{
    rc->counters.answers_missed++;
    rc_complete_progress(rc);
    if (rc->greeting.is_known) {
        rc_repeat_answers(rc, mark);
    } else {
        go_back_once(rc);
    }
}

/* ---- acknowledgements ------------------------------------------------------------------------ */

static void on_ack(struct rc *rc, uint64_t mark, uint8_t syndrome)
{
    bool is_whole = move_on(&rc->req, mark + 1);
    rc_credits_take(&rc->req.credits, syndrome);
    if (!is_whole) {
        on_answer_missed(rc, mark + 1);
    }
}

static void on_not_ready(struct rc *rc, uint64_t mark, uint8_t code)
{
    struct rc_requester *q = &rc->req;
    if (!advance(rc, mark)) {
        on_answer_missed(rc, mark);
        return;
    }
    if (q->acked_mark != mark || rc->wq.now < q->hold_until) {
        return; // it was ready since, or has said so already
    }
    rc->counters.not_ready_in++;
    q->timeout_count = 0; // it is there
    if (rc->attributes.rnr_retry_count < 7 &&
        q->not_ready_count++ >= rc->attributes.rnr_retry_count) {
        rc_fail_send(rc, wqe_of(rc, rc_out_at(q, 0)), WC_RNR_RETRY_EXC_ERR);
        return;
    }
    rc_requester_go_back(rc);
    q->hold_until = instant_after(rc->wq.now, aeth_rnr_timer_ns(code));
}

static void on_sequence_nak(struct rc *rc, uint64_t mark)
{
    rc->counters.sequence_naks_in++;
    advance(rc, mark);
    if (rc->req.acked_mark <= mark) {
        go_back_once(rc);
    }
}

// A weft end has all that is before, and says what it has of what is behind.
static void on_sack(struct rc *rc, uint64_t mark, const struct sack *sack)
{
    rc->counters.sacks_in++;
    rc->req.probe.end = RC_MARK_NONE;
    if (!advance(rc, mark)) {
        on_answer_missed(rc, mark);
    }
    rc_repeat_on_sack(rc, mark, sack);
}

// What the peer had taken before it still answers, if it is as we are: that is asked for first.
static void on_refused(struct rc *rc, uint64_t mark, uint8_t code)
{
    struct rc_requester *q = &rc->req;
    if (q->refused_mark == RC_MARK_NONE) {
        TRACE(rc->config.wq.trace, TRACE_QP, "qp %u: the peer refuses PSN %u with %u",
              rc->config.wq.qp_num, (unsigned)(mark & PSN_MASK), code);
        rc->counters.refused_by_peer++;
        rc->wq.peer_fault = (uint32_t)AETH_NAK | code;
        q->refused_mark = mark;
        q->refused_code = code;
    }
    if (!advance(rc, mark)) {
        on_answer_missed(rc, mark);
    }
}

static void on_nak(struct rc *rc, uint64_t mark, uint8_t code)
{
    if (code == AETH_NAK_PSN_SEQUENCE) {
        on_sequence_nak(rc, mark);
    } else if (rc_status_of_nak(code) != WC_SUCCESS) {
        on_refused(rc, mark, code);
    } else {
        rc->counters.dropped_strange_answer++;
    }
}

static void on_acknowledge(struct rc *rc, const struct aeth *aeth, uint64_t mark)
{
    switch (aeth_kind(aeth->syndrome)) {
    case AETH_ACK:
        on_ack(rc, mark, aeth->syndrome);
        break;
    case AETH_RNR_NAK:
        on_not_ready(rc, mark, aeth_value(aeth->syndrome));
        break;
    case AETH_NAK:
        on_nak(rc, mark, aeth_value(aeth->syndrome));
        break;
    default:
        rc->counters.dropped_strange_answer++;
        break;
    }
}

/* ---- answers to Reads and atomics ------------------------------------------------------------ */

static bool is_atomic_answer(const struct rc_out *o, const struct roce_packet *p)
{
    return p->facts->kind == ROCE_KIND_ATOMIC && o->context->task->kind == READ_KIND_ATOMIC &&
           p->payload.len == 0;
}

// Its octets, to be placed at `*ret_offset` of what the request asked for.
static bool answer_octets(const struct rc *rc, const struct rc_out *o, const struct roce_packet *p,
                          uint64_t *ret_offset, struct span *ret)
{
    *ret_offset = o->context->arrived_len;
    if (is_atomic_answer(o, p)) {
        *ret = span_of(&p->atomicacketh.original, RC_ATOMIC_LEN);
        return true;
    }
    *ret = p->payload;
    return rc_is_read_packet(rc, o, p, rc->req.acked_mark);
}

// The packet of an answer that is due is here.
static void take_packet(struct rc *rc, const struct rc_out *o, uint64_t len)
{
    struct rc_requester *q = &rc->req;
    o->context->arrived_len += (uint32_t)len;
    rc_early_pass(q, q->acked_mark);
    q->acked_mark++;
    if (q->acked_mark == o->end) {
        drop_oldest(q);
        rc_requester_follow_read_len(rc);
        wq_request_answered(&rc->wq, o->context);
    }
}

// Has the one behind it come before it? Messages between are acknowledged by what is.
static bool has_next(struct rc_requester *q)
{
    while (q->acked_mark < q->repeat.placed_end && rc_out_at(q, 0)->context == NULL) {
        q->acked_mark = rc_out_at(q, 0)->end;
        drop_oldest(q);
    }
    return q->acked_mark < q->repeat.placed_end && rc_early_is_placed(q, q->acked_mark);
}

// What was acknowledged before is no failure.
static void fail_oldest(struct rc *rc, enum wc_status status)
{
    rc_complete_progress(rc);
    rc_fail_send(rc, wqe_of(rc, rc_out_at(&rc->req, 0)), status);
}

static void on_answer(struct rc *rc, const struct roce_packet *p)
{
    struct rc_requester *q = &rc->req;
    struct rc_out o = *rc_out_at(q, 0);
    uint64_t offset;
    struct span octets;
    if (o.context == NULL || !answer_octets(rc, &o, p, &offset, &octets)) {
        fail_oldest(rc, WC_BAD_RESP_ERR);
        return;
    }
    if (octets.len > 0 && wq_answer_place(&rc->wq, o.context, offset, octets) != SCATTER_OK) {
        fail_oldest(rc, WC_LOC_PROT_ERR);
        return;
    }
    take_packet(rc, &o, octets.len);
    while (has_next(q)) {
        o = *rc_out_at(q, 0);
        uint64_t left = o.context->length - o.context->arrived_len;
        take_packet(rc, &o, left < rc_pmtu(rc) ? left : rc_pmtu(rc));
    }
}

// Two more than one have come behind it, or none will.
static uint64_t surely_answered(const struct rc_requester *q)
{
    uint64_t end = q->repeat.placed_end;
    return end == q->sent_mark ? end : end - RC_LATER_ONES;
}

static void on_response(struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    const struct rc_requester *q = &rc->req;
    bool has_word = (p->facts->headers & ROCE_HAS_AETH) != 0;
    if (has_word && aeth_kind(p->aeth.syndrome) != AETH_ACK) {
        rc->counters.dropped_strange_answer++;
    } else if (move_on(&rc->req, mark)) {
        if (has_word) {
            rc_credits_take(&rc->req.credits, p->aeth.syndrome);
        }
        on_answer(rc, p);
    } else if (rc->greeting.is_known && rc_early_place(rc, p, mark)) {
        rc_complete_progress(rc);
        rc_repeat_answers(rc, surely_answered(q));
    } else {
        on_answer_missed(rc, mark);
    }
}

/* ---- doors ----------------------------------------------------------------------------------- */

// All that the peer had to do before it refused is done.
static void follow_refusal(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    if (q->acked_mark == q->refused_mark && q->count > 0) {
        fail_oldest(rc, rc_status_of_nak(q->refused_code));
    }
}

static bool is_sack(const struct rc *rc, const struct roce_packet *p, struct sack *ret)
{
    return rc_greeting_is_right(rc, p) && sack_parse(p->payload, ret) == SACK_OK;
}

// The last acknowledgement again may tell of receives that were posted since.
static void take_old(struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    struct rc_requester *q = &rc->req;
    bool is_ack = p->facts->kind == ROCE_KIND_ACK && aeth_kind(p->aeth.syndrome) == AETH_ACK;
    rc->counters.dropped_old_answer++;
    if (is_ack && mark + 1 == q->acked_mark) {
        rc_credits_take(&q->credits, p->aeth.syndrome);
    }
}

void rc_take_answer(struct rc *rc, const struct roce_packet *p)
{
    struct rc_requester *q = &rc->req;
    struct sack sack;
    uint64_t mark = psn_extend(q->acked_mark, p->bth.psn);
    bool is_hole = p->facts->kind == ROCE_KIND_ACK &&
                   p->aeth.syndrome == aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE);
    if (mark < q->acked_mark) {
        take_old(rc, p, mark);
    } else if (mark >= q->sent_mark + (is_hole ? 1 : 0)) {
        rc->counters.dropped_strange_answer++;
    } else if (is_hole && p->payload.len > 0 && is_sack(rc, p, &sack)) {
        on_sack(rc, mark, &sack);
    } else if (p->facts->kind == ROCE_KIND_ACK) {
        on_acknowledge(rc, &p->aeth, mark);
    } else {
        on_response(rc, p, mark);
    }
    follow_refusal(rc);
}

// The oldest that is out, or what the peer has refused already and does not answer for any more.
static void give_up(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    for (uint32_t i = 0; i < q->count && q->refused_mark != RC_MARK_NONE; i++) {
        const struct rc_out *o = rc_out_at(q, i);
        if (o->first <= q->refused_mark && q->refused_mark < o->end) {
            rc_fail_send(rc, wqe_of(rc, o), rc_status_of_nak(q->refused_code));
            return;
        }
    }
    rc_fail_send(rc, wqe_of(rc, rc_out_at(q, 0)), WC_RETRY_EXC_ERR);
}

void rc_complete_timeout(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    rc->counters.timeouts++;
    if (q->timeout_count++ >= rc->attributes.retry_count) {
        give_up(rc);
        return;
    }
    q->told_mark = RC_MARK_NONE;
    congestion_on_timeout(&q->congestion, rc->wq.now);
    rc_requester_go_back(rc);
}

void rc_complete_tail(struct rc *rc)
{
    struct rc_tail *t = &rc->req.tail;
    t->at = INSTANT_NEVER;
    if (t->is_alone) {
        rc->counters.tail_losses++;
        go_back_once(rc);
    } else {
        t->is_due = true;
    }
}

// The tail-loss probe. Of a flight whose last packets are lost nothing tells the peer, and only the
// time-out, which is long, would help. So after about two round trips of silence the packet at the
// acknowledged mark is sent again, and asks: to any peer a duplicate that it acknowledges, or what
// it waits for. If the answer is for that packet alone, what was behind it is lost. It is no retry.
// It may be lost itself, or its answer: as long as nothing comes it leaves again, each time after
// twice as long, up to the time-out, which is often half a second (rdma_cm's).
#include "roce/rc_internal.h"

enum { TAIL_COUNT_MAX = 16 }; // until something is acknowledged

static const duration_ns ack_delay_ns = 200 * NS_PER_US; // that a peer is granted

// Only of what has left in this run: after going back nothing is out. Never behind the time-out.
static instant_ns due_at(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    duration_ns rtt_ns = q->congestion.srtt_ns;
    bool waits = q->acked_mark < q->send_mark && rtt_ns > 0 && q->tail.count < TAIL_COUNT_MAX;
    duration_ns patience_ns =
        q->tail.is_alone ? rtt_ns : (2 * rtt_ns + ack_delay_ns) << q->tail.count;
    instant_ns at = waits ? instant_after(rc->wq.now, patience_ns) : INSTANT_NEVER;
    return at < q->retry_at ? at : INSTANT_NEVER;
}

void rc_tail_stop(struct rc_tail *t)
{
    *t = (struct rc_tail){.at = INSTANT_NEVER, .count = t->count, .mark = RC_MARK_NONE};
}

void rc_tail_arm(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    struct rc_tail *t = &q->tail;
    bool is_message = q->count > 0 && rc_out_at(q, 0)->context == NULL;
    bool is_alone = t->mark != RC_MARK_NONE && q->acked_mark == t->mark + 1 && is_message;
    rc_tail_stop(t);
    t->is_alone = is_alone;
    t->at = due_at(rc);
}

void rc_tail_has_left(struct rc *rc)
{
    struct rc_tail *t = &rc->req.tail;
    rc_tail_stop(t);
    t->mark = rc->req.acked_mark;
    t->count++;
    t->at = due_at(rc);
}

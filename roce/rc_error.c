// What ends a connection: the peer that is refused, work requests that fail, the program.
#include <netinet/in.h>

#include "base/trace.h"
#include "roce/inbound.h"
#include "roce/rc_internal.h"
#include "roce/state.h"
#include "wire/aeth.h"
#include "wq/oneshot.h"

void rc_raise(struct rc *rc, enum qp_event event)
{
    if (rc->wq.is_silent) {
        return;
    }
    TRACE(rc->config.wq.trace, TRACE_QP, "qp %u event: %s", rc->config.wq.qp_num,
          qp_event_name(event));
    if (rc->config.port.on_event != NULL) {
        rc->config.port.on_event(rc->config.port.ctx, event);
    }
}

// Nothing that has left is read any more: whoever carries packets has copies.
static void flush(struct rc *rc)
{
    wq_requests_forget(&rc->wq);
    if (!rc->push.is_out) { // else when it is over
        wq_flush_sends(&rc->wq);
    }
    inbound_flush(&rc->resp.in, &rc->wq);
    wq_flush_receives(&rc->wq);
    if (rc->config.wq.srq != NULL) {
        rc_raise(rc, QP_EVENT_LAST_WQE_REACHED);
    }
}

// What is read may be another's from now on.
void rc_stop_answering(struct rc *rc)
{
    rc->resp.count = rc->resp.pending_count = 0;
}

// What the peer was promised before goes on leaving, if it is the peer that was refused.
void rc_fail(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    if (rc->state == QP_ERR) {
        return;
    }
    TRACE(rc->config.wq.trace, TRACE_QP, "qp %u: %s -> ERR", rc->config.wq.qp_num,
          qp_state_name(rc->state));
    rc->state = QP_ERR;
    q->count = q->send_index = 0;
    q->retry_at = INSTANT_NEVER;
    q->hold_until = 0;
    rc_tail_stop(&q->tail);
    rc_held_clear(rc);
    if (rc->resp.refusal == RC_ACCEPTED) {
        rc_stop_answering(rc);
    }
    wq_close(&rc->wq);
    oneshot_detach_all(&rc->wq); // before anybody hears of it
    flush(rc);
}

void rc_fail_send(struct rc *rc, struct send_wqe *wqe, enum wc_status status)
{
    wq_send_fail(wqe, status);
    rc_fail(rc);
}

static uint8_t syndrome_of(const struct rc *rc, enum rc_refusal refusal)
{
    return refusal == RC_REFUSED_NOT_READY ? aeth_syndrome_rnr(rc->attributes.min_rnr_timer)
                                           : rc_refusal_facts(refusal)->syndrome;
}

static bool is_own_peer(const struct rc *rc)
{
    const struct datagram_path *path = &rc->attributes.path;
    return rc->attributes.dest_qp_num == rc->config.wq.qp_num &&
           IN6_ARE_ADDR_EQUAL(&path->local, &path->remote);
}

// Who refuses itself goes on until it hears of it: the request fails then, as with any peer, and
// the rest with it.
void rc_refuse(struct rc *rc, enum rc_refusal refusal, uint64_t mark)
{
    const struct rc_refusal_facts *facts = rc_refusal_facts(refusal);
    rc->counters.refusals[refusal]++;
    rc->resp.has_told_hole = true;
    rc->resp.is_unready = refusal == RC_REFUSED_NOT_READY;
    rc->resp.word = (struct rc_word){true, syndrome_of(rc, refusal), mark};
    if (!facts->is_fatal) {
        return;
    }
    TRACE(rc->config.wq.trace, TRACE_QP, "qp %u refuses PSN %u: %s", rc->config.wq.qp_num,
          (unsigned)(mark & PSN_MASK), facts->text);
    rc->resp.refusal = refusal;
    if (facts->event != QP_EVENT_COUNT) {
        rc_raise(rc, facts->event);
    }
    if (!is_own_peer(rc)) {
        rc_fail(rc);
    }
}

// A completion was lost: that is told once.
static void follow_overrun(struct rc *rc)
{
    if (rc->wq.has_overrun && !rc->is_overrun_told) {
        rc->is_overrun_told = true;
        rc_raise(rc, QP_EVENT_FATAL);
        rc_fail(rc);
    }
}

void rc_settle(struct rc *rc)
{
    follow_overrun(rc);
    rc_share_follow(rc);
    if (rc->state == QP_SQD && !rc->is_drained_told && wq_is_drained(&rc->wq)) {
        rc->is_drained_told = true;
        if (rc->attributes.tells_drained) {
            rc_raise(rc, QP_EVENT_SQ_DRAINED);
        }
    }
}

// What happens because nothing did.
#include "roce/rc_internal.h"

static instant_ns not_over(const struct rc *rc, instant_ns until)
{
    return rc->wq.now < until ? until : INSTANT_NEVER;
}

instant_ns rc_next_deadline(const struct transport *t)
{
    const struct rc *rc = rc_of_const(t);
    instant_ns held = instant_min(not_over(rc, rc->req.hold_until),
                                  not_over(rc, congestion_member_until(&rc->member)));
    instant_ns silent = instant_min(rc->req.retry_at, rc->req.tail.at);
    return instant_min(silent, instant_min(held, rc_requester_paced_until(rc)));
}

void rc_on_deadline(struct transport *t, instant_ns now)
{
    struct rc *rc = rc_of(t);
    rc_at(rc, now);
    if (rc->req.retry_at <= now) {
        rc_complete_timeout(rc);
    }
    if (rc->req.tail.at <= now) {
        rc_complete_tail(rc);
    }
    rc_settle(rc);
}

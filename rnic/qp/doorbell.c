#include "base/check.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"
#include "rnic/qp/meeting.h"

void rnic_qp_on_doorbell(struct rnic_qp *qp, instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    if (shard_has_many(&qp->rnic->shard)) {
        ep_fetch(qp->ep);
        ep_fetch_qp(qp);
    }
    const struct transport_ops *ops = qp->transport->ops;
    ops->on_receive_posted(qp->transport, now);
    ops->on_send_posted(qp->transport, now);
    qp_meeting_on_doorbell(qp, now);
    if (qp->ep == NULL) {
        rnic_qp_note_state(qp, now);
        return;
    }
    ep_on_doorbell(qp->ep, now);
}

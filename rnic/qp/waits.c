// Does a queue pair wait for receives? Who posts one, and the shard, look at what stands here.

#include "base/check.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"

// A receive that is posted in the usual way needs no doorbell: the engine finds it when a message
// comes. Only who waits for one sets the flag, and looks again behind it. Poster and waiter both
// exchange the flag: whoever comes second sees all that the first did before.
void rnic_qp_note_state(struct rnic_qp *qp, instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    const struct transport_ops *ops = qp->transport->ops;
    bool waits = ops->wants_receive(qp->transport);
    struct rnic_ep *ep = qp->ep;
    if (waits == atomic_load_explicit(&qp->wants_receive, memory_order_relaxed)) {
        return;
    }
    atomic_exchange_explicit(&qp->wants_receive, waits, memory_order_acq_rel);
    if (ep != NULL && qp->srq != NULL) {
        list_remove(&ep->starved_link);
        if (waits) {
            list_push_tail(&qp->rnic->shard.starved, &ep->starved_link);
        }
    }
    if (waits) {
        if (qp->srq != NULL) {
            atomic_exchange_explicit(&qp->srq->wants_receive, true, memory_order_acq_rel);
        }
        ops->on_receive_posted(qp->transport, now);
        if (ep != NULL && ep_may_resume(ep)) { // a receive came before the flag was up
            shard_run_again(&qp->rnic->shard, ep);
        }
    }
}

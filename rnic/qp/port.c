// What the engine tells of a queue pair: events go to the front, the rest to its endpoint.

#include "rnic/ep/ep.h"
#include "rnic/internal.h"
#include "wq/latency.h"

static const enum rnic_async_event async_of[QP_EVENT_COUNT] = {
    [QP_EVENT_FATAL] = RNIC_EVENT_QP_FATAL,
    [QP_EVENT_REQ_ERR] = RNIC_EVENT_QP_REQ_ERR,
    [QP_EVENT_ACCESS_ERR] = RNIC_EVENT_QP_ACCESS_ERR,
    [QP_EVENT_SQ_DRAINED] = RNIC_EVENT_SQ_DRAINED,
    [QP_EVENT_LAST_WQE_REACHED] = RNIC_EVENT_QP_LAST_WQE_REACHED,
    [QP_EVENT_COMM_EST] = RNIC_EVENT_COMM_EST,
};

void qp_port_on_event(void *ctx, enum qp_event event)
{
    struct rnic_qp *qp = ctx;
    if (qp->async.on_event != NULL) {
        qp->async.on_event(qp->async.ctx, async_of[event]);
    }
}

void qp_port_on_runnable(void *ctx)
{
    struct rnic_qp *qp = ctx;
    if (qp->ep != NULL) {
        shard_run_again(&qp->rnic->shard, qp->ep);
    }
}

// The one clock that is read for it: the engine's instant is that of the call, and what the call
// has done since, a system call perhaps, is a part of what is measured.
void qp_port_on_sampled(void *ctx, enum wqe_opcode opcode, instant_ns posted_at_ns)
{
    struct rnic *rnic = ((struct rnic_qp *)ctx)->rnic;
    latency_note(&rnic->latency, opcode, rnic_now(rnic) - posted_at_ns);
}

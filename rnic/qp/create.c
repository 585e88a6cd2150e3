// What new queue pairs of every transport are told, and where their counters go in the end.

#include <errno.h>
#include <stdlib.h>

#include "base/transport.h"
#include "rnic/internal.h"

struct wq_config qp_wq_config(struct rnic_qp *qp, const struct rnic_qp_init *init,
                              void (*on_runnable)(void *ctx))
{
    struct rnic *rnic = qp->rnic;
    return (struct wq_config){
        .qp_num = qp->qp_num,
        .pd = init->pd,
        .caps = {.max_send_wr = init->max_send_wr,
                 .max_recv_wr = init->max_recv_wr,
                 .max_send_sge = init->max_send_sge,
                 .max_recv_sge = init->max_recv_sge,
                 .max_inline_len = init->max_inline_len},
        .send_cq = init->send_cq->cq,
        .recv_cq = init->recv_cq->cq,
        .srq = init->srq != NULL ? init->srq->srq : NULL,
        .sq_sig_all = init->sq_sig_all,
        .mem = rnic->mem,
        .read_sched = rnic->read_sched,
        .ord_max = rnic_limits.max_qp_rd_atom,
        .read_timeout_ns = rnic->config.read_timeout_ns,
        .trace = rnic->trace,
        .journal = rnic->journal,
        .on_runnable = on_runnable,
        .on_sampled = qp_port_on_sampled,
        .ctx = qp,
        .guard = shard_guard(&rnic->shard),
    };
}

void *qp_total_of(struct rnic *rnic, const struct transport_ops *ops)
{
    for (unsigned i = 0; i < rnic->total_count; i++) {
        if (rnic->totals[i].ops == ops) {
            return rnic->totals[i].counters;
        }
    }
    struct qp_total *total = &rnic->totals[rnic->total_count];
    *total = (struct qp_total){.ops = ops, .counters = calloc(1, ops->counters_len)};
    rnic->total_count += total->counters != NULL ? 1 : 0;
    return total->counters;
}

// The queue pair under a new rnic_qp: the one file that knows how each transport is made.

#include <errno.h>
#include <stdlib.h>

#include "base/port_place.h"
#include "iwarp/qp.h"
#include "rnic/ep.h"
#include "rnic/internal.h"

int qp_create_engine(struct rnic_qp *qp, const struct rnic_qp_init *init)
{
    struct rnic *rnic = qp->rnic;
    struct qp_config config = {
        .wq = {.qp_num = qp->qp_num,
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
               .write_flush = rnic->config.write_flush,
               .mem = rnic->mem,
               .read_sched = rnic->read_sched,
               .ord_max = rnic_limits.max_qp_rd_atom,
               .read_timeout_ns = rnic->config.read_timeout_ns,
               .trace = rnic->trace,
               .on_runnable = qp_port_on_runnable,
               .ctx = qp,
               .guard = shard_guard(&rnic->shard)},
        .allotment_len = rnic->allotment.len,
        .response_turn_len = rnic->config.read_turn_len,
        .may_follow = allotment_policy_may_follow(&rnic->allotment),
        .port = {.on_event = qp_port_on_event, .on_extension = ep_on_extension, .ctx = qp},
        .tx_copy = rnic->config.tx_copy,
        .rnr_timeout_ns = rnic->config.rnr_timeout_ns,
        .rnr_store_len = rnic->config.rnr_store_len,
        .ird_max = rnic_limits.max_qp_rd_atom,
        .places_early = rnic->config.placement != PLACEMENT_OFF && ep_place_is_possible(rnic),
    };
    struct qp *on_stream;
    int error = qp_create(&config, &on_stream);
    if (error == 0) {
        qp->transport = qp_transport(on_stream);
        qp->wq = qp_wq(on_stream);
    }
    return error;
}

int qp_totals_init(struct rnic *rnic)
{
    struct qp_total *total = &rnic->totals[rnic->total_count++];
    total->ops = &iwarp_transport_ops;
    total->counters = calloc(1, total->ops->counters_len);
    return total->counters == NULL ? -ENOMEM : 0;
}

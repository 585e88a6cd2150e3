// The queue pair under a new rnic_qp, where streams carry it.

#include "iwarp/qp.h"

#include <errno.h>

#include "base/port_place.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"

int ep_create_qp(struct rnic_qp *qp, const struct rnic_qp_init *init)
{
    struct rnic *rnic = qp->rnic;
    struct qp_config config = {
        .wq = qp_wq_config(qp, init, qp_port_on_runnable),
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
    config.wq.write_flush = rnic->config.write_flush;
    struct qp *on_stream;
    if (init->type != RNIC_QP_RC) {
        return -EOPNOTSUPP;
    }
    int error = qp_create(&config, &on_stream);
    if (error == 0) {
        qp->transport = qp_transport(on_stream);
        qp->wq = qp_wq(on_stream);
    }
    return error;
}

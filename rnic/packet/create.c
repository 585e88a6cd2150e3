// The queue pair under a new rnic_qp, where packets carry it: by its type.

#include <errno.h>

#include "rnic/internal.h"
#include "rnic/packet/packet.h"
#include "roce/rc.h"
#include "roce/uc.h"
#include "roce/ud.h"
#include "wire/ib_time.h"

// A peer on a busy host answers when it has a processor: cards have such a floor too. A simulation,
// which has no thread, has no processor to wait for.
enum { ACK_TIMEOUT_MIN = 12 }; // 17 ms

static int create_rc(struct rnic_qp *qp, const struct wq_config *wq)
{
    const struct rc_config config = {
        .wq = *wq,
        .port = {.on_event = qp_port_on_event, .ctx = qp},
        .allotment_len = qp->rnic->allotment.len,
        .remembered_max = RC_REMEMBERED_MAX,
        .is_plain = !qp->rnic->config.extensions,
        .ack_timeout_min_ns = qp->rnic->shard.has_thread ? ib_time_ns(ACK_TIMEOUT_MIN) : 0,
        .store = qp->rnic->shard.packets.store,
        .share = &qp->rnic->shard.packets.share,
    };
    struct rc *rc;
    int error = rc_create(&config, &rc);
    if (error == 0) {
        qp->transport = rc_transport(rc);
        qp->wq = rc_wq(rc);
    }
    return error;
}

static int create_uc(struct rnic_qp *qp, const struct wq_config *wq)
{
    const struct uc_config config = {
        .wq = *wq,
        .events = {.on_event = qp_port_on_event, .ctx = qp},
    };
    struct uc *uc;
    int error = uc_create(&config, &uc);
    if (error == 0) {
        qp->transport = uc_transport(uc);
        qp->wq = uc_wq(uc);
    }
    return error;
}

static int create_ud(struct rnic_qp *qp, const struct wq_config *wq)
{
    const struct ud_config config = {
        .wq = *wq,
        .port_mtu = qp->rnic->port.path_mtu,
        .events = {.on_event = qp_port_on_event, .ctx = qp},
    };
    struct ud *ud;
    int error = ud_create(&config, &ud);
    if (error == 0) {
        qp->transport = ud_transport(ud);
        qp->wq = ud_wq(ud);
    }
    return error;
}

int packet_create_qp(struct rnic_qp *qp, const struct rnic_qp_init *init)
{
    struct wq_config wq = qp_wq_config(qp, init, packet_due);
    wq.read_timeout_ns = 0; // whoever sends again has a patience of its own
    switch (init->type) {
    case RNIC_QP_RC:
        return create_rc(qp, &wq);
    case RNIC_QP_UC:
        return create_uc(qp, &wq);
    case RNIC_QP_UD:
        return create_ud(qp, &wq);
    }
    return -EOPNOTSUPP;
}

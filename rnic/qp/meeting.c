#include "rnic/qp/meeting.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/port_link.h"
#include "base/sockaddr.h"
#include "iwarp/qp.h"
#include "iwarp/state.h"
#include "link/mirror.h"
#include "meet/point.h"
#include "meet/request.h"
#include "meet/state.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "rnic/point.h"
#include "wire/meeting.h"

/* ---- the active end -------------------------------------------------------------------------- */

static int connect_once(struct qp_meeting *m, instant_ns now)
{
    struct rnic_qp *qp = m->qp;
    struct link *link = qp->rnic->shard.link;
    const struct meeting_config *with = &m->meeting.config;
    const struct rnic_ep_port port = qp_meeting_port(qp);
    const struct sockaddr_storage from = sockaddr_of_octets(&with->own_addr, 0);
    const struct sockaddr_storage to =
        sockaddr_of_octets(&with->peer_addr, htons(meeting_port_of(with->peer_qp_num)));
    const struct meeting_request request = {.to_qp_num = with->peer_qp_num,
                                            .from_qp_num = qp->qp_num};
    uint8_t private_data[MEETING_REQUEST_LEN];
    const struct rnic_ep_params params = {
        .private_data = private_data,
        .private_data_len = (uint16_t)meeting_request_emit(&request, private_data),
        .ird = m->ird,
        .ord = (uint16_t)rnic_limits.max_qp_rd_atom,
    };
    struct rnic_ep *ep = ep_create(qp->rnic, &port);
    if (ep == NULL) {
        return -ENOMEM;
    }
    ep->is_meeting = true;
    int error = link_bind(link, (const struct sockaddr *)&from, 0, ep, &ep->stream);
    if (error == 0) {
        error = ep_begin_connect(ep, (const struct sockaddr *)&to, qp, &params, now);
    }
    if (error != 0) {
        ep_doom(ep, true, now);
    }
    return error;
}

/* ---- a queue pair that is its own peer ------------------------------------------------------- */

static void on_mirror_ready(void *ctx)
{
    struct rnic_ep *ep = ctx;
    shard_run_again(&ep->rnic->shard, ep);
}

static int connect_to_itself(struct qp_meeting *m, instant_ns now)
{
    struct rnic_qp *qp = m->qp;
    const struct rnic_ep_port port = qp_meeting_port(qp);
    const struct rnic_ep_params params = {.ird = m->ird,
                                          .ord = (uint16_t)rnic_limits.max_qp_rd_atom};
    struct rnic_ep *ep = ep_create(qp->rnic, &port);
    if (ep == NULL) {
        return -ENOMEM;
    }
    const struct link_mirror_config config = {
        .on_ready = on_mirror_ready,
        .ctx = ep,
        .addr =
            sockaddr_of_octets(&m->meeting.config.own_addr, htons(meeting_port_of(qp->qp_num)))};
    ep->is_meeting = true;
    int error = link_mirror_create(&config, &ep->stream);
    if (error == 0) {
        error = ep_begin_with_itself(ep, qp, &params, now);
    }
    if (error != 0) {
        ep_doom(ep, true, now);
    }
    return error;
}

/* ---- the passive end ------------------------------------------------------------------------- */

static int expect_request(struct qp_meeting *m, instant_ns now)
{
    struct rnic_qp *qp = m->qp;
    int error = point_listen(qp->point);
    if (error == 0) {
        qp_meeting_answer_kept(qp->point, qp->qp_num, qp, now);
    }
    return error;
}

/* ---- what meet/ wants done ------------------------------------------------------------------- */

static void free_meeting(struct rnic_qp *qp)
{
    deadline_disarm(&qp->rnic->meeting_deadlines, &qp->meeting->deadline);
    free(qp->meeting);
    qp->meeting = NULL;
}

static int try_once(struct qp_meeting *m, enum meeting_action action, instant_ns now)
{
    switch (action) {
    case MEETING_DO_CONNECT:
        return connect_once(m, now);
    case MEETING_DO_REFLECT:
        return connect_to_itself(m, now);
    case MEETING_DO_LISTEN:
        return expect_request(m, now);
    default:
        return 0;
    }
}

static void carry_out(struct qp_meeting *m, instant_ns now)
{
    struct rnic_qp *qp = m->qp;
    enum meeting_action action;
    while ((action = meeting_next(&m->meeting, now)) != MEETING_DO_NOTHING) {
        if (action == MEETING_DO_GIVE_UP) {
            qp_meeting_end(qp, now);
            qp_on_no_peer(stream_qp(qp), now);
            rnic_qp_note_state(qp, now);
            return;
        }
        int error = try_once(m, action, now);
        if (error != 0) {
            TRACE(qp->rnic->trace, TRACE_CONN, "qp %u: no meeting now: error %d", qp->qp_num,
                  -error);
            meeting_on_not_now(&m->meeting, now);
        }
    }
    qp_meeting_note_deadline(m);
}

void qp_meetings_on_deadline(struct rnic *rnic, instant_ns now)
{
    CHECK(shard_is_held(&rnic->shard));
    struct deadline *d;
    while ((d = deadlines_take_due(&rnic->meeting_deadlines, now)) != NULL) {
        carry_out(DEADLINE_ENTRY(d, struct qp_meeting, deadline), now);
    }
    shard_note_deadline(&rnic->shard, deadlines_next(&rnic->meeting_deadlines));
}

/* ---- beginning and end ----------------------------------------------------------------------- */

int qp_meeting_begin(struct rnic_qp *qp, const struct rnic_meeting *with, instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    const struct meeting_config config = {
        .own_addr = with->own_addr,
        .peer_addr = with->peer_addr,
        .own_qp_num = qp->qp_num,
        .peer_qp_num = with->peer_qp_num,
        .patience_ns = qp->rnic->config.mpa_timeout_ns,
        .counters = &qp->rnic->meeting_counters,
    };
    if (qp->point == NULL) {
        return -EOPNOTSUPP;
    }
    if (qp->meeting != NULL || qp->ep != NULL ||
        !qp_state_may_modify(qp_state_of(stream_qp(qp)), QP_RTR)) {
        return -EINVAL;
    }
    struct qp_meeting *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return -ENOMEM;
    }
    m->qp = qp;
    m->ird = with->ird;
    meeting_init(&m->meeting, &config, now);
    qp->meeting = m;
    if (with->ird == 0) {
        qp_serve_none(stream_qp(qp));
    }
    qp_modify(stream_qp(qp), QP_RTR, now);
    carry_out(m, now);
    return 0;
}

void qp_meeting_end(struct rnic_qp *qp, instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    if (qp->meeting == NULL) {
        return;
    }
    bool has_met = qp->meeting->meeting.state == MEETING_MET;
    free_meeting(qp);
    if (!has_met && qp->ep != NULL) {
        ep_close(qp->ep, QP_CLOSE_LOCAL, true, now);
    }
}

void qp_meeting_forget(struct rnic_qp *qp, instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    qp_meeting_end(qp, now);
    if (qp->point != NULL && qp->point->ep->state == EP_LISTENING) {
        qp_meeting_answer_kept(qp->point, qp->qp_num, NULL, now);
    }
}

void qp_meeting_on_doorbell(struct rnic_qp *qp, instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    struct qp_meeting *m = qp->meeting;
    if (m != NULL && meeting_is_waiting(&m->meeting) && qp_query(stream_qp(qp)).sq_count > 0) {
        meeting_on_work(&m->meeting, now);
        qp_meeting_note_deadline(m);
    }
}

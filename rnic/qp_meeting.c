#include "rnic/qp_meeting.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "link/mirror.h"
#include "meet/request.h"
#include "rnic/address.h"
#include "rnic/ep.h"
#include "rnic/internal.h"
#include "rnic/point.h"

static void note_deadline(struct qp_meeting *m)
{
    struct rnic *rnic = m->qp->rnic;
    deadline_arm(&rnic->meeting_deadlines, &m->deadline, meeting_next_deadline(&m->meeting));
    shard_note_deadline(&rnic->shard, deadlines_next(&rnic->meeting_deadlines));
}

/* ---- what becomes of a connection ------------------------------------------------------------ */

static void on_ep_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct rnic_qp *qp = ctx;
    struct qp_meeting *m = qp->meeting;
    if (m == NULL) {
        return;
    }
    if (event->type == RNIC_EP_ESTABLISHED) {
        meeting_on_established(&m->meeting);
    } else if (qp_stream_state(qp->qp) != QP_STREAM_IDLE) {
        meeting_on_broken(&m->meeting);
    } else {
        meeting_on_failed(&m->meeting, rnic_now(qp->rnic));
    }
    note_deadline(m);
}

static struct rnic_ep_port port_of(struct rnic_qp *qp)
{
    return (struct rnic_ep_port){.on_event = on_ep_event, .ctx = qp};
}

/* ---- the active end -------------------------------------------------------------------------- */

static int connect_once(struct qp_meeting *m, instant_ns now)
{
    struct rnic_qp *qp = m->qp;
    struct link *link = qp->rnic->shard.link;
    const struct meeting_config *with = &m->meeting.config;
    const struct rnic_ep_port port = port_of(qp);
    const struct sockaddr_storage from = address_of_octets(&with->own_addr, 0);
    const struct sockaddr_storage to =
        address_of_octets(&with->peer_addr, meeting_port_of(with->peer_qp_num));
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
    int error = link->ops->bind(link, (const struct sockaddr *)&from, 0, ep, &ep->stream);
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
    const struct rnic_ep_port port = port_of(qp);
    const struct rnic_ep_params params = {.ird = m->ird,
                                          .ord = (uint16_t)rnic_limits.max_qp_rd_atom};
    struct rnic_ep *ep = ep_create(qp->rnic, &port);
    if (ep == NULL) {
        return -ENOMEM;
    }
    const struct link_mirror_config config = {
        .on_ready = on_mirror_ready,
        .ctx = ep,
        .addr = address_of_octets(&m->meeting.config.own_addr, meeting_port_of(qp->qp_num))};
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

static bool accept_request(struct rnic_ep *ep, struct rnic_qp *qp, instant_ns now)
{
    const struct conn_params params = {.ird = qp->meeting->ird,
                                       .ord = (uint16_t)rnic_limits.max_qp_rd_atom};
    if (ep_attach(ep, qp) != 0 || conn_accept(&ep->conn, &params, now) != 0) {
        return false;
    }
    conn_listener_leave(&ep->admission);
    ep->port = port_of(qp);
    ep->listening_ep = NULL;
    ep->kept_until_ns = INSTANT_NEVER;
    ep->is_answered = true;
    ep->is_meeting = true;
    shard_run_again(&qp->rnic->shard, ep); // writes the Reply
    return true;
}

// The queue pair that the endpoint asks for, if it is of the point that was asked.
static struct rnic_qp *asked_qp(const struct rnic_ep *ep)
{
    uint32_t num = ep->asking.request.to_qp_num;
    struct rnic_qp *qp = ep->rnic->qps[num % ep->rnic->qp_slot_count];
    bool is_here = qp != NULL && qp->qp_num == num && qp->point == ep->listening_ep->point;
    return is_here ? qp : NULL;
}

static void answer(struct rnic_ep *ep, struct rnic_qp *qp, instant_ns now)
{
    struct qp_meeting *m = qp != NULL ? qp->meeting : NULL;
    const struct meeting_asked asked = {
        .is_here = qp != NULL,
        .may_be_told = qp != NULL && qp_state(qp->qp) <= QP_INIT,
        .of_it = m != NULL ? &m->meeting : NULL,
    };
    enum meeting_answer answer = meeting_answer_to(&ep->asking, &asked);
    meeting_count_answer(&ep->rnic->meeting_counters, answer);
    if (answer == MEETING_KEPT) {
        ep->kept_until_ns = instant_after(now, ep->rnic->config.mpa_timeout_ns);
    } else if (answer != MEETING_ACCEPTED) {
        ep_doom(ep, true, now);
    } else if (!accept_request(ep, qp, now)) {
        meeting_on_failed(&m->meeting, now);
        ep_doom(ep, true, now);
    }
}

void qp_meeting_on_request(struct rnic_ep *ep, struct span private_data, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    struct sockaddr_storage from;
    if (meeting_request_parse(private_data, &ep->asking.request) != MEETING_OK) {
        meeting_count_answer(&ep->rnic->meeting_counters, MEETING_REFUSED_MALFORMED);
        ep_doom(ep, true, now);
    } else if (ep->stream->link->ops->peer_addr(ep->stream, &from) != 0) {
        ep_doom(ep, true, now); // it is gone
    } else {
        ep->asking.addr = address_octets(&from);
        answer(ep, asked_qp(ep), now);
    }
}

void qp_meeting_drop_kept(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    ep->rnic->meeting_counters.kept_in_vain++;
    ep_doom(ep, true, now);
}

// Requests for the number that came before its queue pair was told of any. `qp` NULL: it goes.
static void answer_kept(struct point *point, uint32_t qp_num, struct rnic_qp *qp, instant_ns now)
{
    struct list_link *waiting = &point->ep->listener.waiting, *next;
    for (struct list_link *l = waiting->next; l != waiting; l = next) {
        struct conn_admission *admission = LIST_ENTRY(l, struct conn_admission, link);
        struct rnic_ep *ep = LIST_ENTRY(admission, struct rnic_ep, admission);
        next = l->next;
        if (ep->asking.request.to_qp_num == qp_num) {
            answer(ep, qp, now);
        }
    }
}

static int expect_request(struct qp_meeting *m, instant_ns now)
{
    struct rnic_qp *qp = m->qp;
    int error = point_listen(qp->point);
    if (error == 0) {
        answer_kept(qp->point, qp->qp_num, qp, now);
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
            qp_on_no_peer(qp->qp, now);
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
    note_deadline(m);
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
    if (qp->meeting != NULL || qp->ep != NULL || !qp_state_may_modify(qp_state(qp->qp), QP_RTR)) {
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
        qp_serve_none(qp->qp);
    }
    qp_modify(qp->qp, QP_RTR, now);
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
        answer_kept(qp->point, qp->qp_num, NULL, now);
    }
}

void qp_meeting_on_doorbell(struct rnic_qp *qp, instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    struct qp_meeting *m = qp->meeting;
    if (m != NULL && meeting_is_waiting(&m->meeting) && qp_query(qp->qp).sq_count > 0) {
        meeting_on_work(&m->meeting, now);
        note_deadline(m);
    }
}

// The passive end of a meeting: who asks a point for a queue pair, and what it is told.

#include <errno.h>

#include "base/check.h"
#include "base/port_link.h"
#include "base/sockaddr.h"
#include "iwarp/qp.h"
#include "meet/request.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"
#include "rnic/point.h"
#include "rnic/qp/meeting.h"
#include "wire/meeting.h"

static bool accept_request(struct rnic_ep *ep, struct rnic_qp *qp, instant_ns now)
{
    const struct conn_params params = {.ird = qp->meeting->ird,
                                       .ord = (uint16_t)rnic_limits.max_qp_rd_atom};
    if (ep_attach(ep, qp) != 0 || conn_accept(&ep->startup.conn, &params, now) != 0) {
        return false;
    }
    conn_listener_leave(&ep->startup.admission);
    ep->port = qp_meeting_port(qp);
    ep->startup.listening_ep = NULL;
    ep->startup.kept_until_ns = INSTANT_NEVER;
    ep->startup.is_answered = true;
    ep->is_meeting = true;
    shard_settle_later(&qp->rnic->shard, ep); // writes the Reply
    return true;
}

// The queue pair that the endpoint asks for, if it is of the point that was asked.
static struct rnic_qp *asked_qp(const struct rnic_ep *ep)
{
    uint32_t num = ep->startup.asking.request.to_qp_num;
    struct rnic_qp *qp = ep->rnic->qps[num % ep->rnic->qp_slot_count];
    bool is_here = qp != NULL && qp->qp_num == num && qp->point == ep->startup.listening_ep->point;
    return is_here ? qp : NULL;
}

static void answer(struct rnic_ep *ep, struct rnic_qp *qp, instant_ns now)
{
    struct qp_meeting *m = qp != NULL ? qp->meeting : NULL;
    const struct meeting_asked asked = {
        .is_here = qp != NULL,
        .may_be_told = qp != NULL && qp_state_of(stream_qp(qp)) <= QP_INIT,
        .of_it = m != NULL ? &m->meeting : NULL,
    };
    enum meeting_answer answer = meeting_answer_to(&ep->startup.asking, &asked);
    meeting_count_answer(&ep->rnic->meeting_counters, answer);
    if (answer == MEETING_KEPT) {
        ep->startup.kept_until_ns = instant_after(now, ep->rnic->config.mpa_timeout_ns);
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
    if (meeting_request_parse(private_data, &ep->startup.asking.request) != MEETING_OK) {
        meeting_count_answer(&ep->rnic->meeting_counters, MEETING_REFUSED_MALFORMED);
        ep_doom(ep, true, now);
    } else if (link_peer_addr(ep->stream, &from) != 0) {
        ep_doom(ep, true, now); // it is gone
    } else {
        ep->startup.asking.addr = sockaddr_octets((const struct sockaddr *)&from);
        answer(ep, asked_qp(ep), now);
    }
}

void qp_meeting_drop_kept(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    ep->rnic->meeting_counters.kept_in_vain++;
    ep_doom(ep, true, now);
}

void qp_meeting_answer_kept(struct point *point, uint32_t qp_num, struct rnic_qp *qp,
                            instant_ns now)
{
    struct list_link *waiting = &point->ep->listener.waiting, *next;
    for (struct list_link *l = waiting->next; l != waiting; l = next) {
        struct conn_admission *admission = LIST_ENTRY(l, struct conn_admission, link);
        struct rnic_ep *ep = LIST_ENTRY(admission, struct rnic_ep, startup.admission);
        next = l->next;
        if (ep->startup.asking.request.to_qp_num == qp_num) {
            answer(ep, qp, now);
        }
    }
}

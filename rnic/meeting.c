#include "rnic/meeting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/ep.h"
#include "rnic/internal.h"
#include "rnic/place.h"
#include "wire/meeting.h"

// Before the next try. Meanwhile the peer's program may bring its queue pair to where it listens.
static const duration_ns try_pause_ns = 100 * NS_PER_MS;

static void note_deadline(const struct meeting *m)
{
    shard_note_deadline(&m->qp->rnic->shard, instant_min(m->try_at_ns, m->give_up_at_ns));
}

static bool is_waiting(const struct meeting *m)
{
    return !list_is_empty(&m->link);
}

/* ---- what becomes of a connection ------------------------------------------------------------ */

static void on_ep_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct rnic_qp *qp = ctx;
    struct meeting *m = qp->meeting;
    if (m == NULL || !is_waiting(m)) {
        return;
    }
    bool is_met = event->type == RNIC_EP_ESTABLISHED;
    qp->rnic->meeting_counters.met += is_met;
    qp->rnic->meeting_counters.tries_failed += !is_met;
    if (is_met || qp_stream_state(qp->qp) != QP_STREAM_IDLE) { // or it went as far as to fail
        list_remove(&m->link);
    } else if (m->is_active) {
        m->try_at_ns = instant_after(rnic_now(qp->rnic), try_pause_ns);
        note_deadline(m);
    }
}

static struct rnic_ep_port port_of(struct rnic_qp *qp)
{
    return (struct rnic_ep_port){.on_event = on_ep_event, .ctx = qp};
}

/* ---- the active end -------------------------------------------------------------------------- */

static struct sockaddr_in inet_address(struct in_addr addr, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = addr, .sin_port = htons(port)};
}

static int connect_once(struct meeting *m, instant_ns now)
{
    struct rnic_qp *qp = m->qp;
    struct link *link = qp->rnic->shard.link;
    const struct rnic_ep_port port = port_of(qp);
    const struct sockaddr_in from = inet_address(m->with.own_addr, 0);
    const struct sockaddr_in to =
        inet_address(m->with.peer_addr, place_port_of(m->with.peer_qp_num));
    const struct meeting_request request = {.to_qp_num = m->with.peer_qp_num,
                                            .from_qp_num = qp->qp_num};
    uint8_t private_data[MEETING_REQUEST_LEN];
    const struct rnic_ep_params params = {
        .private_data = private_data,
        .private_data_len = (uint16_t)meeting_request_emit(&request, private_data),
        .ird = m->with.ird,
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

/* ---- the passive end ------------------------------------------------------------------------- */

static bool comes_from(const struct rnic_ep *ep, const struct meeting *m)
{
    struct sockaddr_storage addr;
    const struct sockaddr_in *from = (const struct sockaddr_in *)&addr;
    return ep->stream->link->ops->peer_addr(ep->stream, &addr) == 0 &&
           from->sin_family == AF_INET && from->sin_addr.s_addr == m->with.peer_addr.s_addr &&
           ep->asking.from_qp_num == m->with.peer_qp_num;
}

static void accept_request(struct rnic_ep *ep, struct rnic_qp *qp, instant_ns now)
{
    const struct conn_params params = {.ird = qp->meeting->with.ird,
                                       .ord = (uint16_t)rnic_limits.max_qp_rd_atom};
    conn_listener_leave(&ep->admission);
    if (ep_attach(ep, qp) != 0 || conn_accept(&ep->conn, &params, now) != 0) {
        ep_doom(ep, true, now);
        return;
    }
    ep->port = port_of(qp);
    ep->listening_ep = NULL;
    ep->kept_until_ns = INSTANT_NEVER;
    ep->is_answered = true;
    ep->is_meeting = true;
    shard_run_again(&qp->rnic->shard, ep); // writes the Reply
}

// NULL: it is accepted or kept. Otherwise the counter of the reason why not.
static uint64_t *judge_request(struct rnic_ep *ep, struct span private_data, instant_ns now)
{
    struct rnic *rnic = ep->rnic;
    struct meeting_counters *counters = &rnic->meeting_counters;
    if (meeting_request_parse(private_data, &ep->asking) != MEETING_OK) {
        return &counters->refused_malformed;
    }
    uint32_t num = ep->asking.to_qp_num;
    struct rnic_qp *qp = rnic->qps[num % rnic->qp_slot_count];
    if (qp == NULL || qp->qp_num != num || qp->place != ep->listening_ep->place) {
        return &counters->refused_no_queue_pair;
    }
    if (qp->meeting == NULL && qp_state(qp->qp) > QP_INIT) {
        return &counters->refused_not_expected;
    }
    if (qp->meeting == NULL) {
        counters->kept++;
        ep->kept_until_ns = instant_after(now, rnic->config.mpa_timeout_ns);
        return NULL;
    }
    if (!is_waiting(qp->meeting) || qp->meeting->is_active || !comes_from(ep, qp->meeting)) {
        return &counters->refused_other_peer;
    }
    accept_request(ep, qp, now);
    return NULL;
}

void meeting_on_request(struct rnic_ep *ep, struct span private_data, instant_ns now)
{
    uint64_t *refusal = judge_request(ep, private_data, now);
    if (refusal != NULL) {
        ++*refusal;
        ep_doom(ep, true, now);
    }
}

void meeting_drop_kept(struct rnic_ep *ep, instant_ns now)
{
    ep->rnic->meeting_counters.kept_in_vain++;
    ep_doom(ep, true, now);
}

// Requests for this queue pair that came before it was told of any: the right one is accepted.
static void answer_kept(struct rnic_qp *qp, instant_ns now)
{
    struct list_link *waiting = &qp->place->ep->listener.waiting, *next;
    for (struct list_link *l = waiting->next; l != waiting; l = next) {
        struct conn_admission *admission = LIST_ENTRY(l, struct conn_admission, link);
        struct rnic_ep *ep = LIST_ENTRY(admission, struct rnic_ep, admission);
        next = l->next;
        if (ep->asking.to_qp_num != qp->qp_num) {
            continue;
        }
        if (qp->meeting != NULL && qp->ep == NULL && comes_from(ep, qp->meeting)) {
            accept_request(ep, qp, now);
        } else {
            qp->rnic->meeting_counters.refused_other_peer++;
            ep_doom(ep, true, now);
        }
    }
}

static int expect_request(struct meeting *m, instant_ns now)
{
    int error = place_listen(m->qp->place);
    if (error == 0) {
        answer_kept(m->qp, now);
    }
    return error;
}

static void meeting_try(struct meeting *m, instant_ns now)
{
    m->try_at_ns = INSTANT_NEVER;
    int error = m->is_active ? connect_once(m, now) : expect_request(m, now);
    if (error != 0) {
        TRACE(m->qp->rnic->trace, TRACE_CONN, "qp %u: no meeting now: error %d", m->qp->qp_num,
              -error);
        m->try_at_ns = instant_after(now, try_pause_ns);
    }
    note_deadline(m);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

// Addresses as they stand in a GID. 0: a queue pair and itself.
static int order_of(const struct rnic_qp *qp, const struct rnic_meeting *with)
{
    int order = memcmp(&with->own_addr, &with->peer_addr, sizeof with->own_addr);
    return order != 0 ? order : (qp->qp_num > with->peer_qp_num) - (qp->qp_num < with->peer_qp_num);
}

int meeting_begin(struct rnic_qp *qp, const struct rnic_meeting *with, instant_ns now)
{
    int order = order_of(qp, with);
    if (qp->place == NULL) {
        return -EOPNOTSUPP;
    }
    if (qp->meeting != NULL || qp->ep != NULL || order == 0 ||
        !qp_state_may_modify(qp_state(qp->qp), QP_RTR)) {
        return -EINVAL;
    }
    struct meeting *m = malloc(sizeof *m);
    if (m == NULL) {
        return -ENOMEM;
    }
    *m = (struct meeting){
        .qp = qp, .with = *with, .is_active = order < 0, .give_up_at_ns = INSTANT_NEVER};
    list_push_tail(&qp->rnic->meetings, &m->link);
    qp->meeting = m;
    qp->rnic->meeting_counters.begun++;
    if (with->ird == 0) {
        qp_serve_none(qp->qp);
    }
    qp_modify(qp->qp, QP_RTR, now);
    meeting_try(m, now);
    return 0;
}

void meeting_end(struct rnic_qp *qp, instant_ns now)
{
    struct meeting *m = qp->meeting;
    if (m == NULL) {
        return;
    }
    bool was_waiting = is_waiting(m);
    list_remove(&m->link);
    qp->meeting = NULL;
    free(m);
    if (was_waiting && qp->ep != NULL) {
        ep_close(qp->ep, QP_CLOSE_LOCAL, true, now);
    }
}

void meeting_forget(struct rnic_qp *qp, instant_ns now)
{
    meeting_end(qp, now);
    if (qp->place != NULL && qp->place->ep->state == EP_LISTENING) {
        answer_kept(qp, now);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

void meeting_on_doorbell(struct rnic_qp *qp, instant_ns now)
{
    struct meeting *m = qp->meeting;
    if (m != NULL && is_waiting(m) && m->give_up_at_ns == INSTANT_NEVER &&
        qp_query(qp->qp).sq_count > 0) {
        m->give_up_at_ns = instant_after(now, qp->rnic->config.mpa_timeout_ns);
        note_deadline(m);
    }
}

static void give_up(struct rnic_qp *qp, instant_ns now)
{
    qp->rnic->meeting_counters.gave_up++;
    meeting_end(qp, now);
    qp_on_no_peer(qp->qp, now);
    rnic_qp_note_state(qp, now);
}

void meetings_on_deadline(struct rnic *rnic, instant_ns now)
{
    struct list_link *next;
    for (struct list_link *l = rnic->meetings.next; l != &rnic->meetings; l = next) {
        struct meeting *m = LIST_ENTRY(l, struct meeting, link);
        next = l->next;
        if (now >= m->give_up_at_ns) {
            give_up(m->qp, now);
        } else if (now >= m->try_at_ns) {
            meeting_try(m, now);
        } else {
            note_deadline(m);
        }
    }
}

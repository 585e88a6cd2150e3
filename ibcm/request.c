// REQ and SIDR_REQ: whether somebody unknown may come in. What is wrong with a message costs its
// answer alone; what is right with it is remembered, and bounded: per listener, per address, and
// for all of them together.
#include <string.h>

#include "base/check.h"
#include "base/wildcard.h"
#include "ibcm/internal.h"
#include "wire/ip_cm.h"

enum { MTU_MIN = 1, QP_NUM_PROGRAM_MIN = 2, QP_NUM_PROGRAM_MAX = 0xfffffe };

// Times that a peer may ask of us, lest it occupies a place for hours: 8.6 s.
enum { PEER_TIMEOUT_MAX = 21 };

// What came, of either kind.
struct arrival {
    const struct ibcm_letter *in;
    uint32_t id;
    uint64_t service_id;
    struct span private_data;
    struct ip_cm_header header;
    struct ibcm_listener *listener;
};

static bool is_same(const struct in6_addr *a, const struct in6_addr *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

struct ibcm_listener *ibcm_listener_find(const struct ibcm *ibcm, uint64_t service_id,
                                         const struct in6_addr *local)
{
    struct ibcm_listener *found = NULL;
    int nearest = WILDCARD_FAR;
    const struct list_link *head = &ibcm->listeners;
    for (struct list_link *l = head->next; l != head; l = l->next) {
        struct ibcm_listener *listener = LIST_ENTRY(l, struct ibcm_listener, link);
        const int nearness = wildcard_nearness(&listener->local, local);
        if (listener->service_id == service_id && nearness > nearest) {
            found = listener;
            nearest = nearness;
        }
    }
    return found;
}

/* ---- what both kinds go through; IBCM_REFUSAL_COUNT: nothing is wrong ------------------------ */

// A copy is for whichever of several listens.
static enum ibcm_refusal check_listener(struct ibcm *ibcm, struct arrival *a)
{
    a->listener = ibcm_listener_find(ibcm, a->service_id, &a->in->ends->local);
    if (a->listener != NULL) {
        return IBCM_REFUSAL_COUNT;
    }
    return a->in->sharing == IBCM_SHARING_COPY ? IBCM_REFUSAL_ELSEWHERE : IBCM_REFUSAL_NO_LISTENER;
}

static enum ibcm_refusal check_header(struct arrival *a)
{
    if (ip_cm_header_parse(a->private_data, &a->header) != IP_CM_OK) {
        return IBCM_REFUSAL_IP_HEADER;
    }
    bool is_of_packet = is_same(&a->header.source, &a->in->ends->remote) &&
                        is_same(&a->header.destination, &a->in->ends->local);
    return is_of_packet ? IBCM_REFUSAL_COUNT : IBCM_REFUSAL_IP_ADDRESS;
}

static enum ibcm_refusal check_room(const struct ibcm *ibcm, const struct arrival *a)
{
    uint32_t max = ibcm->config.source_max;
    if (ibcm_half_open_of(ibcm, &a->in->ends->remote, max) >= max) {
        return IBCM_REFUSAL_SOURCE_FULL;
    }
    return a->listener->waiting_count < a->listener->backlog ? IBCM_REFUSAL_COUNT
                                                             : IBCM_REFUSAL_BACKLOG_FULL;
}

// The oldest half-open one goes if there are too many of them.
static struct ibcm_conn *take_or_evict(struct ibcm *ibcm, const struct arrival *a)
{
    if (ibcm->half_open_count >= ibcm->config.half_open_max) {
        struct list_link *oldest = ibcm->half_open.next;
        ibcm->counters.evicted++;
        CHECK(!list_is_empty(&ibcm->half_open));
        bool has_left = ibcm_step(ibcm, LIST_ENTRY(oldest, struct ibcm_conn, half_link),
                                  IBCM_IN_EVICTED, NULL, a->in->now);
        CHECK(has_left);
    }
    return ibcm_conn_take(ibcm, a->in->ends);
}

// A place for it, put before its listener; NULL: there is none.
static struct ibcm_conn *admit(struct ibcm *ibcm, const struct arrival *a)
{
    struct ibcm_conn *conn = take_or_evict(ibcm, a);
    if (conn == NULL) {
        return NULL;
    }
    conn->remote_id = a->id;
    conn->transaction_id = a->in->m->transaction_id;
    conn->service_id = a->service_id;
    conn->theirs.source_port = a->header.source_port;
    conn->listener = a->listener;
    conn->ctx = a->listener->ctx;
    a->listener->waiting_count++;
    list_push_tail(&a->listener->waiting, &conn->waiting_link);
    ibcm_conn_keep(conn, span_skip(a->private_data, IP_CM_HEADER_LEN));
    return conn;
}

/* ---- REQ ------------------------------------------------------------------------------------- */

static enum ibcm_refusal check_req(const struct ibcm *ibcm, const struct arrival *a,
                                   const struct ibcm_req *req)
{
    if (req->transport != IBCM_TRANSPORT_RC && req->transport != IBCM_TRANSPORT_UC) {
        return IBCM_REFUSAL_TRANSPORT;
    }
    if (req->qp_num < QP_NUM_PROGRAM_MIN || req->qp_num > QP_NUM_PROGRAM_MAX) {
        return IBCM_REFUSAL_QP_NUM;
    }
    if (req->path_mtu < MTU_MIN || req->path_mtu > ibcm->config.path_mtu_max) {
        return IBCM_REFUSAL_MTU;
    }
    bool is_of_packet = is_same(&req->primary.local_gid, &a->in->ends->remote) &&
                        is_same(&req->primary.remote_gid, &a->in->ends->local);
    return is_of_packet ? IBCM_REFUSAL_COUNT : IBCM_REFUSAL_GID;
}

// A queue pair has one connection: if it asks for another one, the peer has forgotten the first.
static enum ibcm_refusal check_stale(struct ibcm *ibcm, const struct arrival *a,
                                     const struct ibcm_req *req)
{
    struct ibcm_conn *old = ibcm_conn_by_qp(ibcm, req->qp_num, req->ca_guid, &a->in->ends->remote);
    if (old == NULL) {
        return IBCM_REFUSAL_COUNT;
    }
    ibcm_step(ibcm, old, IBCM_IN_STALE, NULL, a->in->now);
    return IBCM_REFUSAL_STALE;
}

static enum ibcm_refusal check_all(struct ibcm *ibcm, struct arrival *a, const struct ibcm_req *req)
{
    enum ibcm_refusal refusal = check_listener(ibcm, a);
    if (refusal == IBCM_REFUSAL_COUNT) {
        refusal = check_req(ibcm, a, req);
    }
    if (refusal == IBCM_REFUSAL_COUNT) {
        refusal = check_header(a);
    }
    if (refusal == IBCM_REFUSAL_COUNT) {
        refusal = check_stale(ibcm, a, req);
    }
    if (refusal == IBCM_REFUSAL_COUNT) {
        refusal = check_room(ibcm, a);
    }
    return refusal;
}

static void refuse_req(struct ibcm *ibcm, const struct arrival *a, enum ibcm_refusal refusal)
{
    static const enum ibcm_reason reasons[IBCM_REFUSAL_COUNT] = {
        [IBCM_REFUSAL_NO_LISTENER] = IBCM_REASON_INVALID_SERVICE_ID,
        [IBCM_REFUSAL_TRANSPORT] = IBCM_REASON_INVALID_TRANSPORT,
        [IBCM_REFUSAL_QP_NUM] = IBCM_REASON_NO_QP,
        [IBCM_REFUSAL_MTU] = IBCM_REASON_INVALID_MTU,
        [IBCM_REFUSAL_GID] = IBCM_REASON_INVALID_GID,
        [IBCM_REFUSAL_IP_HEADER] = IBCM_REASON_UNSUPPORTED,
        [IBCM_REFUSAL_IP_ADDRESS] = IBCM_REASON_UNSUPPORTED,
        [IBCM_REFUSAL_DUPLICATE_ID] = IBCM_REASON_DUPLICATE_ID,
        [IBCM_REFUSAL_STALE] = IBCM_REASON_STALE,
        [IBCM_REFUSAL_SOURCE_FULL] = IBCM_REASON_NO_RESOURCES,
        [IBCM_REFUSAL_BACKLOG_FULL] = IBCM_REASON_NO_RESOURCES,
        [IBCM_REFUSAL_TABLE_FULL] = IBCM_REASON_NO_RESOURCES,
    };
    ibcm_refuse(ibcm, refusal);
    if (reasons[refusal] != 0) {
        const struct ibcm_rej rej = {
            .remote_id = a->id,
            .subject = IBCM_SUBJECT_REQ,
            .reason = (uint16_t)reasons[refusal],
        };
        ibcm_answer_rej(ibcm, a->in->ends, a->in->m->transaction_id, &rej, a->in->now);
    }
}

// What the REQ says of the peer, and of the connection.
// Until the owner says less, our end is as the peer's allows it: who makes a queue pair ready
// before accepting has to know.
static void learn(struct ibcm *ibcm, struct ibcm_conn *conn, const struct ibcm_req *req)
{
    uint8_t patience =
        req->local_timeout > req->remote_timeout ? req->local_timeout : req->remote_timeout;
    conn->theirs.qp_num = req->qp_num;
    conn->theirs.qkey = req->qkey;
    conn->theirs.starting_psn = req->starting_psn;
    conn->theirs.responder_resources = req->responder_resources;
    conn->theirs.initiator_depth = req->initiator_depth;
    conn->theirs.rnr_retry_count = req->rnr_retry_count;
    conn->theirs.retry_count = req->retry_count;
    conn->theirs.has_flow_control = req->has_flow_control;
    conn->theirs.has_srq = req->has_srq;
    conn->theirs.ca_guid = req->ca_guid;
    conn->ours.transport = req->transport;
    conn->ours.responder_resources = req->initiator_depth;
    conn->ours.initiator_depth = req->responder_resources;
    conn->ours.path_mtu = req->path_mtu;
    conn->ours.ack_timeout = req->primary.local_ack_timeout;
    conn->ours.traffic_class = req->primary.traffic_class;
    conn->ours.hop_limit = req->primary.hop_limit;
    conn->ours.flow_label = req->primary.flow_label;
    conn->starting_psn = (uint32_t)ibcm_draw(ibcm) & 0xffffff;
    conn->retry_count = req->retry_count;
    conn->tries_max = req->max_cm_retries;
    conn->response_ns = 2 * ib_time_ns(ibcm->config.packet_lifetime) +
                        ib_time_ns(patience < PEER_TIMEOUT_MAX ? patience : PEER_TIMEOUT_MAX);
}

// True: it is known, and answered as such.
static bool is_known(struct ibcm *ibcm, const struct arrival *a, const struct ibcm_req *req)
{
    struct ibcm_conn *conn = ibcm_conn_by_remote(ibcm, a->id, &a->in->ends->remote, false);
    if (conn == NULL) {
        return false;
    }
    bool is_again = !conn->is_active && conn->theirs.qp_num == req->qp_num &&
                    conn->theirs.ca_guid == req->ca_guid && conn->service_id == a->service_id &&
                    is_same(&conn->ends.local, &a->in->ends->local);
    if (!is_again) {
        refuse_req(ibcm, a, IBCM_REFUSAL_DUPLICATE_ID);
    } else if (!ibcm_step(ibcm, conn, IBCM_IN_REQ_AGAIN, NULL, a->in->now)) {
        ibcm_refuse(ibcm, IBCM_REFUSAL_UNEXPECTED);
    }
    return true;
}

void ibcm_on_req(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_req *req = &in->m->req;
    struct arrival a = {in, req->local_id, req->service_id, req->private_data};
    if (is_known(ibcm, &a, req)) {
        return;
    }
    enum ibcm_refusal refusal = check_all(ibcm, &a, req);
    struct ibcm_conn *conn = refusal == IBCM_REFUSAL_COUNT ? admit(ibcm, &a) : NULL;
    if (conn == NULL) {
        refuse_req(ibcm, &a, refusal == IBCM_REFUSAL_COUNT ? IBCM_REFUSAL_TABLE_FULL : refusal);
        return;
    }
    learn(ibcm, conn, req);
    ibcm_step(ibcm, conn, IBCM_IN_REQ, NULL, in->now);
}

/* ---- SIDR_REQ -------------------------------------------------------------------------------- */

static void refuse_sidr_req(struct ibcm *ibcm, const struct arrival *a,
                            const struct ibcm_sidr_req *req, enum ibcm_refusal refusal)
{
    ibcm_refuse(ibcm, refusal);
    if (refusal != IBCM_REFUSAL_ELSEWHERE) {
        enum ibcm_sidr_status status =
            refusal == IBCM_REFUSAL_NO_LISTENER ? IBCM_SIDR_UNSUPPORTED : IBCM_SIDR_REJECTED;
        ibcm_answer_sidr_rep(ibcm, a->in->ends, a->in->m->transaction_id, req, status, a->in->now);
    }
}

static enum ibcm_refusal check_sidr_req(struct ibcm *ibcm, struct arrival *a)
{
    enum ibcm_refusal refusal = check_listener(ibcm, a);
    if (refusal == IBCM_REFUSAL_COUNT) {
        refusal = check_header(a);
    }
    return refusal == IBCM_REFUSAL_COUNT ? check_room(ibcm, a) : refusal;
}

void ibcm_on_sidr_req(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_sidr_req *req = &in->m->sidr_req;
    struct arrival a = {in, req->id, req->service_id, req->private_data};
    struct ibcm_conn *conn = ibcm_conn_by_remote(ibcm, a.id, &in->ends->remote, true);
    if (conn != NULL) {
        if (!ibcm_step(ibcm, conn, IBCM_IN_SIDR_REQ_AGAIN, NULL, in->now)) {
            ibcm_refuse(ibcm, IBCM_REFUSAL_UNEXPECTED);
        }
        return;
    }
    enum ibcm_refusal refusal = check_sidr_req(ibcm, &a);
    conn = refusal == IBCM_REFUSAL_COUNT ? admit(ibcm, &a) : NULL;
    if (conn == NULL) {
        refusal = refusal == IBCM_REFUSAL_COUNT ? IBCM_REFUSAL_TABLE_FULL : refusal;
        refuse_sidr_req(ibcm, &a, req, refusal);
        return;
    }
    conn->is_datagram = true;
    conn->response_ns =
        2 * ib_time_ns(ibcm->config.packet_lifetime) + ib_time_ns(ibcm->config.response_timeout);
    ibcm_step(ibcm, conn, IBCM_IN_SIDR_REQ, NULL, in->now);
}

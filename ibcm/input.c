// What arrives: whose it is, and what the connection learns from it. A message is a connection's if
// it names our id, comes from where the connection leads, and names the peer's id as it is known.
#include <string.h>

#include "base/check.h"
#include "base/trace.h"
#include "ibcm/internal.h"

// Times that a peer may ask of us by MRA: 69 s for a REQ. For a REP 8.6 s: its RTU may be lost, and
// a peer that is ready tells so when the REP comes again.
enum { PEER_SERVICE_MAX = 24, PEER_SERVICE_OF_REP_MAX = 21 };

enum { UNSERVED_MAX = 5 }; // 62 ms and the ways there

static bool is_between(const struct ibcm_conn *conn, const struct ibcm_ends *ends)
{
    return memcmp(&conn->ends.local, &ends->local, sizeof ends->local) == 0 &&
           memcmp(&conn->ends.remote, &ends->remote, sizeof ends->remote) == 0;
}

// The connection with these ids, theirs and ours; NULL with a refusal. Theirs may be 0 where the
// peer has none.
static struct ibcm_conn *conn_find(struct ibcm *ibcm, const struct ibcm_ends *ends, uint32_t theirs,
                                   uint32_t ours, bool is_datagram, enum ibcm_refusal *ret)
{
    struct ibcm_conn *conn = ibcm_conn_by_id(ibcm, ours);
    if (ours >> IBCM_ID_SLOT_SHIFT != ibcm->config.id_slot) {
        *ret = IBCM_REFUSAL_OTHER_SLOT;
    } else if (conn == NULL || conn->is_datagram != is_datagram) {
        *ret = IBCM_REFUSAL_UNKNOWN_ID;
    } else if (!is_between(conn, ends)) {
        *ret = IBCM_REFUSAL_WRONG_ADDRESS;
    } else if (conn->remote_id != 0 && theirs != 0 && conn->remote_id != theirs) {
        *ret = IBCM_REFUSAL_WRONG_ID;
    } else {
        return conn;
    }
    return NULL;
}

static void step(struct ibcm *ibcm, struct ibcm_conn *conn, enum ibcm_input input,
                 const struct ibcm_said *said, instant_ns now)
{
    if (!ibcm_step(ibcm, conn, input, said, now)) {
        ibcm_refuse(ibcm, IBCM_REFUSAL_UNEXPECTED);
    }
}

// Asked before anything of a message is taken down: what the state has no room for changes nothing.
static bool is_expected(struct ibcm *ibcm, const struct ibcm_conn *conn, enum ibcm_input input)
{
    bool is_so = ibcm_state_edge(conn->state, input)->next != IBCM_NO_STATE;
    if (!is_so) {
        ibcm_refuse(ibcm, IBCM_REFUSAL_UNEXPECTED);
    }
    return is_so;
}

// Only what is told of is kept.
static void keep_if_told(struct ibcm_conn *conn, enum ibcm_input input, struct span private_data)
{
    if (ibcm_state_edge(conn->state, input)->event != IBCM_EVENT_NONE) {
        ibcm_conn_keep(conn, private_data);
    }
}

/* ---- one function per message ---------------------------------------------------------------- */

static void on_mra(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_mra *mra = &in->m->mra;
    enum ibcm_refusal refusal;
    struct ibcm_conn *conn =
        conn_find(ibcm, in->ends, mra->local_id, mra->remote_id, false, &refusal);
    if (conn == NULL) {
        ibcm_refuse(ibcm, refusal);
        return;
    }
    if (mra->subject != (conn->is_active ? IBCM_SUBJECT_REQ : IBCM_SUBJECT_REP)) {
        ibcm_refuse(ibcm, IBCM_REFUSAL_UNEXPECTED);
        return;
    }
    if (!is_expected(ibcm, conn, IBCM_IN_MRA)) {
        return;
    }
    const uint8_t code = mra->service_timeout;
    const uint8_t most = conn->is_active ? PEER_SERVICE_MAX : PEER_SERVICE_OF_REP_MAX;
    conn->service_ns = ib_time_ns(code < most ? code : most);
    step(ibcm, conn, IBCM_IN_MRA, NULL, in->now);
}

static struct ibcm_conn *conn_rejected(struct ibcm *ibcm, const struct ibcm_letter *in,
                                       enum ibcm_refusal *ret)
{
    const struct ibcm_rej *rej = &in->m->rej;
    if (rej->remote_id != 0) {
        return conn_find(ibcm, in->ends, rej->local_id, rej->remote_id, false, ret);
    }
    // The peer has given up before it heard of our id.
    struct ibcm_conn *conn = ibcm_conn_by_remote(ibcm, rej->local_id, &in->ends->remote, false);
    *ret = IBCM_REFUSAL_UNKNOWN_ID;
    return conn != NULL && is_between(conn, in->ends) ? conn : NULL;
}

// Programs ask others to come a moment before they listen for them (perftest's do, between its two
// connections): a few such answers are borne.
static bool is_borne(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    if (conn->unserved == UNSERVED_MAX ||
        ibcm_state_edge(conn->state, IBCM_IN_UNSERVED)->next == IBCM_NO_STATE) {
        return false;
    }
    conn->unserved++;
    return ibcm_step(ibcm, conn, IBCM_IN_UNSERVED, NULL, now);
}

// A REJ of the REQ behind the REP was said to a copy of the REQ, by whoever found it first. Linux
// looks for an id then that has heard of nobody yet (cm_acquire_rejected_id of its cm.c).
static bool is_of_a_copy(const struct ibcm_conn *conn, const struct ibcm_rej *rej)
{
    return rej->subject == IBCM_SUBJECT_REQ && rej->reason != IBCM_REASON_TIMEOUT &&
           conn->remote_id != 0;
}

static void on_rej(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_rej *rej = &in->m->rej;
    enum ibcm_refusal refusal;
    struct ibcm_conn *conn = conn_rejected(ibcm, in, &refusal);
    if (conn == NULL) {
        ibcm_refuse(ibcm, refusal);
        return;
    }
    if (is_of_a_copy(conn, rej)) {
        ibcm_refuse(ibcm, IBCM_REFUSAL_UNEXPECTED);
        return;
    }
    if (rej->reason == IBCM_REASON_INVALID_SERVICE_ID && is_borne(ibcm, conn, in->now)) {
        return;
    }
    const struct ibcm_said said = {.reason = rej->reason};
    keep_if_told(conn, IBCM_IN_REJ, rej->private_data);
    step(ibcm, conn, IBCM_IN_REJ, &said, in->now);
}

// The first REP says who the peer is.
static void learn(struct ibcm *ibcm, struct ibcm_conn *conn, const struct ibcm_rep *rep,
                  instant_ns now)
{
    struct ibcm_conn *old = ibcm_conn_by_qp(ibcm, rep->qp_num, rep->ca_guid, &conn->ends.remote);
    if (old != NULL) {
        ibcm_step(ibcm, old, IBCM_IN_STALE, NULL, now);
    }
    conn->remote_id = rep->local_id;
    conn->theirs = (struct ibcm_peer){
        .qp_num = rep->qp_num,
        .qkey = rep->qkey,
        .starting_psn = rep->starting_psn,
        .responder_resources = rep->responder_resources,
        .initiator_depth = rep->initiator_depth,
        .rnr_retry_count = rep->rnr_retry_count,
        .has_flow_control = rep->has_flow_control,
        .has_srq = rep->has_srq,
        .ca_guid = rep->ca_guid,
    };
}

// An id of no connection here. It may be another process's by its slot: that has been asked before
// (ibcm/owner.c), and has ended.
static bool is_of_nobody(enum ibcm_refusal refusal)
{
    return refusal == IBCM_REFUSAL_UNKNOWN_ID || refusal == IBCM_REFUSAL_OTHER_SLOT;
}

static void on_rep(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_rep *rep = &in->m->rep;
    enum ibcm_refusal refusal = IBCM_REFUSAL_UNEXPECTED;
    struct ibcm_conn *conn =
        conn_find(ibcm, in->ends, rep->local_id, rep->remote_id, false, &refusal);
    if (conn == NULL || !conn->is_active) {
        ibcm_refuse(ibcm, refusal);
        if (is_of_nobody(refusal)) {
            const struct ibcm_rej rej = {.local_id = rep->remote_id,
                                         .remote_id = rep->local_id,
                                         .subject = IBCM_SUBJECT_REP,
                                         .reason = IBCM_REASON_INVALID_ID};
            ibcm_answer_rej(ibcm, in->ends, in->m->transaction_id, &rej, in->now);
        }
        return;
    }
    if (ibcm_state_edge(conn->state, IBCM_IN_REP)->event != IBCM_EVENT_NONE) {
        learn(ibcm, conn, rep, in->now);
        ibcm_conn_keep(conn, rep->private_data);
    }
    step(ibcm, conn, IBCM_IN_REP, NULL, in->now);
}

static void on_ids(struct ibcm *ibcm, const struct ibcm_letter *in, enum ibcm_input input)
{
    const struct ibcm_ids *ids = &in->m->ids;
    enum ibcm_refusal refusal;
    struct ibcm_conn *conn =
        conn_find(ibcm, in->ends, ids->local_id, ids->remote_id, false, &refusal);
    if (conn == NULL) {
        ibcm_refuse(ibcm, refusal);
    } else if (input == IBCM_IN_RTU && conn->is_active) {
        ibcm_refuse(ibcm, IBCM_REFUSAL_UNEXPECTED);
    } else {
        step(ibcm, conn, input, NULL, in->now);
    }
}

static void on_dreq(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_dreq *dreq = &in->m->dreq;
    enum ibcm_refusal refusal = IBCM_REFUSAL_WRONG_QP_NUM;
    struct ibcm_conn *conn =
        conn_find(ibcm, in->ends, dreq->local_id, dreq->remote_id, false, &refusal);
    if (conn == NULL || dreq->remote_qp_num != conn->ours.qp_num) {
        ibcm_refuse(ibcm, refusal);
        if (is_of_nobody(refusal)) {
            ibcm_answer_drep(ibcm, in->ends, in->m->transaction_id, dreq, in->now);
        }
        return;
    }
    if (!is_expected(ibcm, conn, IBCM_IN_DREQ)) {
        return;
    }
    conn->transaction_id = in->m->transaction_id;
    conn->remote_id = conn->remote_id != 0 ? conn->remote_id : dreq->local_id;
    step(ibcm, conn, IBCM_IN_DREQ, NULL, in->now);
}

static void on_sidr_rep(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    const struct ibcm_sidr_rep *rep = &in->m->sidr_rep;
    enum ibcm_refusal refusal = IBCM_REFUSAL_UNEXPECTED;
    struct ibcm_conn *conn = conn_find(ibcm, in->ends, 0, rep->id, true, &refusal);
    if (conn == NULL || !conn->is_active || rep->service_id != conn->service_id) {
        ibcm_refuse(ibcm, refusal);
        return;
    }
    if (rep->status == IBCM_SIDR_UNSUPPORTED && is_borne(ibcm, conn, in->now)) {
        return;
    }
    enum ibcm_input input = rep->status == IBCM_SIDR_OK ? IBCM_IN_SIDR_REP : IBCM_IN_SIDR_REFUSED;
    const struct ibcm_said said = {.reason = rep->status};
    conn->theirs.qp_num = rep->qp_num;
    conn->theirs.qkey = rep->qkey;
    keep_if_told(conn, input, rep->private_data);
    step(ibcm, conn, input, &said, in->now);
}

/* ---- the door -------------------------------------------------------------------------------- */

static void dispatch(struct ibcm *ibcm, const struct ibcm_letter *in)
{
    switch (in->m->kind) {
    case IBCM_REQ:
        ibcm_on_req(ibcm, in);
        break;
    case IBCM_MRA:
        on_mra(ibcm, in);
        break;
    case IBCM_REJ:
        on_rej(ibcm, in);
        break;
    case IBCM_REP:
        on_rep(ibcm, in);
        break;
    case IBCM_RTU:
        on_ids(ibcm, in, IBCM_IN_RTU);
        break;
    case IBCM_DREQ:
        on_dreq(ibcm, in);
        break;
    case IBCM_DREP:
        on_ids(ibcm, in, IBCM_IN_DREP);
        break;
    case IBCM_SIDR_REQ:
        ibcm_on_sidr_req(ibcm, in);
        break;
    case IBCM_SIDR_REP:
        on_sidr_rep(ibcm, in);
        break;
    case IBCM_KIND_COUNT:
        break;
    }
}

int ibcm_on_mad(struct ibcm *ibcm, const struct ibcm_ends *ends, struct span mad,
                enum ibcm_sharing sharing, instant_ns now)
{
    struct ibcm_message m;
    char line[400];
    enum ibcm_parse_verdict verdict = ibcm_message_parse(mad, &m);
    if (verdict != IBCM_PARSE_OK) {
        ibcm->counters.malformed[verdict]++;
        return IBCM_OWNER_HERE;
    }
    const struct ibcm_letter in = {ends, &m, sharing, now};
    const int owner = sharing == IBCM_SHARING_FIRST ? ibcm_owner(ibcm, &in) : IBCM_OWNER_HERE;
    if (owner != IBCM_OWNER_HERE) {
        ibcm->counters.handed_on++;
        return owner;
    }
    ibcm->counters.received[m.kind]++;
    TRACE(ibcm->config.trace, TRACE_CONN, "< %s", ibcm_message_format(&m, line, sizeof line));
    dispatch(ibcm, &in);
    return owner;
}

// Connections as the fronts hold them: the connection manager's events, and what they make of queue
// pairs.

#include <errno.h>
#include <stdlib.h>

#include "base/transport.h"
#include "ibcm/ibcm.h"
#include "ibcm/state.h"
#include "rnic/connect.h"
#include "rnic/internal.h"
#include "rnic/journal.h"
#include "rnic/packet/cm.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"
#include "wq/wq.h"

/* ---- queue pairs ----------------------------------------------------------------------------- */

static int move(struct rnic_qp *qp, const struct qp_change *change, instant_ns now)
{
    const struct transport_ops *ops = qp->transport->ops;
    int error = ops->modify(qp->transport, change, now);
    if (error == 0) {
        journal_packets(qp, change);
        packet_posted(qp, now); // what was posted before may go now, or comes back
    }
    return error;
}

// As was agreed: ready to receive, then to send.
int packet_conn_begin(const struct rnic_conn *conn, instant_ns now)
{
    const struct ibcm_agreement a = ibcm_conn_agreement(conn->cm);
    const struct ibcm_ends ends = ibcm_conn_ends(conn->cm);
    const struct qp_change to_receive = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU | QP_CHANGE_DEST_QP_NUM |
                QP_CHANGE_RQ_PSN | QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
        .state = QP_RTR,
        .path = {.local = ends.local,
                 .remote = ends.remote,
                 .scope_id = ends.scope_id,
                 .flow_label = a.flow_label,
                 .traffic_class = a.traffic_class,
                 .hop_limit = a.hop_limit},
        .path_mtu = (uint32_t)PACKET_MTU_MIN << (a.path_mtu - 1),
        .dest_qp_num = a.dest_qp_num,
        .rq_psn = a.rq_psn,
        .max_dest_rd_atomic = a.max_dest_rd_atomic,
        .min_rnr_timer = RNIC_CONN_MIN_RNR_TIMER,
    };
    const struct qp_change to_send = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT |
                QP_CHANGE_RNR_RETRY_COUNT | QP_CHANGE_SQ_PSN | QP_CHANGE_MAX_RD_ATOMIC,
        .state = QP_RTS,
        .timeout = a.ack_timeout,
        .retry_count = a.retry_count,
        .rnr_retry_count = a.rnr_retry_count,
        .sq_psn = a.sq_psn,
        .max_rd_atomic = a.max_rd_atomic,
    };
    int error = move(conn->qp, &to_receive, now);
    return error == 0 ? move(conn->qp, &to_send, now) : error;
}

void packet_conn_end(struct rnic_conn *conn, instant_ns now)
{
    const struct qp_change to_error = {.mask = QP_CHANGE_STATE, .state = QP_ERR};
    if (conn->qp != NULL) {
        move(conn->qp, &to_error, now);
    }
}

bool packet_conn_is_left_waiting(const struct rnic_conn *conn)
{
    return conn->qp != NULL && conn->is_left && wq_send_count(conn->qp->wq) > 0;
}

void packet_conn_detach(struct rnic_conn *conn)
{
    if (conn->qp != NULL) {
        conn->qp->on_packets.conn = NULL;
        conn->qp = NULL;
    }
}

int packet_conn_attach(struct rnic_conn *conn, struct rnic_qp *qp)
{
    const bool is_ready = qp->transport->ops->state(qp->transport) == QP_INIT;
    if (qp->rnic != conn->rnic || qp->on_packets.conn != NULL || !is_ready) {
        return -EINVAL;
    }
    conn->qp = qp;
    qp->on_packets.conn = conn;
    return 0;
}

void packet_conn_forget(struct rnic_qp *qp)
{
    if (qp->on_packets.conn != NULL) {
        packet_conn_detach(qp->on_packets.conn);
    }
}

/* ---- made and ended -------------------------------------------------------------------------- */

struct rnic_conn *packet_conn_create(struct rnic *rnic, const struct rnic_conn_port *events)
{
    struct rnic_conn *conn = calloc(1, sizeof *conn);
    if (conn != NULL) {
        conn->rnic = rnic;
        conn->events = *events;
    }
    return conn;
}

void packet_conn_free(struct rnic_conn *conn)
{
    packet_conn_detach(conn);
    free(conn);
}

/* ---- what the connection manager tells ------------------------------------------------------- */

static void tell(struct rnic_conn *conn, const struct ibcm_event *e, int error)
{
    const struct rnic_conn_event event = {.what = e, .conn = conn, .error = error};
    conn->events.on_event(conn->events.ctx, &event);
}

// Who is not taken by the listener's owner is let go, which refuses it.
static void on_request(struct packet_cm *cm, struct rnic_conn *listening,
                       const struct ibcm_event *e, instant_ns now)
{
    struct rnic_conn_port events = {0};
    struct rnic_conn *conn = packet_conn_create(listening->rnic, &events);
    const struct rnic_conn_event event = {
        .what = e, .conn = listening, .new_conn = conn, .new_conn_port = &events};
    if (conn == NULL) {
        ibcm_drop(cm->ibcm, e->conn, now);
        return;
    }
    conn->cm = e->conn;
    ibcm_conn_set_ctx(conn->cm, conn);
    listening->events.on_event(listening->events.ctx, &event);
    conn->events = events;
    if (events.on_event == NULL) {
        ibcm_drop(cm->ibcm, conn->cm, now);
        packet_conn_free(conn);
    }
}

// With a queue pair of ours nobody needs to be asked.
static void on_response(struct packet_cm *cm, struct rnic_conn *conn, const struct ibcm_event *e,
                        instant_ns now)
{
    if (conn->qp == NULL) {
        tell(conn, e, 0);
        return;
    }
    const int error = packet_conn_begin(conn, now);
    if (error == 0) {
        ibcm_establish(cm->ibcm, conn->cm, now);
        return;
    }
    struct ibcm_event refused = *e;
    refused.type = IBCM_EVENT_REJECTED;
    refused.reason = IBCM_REASON_NO_QP; // the program has moved it elsewhere
    ibcm_reject(cm->ibcm, conn->cm, IBCM_REASON_NO_QP, (struct span){0}, now);
    packet_conn_end(conn, now);
    tell(conn, &refused, error);
}

// The peer's DREQ may overtake what was sent and acknowledged before, and a program may go on with
// what it has received: so the queue pair is left to who has taken DISCONNECTED, as in Linux's
// cma_ib_handler (cma.c). A program that only polls hears of the end by its receives alone.
static void on_timewait_exit(struct rnic_conn *conn, instant_ns now)
{
    if (!conn->is_end_taken) {
        packet_conn_end(conn, now);
    }
}

static void on_event(struct packet_cm *cm, const struct ibcm_event *e, instant_ns now)
{
    struct rnic_conn *conn = e->ctx;
    switch (e->type) {
    case IBCM_EVENT_CONNECT_REQUEST:
        on_request(cm, conn, e, now);
        return;
    case IBCM_EVENT_CONNECT_RESPONSE:
        on_response(cm, conn, e, now);
        return;
    case IBCM_EVENT_DISCONNECTED:
        conn->is_left = true;
        break;
    case IBCM_EVENT_TIMEWAIT_EXIT:
        on_timewait_exit(conn, now);
        break;
    default:
        break;
    }
    conn->awaits_rtu = false;
    tell(conn, e, 0);
}

void packet_conns_settle(struct shard *shard, instant_ns now)
{
    struct packet_cm *cm = &shard->packets.cm;
    struct ibcm_event e;
    while (ibcm_next_event(cm->ibcm, &e)) {
        on_event(cm, &e, now);
    }
    shard_note_deadline(shard, ibcm_next_deadline(cm->ibcm));
}

void packet_conn_on_packet(struct rnic_conn *conn, const struct datagram_rx *rx, instant_ns now)
{
    const struct ibcm_ends ends = ibcm_conn_ends(conn->cm);
    if (IN6_ARE_ADDR_EQUAL(&ends.local, &rx->local) &&
        IN6_ARE_ADDR_EQUAL(&ends.remote, &rx->remote)) {
        ibcm_on_communication(conn->rnic->shard.packets.cm.ibcm, conn->cm, now);
    }
}

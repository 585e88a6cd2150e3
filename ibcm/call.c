// What the owners say of their connections.
#include <errno.h>

#include "base/check.h"
#include "ibcm/internal.h"
#include "wire/ip_cm.h"

enum { MTU_MIN = 1 };

static uint8_t smaller_of(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

static struct ibcm_conn *begin(struct ibcm *ibcm, const struct ibcm_target *target, void *ctx)
{
    struct ibcm_conn *conn = ibcm_conn_take(ibcm, &target->ends);
    if (conn == NULL) {
        return NULL;
    }
    conn->is_active = true;
    conn->ctx = ctx;
    conn->transaction_id = ibcm_draw(ibcm);
    conn->service_id = ip_cm_service_id(target->ps, target->port);
    conn->source_port = target->source_port;
    conn->tries_max = ibcm->config.max_cm_retries;
    conn->response_ns =
        2 * ib_time_ns(ibcm->config.packet_lifetime) + ib_time_ns(ibcm->config.response_timeout);
    return conn;
}

struct ibcm_conn *ibcm_connect(struct ibcm *ibcm, const struct ibcm_target *target,
                               const struct ibcm_params *params, void *ctx, instant_ns now,
                               int *ret_error)
{
    bool is_mtu_good = params->path_mtu >= MTU_MIN && params->path_mtu <= ibcm->config.path_mtu_max;
    *ret_error = -EINVAL;
    if (params->private_data.len > IBCM_CONNECT_DATA_MAX || !is_mtu_good) {
        return NULL;
    }
    *ret_error = -EAGAIN;
    struct ibcm_conn *conn = begin(ibcm, target, ctx);
    if (conn == NULL) {
        return NULL;
    }
    *ret_error = 0;
    conn->ours = *params;
    conn->ours.private_data = (struct span){0};
    conn->starting_psn = (uint32_t)ibcm_draw(ibcm) & 0xffffff;
    conn->retry_count = params->retry_count;
    if (params->ack_timeout == 0) {
        conn->ours.ack_timeout = (uint8_t)(ibcm->config.packet_lifetime + 1); // there and back
    }
    const struct ibcm_said said = {.private_data = params->private_data};
    ibcm_step(ibcm, conn, IBCM_IN_CONNECT, &said, now);
    return conn;
}

struct ibcm_conn *ibcm_resolve(struct ibcm *ibcm, const struct ibcm_target *target,
                               struct span private_data, void *ctx, instant_ns now, int *ret_error)
{
    *ret_error = -EINVAL;
    if (private_data.len > IBCM_RESOLVE_DATA_MAX) {
        return NULL;
    }
    *ret_error = -EAGAIN;
    struct ibcm_conn *conn = begin(ibcm, target, ctx);
    if (conn == NULL) {
        return NULL;
    }
    *ret_error = 0;
    conn->is_datagram = true;
    const struct ibcm_said said = {.private_data = private_data};
    ibcm_step(ibcm, conn, IBCM_IN_RESOLVE, &said, now);
    return conn;
}

// Our end as it will be: never more than the peer offers, and the path as the REQ has it.
static struct ibcm_params agree(const struct ibcm_conn *conn, const struct ibcm_params *params)
{
    struct ibcm_params ours = conn->ours;
    ours.qp_num = params->qp_num;
    ours.qkey = params->qkey;
    ours.responder_resources =
        smaller_of(params->responder_resources, conn->theirs.initiator_depth);
    ours.initiator_depth = smaller_of(params->initiator_depth, conn->theirs.responder_resources);
    ours.rnr_retry_count = params->rnr_retry_count;
    ours.has_flow_control = params->has_flow_control;
    ours.has_srq = params->has_srq;
    return ours;
}

int ibcm_accept(struct ibcm *ibcm, struct ibcm_conn *conn, const struct ibcm_params *params,
                instant_ns now)
{
    size_t max = conn->is_datagram ? IBCM_ANSWER_DATA_MAX : IBCM_ACCEPT_DATA_MAX;
    if (params->private_data.len > max) {
        return -EINVAL;
    }
    if (ibcm_state_edge(conn->state, IBCM_IN_ACCEPT)->next == IBCM_NO_STATE) {
        return -ENOTCONN;
    }
    const struct ibcm_said said = {.private_data = params->private_data};
    conn->ours = agree(conn, params);
    ibcm_step(ibcm, conn, IBCM_IN_ACCEPT, &said, now);
    return 0;
}

int ibcm_reject(struct ibcm *ibcm, struct ibcm_conn *conn, unsigned reason,
                struct span private_data, instant_ns now)
{
    size_t max = conn->is_datagram ? IBCM_ANSWER_DATA_MAX : IBCM_REJECT_DATA_MAX;
    const struct ibcm_said said = {.reason = reason, .private_data = private_data};
    if (private_data.len > max) {
        return -EINVAL;
    }
    return ibcm_step(ibcm, conn, IBCM_IN_REJECT, &said, now) ? 0 : -ENOTCONN;
}

int ibcm_establish(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    return ibcm_step(ibcm, conn, IBCM_IN_ESTABLISH, NULL, now) ? 0 : -ENOTCONN;
}

int ibcm_delay(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    return ibcm_step(ibcm, conn, IBCM_IN_DELAY, NULL, now) ? 0 : -ENOTCONN;
}

int ibcm_on_communication(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    const enum ibcm_state before = conn->state;
    if (!ibcm_step(ibcm, conn, IBCM_IN_COMMUNICATION, NULL, now)) {
        return -ENOTCONN;
    }
    return conn->state != before ? 0 : -EISCONN;
}

void ibcm_disconnect(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    if (ibcm_state_edge(conn->state, IBCM_IN_DISCONNECT)->send == IBCM_SEND_DREQ) {
        conn->transaction_id = ibcm_draw(ibcm);
    }
    ibcm_step(ibcm, conn, IBCM_IN_DISCONNECT, NULL, now);
}

void ibcm_disconnect_all(struct ibcm *ibcm, instant_ns now)
{
    enum { MOST = 15 }; // that a REQ can ask for
    ibcm->is_ending = true;
    for (uint32_t i = 0; i < ibcm->touched; i++) {
        struct ibcm_conn *conn = &ibcm->conns[i];
        conn->tries_max = MOST; // within that time, however few its peer has asked for
        if (ibcm_state_edge(conn->state, IBCM_IN_DISCONNECT)->send == IBCM_SEND_DREQ) {
            ibcm_disconnect(ibcm, conn, now);
        } else if (conn->state == IBCM_DREQ_SENT) {
            ibcm_conn_hurry(ibcm, conn, now);
        }
    }
}

bool ibcm_is_disconnecting(const struct ibcm *ibcm)
{
    bool is = false;
    for (uint32_t i = 0; i < ibcm->touched && !is; i++) {
        is = ibcm->conns[i].state == IBCM_DREQ_SENT;
    }
    return is;
}

void ibcm_drop(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    CHECK(conn->is_owned);
    conn->is_owned = false;
    conn->event_mask = 0;
    conn->ctx = NULL;
    list_remove(&conn->event_link);
    bool has_left = ibcm_step(ibcm, conn, IBCM_IN_DROP, NULL, now);
    CHECK(has_left);
}

void ibcm_conn_set_ctx(struct ibcm_conn *conn, void *ctx)
{
    conn->ctx = ctx;
}

enum ibcm_state ibcm_conn_state(const struct ibcm_conn *conn)
{
    return conn->state;
}

struct ibcm_ends ibcm_conn_ends(const struct ibcm_conn *conn)
{
    return conn->ends;
}

bool ibcm_conn_is_datagram(const struct ibcm_conn *conn)
{
    return conn->is_datagram;
}

bool ibcm_conn_is_agreed(const struct ibcm_conn *conn)
{
    return ibcm_state_facts(conn->state)->has_peer_qp;
}

struct ibcm_agreement ibcm_conn_agreement(const struct ibcm_conn *conn)
{
    const struct ibcm_params *ours = &conn->ours;
    const struct ibcm_peer *theirs = &conn->theirs;
    return (struct ibcm_agreement){
        .path_mtu = ours->path_mtu,
        .dest_qp_num = theirs->qp_num,
        .sq_psn = theirs->starting_psn,
        .rq_psn = conn->starting_psn,
        .max_rd_atomic = smaller_of(ours->initiator_depth, theirs->responder_resources),
        .max_dest_rd_atomic = smaller_of(ours->responder_resources, theirs->initiator_depth),
        .retry_count = conn->retry_count,
        .rnr_retry_count = theirs->rnr_retry_count,
        .ack_timeout = ours->ack_timeout,
        .traffic_class = ours->traffic_class,
        .hop_limit = ours->hop_limit,
        .flow_label = ours->flow_label,
    };
}

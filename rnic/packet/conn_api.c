// What the fronts ask about connections of queue pairs on packets: checks and the lock here, the
// work in conn.c and ibcm/.

#include <errno.h>

#include "base/port_datagram.h"
#include "base/transport.h"
#include "ibcm/ibcm.h"
#include "rnic/internal.h"
#include "rnic/packet/cm.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"

// The lock, and what a device gets that has no connection manager, or was left in a parent process.
static int enter(struct rnic *rnic)
{
    rnic_enter(rnic);
    if (!rnic_is_alive(rnic)) {
        return -EIO;
    }
    return rnic->shard.packets.cm.ibcm != NULL ? 0 : -EOPNOTSUPP;
}

// What was said leaves, and what came of it is told.
static int leave(struct rnic *rnic, int result)
{
    if (result == 0) {
        const instant_ns now = rnic_now(rnic);
        packet_conns_settle(&rnic->shard, now);
        packet_settle(&rnic->shard, now);
    }
    return rnic_leave(rnic, result);
}

// The lock, and a connection. NULL: no use, `*ret_error` says why; conn_end takes that too.
static struct rnic_conn *conn_begin(struct rnic *rnic, const struct rnic_conn_port *events,
                                    int *ret_error)
{
    *ret_error = enter(rnic);
    if (*ret_error != 0) {
        return NULL;
    }
    struct rnic_conn *conn = packet_conn_create(rnic, events);
    *ret_error = conn != NULL ? 0 : -ENOMEM;
    return conn;
}

// It is the caller's now, or after an error nobody's.
static int conn_end(struct rnic *rnic, struct rnic_conn *conn, int error, struct rnic_conn **ret)
{
    if (error == 0) {
        *ret = conn;
    } else if (conn != NULL) {
        packet_conn_free(conn);
    }
    return leave(rnic, error);
}

static struct ibcm *ibcm_of(const struct rnic *rnic)
{
    return rnic->shard.packets.cm.ibcm;
}

static int listen_locked(struct rnic_conn *conn, enum ip_cm_port_space ps, uint16_t port,
                         const struct in6_addr *local, int backlog)
{
    struct rnic *rnic = conn->rnic;
    int error = ibcm_listen(ibcm_of(rnic), &conn->listener, ps, port, local, backlog, conn);
    if (error != 0) {
        return error;
    }
    error = datagram_serve(rnic->shard.packets.link, conn->listener.service_id, local);
    if (error != 0) {
        ibcm_unlisten(ibcm_of(rnic), &conn->listener, rnic_now(rnic));
    }
    conn->is_listening = error == 0;
    return error;
}

int rnic_conn_listen(struct rnic *rnic, enum ip_cm_port_space ps, uint16_t port,
                     const struct in6_addr *local, int backlog, const struct rnic_conn_port *events,
                     struct rnic_conn **ret)
{
    int error;
    struct rnic_conn *conn = conn_begin(rnic, events, &error);
    if (conn != NULL) {
        error = listen_locked(conn, ps, port, local, backlog);
    }
    return conn_end(rnic, conn, error, ret);
}

static int connect_locked(struct rnic_conn *conn, const struct ibcm_target *target,
                          struct rnic_qp *qp, const struct ibcm_params *params)
{
    struct rnic *rnic = conn->rnic;
    struct ibcm_params ours = *params;
    int error = qp != NULL ? packet_conn_attach(conn, qp) : 0;
    if (error != 0) {
        return error;
    }
    ours.qp_num = qp != NULL ? qp->qp_num : params->qp_num;
    ours.hop_limit =
        params->hop_limit != 0 ? params->hop_limit : rnic_hop_limit(rnic, &target->ends.remote);
    ours.path_mtu = params->path_mtu != 0 ? params->path_mtu : packet_mtu_code(rnic->port.path_mtu);
    conn->cm = ibcm_connect(ibcm_of(rnic), target, &ours, conn, rnic_now(rnic), &error);
    return error;
}

int rnic_conn_connect(struct rnic *rnic, const struct ibcm_target *target, struct rnic_qp *qp,
                      const struct ibcm_params *params, const struct rnic_conn_port *events,
                      struct rnic_conn **ret)
{
    int error;
    struct rnic_conn *conn = conn_begin(rnic, events, &error);
    if (conn != NULL) {
        error = connect_locked(conn, target, qp, params);
    }
    return conn_end(rnic, conn, error, ret);
}

int rnic_conn_resolve(struct rnic *rnic, const struct ibcm_target *target, struct span private_data,
                      const struct rnic_conn_port *events, struct rnic_conn **ret)
{
    int error;
    struct rnic_conn *conn = conn_begin(rnic, events, &error);
    if (conn != NULL) {
        conn->cm = ibcm_resolve(ibcm_of(rnic), target, private_data, conn, rnic_now(rnic), &error);
    }
    return conn_end(rnic, conn, error, ret);
}

static int accept_locked(struct rnic_conn *conn, struct rnic_qp *qp,
                         const struct ibcm_params *params, instant_ns now)
{
    struct ibcm_params ours = *params;
    const bool is_datagram = ibcm_conn_is_datagram(conn->cm);
    int error = 0;
    if (qp != NULL) {
        ours.qp_num = qp->qp_num;
        error = is_datagram ? 0 : packet_conn_attach(conn, qp);
    }
    if (error == 0) {
        error = ibcm_accept(ibcm_of(conn->rnic), conn->cm, &ours, now);
    }
    if (error != 0) {
        packet_conn_detach(conn);
        return error;
    }
    conn->awaits_rtu = !is_datagram;
    error = conn->qp != NULL ? packet_conn_begin(conn, now) : 0;
    if (error != 0) { // what the program gave its queue pair does not fit
        ibcm_disconnect(ibcm_of(conn->rnic), conn->cm, now);
    }
    return error;
}

int rnic_conn_accept(struct rnic_conn *conn, struct rnic_qp *qp, const struct ibcm_params *params)
{
    int error = enter(conn->rnic);
    if (error == 0) {
        error = accept_locked(conn, qp, params, rnic_now(conn->rnic));
    }
    return leave(conn->rnic, error);
}

int rnic_conn_reject(struct rnic_conn *conn, unsigned reason, struct span private_data)
{
    int error = enter(conn->rnic);
    if (error == 0) {
        error =
            ibcm_reject(ibcm_of(conn->rnic), conn->cm, reason, private_data, rnic_now(conn->rnic));
    }
    return leave(conn->rnic, error);
}

int rnic_conn_notify(struct rnic_conn *conn)
{
    int error = enter(conn->rnic);
    if (error == 0 && conn->is_listening) {
        error = -ENOTCONN;
    }
    if (error == 0) {
        error = ibcm_on_communication(ibcm_of(conn->rnic), conn->cm, rnic_now(conn->rnic));
    }
    return leave(conn->rnic, error);
}

int rnic_conn_establish(struct rnic_conn *conn)
{
    int error = enter(conn->rnic);
    if (error == 0) {
        error = ibcm_establish(ibcm_of(conn->rnic), conn->cm, rnic_now(conn->rnic));
    }
    return leave(conn->rnic, error);
}

// Cards have acknowledged before a DREQ leaves. Here the two come by ways that are read in turn, so
// the acknowledgement may still lie at the link.
int rnic_conn_disconnect(struct rnic_conn *conn)
{
    int error = enter(conn->rnic);
    if (error == 0) {
        const instant_ns now = rnic_now(conn->rnic);
        if (packet_conn_is_left_waiting(conn)) {
            packet_take_in(&conn->rnic->shard, now);
        }
        packet_conn_end(conn, now);
        ibcm_disconnect(ibcm_of(conn->rnic), conn->cm, now);
    }
    return leave(conn->rnic, error);
}

void rnic_conn_take_end(struct rnic_conn *conn)
{
    struct rnic *rnic = conn->rnic;
    rnic_enter(rnic);
    conn->is_end_taken = true;
    rnic_leave(rnic, 0);
}

void rnic_conn_destroy(struct rnic_conn *conn)
{
    struct rnic *rnic = conn->rnic;
    int error = enter(rnic);
    if (error == 0 && conn->is_listening) {
        datagram_unserve(rnic->shard.packets.link, conn->listener.service_id,
                         &conn->listener.local);
        ibcm_unlisten(ibcm_of(rnic), &conn->listener, rnic_now(rnic));
    } else if (error == 0) {
        ibcm_drop(ibcm_of(rnic), conn->cm, rnic_now(rnic));
    }
    packet_conn_free(conn);
    leave(rnic, error);
}

int rnic_conn_agreement(struct rnic_conn *conn, struct ibcm_agreement *ret,
                        struct ibcm_ends *ret_ends)
{
    int error = enter(conn->rnic);
    if (error == 0 && (conn->is_listening || !ibcm_conn_is_agreed(conn->cm))) {
        error = -EINVAL;
    }
    if (error == 0) {
        *ret = ibcm_conn_agreement(conn->cm);
        *ret_ends = ibcm_conn_ends(conn->cm);
    }
    return rnic_leave(conn->rnic, error);
}

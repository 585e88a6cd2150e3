// What the fronts ask of endpoints: checks and the lock here, the work in life.c and startup.c.

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/port_link.h"
#include "base/span.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"

// The lock, and what a call on an endpoint of a parent process gets.
static int ep_enter(struct rnic_ep *ep)
{
    rnic_enter(ep->rnic);
    return rnic_is_alive(ep->rnic) ? 0 : -EIO;
}

int rnic_route(struct rnic *rnic, const struct sockaddr *dst, struct sockaddr_storage *ret_src)
{
    rnic_enter(rnic);
    return rnic_leave(rnic, rnic->shard.carrier->link->route(&rnic->shard, dst, ret_src));
}

int rnic_ep_bind(struct rnic *rnic, const struct sockaddr *addr, unsigned flags,
                 const struct rnic_ep_port *port, struct rnic_ep **ret)
{
    struct link *link = rnic->shard.link;
    if (!rnic_is_alive(rnic)) {
        return -EIO;
    }
    if (link == NULL) {
        return -EOPNOTSUPP;
    }
    rnic_enter(rnic);
    struct rnic_ep *ep = ep_create(rnic, port);
    if (ep == NULL) {
        return rnic_leave(rnic, -ENOMEM);
    }
    int error = link_bind(link, addr, flags, ep, &ep->stream);
    if (error != 0) {
        ep_doom(ep, false, rnic_now(rnic));
        return rnic_leave(rnic, error);
    }
    *ret = ep;
    return rnic_leave(rnic, 0);
}

int rnic_ep_listen(struct rnic_ep *ep, int backlog)
{
    int error = ep_enter(ep);
    if (error == 0 && ep->state != EP_BOUND) {
        error = -EINVAL;
    }
    if (error == 0) {
        error = link_listen(ep->stream, backlog);
    }
    if (error == 0) {
        conn_listener_init(&ep->listener, backlog, &ep->rnic->gate);
        ep_move(ep, EP_IN_LISTEN);
    }
    return rnic_leave(ep->rnic, error);
}

static int params_check(const struct rnic_ep_params *params)
{
    return params->ird > rnic_limits.max_qp_rd_atom || params->ord > rnic_limits.max_qp_rd_atom
               ? -EINVAL
               : 0;
}

int rnic_ep_connect(struct rnic_ep *ep, const struct sockaddr *dst, struct rnic_qp *qp,
                    const struct rnic_ep_params *params)
{
    int error = params_check(params);
    if (error != 0) {
        return error;
    }
    error = ep_enter(ep);
    if (error == 0) {
        error = ep_begin_connect(ep, dst, qp, params, rnic_now(ep->rnic));
    }
    return rnic_leave(ep->rnic, error);
}

int rnic_ep_establish(struct rnic_ep *ep, struct rnic_qp *qp)
{
    instant_ns now = rnic_now(ep->rnic);
    int error = ep_enter(ep);
    if (error == 0) {
        error = ep_attach(ep, qp);
    }
    if (error == 0) {
        error = conn_establish(&ep->startup.conn, now);
        if (error != 0) {
            ep_detach(ep);
        }
        shard_settle_later(&ep->rnic->shard, ep);
    }
    return rnic_leave(ep->rnic, error);
}

static int accept_locked(struct rnic_ep *ep, struct rnic_qp *qp,
                         const struct rnic_ep_params *params, instant_ns now)
{
    struct conn_params conn_params = ep_conn_params(params);
    if (ep->state == EP_CLOSED) {
        return -ECONNRESET;
    }
    if (ep->state != EP_STARTING || qp == NULL) {
        return -EINVAL;
    }
    int error = ep_attach(ep, qp);
    if (error != 0) {
        return error;
    }
    error = conn_accept(&ep->startup.conn, &conn_params, now);
    if (error != 0) {
        ep_detach(ep);
        return error;
    }
    conn_listener_leave(&ep->startup.admission);
    shard_settle_later(&ep->rnic->shard, ep);
    return 0;
}

int rnic_ep_accept(struct rnic_ep *ep, struct rnic_qp *qp, const struct rnic_ep_params *params)
{
    int error = params_check(params);
    if (error != 0) {
        return error;
    }
    error = ep_enter(ep);
    if (error == 0) {
        error = accept_locked(ep, qp, params, rnic_now(ep->rnic));
    }
    return rnic_leave(ep->rnic, error);
}

int rnic_ep_reject(struct rnic_ep *ep, const void *private_data, uint16_t private_data_len)
{
    struct conn_params params = {.private_data = span_of(private_data, private_data_len)};
    instant_ns now = rnic_now(ep->rnic);
    int error = ep_enter(ep);
    if (error == 0) {
        error = ep->state == EP_STARTING ? conn_reject(&ep->startup.conn, &params, now) : -EINVAL;
    }
    if (error == 0) {
        conn_listener_leave(&ep->startup.admission);
        shard_settle_later(&ep->rnic->shard, ep);
    }
    return rnic_leave(ep->rnic, error);
}

int rnic_ep_disconnect(struct rnic_ep *ep)
{
    instant_ns now = rnic_now(ep->rnic);
    int error = ep_enter(ep);
    if (error == 0 && ep->state == EP_OPEN && ep->qp != NULL) {
        qp_modify(stream_qp(ep->qp), QP_SQD, now);
        shard_settle_later(&ep->rnic->shard, ep);
    } else if (error == 0 && ep->state < EP_CLOSING) {
        error = -EINVAL;
    }
    return rnic_leave(ep->rnic, error);
}

void rnic_ep_destroy(struct rnic_ep *ep)
{
    struct rnic *rnic = ep->rnic;
    rnic_enter(rnic);
    ep_doom(ep, ep_has_output(ep), rnic_now(rnic));
    rnic_leave(rnic, 0);
}

void rnic_ep_set_port(struct rnic_ep *ep, const struct rnic_ep_port *port)
{
    rnic_enter(ep->rnic);
    ep->port = *port;
    rnic_leave(ep->rnic, 0);
}

int rnic_ep_set_tos(struct rnic_ep *ep, uint8_t tos)
{
    int error = ep_enter(ep);
    if (error == 0) {
        error = ep->stream != NULL ? link_set_tos(ep->stream, tos) : -ENOTCONN;
        ep->tos = tos;
    }
    return rnic_leave(ep->rnic, error);
}

int rnic_ep_local_addr(struct rnic_ep *ep, struct sockaddr_storage *ret)
{
    int error = ep_enter(ep);
    if (error == 0) {
        error = ep->stream != NULL ? link_local_addr(ep->stream, ret) : -ENOTCONN;
    }
    return rnic_leave(ep->rnic, error);
}

int rnic_ep_peer_addr(struct rnic_ep *ep, struct sockaddr_storage *ret)
{
    int error = ep_enter(ep);
    if (error == 0) {
        error = ep->stream != NULL ? link_peer_addr(ep->stream, ret) : -ENOTCONN;
    }
    return rnic_leave(ep->rnic, error);
}

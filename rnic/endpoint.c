// What the fronts ask of endpoints: their carrier knows what that is.

#include "rnic/carrier.h"
#include "rnic/ep.h"
#include "rnic/internal.h"

static const struct carrier_ep_ops *ops_of(const struct rnic *rnic)
{
    return rnic->shard.carrier->endpoints;
}

int rnic_route(struct rnic *rnic, const struct sockaddr *dst, struct sockaddr_storage *ret_src)
{
    rnic_enter(rnic);
    return rnic_leave(rnic, rnic->shard.carrier->link->route(&rnic->shard, dst, ret_src));
}

int rnic_ep_bind(struct rnic *rnic, const struct sockaddr *addr, unsigned flags,
                 const struct rnic_ep_port *port, struct rnic_ep **ret)
{
    return ops_of(rnic)->ep_bind(rnic, addr, flags, port, ret);
}

int rnic_ep_listen(struct rnic_ep *ep, int backlog)
{
    return ops_of(ep->rnic)->ep_listen(ep, backlog);
}

int rnic_ep_connect(struct rnic_ep *ep, const struct sockaddr *dst, struct rnic_qp *qp,
                    const struct rnic_ep_params *params)
{
    return ops_of(ep->rnic)->ep_connect(ep, dst, qp, params);
}

int rnic_ep_establish(struct rnic_ep *ep, struct rnic_qp *qp)
{
    return ops_of(ep->rnic)->ep_establish(ep, qp);
}

int rnic_ep_accept(struct rnic_ep *ep, struct rnic_qp *qp, const struct rnic_ep_params *params)
{
    return ops_of(ep->rnic)->ep_accept(ep, qp, params);
}

int rnic_ep_reject(struct rnic_ep *ep, const void *private_data, uint16_t private_data_len)
{
    return ops_of(ep->rnic)->ep_reject(ep, private_data, private_data_len);
}

int rnic_ep_disconnect(struct rnic_ep *ep)
{
    return ops_of(ep->rnic)->ep_disconnect(ep);
}

void rnic_ep_destroy(struct rnic_ep *ep)
{
    ops_of(ep->rnic)->ep_destroy(ep);
}

void rnic_ep_set_port(struct rnic_ep *ep, const struct rnic_ep_port *port)
{
    rnic_enter(ep->rnic);
    ep->port = *port;
    rnic_leave(ep->rnic, 0);
}

int rnic_ep_set_tos(struct rnic_ep *ep, uint8_t tos)
{
    return ops_of(ep->rnic)->ep_set_tos(ep, tos);
}

int rnic_ep_local_addr(struct rnic_ep *ep, struct sockaddr_storage *ret)
{
    return ops_of(ep->rnic)->ep_local_addr(ep, ret);
}

int rnic_ep_peer_addr(struct rnic_ep *ep, struct sockaddr_storage *ret)
{
    return ops_of(ep->rnic)->ep_peer_addr(ep, ret);
}

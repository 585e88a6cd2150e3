// Endpoints of a device over packets: what the fronts ask of connections, whatever carries them, in
// the words of rnic/connect.h. State and ports are guarded by the shard's lock.

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/port_datagram.h"
#include "base/transport.h"
#include "ibcm/state.h"
#include "rnic/address.h"
#include "rnic/carrier.h"
#include "rnic/connect.h"
#include "rnic/ep.h"
#include "rnic/ep_state.h"
#include "rnic/internal.h"
#include "rnic/packet.h"
#include "rnic/packet_ep.h"
#include "wire/ibcm_req.h"

enum { PORT_FIRST = 0xc000, PORT_COUNT = 0x10000 - PORT_FIRST }; // given to who asks for none

static struct packet_ep *of(struct rnic_ep *ep)
{
    return (struct packet_ep *)ep; // it stands first
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_port_taken(const struct packet_side *p, uint16_t port_num)
{
    for (const struct list_link *l = p->endpoints.next; l != &p->endpoints; l = l->next) {
        if (LIST_ENTRY(l, const struct packet_ep, link)->port_num == port_num) {
            return true;
        }
    }
    return false;
}

// 0: all are taken.
static uint16_t port_any(struct packet_side *p)
{
    for (unsigned i = 0; i < PORT_COUNT; i++) {
        const uint16_t port_num = (uint16_t)(PORT_FIRST + p->port_next++ % PORT_COUNT);
        if (!is_port_taken(p, port_num)) {
            return port_num;
        }
    }
    return 0;
}

static bool is_local(const struct rnic *rnic, const struct in6_addr *addr)
{
    for (unsigned i = 0; i < rnic->port.addr_count; i++) {
        if (IN6_ARE_ADDR_EQUAL(&rnic->port.addrs[i].addr, addr)) {
            return true;
        }
    }
    return false;
}

static bool is_any(const struct in6_addr *addr)
{
    static const struct in6_addr any_ipv4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return IN6_IS_ADDR_UNSPECIFIED(addr) || IN6_ARE_ADDR_EQUAL(addr, &any_ipv4);
}

static struct sockaddr_storage storage_of(const struct sockaddr *addr)
{
    struct sockaddr_storage storage = {0};
    memcpy(&storage, addr,
           addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return storage;
}

static int address_take(struct packet_ep *e, const struct sockaddr *addr)
{
    if (addr != NULL) {
        const struct sockaddr_storage storage = storage_of(addr);
        e->local = address_octets(&storage);
        e->port_num = address_port(&storage);
    }
    if (is_any(&e->local)) {
        e->local = (struct in6_addr){0};
    } else if (!is_local(e->ep.rnic, &e->local)) {
        return -EADDRNOTAVAIL;
    }
    if (e->port_num == 0) {
        e->port_num = port_any(&e->ep.rnic->shard.packets);
    }
    return e->port_num != 0 ? 0 : -EADDRINUSE;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int bind_to(struct rnic *rnic, const struct sockaddr *addr, unsigned flags,
                   const struct rnic_ep_port *port, struct rnic_ep **ret)
{
    if (!rnic_is_alive(rnic)) {
        return -EIO;
    }
    struct packet_ep *e = packet_ep_create(rnic, port);
    if (e == NULL) {
        return -ENOMEM;
    }
    rnic_enter(rnic);
    int error = address_take(e, addr);
    if (error == 0) {
        list_push_tail(&rnic->shard.packets.endpoints, &e->link);
        *ret = &e->ep;
    }
    rnic_leave(rnic, error);
    if (error != 0) {
        free(e);
    }
    return error;
}

static void destroy(struct rnic_ep *ep)
{
    struct packet_ep *e = of(ep);
    if (e->conn != NULL) {
        rnic_conn_destroy(e->conn); // no event comes behind this
    }
    rnic_enter(ep->rnic);
    list_remove(&e->link);
    rnic_leave(ep->rnic, 0);
    free(e);
}

// From this state to the one that the input leads to; -EINVAL: it is in another.
static int step(struct rnic_ep *ep, enum ep_state from, enum ep_input input)
{
    rnic_enter(ep->rnic);
    int error = ep->state == from ? 0 : -EINVAL;
    if (error == 0) {
        ep_move(ep, input);
    }
    return rnic_leave(ep->rnic, error);
}

/* ---- what the fronts ask --------------------------------------------------------------------- */

static int listen_at(struct rnic_ep *ep, int backlog)
{
    struct packet_ep *e = of(ep);
    const struct rnic_conn_port events = {packet_ep_on_event, e};
    if (ep->state != EP_BOUND) {
        return -EINVAL;
    }
    int error = rnic_conn_listen(ep->rnic, IP_CM_PS_TCP, e->port_num, &e->local, backlog, &events,
                                 &e->conn);
    return error == 0 ? step(ep, EP_BOUND, EP_IN_LISTEN) : error;
}

// Depths that no message has room for are this device's own.
static uint8_t depth_of(uint16_t depth)
{
    return (uint8_t)(depth < UINT8_MAX ? depth : UINT8_MAX);
}

static struct ibcm_params params_of(const struct rnic_qp *qp, const struct rnic_ep_params *params)
{
    enum { TRIES = 7 };
    return (struct ibcm_params){
        .transport = IBCM_TRANSPORT_RC,
        .responder_resources = depth_of(params->ird),
        .initiator_depth = depth_of(params->ord),
        .retry_count = TRIES,
        .rnr_retry_count = TRIES,
        .has_flow_control = true,
        .has_srq = qp->srq != NULL,
        .private_data = span_of(params->private_data, params->private_data_len),
    };
}

// A queue pair that nobody has prepared yet.
static int prepare(struct rnic_qp *qp)
{
    const struct qp_change to_init = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_RIGHTS,
        .state = QP_INIT,
        .rights = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_ATOMIC,
    };
    return rnic_qp_state(qp) == QP_RESET ? rnic_qp_change(qp, &to_init) : 0;
}

static int route_from(struct packet_ep *e, const struct in6_addr *remote)
{
    struct rnic *rnic = e->ep.rnic;
    if (!IN6_IS_ADDR_UNSPECIFIED(&e->local)) {
        return 0;
    }
    rnic_enter(rnic);
    return rnic_leave(rnic, datagram_route(rnic->shard.packets.link, remote, 0, &e->local));
}

static int connect_to(struct rnic_ep *ep, const struct sockaddr *dst, struct rnic_qp *qp,
                      const struct rnic_ep_params *params)
{
    struct packet_ep *e = of(ep);
    const struct sockaddr_storage to = storage_of(dst);
    const struct in6_addr remote = address_octets(&to);
    const struct rnic_conn_port events = {packet_ep_on_event, e};
    if (ep->state != EP_BOUND || qp == NULL || // a request names the queue pair
        params->private_data_len > IBCM_CONNECT_DATA_MAX) {
        return -EINVAL;
    }
    int error = route_from(e, &remote);
    if (error == 0) {
        error = prepare(qp);
    }
    if (error != 0) {
        return error;
    }
    const struct ibcm_target target = {
        .ends = {.local = e->local, .remote = remote, .scope_id = e->scope_id},
        .ps = IP_CM_PS_TCP,
        .port = address_port(&to),
        .source_port = e->port_num,
    };
    const struct ibcm_params request = params_of(qp, params);
    ep->peer_addr = to;
    error = step(ep, EP_BOUND, EP_IN_START);
    if (error == 0) {
        error = rnic_conn_connect(ep->rnic, &target, qp, &request, &events, &e->conn);
        if (error != 0) {
            step(ep, EP_STARTING, EP_IN_CLOSE);
        }
    }
    return error;
}

static int establish(struct rnic_ep *ep, struct rnic_qp *qp)
{
    return -EINVAL; // the request has named a queue pair
}

static int accept_with(struct rnic_ep *ep, struct rnic_qp *qp, const struct rnic_ep_params *params)
{
    if (ep->state == EP_CLOSED) {
        return -ECONNRESET;
    }
    if (ep->state != EP_STARTING || qp == NULL) {
        return -EINVAL;
    }
    int error = prepare(qp);
    if (error != 0) {
        return error;
    }
    const struct ibcm_params answer = params_of(qp, params);
    return rnic_conn_accept(of(ep)->conn, qp, &answer);
}

static int reject(struct rnic_ep *ep, const void *private_data, uint16_t private_data_len)
{
    int error = step(ep, EP_STARTING, EP_IN_CLOSE);
    return error == 0 ? rnic_conn_reject(of(ep)->conn, IBCM_REASON_CONSUMER,
                                         span_of(private_data, private_data_len))
                      : error;
}

static int disconnect(struct rnic_ep *ep)
{
    if (ep->state == EP_CLOSING || ep->state == EP_CLOSED) {
        return 0;
    }
    int error = step(ep, EP_OPEN, EP_IN_SHUTDOWN);
    return error == 0 ? rnic_conn_disconnect(of(ep)->conn) : error;
}

static int set_tos(struct rnic_ep *ep, uint8_t tos)
{
    return -EOPNOTSUPP; // what the path has is agreed by both ends
}

static int local_addr(struct rnic_ep *ep, struct sockaddr_storage *ret)
{
    *ret = address_of_octets(&of(ep)->local, of(ep)->port_num);
    return 0;
}

static int peer_addr(struct rnic_ep *ep, struct sockaddr_storage *ret)
{
    *ret = ep->peer_addr;
    return ep->peer_addr.ss_family != AF_UNSPEC ? 0 : -ENOTCONN;
}

const struct carrier_ep_ops packet_carrier_ep = {
    .ep_bind = bind_to,
    .ep_listen = listen_at,
    .ep_connect = connect_to,
    .ep_establish = establish,
    .ep_accept = accept_with,
    .ep_reject = reject,
    .ep_disconnect = disconnect,
    .ep_destroy = destroy,
    .ep_set_tos = set_tos,
    .ep_local_addr = local_addr,
    .ep_peer_addr = peer_addr,
};

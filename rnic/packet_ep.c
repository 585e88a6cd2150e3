// What the connection manager tells of an endpoint on packets, as the fronts hear it.

#include "rnic/packet_ep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ibcm/state.h"
#include "rnic/address.h"
#include "rnic/ep_state.h"
#include "rnic/internal.h"
#include "rnic/packet.h"

struct packet_ep *packet_ep_create(struct rnic *rnic, const struct rnic_ep_port *port)
{
    struct packet_ep *e = calloc(1, sizeof *e);
    if (e != NULL) {
        e->ep.rnic = rnic;
        e->ep.state = EP_BOUND;
        e->ep.port = port != NULL ? *port : (struct rnic_ep_port){0};
        list_init(&e->link);
    }
    return e;
}

static void tell(struct packet_ep *e, enum rnic_ep_event_type type, int status,
                 const struct ibcm_event *from, struct packet_ep *new_one)
{
    const struct span data = from->private_data;
    struct rnic_ep_event told = {.type = type, .status = status};
    const size_t len = data.len < sizeof told.private_data ? data.len : sizeof told.private_data;
    told.private_data_len = (uint16_t)len;
    if (len > 0) {
        memcpy(told.private_data, data.ptr, len);
    }
    if (from->peer != NULL) {
        told.ird = from->peer->responder_resources;
        told.ord = from->peer->initiator_depth;
    }
    if (new_one != NULL) {
        told.new_ep = &new_one->ep;
        told.new_ep_port = &new_one->ep.port;
    }
    if (e->ep.port.on_event != NULL) {
        e->ep.port.on_event(e->ep.port.ctx, &e->ep, &told);
    }
}

// Who is not taken by the front is let go: its port is left empty, which refuses it.
static void on_request(struct packet_ep *listener, const struct rnic_conn_event *event)
{
    struct rnic *rnic = listener->ep.rnic;
    const struct ibcm_event *what = event->what;
    struct packet_ep *e = packet_ep_create(rnic, NULL);
    if (e == NULL) {
        return;
    }
    e->conn = event->new_conn;
    e->local = what->ends.local;
    e->scope_id = what->ends.scope_id;
    e->port_num = what->port;
    e->ep.peer_addr = address_of_octets(&what->ends.remote, what->peer->source_port);
    ep_move(&e->ep, EP_IN_START);
    tell(listener, RNIC_EP_CONNECT_REQUEST, 0, what, e);
    if (e->ep.port.on_event == NULL) {
        free(e);
        return;
    }
    list_push_tail(&rnic->shard.packets.endpoints, &e->link);
    *event->new_conn_port = (struct rnic_conn_port){packet_ep_on_event, e};
}

static void on_end(struct packet_ep *e, enum rnic_ep_event_type type, int status,
                   const struct ibcm_event *what)
{
    if (e->ep.state != EP_CLOSED) {
        ep_move(&e->ep, EP_IN_CLOSE);
        tell(e, type, status, what, NULL);
    }
}

void packet_ep_on_event(void *ctx, const struct rnic_conn_event *event)
{
    struct packet_ep *e = ctx;
    const struct ibcm_event *what = event->what;
    switch (what->type) {
    case IBCM_EVENT_CONNECT_REQUEST:
        on_request(e, event);
        break;
    case IBCM_EVENT_CONNECT_RESPONSE:
        tell(e, RNIC_EP_CONNECT_REPLY, 0, what, NULL);
        break;
    case IBCM_EVENT_ESTABLISHED:
        if (e->ep.state == EP_STARTING) {
            ep_move(&e->ep, EP_IN_OPEN);
            tell(e, RNIC_EP_ESTABLISHED, 0, what, NULL);
        }
        break;
    case IBCM_EVENT_REJECTED:
        on_end(e, RNIC_EP_REJECTED, -ECONNREFUSED, what);
        break;
    case IBCM_EVENT_UNREACHABLE:
        on_end(e, RNIC_EP_UNREACHABLE, -ETIMEDOUT, what);
        break;
    case IBCM_EVENT_DISCONNECTED:
        on_end(e, RNIC_EP_DISCONNECTED, 0, what);
        break;
    default:
        break;
    }
}

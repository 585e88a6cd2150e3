// Ends of connections that are streams; and for each call, which of them an end is.

#include "base/qp_state.h"
#include "rnic/connect.h"
#include "rnic/rnic.h"
#include "sim/ep.h"
#include "sim/ep_conn.h"
#include "sim/mailbox.h"
#include "sim/node.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/sim.h"

enum { LISTEN_BACKLOG = 16 };

static bool is_on_packets(const struct sim_node *node)
{
    return node->sim->params.wire == SIM_WIRE_ROCE;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_side_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct sim_side *side = ctx;
    sim_mailbox_put(side->node, (struct sim_ep){.stream = ep}, side, event);
}

static void on_listener_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct sim_node *node = ctx;
    if (event->type != RNIC_EP_CONNECT_REQUEST) {
        sim_fail(node->sim, "node %u: event %d on a listener", node->index, event->type);
        return;
    }
    struct sim_side *side = sim_mailbox_side_of(node, event);
    if (side == NULL) {
        return; // nobody takes it: the device lets it go
    }
    *event->new_ep_port = (struct rnic_ep_port){.on_event = on_side_event, .ctx = side};
    sim_mailbox_put(node, (struct sim_ep){.stream = event->new_ep}, side, event);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct rnic_ep_params params_of(const struct sim_side *side,
                                       const struct sim_greeting *greeting)
{
    return (struct rnic_ep_params){
        .private_data = greeting,
        .private_data_len = sizeof *greeting,
        .ird = (uint16_t)side->pair->sim->params.reads,
        .ord = (uint16_t)side->pair->sim->params.reads,
    };
}

int sim_ep_listen(struct sim_node *node)
{
    struct sockaddr_in addr = sim_node_addr(node, SIM_NODE_PORT);
    struct rnic_ep_port port = {.on_event = on_listener_event, .ctx = node};
    if (is_on_packets(node)) {
        return sim_conn_listen(node);
    }
    int error =
        rnic_ep_bind(node->rnic, (struct sockaddr *)&addr, 0, &port, &node->listener.stream);
    return error == 0 ? rnic_ep_listen(node->listener.stream, LISTEN_BACKLOG) : error;
}

int sim_ep_connect(struct sim_side *side, const struct sockaddr_in *dst, bool is_qp_late,
                   const struct sim_greeting *greeting)
{
    struct rnic_ep_port port = {.on_event = on_side_event, .ctx = side};
    struct rnic_ep_params params = params_of(side, greeting);
    if (is_on_packets(side->node)) {
        return sim_conn_connect(side, dst, is_qp_late, greeting);
    }
    int error = rnic_ep_bind(side->node->rnic, NULL, 0, &port, &side->ep.stream);
    return error == 0 ? rnic_ep_connect(side->ep.stream, (const struct sockaddr *)dst,
                                        is_qp_late ? NULL : side->qp, &params)
                      : error;
}

int sim_ep_establish(struct sim_side *side)
{
    return side->ep.conn != NULL ? sim_conn_establish(side)
                                 : rnic_ep_establish(side->ep.stream, side->qp);
}

int sim_ep_accept(struct sim_side *side, const struct sim_greeting *greeting)
{
    struct rnic_ep_params params = params_of(side, greeting);
    return side->ep.conn != NULL ? sim_conn_accept(side, greeting)
                                 : rnic_ep_accept(side->ep.stream, side->qp, &params);
}

int sim_ep_reject(struct sim_side *side, const struct sim_greeting *greeting)
{
    return side->ep.conn != NULL ? sim_conn_reject(side, greeting)
                                 : rnic_ep_reject(side->ep.stream, greeting, sizeof *greeting);
}

int sim_ep_disconnect(struct sim_side *side)
{
    return side->ep.stream != NULL ? rnic_ep_disconnect(side->ep.stream)
                                   : sim_conn_disconnect(side);
}

void sim_ep_destroy(struct sim_node *node, struct sim_ep *ep)
{
    if (ep->stream != NULL) {
        rnic_ep_destroy(ep->stream);
    } else if (ep->conn != NULL) {
        rnic_conn_destroy(ep->conn);
    }
    for (unsigned i = 0; i < node->letter_count; i++) {
        struct sim_letter *letter = &node->mailbox[i];
        if (sim_ep_is_same(&letter->ep, ep)) {
            letter->ep = (struct sim_ep){0};
        }
    }
    *ep = (struct sim_ep){0};
}

// With a stream its connection ends too, and both sides hear of it.
void sim_ep_break(struct sim_side *side)
{
    rnic_qp_modify(side->qp, QP_ERR);
    if (side->ep.stream == NULL) {
        sim_conn_disconnect(side);
    }
}

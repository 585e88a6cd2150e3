#include "sim/ep_conn.h"

#include <errno.h>
#include <string.h>

#include "base/prng.h"
#include "base/qp_state.h"
#include "base/transport.h"
#include "rnic/connect.h"
#include "rnic/rnic.h"
#include "sim/mailbox.h"
#include "sim/node.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/path.h"
#include "sim/sim.h"

enum { LISTEN_BACKLOG = 16, PSN_MASK = 0xffffff };
#define PATH_MTU_MIN 256U // code 1

/* ---- events ---------------------------------------------------------------------------------- */

static const struct {
    bool is_told;
    enum rnic_ep_event_type type;
    int status;
} events[IBCM_EVENT_COUNT] = {
    [IBCM_EVENT_CONNECT_REQUEST] = {true, RNIC_EP_CONNECT_REQUEST, 0},
    [IBCM_EVENT_CONNECT_RESPONSE] = {true, RNIC_EP_CONNECT_REPLY, 0},
    [IBCM_EVENT_ESTABLISHED] = {true, RNIC_EP_ESTABLISHED, 0},
    [IBCM_EVENT_REJECTED] = {true, RNIC_EP_REJECTED, -ECONNREFUSED},
    [IBCM_EVENT_UNREACHABLE] = {true, RNIC_EP_UNREACHABLE, -ETIMEDOUT},
    [IBCM_EVENT_DISCONNECTED] = {true, RNIC_EP_DISCONNECTED, 0},
};

// InfiniBand's private data have the length of their message: what was said stands at its front.
static struct rnic_ep_event event_of(const struct ibcm_event *what)
{
    struct rnic_ep_event event = {
        .type = events[what->type].type,
        .status = events[what->type].status,
        .private_data_len = sizeof(struct sim_greeting),
    };
    if (what->peer != NULL) {
        event.ird = what->peer->initiator_depth;
        event.ord = what->peer->responder_resources;
    }
    if (what->private_data.len < event.private_data_len) {
        event.private_data_len = (uint16_t)what->private_data.len;
    }
    if (event.private_data_len > 0) {
        memcpy(event.private_data, what->private_data.ptr, event.private_data_len);
    }
    return event;
}

static void on_side_event(void *ctx, const struct rnic_conn_event *event)
{
    struct sim_side *side = ctx;
    const struct rnic_ep_event told = event_of(event->what);
    if (events[event->what->type].is_told) {
        sim_mailbox_put(side->node, (struct sim_ep){.conn = event->conn}, side, &told);
    }
}

static void on_listener_event(void *ctx, const struct rnic_conn_event *event)
{
    struct sim_node *node = ctx;
    const struct rnic_ep_event told = event_of(event->what);
    if (told.type != RNIC_EP_CONNECT_REQUEST) {
        sim_fail(node->sim, "node %u: event %d on a listener", node->index, told.type);
        return;
    }
    struct sim_side *side = sim_mailbox_side_of(node, &told);
    if (side == NULL) {
        return; // nobody takes it: the device lets it go
    }
    *event->new_conn_port = (struct rnic_conn_port){.on_event = on_side_event, .ctx = side};
    sim_mailbox_put(node, (struct sim_ep){.conn = event->new_conn}, side, &told);
}

/* ---- a queue pair of the program's own ------------------------------------------------------- */

int sim_conn_prepare(struct sim_side *side)
{
    const struct qp_change to_init = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_RIGHTS,
        .state = QP_INIT,
        .rights = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC,
    };
    return rnic_qp_change(side->qp, &to_init);
}

static int to_rts(struct sim_side *side, const struct ibcm_agreement *a)
{
    const struct sim_path *path = &side->pair->sim->path;
    const struct sim_params *p = &side->pair->sim->params;
    const struct qp_change to_rtr = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU | QP_CHANGE_DEST_QP_NUM |
                QP_CHANGE_RQ_PSN | QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
        .state = QP_RTR,
        .path = {.local = sim_path_addr(path, &side->node->addr),
                 .remote = sim_path_addr(path, &sim_side_peer(side)->node->addr)},
        .path_mtu = PATH_MTU_MIN << (a->path_mtu - 1),
        .dest_qp_num = a->dest_qp_num,
        .rq_psn = a->rq_psn,
        .max_dest_rd_atomic = a->max_dest_rd_atomic,
        .min_rnr_timer = p->roce.min_rnr_timer,
    };
    const struct qp_change to_rts = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT |
                QP_CHANGE_RNR_RETRY_COUNT | QP_CHANGE_SQ_PSN | QP_CHANGE_MAX_RD_ATOMIC,
        .state = QP_RTS,
        .timeout = a->ack_timeout,
        .retry_count = a->retry_count,
        .rnr_retry_count = a->rnr_retry_count,
        .sq_psn = a->sq_psn,
        .max_rd_atomic = a->max_rd_atomic,
    };
    int error = rnic_qp_change(side->qp, &to_rtr);
    return error == 0 ? rnic_qp_change(side->qp, &to_rts) : error;
}

/* ---- by the connection manager --------------------------------------------------------------- */

int sim_conn_listen(struct sim_node *node)
{
    struct rnic_conn_port port = {.on_event = on_listener_event, .ctx = node};
    return rnic_conn_listen(node->rnic, IP_CM_PS_TCP, SIM_NODE_PORT, &in6addr_any, LISTEN_BACKLOG,
                            &port, &node->listener.conn);
}

static struct ibcm_params params_of(const struct sim_side *side,
                                    const struct sim_greeting *greeting)
{
    const struct sim_params *p = &side->pair->sim->params;
    return (struct ibcm_params){
        .qp_num = side->qp_num,
        .responder_resources = (uint8_t)p->reads,
        .initiator_depth = (uint8_t)p->reads,
        .retry_count = 7,
        .rnr_retry_count = 7,
        .has_srq = side->has_srq,
        .ack_timeout = p->roce.timeout,
        .private_data = span_of(greeting, sizeof *greeting),
    };
}

int sim_conn_connect(struct sim_side *side, const struct sockaddr_in *dst, bool is_qp_late,
                     const struct sim_greeting *greeting)
{
    const struct sim_path *path = &side->pair->sim->path;
    struct rnic_conn_port port = {.on_event = on_side_event, .ctx = side};
    struct ibcm_params params = params_of(side, greeting);
    const struct ibcm_target target = {
        .ends = {.local = sim_path_addr(path, &side->node->addr),
                 .remote = sim_path_addr(path, &dst->sin_addr)},
        .ps = IP_CM_PS_TCP,
        .port = ntohs(dst->sin_port),
    };
    return rnic_conn_connect(side->node->rnic, &target, is_qp_late ? NULL : side->qp, &params,
                             &port, &side->ep.conn);
}

int sim_conn_establish(struct sim_side *side)
{
    struct ibcm_agreement agreement;
    struct ibcm_ends ends;
    int error = rnic_conn_agreement(side->ep.conn, &agreement, &ends);
    error = error == 0 ? to_rts(side, &agreement) : error;
    return error == 0 ? rnic_conn_establish(side->ep.conn) : error;
}

int sim_conn_accept(struct sim_side *side, const struct sim_greeting *greeting)
{
    const struct ibcm_params params = params_of(side, greeting);
    return rnic_conn_accept(side->ep.conn, side->qp, &params);
}

int sim_conn_reject(struct sim_side *side, const struct sim_greeting *greeting)
{
    return rnic_conn_reject(side->ep.conn, IBCM_REASON_CONSUMER,
                            span_of(greeting, sizeof *greeting));
}

// By hand: the programs do it both.
static void part(struct sim_side *side)
{
    if (side->qp != NULL) {
        rnic_qp_modify(side->qp, QP_ERR);
    }
    side->has_ended = true;
}

int sim_conn_disconnect(struct sim_side *side)
{
    if (side->ep.conn != NULL) {
        return rnic_conn_disconnect(side->ep.conn);
    }
    part(side);
    part(sim_side_peer(side));
    return 0;
}

/* ---- by hand --------------------------------------------------------------------------------- */

// Now and then so near to the wrap that it comes.
static uint32_t draw_psn(struct sim *sim)
{
    uint32_t psn = (uint32_t)prng_next(&sim->rng);
    return (sim_draw(sim, 2) ? psn : UINT32_C(0) - prng_below(&sim->rng, 1024)) & PSN_MASK;
}

static uint8_t draw_path_mtu(struct sim *sim)
{
    uint8_t code = (uint8_t)(1 + prng_below(&sim->rng, 5));
    while (PATH_MTU_MIN << (code - 1) > sim->params.roce.path_mtu) {
        code--;
    }
    return code;
}

int sim_conn_introduce(struct sim_side *a, struct sim_side *b)
{
    struct sim *sim = a->pair->sim;
    const struct sim_params *p = &sim->params;
    const struct ibcm_agreement of_a = {
        .path_mtu = draw_path_mtu(sim),
        .dest_qp_num = b->qp_num,
        .sq_psn = draw_psn(sim),
        .rq_psn = draw_psn(sim),
        .max_rd_atomic = (uint8_t)p->reads,
        .max_dest_rd_atomic = (uint8_t)p->reads,
        .retry_count = 7,
        .rnr_retry_count = 7,
        .ack_timeout = p->roce.timeout,
    };
    struct ibcm_agreement of_b = of_a;
    of_b.dest_qp_num = a->qp_num;
    of_b.sq_psn = of_a.rq_psn;
    of_b.rq_psn = of_a.sq_psn;
    a->ep.is_by_hand = a->is_established = b->ep.is_by_hand = b->is_established = true;
    a->ird = a->ord = b->ird = b->ord = (uint16_t)p->reads;
    int error = to_rts(a, &of_a);
    return error == 0 ? to_rts(b, &of_b) : error;
}

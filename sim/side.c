// One side of a connection: its queue pair and its endpoint are made, reset and destroyed.

#include "base/list.h"
#include "base/prng.h"
#include "base/qp_state.h"
#include "rnic/rnic.h"
#include "sim/command.h"
#include "sim/ep.h"
#include "sim/ep_conn.h"
#include "sim/oracle_memory.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/sim.h"
#include "sim/traffic.h"

void sim_side_begin(struct sim_side *side, struct sim_node *node)
{
    *side = (struct sim_side){
        .pair = side->pair,
        .index = side->index,
        .node = node,
        .has_srq = node->srq != NULL && sim_draw(node->sim, 2),
        .ops_left = node->sim->params.ops,
    };
    list_init(&side->ops);
    list_init(&side->recvs);
}

bool sim_side_make_qp(struct sim_side *side)
{
    struct sim_node *node = side->node;
    const struct sim_params *p = &node->sim->params;
    struct rnic_qp_init init = {
        .pd = node->pd,
        .send_cq = node->send_cq,
        .recv_cq = node->recv_cq,
        .srq = side->has_srq ? node->srq : NULL,
        .max_send_wr = p->sq_len,
        .max_recv_wr = p->rq_len,
        .max_send_sge = p->sge_max,
        .max_recv_sge = p->sge_max,
        .max_inline_len = p->inline_max_len,
        .sq_sig_all = p->sq_sig_all,
    };
    int error = rnic_qp_create(node->rnic, &init, &side->qp);
    if (error == 0) {
        side->qp_num = side->qp->qp_num;
        error = p->wire == SIM_WIRE_ROCE ? sim_conn_prepare(side) : 0;
    }
    if (error == 0) {
        error = rnic_window_alloc(node->rnic, node->pd, 2, &side->window.rkey);
    }
    if (error == 0) {
        error = sim_command_make(side);
    }
    if (error != 0) {
        sim_fail(node->sim, "pair %u.%u: making a queue pair gives %d", side->pair->index,
                 side->index, error);
        return false;
    }
    side->window.state = SIM_WINDOW_FREE;
    for (uint32_t i = prng_below(&node->sim->rng, p->recvs + 1); i > 0; i--) {
        sim_traffic_recv(side, false);
    }
    return true;
}

void sim_side_destroy_ep(struct sim_side *side)
{
    if (sim_ep_is_none(&side->ep)) {
        return;
    }
    if (side->ep.stream == NULL && side->qp != NULL) {
        rnic_qp_modify(side->qp, QP_ERR); // with a stream it goes there by itself
    }
    sim_ep_destroy(side->node, &side->ep);
    side->has_ended = true;
}

// Nothing more completes; what was posted may still arrive at the peer.
static void forget_posts(struct sim_side *side)
{
    for (struct list_link *l = side->ops.next; l != &side->ops; l = l->next) {
        struct sim_op *op = LIST_ENTRY(l, struct sim_op, link);
        sim_claims_settle(op->local, op->local_count);
        op->is_complete = true;
    }
    struct list_link *l;
    while ((l = list_pop_head(&side->recvs)) != NULL) {
        struct sim_recv *recv = LIST_ENTRY(l, struct sim_recv, link);
        sim_claims_settle(recv->claim, recv->count);
        free(recv);
    }
    side->recv_posted = 0;
}

void sim_side_destroy_qp(struct sim_side *side)
{
    rnic_qp_destroy(side->qp);
    side->qp = NULL;
    forget_posts(side);
}

void sim_side_reset_qp(struct sim_side *side)
{
    int error = rnic_qp_modify(side->qp, QP_RESET);
    if (error != 0) {
        sim_fail(side->pair->sim, "pair %u.%u: resetting gives %d", side->pair->index, side->index,
                 error);
    }
    sim_drain(side->pair->sim); // what had completed before is still there
    forget_posts(side);
    side->has_seen_failure = side->has_lost_receives = true;
}

void sim_side_end(struct sim_side *side)
{
    if (side->node == NULL) {
        return;
    }
    if (sim_draw(side->pair->sim, 2)) {
        sim_side_destroy_ep(side);
    }
    if (side->qp != NULL) {
        sim_side_destroy_qp(side);
    }
    sim_side_destroy_ep(side);
    if (side->window.rkey != 0) {
        int error = rnic_window_dealloc(side->node->rnic, side->window.rkey);
        if (error != 0) {
            sim_fail(side->pair->sim, "pair %u.%u: deallocating a window gives %d",
                     side->pair->index, side->index, error);
        }
    }
}

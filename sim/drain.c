// The programs take completions, as they came or as they are tampered with, to the oracle of order.
#include "base/prng.h"
#include "rnic/rnic.h"
#include "sim/oracle_order.h"
#include "sim/sim.h"
#include "sim/tamper.h"

static void take_completion(struct sim_node *node, struct rnic_cq *cq, struct cqe *cqe)
{
    struct sim *sim = node->sim;
    enum sim_tampered tampered = sim_tamper_cqe(sim, cqe);
    unsigned times = tampered == SIM_CQE_LOST ? 0 : tampered == SIM_CQE_TWICE ? 2 : 1;
    sim->completions++;
    sim->activity++;
    for (unsigned i = 0; i < times && !sim->has_failed; i++) {
        if (cq == node->send_cq) {
            sim_order_on_send(node, cqe);
        } else {
            sim_order_on_recv(node, cqe);
        }
    }
}

static unsigned poll_cq(struct sim_node *node, struct rnic_cq *cq)
{
    struct cqe cqes[8];
    int count = rnic_cq_poll(cq, cqes, 1 + prng_below(&node->sim->rng, 8));
    if (count < 0) {
        sim_fail(node->sim, "node %u: polling gives %d", node->index, count);
        return 0;
    }
    if (count > 0 && cq == node->recv_cq && node->is_armed) {
        node->is_armed = false;
        if (node->cq_events != node->cq_events_at_arm + 1) {
            sim_fail(node->sim, "node %u: %u events for completions that came after arming",
                     node->index, node->cq_events - node->cq_events_at_arm);
        }
    }
    for (int i = 0; i < count; i++) {
        take_completion(node, cq, &cqes[i]);
    }
    return (unsigned)count;
}

void sim_node_drain(struct sim_node *node)
{
    while (poll_cq(node, node->send_cq) > 0 && !node->sim->has_failed) {
    }
    while (poll_cq(node, node->recv_cq) > 0 && !node->sim->has_failed) {
    }
    if (!node->is_armed && sim_draw(node->sim, 4)) {
        node->is_armed = true;
        node->cq_events_at_arm = node->cq_events;
        rnic_cq_arm(node->recv_cq, false);
    }
}

void sim_drain(struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.nodes; i++) {
        sim_node_drain(&sim->node[i]);
    }
}

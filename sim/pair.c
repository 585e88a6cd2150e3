#include "sim/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/qp_state.h"
#include "sim/ep.h"
#include "sim/ep_conn.h"
#include "sim/oracle_order.h"
#include "sim/sim.h"
#include "sim/traffic.h"

// So long a phase may last when nothing was done to its connection; when something was, the
// program ends it then. MPA start-up has 10 s each way, a silent peer is found after 10 s. With
// InfiniBand's manager a peer that has asked for time (MRA) is waited for for 69 s, and what was
// lost meanwhile is sent again then.
static const duration_ns phase_limits_ns[] = {
    [SIM_PHASE_CONNECTING] = 100 * NS_PER_S,
    [SIM_PHASE_OPEN] = 120 * NS_PER_S,
    [SIM_PHASE_DRAINING] = 30 * NS_PER_S,
    [SIM_PHASE_CLOSING] = 30 * NS_PER_S,
};

static const char *const phase_names[] = {
    [SIM_PHASE_NONE] = "none",       [SIM_PHASE_CONNECTING] = "connecting",
    [SIM_PHASE_OPEN] = "open",       [SIM_PHASE_DRAINING] = "draining",
    [SIM_PHASE_CLOSING] = "closing",
};

#define DARK_HOST     0x0a636363 // 10.99.99.99
#define NO_ROUTE_HOST 0xc0a80001

const char *sim_phase_name(enum sim_phase phase)
{
    return phase_names[phase];
}

static void enter(struct sim_pair *pair, enum sim_phase phase)
{
    pair->phase = phase;
    pair->limit_ns = pair->sim->now_ns + phase_limits_ns[phase];
    sim_trace(pair->sim, "pair %u is %s", pair->index, phase_names[phase]);
}

void sim_pair_init(struct sim_pair *pair, struct sim *sim, unsigned index)
{
    *pair = (struct sim_pair){.sim = sim, .index = index};
    for (unsigned i = 0; i < 2; i++) {
        pair->side[i] = (struct sim_side){.pair = pair, .index = i};
        list_init(&pair->side[i].ops);
        list_init(&pair->side[i].recvs);
    }
}

static struct sim_greeting greeting_of(const struct sim_pair *pair, uint32_t filler)
{
    struct sim_greeting g = {.pair = pair->index, .generation = pair->generation};
    memset(g.filler, (int)filler, sizeof g.filler);
    return g;
}

/* ---- sides ----------------------------------------------------------------------------------- */

static void side_begin(struct sim_side *side, struct sim_node *node)
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

static bool side_make_qp(struct sim_side *side)
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

static void side_end(struct sim_side *side)
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

/* ---- connecting ------------------------------------------------------------------------------ */

static struct sockaddr_in destination(const struct sim_pair *pair, const struct sim_node *to)
{
    struct sockaddr_in dst = sim_node_addr(to, SIM_NODE_PORT);
    if (pair->fate == SIM_FATE_REFUSED) {
        dst.sin_port = htons(SIM_PORT_CLOSED);
    } else if (pair->fate == SIM_FATE_DARK) {
        dst.sin_addr.s_addr = htonl(DARK_HOST);
    } else if (pair->fate == SIM_FATE_UNROUTABLE) {
        dst.sin_addr.s_addr = htonl(NO_ROUTE_HOST);
    }
    return dst;
}

// Whoever goes by numbers has its queue pair from the beginning, and is told of it later.
static void connect_to(struct sim_pair *pair, const struct sim_node *to)
{
    struct sim *sim = pair->sim;
    struct sim_side *side = &pair->side[0];
    struct sockaddr_in dst = destination(pair, to);
    struct sim_greeting greeting = greeting_of(pair, 1);
    pair->is_qp_late = sim_draw(sim, 4);
    bool has_qp = !pair->is_qp_late || sim->params.wire == SIM_WIRE_ROCE;
    if (has_qp && !side_make_qp(side)) {
        return;
    }
    int error = sim_ep_connect(side, &dst, pair->is_qp_late, &greeting);
    if (error != 0) {
        sim_fail(sim, "pair %u: connecting gives %d", pair->index, error);
    }
}

static void introduce(struct sim_pair *pair)
{
    if (!side_make_qp(&pair->side[0]) || !side_make_qp(&pair->side[1])) {
        return;
    }
    int error = sim_conn_introduce(&pair->side[0], &pair->side[1]);
    if (error != 0) {
        sim_fail(pair->sim, "pair %u: connecting by hand gives %d", pair->index, error);
    }
}

void sim_pair_open(struct sim_pair *pair)
{
    struct sim *sim = pair->sim;
    struct sim_node *from = &sim->node[prng_below(&sim->rng, sim->params.nodes)];
    struct sim_node *to = &sim->node[prng_below(&sim->rng, sim->params.nodes)];
    pair->generation++;
    pair->is_killed = pair->is_starved = pair->has_request = false;
    pair->is_disturbed = sim->now_ns < sim->dark_until_ns;
    pair->fate = SIM_FATE_ACCEPTED;
    if (prng_below(&sim->rng, 1024) < sim->params.refusals) {
        pair->fate = (enum sim_fate)(1 + prng_below(&sim->rng, SIM_FATE_COUNT - 1));
    }
    if (pair->fate == SIM_FATE_UNROUTABLE && sim->params.wire == SIM_WIRE_ROCE) {
        pair->fate = SIM_FATE_DARK; // the net of datagrams has a way to everybody
    }
    side_begin(&pair->side[0], from);
    side_begin(&pair->side[1], to);
    enter(pair, SIM_PHASE_CONNECTING);
    if (sim->params.roce.by_hand > 0 && prng_below(&sim->rng, 1024) < sim->params.roce.by_hand) {
        introduce(pair);
    } else {
        connect_to(pair, to);
    }
}

static void accept_request(struct sim_pair *pair)
{
    struct sim_side *side = &pair->side[1];
    struct sim_greeting greeting = greeting_of(pair, 2);
    if (!side_make_qp(side)) {
        return;
    }
    int error = sim_ep_accept(side, &greeting);
    if (error != 0) {
        if (!pair->is_disturbed) {
            sim_fail(pair->sim, "pair %u: accepting gives %d", pair->index, error);
        }
        sim_side_destroy_ep(side);
    }
}

void sim_pair_answer(struct sim_pair *pair)
{
    struct sim_side *side = &pair->side[1];
    struct sim_greeting greeting = greeting_of(pair, 3);
    pair->has_request = false;
    if (side->has_ended) {
        return;
    }
    if (pair->fate == SIM_FATE_ACCEPTED) {
        accept_request(pair);
        return;
    }
    if (pair->fate == SIM_FATE_REJECTED) {
        int error = sim_ep_reject(side, &greeting);
        if (error != 0 && !pair->is_disturbed) {
            sim_fail(pair->sim, "pair %u: rejecting gives %d", pair->index, error);
        }
    }
    sim_side_destroy_ep(side);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void check_greeting(struct sim_side *side, const struct rnic_ep_event *event,
                           uint32_t filler)
{
    struct sim_greeting wanted = greeting_of(side->pair, filler);
    // A responder of weft's may pad or append nothing that shows.
    if (event->private_data_len != sizeof wanted ||
        memcmp(event->private_data, &wanted, sizeof wanted) != 0) {
        sim_fail(side->pair->sim, "pair %u.%u: event %d with other private data (%u octets)",
                 side->pair->index, side->index, event->type, event->private_data_len);
    }
}

static void on_request(struct sim_node *node, const struct sim_letter *letter)
{
    struct sim_greeting greeting;
    struct sim_side *side = letter->side;
    memcpy(&greeting, letter->event.private_data, sizeof greeting);
    if (greeting.generation != side->pair->generation || side->node != node ||
        side->pair->phase != SIM_PHASE_CONNECTING || !sim_ep_is_none(&side->ep)) {
        struct sim_ep ep = letter->ep; // the program has given it up
        sim_ep_destroy(node, &ep);
        return;
    }
    check_greeting(side, &letter->event, 1);
    side->ep = letter->ep;
    side->pair->has_request = true;
}

static void on_established(struct sim_side *side, const struct rnic_ep_event *event)
{
    if (side->is_established || side->has_ended || side->pair->fate != SIM_FATE_ACCEPTED) {
        sim_fail(side->pair->sim, "pair %u.%u: established, which it ought not to be",
                 side->pair->index, side->index);
    }
    if (side->index == 0 && !side->pair->is_qp_late) {
        check_greeting(side, event, 2);
    }
    side->is_established = true;
    side->ird = event->ird;
    side->ord = event->ord;
}

static void on_reply(struct sim_side *side, const struct rnic_ep_event *event)
{
    struct sim_pair *pair = side->pair;
    bool has_given = side->qp != NULL && side->ep.conn == NULL;
    if (!pair->is_qp_late || has_given) {
        sim_fail(pair->sim, "pair %u.%u: a reply that nobody waits for", pair->index, side->index);
        return;
    }
    check_greeting(side, event, 2);
    bool has_qp = side->qp != NULL || side_make_qp(side);
    int error = has_qp ? sim_ep_establish(side) : 0;
    if (error != 0 && !pair->is_disturbed) {
        sim_fail(pair->sim, "pair %u.%u: establishing gives %d", pair->index, side->index, error);
    }
}

static const struct {
    enum rnic_ep_event_type type;
    int status;
} fates[SIM_FATE_COUNT] = {
    [SIM_FATE_REJECTED] = {RNIC_EP_REJECTED, -ECONNREFUSED},
    [SIM_FATE_REFUSED] = {RNIC_EP_REJECTED, -ECONNREFUSED},
    [SIM_FATE_DARK] = {RNIC_EP_UNREACHABLE, -ETIMEDOUT},
    [SIM_FATE_UNROUTABLE] = {RNIC_EP_UNREACHABLE, -ENETUNREACH},
};

// On packets a queue pair is left to its program, and goes nowhere by itself.
static void end_queue_pair(struct sim_side *side)
{
    if (side->ep.stream == NULL && side->qp != NULL) {
        rnic_qp_modify(side->qp, QP_ERR);
    }
}

static void on_failed(struct sim_side *side, const struct rnic_ep_event *event)
{
    struct sim_pair *pair = side->pair;
    bool is_expected = pair->is_disturbed || pair->fate == SIM_FATE_IGNORED;
    if (!is_expected &&
        (pair->fate == SIM_FATE_ACCEPTED || side->index == 1 ||
         event->type != fates[pair->fate].type || event->status != fates[pair->fate].status)) {
        sim_fail(pair->sim, "pair %u.%u: connecting (fate %d) ends with event %d status %d",
                 pair->index, side->index, pair->fate, event->type, event->status);
    }
    if (!pair->is_disturbed && pair->fate == SIM_FATE_REJECTED) {
        check_greeting(side, event, 3);
    }
    if (event->type == RNIC_EP_REJECTED) {
        end_queue_pair(side);
    }
    side->has_ended = true;
}

static void on_disconnected(struct sim_side *side)
{
    struct sim_pair *pair = side->pair;
    end_queue_pair(side);
    if (!side->is_established || side->has_ended) {
        sim_fail(pair->sim, "pair %u.%u: disconnected %s", pair->index, side->index,
                 side->has_ended ? "a second time" : "before it was established");
    } else if (!pair->is_disturbed && pair->phase != SIM_PHASE_CLOSING) {
        sim_fail(pair->sim, "pair %u.%u: disconnected while %s, and nothing was done to it",
                 pair->index, side->index, phase_names[pair->phase]);
    }
    side->has_ended = true;
}

void sim_pair_on_letter(struct sim_node *node, const struct sim_letter *letter)
{
    struct sim_side *side = letter->side;
    if (sim_ep_is_none(&letter->ep)) {
        return;
    }
    if (letter->event.type == RNIC_EP_CONNECT_REQUEST) {
        on_request(node, letter);
        return;
    }
    if (side == NULL || !sim_ep_is_same(&letter->ep, &side->ep)) {
        return; // of a connection that was given up before the program saw it
    }
    sim_trace(node->sim, "pair %u.%u event %d status %d", side->pair->index, side->index,
              letter->event.type, letter->event.status);
    switch (letter->event.type) {
    case RNIC_EP_ESTABLISHED:
        on_established(side, &letter->event);
        break;
    case RNIC_EP_CONNECT_REPLY:
        on_reply(side, &letter->event);
        break;
    case RNIC_EP_DISCONNECTED:
        on_disconnected(side);
        break;
    default:
        on_failed(side, &letter->event);
        break;
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

void sim_pair_kill(struct sim_pair *pair)
{
    pair->is_disturbed = true;
    for (unsigned i = 0; i < 2; i++) {
        struct sim_side *side = &pair->side[i];
        if (sim_side_is_live(side)) {
            sim_ep_break(side);
        } else if (!side->has_ended) {
            sim_side_destroy_ep(side);
            side->has_ended = true;
        }
    }
    enter(pair, SIM_PHASE_CLOSING);
}

void sim_pair_disconnect(struct sim_pair *pair)
{
    struct sim_side *side = &pair->side[prng_below(&pair->sim->rng, 2)];
    if (!sim_side_is_live(side)) {
        return;
    }
    int error = sim_ep_disconnect(side);
    if (error != 0 && !pair->is_disturbed) {
        sim_fail(pair->sim, "pair %u.%u: disconnecting gives %d", pair->index, side->index, error);
    }
    enter(pair, SIM_PHASE_CLOSING);
}

static void pair_end(struct sim_pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_side *side = &pair->side[i];
        if (side->qp != NULL && side->is_established) {
            sim_order_check_end(side);
        }
    }
    side_end(&pair->side[0]);
    side_end(&pair->side[1]);
    sim_order_forget(&pair->side[0]);
    sim_order_forget(&pair->side[1]);
    pair->phase = SIM_PHASE_NONE;
    pair->sim->ended_connections++;
    sim_trace(pair->sim, "pair %u has ended", pair->index);
}

void sim_pair_abandon(struct sim_pair *pair)
{
    side_end(&pair->side[0]);
    side_end(&pair->side[1]);
    sim_order_forget(&pair->side[0]);
    sim_order_forget(&pair->side[1]);
    pair->phase = SIM_PHASE_NONE;
}

static bool has_ended(const struct sim_side *side)
{
    return side->has_ended || sim_ep_is_none(&side->ep);
}

static void on_limit(struct sim_pair *pair)
{
    bool is_killed = pair->phase == SIM_PHASE_CLOSING && pair->is_killed;
    if (!pair->is_disturbed || is_killed) {
        sim_fail(pair->sim,
                 "pair %u: still %s after %llu s of virtual time (sides %s, %s; work left %u, %u)",
                 pair->index, phase_names[pair->phase],
                 (unsigned long long)(phase_limits_ns[pair->phase] / NS_PER_S),
                 has_ended(&pair->side[0]) ? "over" : "alive",
                 has_ended(&pair->side[1]) ? "over" : "alive", pair->side[0].ops_left,
                 pair->side[1].ops_left);
        return;
    }
    sim_pair_kill(pair);
    pair->is_killed = true;
}

void sim_pair_settle(struct sim_pair *pair)
{
    struct sim_side *a = &pair->side[0], *b = &pair->side[1];
    bool is_over = has_ended(a) || (!sim_ep_is_none(&b->ep) && b->has_ended);
    switch (pair->phase) {
    case SIM_PHASE_NONE:
        return;
    case SIM_PHASE_CONNECTING:
        if (is_over) {
            enter(pair, SIM_PHASE_CLOSING);
        } else if (a->is_established && b->is_established) {
            enter(pair, SIM_PHASE_OPEN);
        }
        break;
    case SIM_PHASE_OPEN:
        if (is_over) {
            enter(pair, SIM_PHASE_CLOSING);
        } else if (a->ops_left == 0 && b->ops_left == 0) {
            enter(pair, SIM_PHASE_DRAINING);
        }
        break;
    case SIM_PHASE_DRAINING:
        if (is_over) {
            enter(pair, SIM_PHASE_CLOSING);
        } else if (sim_order_is_quiet(a) && sim_order_is_quiet(b)) {
            sim_pair_disconnect(pair);
        }
        break;
    case SIM_PHASE_CLOSING:
        if (has_ended(a) && has_ended(b)) {
            sim_drain(pair->sim);
            pair_end(pair);
            return;
        }
        break;
    }
    if (pair->sim->now_ns >= pair->limit_ns) {
        on_limit(pair);
    }
}

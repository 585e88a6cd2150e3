// Two sides come together: requests, answers, and what events say of them.

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/qp_state.h"
#include "rnic/rnic.h"
#include "sim/ep.h"
#include "sim/ep_conn.h"
#include "sim/node.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/sim.h"

#define DARK_HOST     0x0a636363 // 10.99.99.99
#define NO_ROUTE_HOST 0xc0a80001

static struct sim_greeting greeting_of(const struct sim_pair *pair, uint32_t filler)
{
    struct sim_greeting g = {.pair = pair->index, .generation = pair->generation};
    memset(g.filler, (int)filler, sizeof g.filler);
    return g;
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
    if (has_qp && !sim_side_make_qp(side)) {
        return;
    }
    int error = sim_ep_connect(side, &dst, pair->is_qp_late, &greeting);
    if (error != 0) {
        sim_fail(sim, "pair %u: connecting gives %d", pair->index, error);
    }
}

static void introduce(struct sim_pair *pair)
{
    if (!sim_side_make_qp(&pair->side[0]) || !sim_side_make_qp(&pair->side[1])) {
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
    sim_side_begin(&pair->side[0], from);
    sim_side_begin(&pair->side[1], to);
    sim_pair_enter(pair, SIM_PHASE_CONNECTING);
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
    if (!sim_side_make_qp(side)) {
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
    bool has_qp = side->qp != NULL || sim_side_make_qp(side);
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
    // Who has accepted hears only then that he is connected when the peer's first FPDU has come.
    bool is_early = !side->is_established && side->index == 1;
    if ((!side->is_established && !is_early) || side->has_ended) {
        sim_fail(pair->sim, "pair %u.%u: disconnected %s", pair->index, side->index,
                 side->has_ended ? "a second time" : "before it was established");
    } else if (!pair->is_disturbed && pair->phase != SIM_PHASE_CLOSING) {
        sim_fail(pair->sim, "pair %u.%u: disconnected while %s, and nothing was done to it",
                 pair->index, side->index, sim_phase_name(pair->phase));
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

// The phases of a connection: what each waits for, how long, and what is left when it has ended.

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/prng.h"
#include "base/qp_state.h"
#include "base/time.h"
#include "sim/ep.h"
#include "sim/ep_conn.h"
#include "sim/oracle_order.h"
#include "sim/pair.h"
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

const char *sim_phase_name(enum sim_phase phase)
{
    return phase_names[phase];
}

void sim_pair_enter(struct sim_pair *pair, enum sim_phase phase)
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
    sim_pair_enter(pair, SIM_PHASE_CLOSING);
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
    sim_pair_enter(pair, SIM_PHASE_CLOSING);
}

static void pair_end(struct sim_pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_side *side = &pair->side[i];
        if (side->qp != NULL && side->is_established) {
            sim_order_check_end(side);
        }
    }
    sim_side_end(&pair->side[0]);
    sim_side_end(&pair->side[1]);
    sim_order_forget(&pair->side[0]);
    sim_order_forget(&pair->side[1]);
    pair->phase = SIM_PHASE_NONE;
    pair->sim->ended_connections++;
    sim_trace(pair->sim, "pair %u has ended", pair->index);
}

void sim_pair_abandon(struct sim_pair *pair)
{
    sim_side_end(&pair->side[0]);
    sim_side_end(&pair->side[1]);
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
            sim_pair_enter(pair, SIM_PHASE_CLOSING);
        } else if (a->is_established && b->is_established) {
            sim_pair_enter(pair, SIM_PHASE_OPEN);
        }
        break;
    case SIM_PHASE_OPEN:
        if (is_over) {
            sim_pair_enter(pair, SIM_PHASE_CLOSING);
        } else if (a->ops_left == 0 && b->ops_left == 0) {
            sim_pair_enter(pair, SIM_PHASE_DRAINING);
        }
        break;
    case SIM_PHASE_DRAINING:
        if (is_over) {
            sim_pair_enter(pair, SIM_PHASE_CLOSING);
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

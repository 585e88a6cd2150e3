// A simulation's clock and loop: what is due happens, until the programs are done.

#include "base/list.h"
#include "base/prng.h"
#include "base/time.h"
#include "rnic/create.h"
#include "sim/ep.h"
#include "sim/flow.h"
#include "sim/node.h"
#include "sim/oracle_order.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/path.h"
#include "sim/sim.h"
#include "sim/stranger.h"
#include "sim/tamper.h"
#include "sim/traffic.h"
#include "sim/trouble.h"

enum {
    REST_TURNS_MAX = 20000,    // turns at one instant until nothing moves
    PAST_DEADLINES_MAX = 1000, // looks at one instant without anything moving
    MEMORY_CHECK_STEPS = 16,
    POSTS_PER_LOOK_MAX = 4,
    POSTS_ON_FAILED_ONE_IN = 32,
};
static const duration_ns idle_max_ns = 50 * NS_PER_MS;

static void on_device_trace(struct trace *trace, enum trace_room room, const char *line)
{
    sim_trace(LIST_ENTRY(trace, struct sim, trace), "  %s", line);
}

/* ---- what the programs see ------------------------------------------------------------------- */

static void read_mail(struct sim_node *node)
{
    for (unsigned i = 0; i < node->letter_count; i++) {
        struct sim_letter letter = node->mailbox[i];
        node->sim->activity++;
        sim_pair_on_letter(node, &letter);
    }
    node->letter_count = 0;
}

static void programs_notice(struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.nodes; i++) {
        read_mail(&sim->node[i]);
        if (!sim_draw(sim, 4)) { // some programs are slow to look
            sim_node_drain(&sim->node[i]);
        }
    }
    sim_flows_notice(sim);
    for (unsigned i = 0; i < sim->params.pairs; i++) {
        sim_pair_settle(&sim->pair[i]);
    }
}

/* ---- what the programs do -------------------------------------------------------------------- */

static void side_works(struct sim_side *side)
{
    struct sim *sim = side->pair->sim;
    uint32_t posts = 1 + prng_below(&sim->rng, POSTS_PER_LOOK_MAX);
    if (side->has_seen_failure && !sim_draw(sim, POSTS_ON_FAILED_ONE_IN)) {
        return;
    }
    for (uint32_t i = 0; i < posts && sim_side_is_live(side) && !sim->has_failed; i++) {
        bool may_err = prng_below(&sim->rng, 1024) < sim->params.mistakes;
        if (!side->pair->is_starved && sim_draw(sim, 2)) {
            sim_traffic_recv(side, may_err && side->pair->phase == SIM_PHASE_OPEN);
        } else if (side->pair->phase == SIM_PHASE_OPEN) {
            sim_traffic_send(side, may_err);
        }
    }
}

static void pair_works(struct sim_pair *pair)
{
    struct sim *sim = pair->sim;
    switch (pair->phase) {
    case SIM_PHASE_NONE:
        if (sim->connections_left > 0 && sim_draw(sim, 2)) {
            sim->connections_left--;
            sim_pair_open(pair);
        }
        break;
    case SIM_PHASE_CONNECTING:
        if (pair->has_request && sim_draw(sim, 2)) {
            sim_pair_answer(pair);
        }
        break;
    case SIM_PHASE_OPEN:
    case SIM_PHASE_DRAINING:
        side_works(&pair->side[0]);
        side_works(&pair->side[1]);
        break;
    case SIM_PHASE_CLOSING:
        break;
    }
}

// The longer nothing happens, the later they look again.
static void programs_act(struct sim *sim)
{
    uint64_t wr_ids = sim->wr_id_next;
    for (unsigned i = 0; i < sim->params.pairs && !sim->has_failed; i++) {
        pair_works(&sim->pair[i]);
    }
    sim_flows_act(sim);
    sim_trouble(sim);
    if (sim->activity > 0 || sim->wr_id_next != wr_ids) {
        sim->idle_ns = sim->params.think_max_ns;
    } else if (sim->idle_ns < idle_max_ns) {
        sim->idle_ns *= 2;
    }
    sim->activity = 0;
    sim->program_at_ns = sim->now_ns + 1 + prng_below(&sim->rng, (uint32_t)sim->idle_ns);
}

/* ---- the loop -------------------------------------------------------------------------------- */

// Every NIC runs until nothing moves. True if anything did.
static bool run_to_rest(struct sim *sim)
{
    for (unsigned turn = 0; turn < REST_TURNS_MAX; turn++) {
        bool moved =
            !sim_tamper_is(sim, SIM_TAMPER_STOP) && sim_path_advance(&sim->path, sim->now_ns);
        for (unsigned i = 0; i < sim->params.nodes; i++) {
            moved |= rnic_step(sim->node[i].rnic);
        }
        if (!moved) {
            return turn > 0;
        }
        sim->activity++;
    }
    sim_fail(sim, "the NICs do not come to rest");
    return true;
}

static void check_memory(struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.nodes; i++) {
        sim_node_check_memory(&sim->node[i]);
    }
    sim_flows_check_memory(sim);
    for (unsigned i = 0; i < 2 * sim->params.pairs; i++) {
        sim_order_check_placement(&sim->pair[i / 2].side[i % 2]);
    }
}

// With packets a step is a packet, and there are the more of them the more memory there is.
static uint32_t check_steps(const struct sim *sim)
{
    const struct sim_params *p = &sim->params;
    return MEMORY_CHECK_STEPS + (p->wire == SIM_WIRE_ROCE ? p->block_len / 1024 : 0);
}

static instant_ns next_instant(const struct sim *sim)
{
    instant_ns at_ns = sim->program_at_ns;
    if (!sim_tamper_is(sim, SIM_TAMPER_STOP)) {
        at_ns = instant_min(at_ns, sim_path_next_event(&sim->path));
    }
    for (unsigned i = 0; i < sim->params.nodes; i++) {
        at_ns = instant_min(at_ns, rnic_next_deadline(sim->node[i].rnic));
    }
    return at_ns;
}

static bool is_over(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->params.pairs; i++) {
        if (sim->pair[i].phase != SIM_PHASE_NONE) {
            return false;
        }
    }
    return sim->connections_left == 0 && sim_flows_are_over(sim);
}

static void loop(struct sim *sim)
{
    unsigned past = 0;
    while (!sim->has_failed && !is_over(sim)) {
        sim->step++;
        past = run_to_rest(sim) ? 0 : past + 1;
        programs_notice(sim);
        if (sim->now_ns >= sim->program_at_ns) {
            programs_act(sim);
        }
        if (sim->step % check_steps(sim) == 0) {
            check_memory(sim);
        }
        instant_ns at_ns = next_instant(sim);
        if (at_ns > sim->now_ns) {
            sim->now_ns = at_ns;
            past = 0;
        } else if (past > PAST_DEADLINES_MAX) {
            sim_fail(sim, "a deadline has passed and nobody serves it");
        }
    }
    if (!sim->has_failed) {
        run_to_rest(sim);
        check_memory(sim);
    }
}

/* ---- a whole run ----------------------------------------------------------------------------- */

static instant_ns clock_of_sim(void *ctx)
{
    return ((const struct sim *)ctx)->now_ns;
}

static void node_begin(struct sim *sim, unsigned index)
{
    if (sim_node_init(&sim->node[index], sim, index) && sim_ep_listen(&sim->node[index]) != 0) {
        sim_fail(sim, "node %u: cannot listen", index);
    }
}

static void node_end(struct sim_node *node)
{
    read_mail(node);
    sim_ep_destroy(node, &node->listener);
    sim_node_fini(node);
}

// After a failure the objects are in no order that could be checked: they only go away.
static void take_down(struct sim *sim, unsigned nodes_made)
{
    for (unsigned i = 0; i < sim->params.pairs; i++) {
        if (sim->pair[i].phase != SIM_PHASE_NONE) {
            sim_pair_abandon(&sim->pair[i]);
        }
    }
    sim_flows_fini(sim);
    for (unsigned i = 0; i < nodes_made; i++) {
        node_end(&sim->node[i]);
    }
    sim_stranger_fini(sim);
    sim_path_end(&sim->path);
}

bool sim_run_params(struct sim *sim, const struct sim_params *params, bool is_traced,
                    const struct sim_tamper *tamper)
{
    *sim = (struct sim){.params = *params, .is_traced = is_traced, .now_ns = NS_PER_S};
    sim->trace.emit = on_device_trace;
    sim->trace.rooms = is_traced ? UINT32_MAX : 0;
    if (tamper != NULL) {
        sim->tamper = *tamper;
    }
    prng_init(&sim->rng, ~params->seed);
    sim->connections_left = params->connections;
    sim->idle_ns = params->think_max_ns;
    sim->wr_id_next = 1;
    for (unsigned i = 0; i < SIM_PAIR_MAX; i++) {
        sim_pair_init(&sim->pair[i], sim, i);
    }
    unsigned nodes_made = 0;
    if (!sim_path_make(&sim->path, params, prng_next(&sim->rng), clock_of_sim, sim) ||
        !sim_stranger_init(sim)) {
        sim_fail(sim, "no memory for the net");
    }
    while (!sim->has_failed && nodes_made < params->nodes) {
        node_begin(sim, nodes_made);
        nodes_made++;
    }
    if (!sim->has_failed && sim_flows_init(sim)) {
        loop(sim);
    }
    take_down(sim, nodes_made);
    return !sim->has_failed;
}

bool sim_run(struct sim *sim, uint64_t seed, enum sim_wire wire, bool is_traced,
             const struct sim_tamper *tamper)
{
    struct sim_params params;
    sim_params_draw(&params, seed, wire);
    return sim_run_params(sim, &params, is_traced, tamper);
}

#include "sim/trouble.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/prng.h"
#include "base/qp_state.h"
#include "base/time.h"
#include "link/sim.h"
#include "rnic/reads.h"
#include "rnic/rnic.h"
#include "sim/command.h"
#include "sim/node.h"
#include "sim/oracle_memory.h"
#include "sim/oracle_order.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/path.h"
#include "sim/sim.h"
#include "sim/stranger.h"

static bool is_due(struct sim *sim, uint32_t per_1024)
{
    return per_1024 > 0 && prng_below(&sim->rng, 1024) < per_1024;
}

/* ---- the net --------------------------------------------------------------------------------- */

static void strike(struct sim *sim, struct sim_pair *pair)
{
    struct sockaddr_storage end;
    enum sim_fault fault = (enum sim_fault)prng_below(&sim->rng, SIM_FAULT_COUNT);
    bool has_crc =
        sim->params.crc[pair->side[0].node->index] || sim->params.crc[pair->side[1].node->index];
    if (pair->side[0].ep.stream == NULL || (fault == SIM_FAULT_CORRUPT && !has_crc) ||
        rnic_ep_local_addr(pair->side[0].ep.stream, &end) != 0 ||
        !sim_path_strike(&sim->path, fault, (struct sockaddr_in *)&end)) {
        return;
    }
    sim_trace(sim, "pair %u is struck: %s", pair->index, sim_fault_name(fault));
    sim->faults++;
    if (fault == SIM_FAULT_STALL) {
        pair->limit_ns += 10 * NS_PER_S; // nothing is lost, it only takes longer
        pair->is_disturbed |= pair->phase == SIM_PHASE_CONNECTING;
    } else {
        pair->is_disturbed = true;
    }
}

// For less long than queue pairs are patient, so that nothing fails by it; or for longer.
static void cut(struct sim *sim)
{
    duration_ns timeout_ns = UINT64_C(4096) << sim->params.roce.timeout;
    bool is_short = !sim_draw(sim, 4);
    if (sim->now_ns < sim->whole_until_ns) {
        return; // tries that failed in a row are counted
    }
    duration_ns length_ns =
        is_short ? 1 + prng_below(&sim->rng, (uint32_t)(2 * timeout_ns)) : 8 * NS_PER_S;
    sim_trace(sim, "the net is cut for %" PRIu64 " us", length_ns / NS_PER_US);
    sim->whole_until_ns = instant_after(sim->now_ns, length_ns + 64 * timeout_ns);
    sim->faults++;
    sim_path_cut(&sim->path, instant_after(sim->now_ns, length_ns));
    sim->dark_until_ns = is_short ? sim->dark_until_ns : instant_after(sim->now_ns, length_ns);
    for (unsigned i = 0; i < sim->params.pairs; i++) {
        sim->pair[i].is_disturbed |= !is_short;
    }
}

/* ---- the programs ---------------------------------------------------------------------------- */

static bool is_lent(const struct sim *sim, const struct sim_block *block)
{
    for (unsigned i = 0; i < 2 * sim->params.pairs; i++) {
        const struct sim_side *side = &sim->pair[i / 2].side[i % 2];
        bool is_window_on =
            side->window.block == block && side->window.state >= SIM_WINDOW_CHANGING;
        if (sim->pair[i / 2].phase != SIM_PHASE_NONE &&
            (is_window_on || sim_command_is_on(side, block))) {
            return true;
        }
    }
    return false;
}

// The program takes memory away that work requests name, and gives it back elsewhere.
static void deregister(struct sim *sim)
{
    struct sim_node *node = &sim->node[prng_below(&sim->rng, sim->params.nodes)];
    struct sim_block *block = &node->block[prng_below(&sim->rng, SIM_BLOCK_OPEN_COUNT)];
    if (is_lent(sim, block)) {
        return;
    }
    sim_trace(sim, "node %u deregisters %08x", node->index, block->stag);
    int error = rnic_region_deregister(node->rnic, block->stag);
    block->stag = 0;
    if (error != 0) {
        sim_fail(sim, "node %u: deregistering gives %d", node->index, error);
        return;
    }
    for (unsigned i = 0; i < sim->params.pairs; i++) {
        if (sim->pair[i].phase != SIM_PHASE_NONE) {
            sim_order_on_deregistered(&sim->pair[i], block);
        }
    }
    if (sim_block_move(block)) {
        sim_node_register(node, block);
    }
}

static void upset(struct sim *sim, struct sim_pair *pair)
{
    struct sim_side *side = &pair->side[prng_below(&sim->rng, 2)];
    if (pair->phase != SIM_PHASE_OPEN || !sim_side_is_live(side)) {
        return;
    }
    pair->is_disturbed = true;
    switch (prng_below(&sim->rng, 6)) {
    case 0:
        sim_trace(sim, "pair %u.%u disconnects while it is busy", pair->index, side->index);
        sim_pair_disconnect(pair);
        break;
    case 1:
        sim_trace(sim, "pair %u.%u destroys its queue pair", pair->index, side->index);
        sim_side_destroy_qp(side);
        break;
    case 2:
        sim_trace(sim, "pair %u.%u goes into the error state", pair->index, side->index);
        rnic_qp_modify(side->qp, QP_ERR);
        break;
    case 3:
        sim_trace(sim, "pair %u.%u resets its queue pair", pair->index, side->index);
        sim_side_reset_qp(side);
        break;
    case 4:
        sim_trace(sim, "pair %u.%u destroys its endpoint", pair->index, side->index);
        sim_side_destroy_ep(side);
        break;
    default:
        sim_trace(sim, "pair %u posts no more receives", pair->index);
        pair->is_starved = true;
        break;
    }
}

// As `weft reads` does, whatever is under way.
static void retune(struct sim *sim)
{
    struct sim_node *node = &sim->node[prng_below(&sim->rng, sim->params.nodes)];
    uint32_t least = 16 + sim->params.message_max_len / 32;
    uint32_t len = sim_draw(sim, 6) ? 0 : least << prng_below(&sim->rng, 6);
    sim_trace(sim, "node %u: the allotment is to be %u", node->index, len);
    rnic_reads_set_allotment(node->rnic, len);
}

void sim_trouble(struct sim *sim)
{
    if (is_due(sim, sim->params.retunes)) {
        retune(sim);
    }
    struct sim_pair *pair = &sim->pair[prng_below(&sim->rng, sim->params.pairs)];
    bool is_alive = pair->phase == SIM_PHASE_CONNECTING || pair->phase == SIM_PHASE_OPEN ||
                    pair->phase == SIM_PHASE_DRAINING;
    if (is_alive && is_due(sim, sim->params.faults)) {
        if (sim->params.wire == SIM_WIRE_ROCE) {
            cut(sim);
        } else {
            strike(sim, pair);
        }
    }
    if (is_due(sim, sim->params.roce.strangers)) {
        sim_stranger_act(sim);
    }
    if (is_alive && is_due(sim, sim->params.turmoil)) {
        if (sim_draw(sim, 3)) {
            deregister(sim);
        } else {
            upset(sim, pair);
        }
    }
}

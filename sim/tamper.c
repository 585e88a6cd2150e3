#include "sim/tamper.h"

#include "sim/node.h"
#include "sim/sim.h"

bool sim_tamper_is(const struct sim *sim, enum sim_tamper_kind kind)
{
    return sim->tamper.kind == kind;
}

bool sim_tamper_flow(const struct sim *sim, const struct cqe *cqe)
{
    return sim->tamper.kind == SIM_TAMPER_FLOW && sim->completions >= sim->tamper.at;
}

static void tamper_memory(struct sim *sim)
{
    struct sim_block *block = &sim->node[0].block[SIM_BLOCK_PRIVATE];
    if (sim->tamper.kind == SIM_TAMPER_OCTET) {
        block->octets[block->len / 2] ^= 1;
    } else if (sim->tamper.kind == SIM_TAMPER_FENCE) {
        block->octets[block->len] ^= 1;
    }
}

enum sim_tampered sim_tamper_cqe(struct sim *sim, struct cqe *cqe)
{
    if (sim->tamper.kind == SIM_TAMPER_REFERENCE && sim->completions >= sim->tamper.at) {
        cqe->reference ^= 1;
        return SIM_CQE_AS_IS;
    }
    if (sim->tamper.kind == SIM_TAMPER_NONE || sim->completions != sim->tamper.at) {
        return SIM_CQE_AS_IS;
    }
    tamper_memory(sim);
    switch (sim->tamper.kind) {
    case SIM_TAMPER_LOSE:
        return SIM_CQE_LOST;
    case SIM_TAMPER_REPEAT:
        return SIM_CQE_TWICE;
    case SIM_TAMPER_STATUS:
        cqe->status ^= 5;
        break;
    case SIM_TAMPER_LENGTH:
        cqe->byte_len ^= 1;
        break;
    default:
        break;
    }
    return SIM_CQE_AS_IS;
}

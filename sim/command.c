#include "sim/command.h"

#include <string.h>

#include "base/prng.h"
#include "base/span.h"
#include "rnic/config.h"
#include "sim/node.h"
#include "sim/oracle_memory.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/sim.h"

enum { ELEMENT_MAX = 16, COMMAND_MAX = 2 };

// The reference stands elsewhere, and in another order, in what advertises and in what closes.
static const struct oneshot_config config = {
    .command_max = COMMAND_MAX,
    .element_max = ELEMENT_MAX,
    .request = {.offset = 3, .len = 4},
    .answer = {.offset = 8, .len = 5, .is_little_endian = true},
};

int sim_command_make(struct sim_side *side)
{
    if (side->node->sim->params.wire == SIM_WIRE_ROCE) {
        return 0; // one-shot RDMA is of streams
    }
    int error = rnic_oneshot_create(side->qp, &config);
    side->command.state = error == 0 ? SIM_COMMAND_FREE : SIM_COMMAND_NONE;
    return error;
}

bool sim_command_is_on(const struct sim_side *side, const struct sim_block *block)
{
    return side->command.state >= SIM_COMMAND_CHANGING && side->command.block == block;
}

bool sim_command_may_forbid(const struct sim_side *side, enum wqe_opcode opcode)
{
    bool is_of_rfc_7306 = opcode == WQE_RDMA_WRITE_WITH_IMM || opcode == WQE_ATOMIC_CMP_AND_SWP ||
                          opcode == WQE_ATOMIC_FETCH_AND_ADD;
    return is_of_rfc_7306 && side->pair->sim->params.oneshot == RNIC_ONESHOT_OPCODE &&
           !rnic_oneshot_agreed(side->qp).is_known;
}

/* ---- the list -------------------------------------------------------------------------------- */

// The whole block in drawn elements, some of them without an octet.
static void fill_list(struct sim *sim, struct sim_block *block, struct oneshot_command *command)
{
    uint32_t count = 1 + prng_below(&sim->rng, ELEMENT_MAX), at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t left = block->len - at;
        uint32_t len = i + 1 == count ? left : prng_below(&sim->rng, left + 1);
        command->list.elements[i].octets = mspan_of(block->octets + at, len);
        at += len;
    }
    mem_list_init(&command->list, command->list.elements, count);
    command->offset = 0;
    command->length = block->len;
    command->access = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE;
}

// The message is in `content`, and in the memory that it leaves from.
static bool write_reference(const struct oneshot_field *field, struct sim_op *op,
                            uint64_t reference)
{
    if (op->len < field->offset + field->len) {
        return false;
    }
    oneshot_field_write(field, op->content, reference);
    sim_claims_write(op->local, op->local_count, op->content);
    return true;
}

/* ---- Sends that advertise and close ---------------------------------------------------------- */

static void advertise(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim *sim = side->pair->sim;
    struct sim_command *c = &side->command;
    struct oneshot_command *command = wq_oneshot_slot(side->qp->wq);
    uint64_t reference = (uint32_t)prng_next(&sim->rng);
    if (command == NULL) {
        sim_fail(sim, "pair %u.%u: no one-shot command is free, and none is outstanding",
                 side->pair->index, side->index);
        return;
    }
    if (!write_reference(&config.request, op, reference)) {
        return;
    }
    *c = (struct sim_command){
        .state = SIM_COMMAND_CHANGING,
        .stag = command->stag,
        .closed_stag = c->stag,
        .reference = reference,
        .block = &side->node->block[prng_below(&sim->rng, SIM_BLOCK_OPEN_COUNT)],
    };
    fill_list(sim, c->block, command);
    command->reference = reference;
    wqe->imm_or_inv = command->stag;
    wq_oneshot_commit(side->qp->wq, wqe);
    op->command = c;
    op->command_use = SIM_COMMAND_ADVERTISED;
}

static void close_command(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim_command *c = &sim_side_peer(side)->command;
    if (!write_reference(&config.answer, op, c->reference)) {
        return;
    }
    c->state = SIM_COMMAND_CHANGING;
    wqe->flags |= WQE_CLOSE;
    wqe->imm_or_inv = c->stag;
    op->command = c;
    op->command_use = SIM_COMMAND_CLOSED;
}

void sim_command_draw(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    const struct sim_command *theirs = &sim_side_peer(side)->command;
    if (side->command.state == SIM_COMMAND_NONE || sim_draw(side->pair->sim, 4)) {
        return;
    }
    const struct rnic_oneshot_agreed agreed = rnic_oneshot_agreed(side->qp);
    if (theirs->state == SIM_COMMAND_OPEN && theirs->users == 0) {
        close_command(side, op, wqe);
    } else if (side->command.state == SIM_COMMAND_FREE && agreed.has_advertise) {
        advertise(side, op, wqe);
    }
}

void sim_command_name(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe)
{
    struct sim_command *c = &sim_side_peer(side)->command;
    bool is_atomic = op->opcode == WQE_ATOMIC_CMP_AND_SWP || op->opcode == WQE_ATOMIC_FETCH_AND_ADD;
    if (c->state == SIM_COMMAND_OPEN && c->block == op->remote.block && !is_atomic &&
        op->window == NULL && sim_draw(side->pair->sim, 2)) {
        wqe->rkey = c->stag;
        wqe->remote_addr = op->remote.at;
        op->command = c;
        c->users++;
    }
}

/* ---- at the other end ------------------------------------------------------------------------ */

uint32_t sim_command_flags(const struct sim_side *side, const struct sim_op *op)
{
    static const uint32_t flags[] = {
        [SIM_COMMAND_NOT_USED] = 0,
        [SIM_COMMAND_ADVERTISED] = WC_ADVERTISED | WC_REFERENCE,
        [SIM_COMMAND_CLOSED] = WC_WITH_INV | WC_CLOSED | WC_REFERENCE,
    };
    // What invalidates may close, and is read for a reference.
    bool has_reference = side->command.state != SIM_COMMAND_NONE &&
                         op->opcode == WQE_SEND_WITH_INV &&
                         op->len >= config.answer.offset + config.answer.len;
    return flags[op->command_use] | (has_reference ? WC_REFERENCE : 0);
}

bool sim_command_is_told(const struct sim_op *op, const struct cqe *cqe)
{
    return op->command_use == SIM_COMMAND_NOT_USED ||
           (cqe->inv_rkey == op->command->stag && cqe->reference == op->command->reference);
}

void sim_command_on_delivered(struct sim *sim, struct sim_op *op)
{
    sim->commands += op->command_use == SIM_COMMAND_CLOSED;
    if (op->command_use == SIM_COMMAND_ADVERTISED) {
        op->command->state = SIM_COMMAND_OPEN;
    } else if (op->command_use == SIM_COMMAND_CLOSED) {
        op->command->state = SIM_COMMAND_FREE;
    }
}

// One-shot commands: each side lends a whole block to its peer by a Send, which reads and writes
// there through an STag of its own, until a Send of the peer's gives it back.
//
//     FREE ──posted: advertises──▶ CHANGING ──delivered──▶ OPEN
//       ▲                                                   │ nobody uses it any more
//       └──delivered── CHANGING ◀──posted by the peer: closes
#pragma once

#include <stdint.h>

#include "rnic/rnic.h"

struct sim;
struct sim_block;
struct sim_op;
struct sim_side;

enum sim_command_state {
    SIM_COMMAND_NONE, // no queue pair, or what was posted has failed
    SIM_COMMAND_FREE,
    SIM_COMMAND_CHANGING,
    SIM_COMMAND_OPEN,
};

struct sim_command {
    enum sim_command_state state;
    uint32_t stag;
    uint32_t closed_stag; // of the one before; 0: none
    uint64_t reference;
    struct sim_block *block;
    unsigned users; // work requests of the peer that go through it
};

enum sim_command_use { SIM_COMMAND_NOT_USED, SIM_COMMAND_ADVERTISED, SIM_COMMAND_CLOSED };

// The side's queue pair is made. A negative errno is a failure of the simulation.
int sim_command_make(struct sim_side *side);
// A Send of which everything else has been drawn may advertise or close.
void sim_command_draw(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe);
// A work request may reach what it has claimed through the peer's command.
void sim_command_name(struct sim_side *side, struct sim_op *op, struct send_wqe *wqe);
// May this opcode turn out to be one that the one-shot opcodes have taken the place of? Until that
// is known, what is posted is at the program's risk.
bool sim_command_may_forbid(const struct sim_side *side, enum wqe_opcode opcode);
// Is the block lent, or may it be?
bool sim_command_is_on(const struct sim_side *side, const struct sim_block *block);

// What the completion of the receive at `side` says of it beside its length: flags, STag,
// reference.
uint32_t sim_command_flags(const struct sim_side *side, const struct sim_op *op);
bool sim_command_is_told(const struct sim_op *op, const struct cqe *cqe);
void sim_command_on_delivered(struct sim *sim, struct sim_op *op);

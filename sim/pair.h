// A pair: one connection between two nodes, from connecting to the last trace of it. Each side has
// a queue pair, an endpoint, and the books on what it posted.
#pragma once

#include "base/list.h"
#include "base/time.h"
#include "rnic/rnic.h"
#include "sim/command.h"
#include "sim/ep.h"
#include "sim/node.h"
#include "sim/oracle_memory.h"
#include "sim/params.h"

struct sim_pair;

enum sim_mistake {
    SIM_MISTAKE_NONE,
    SIM_MISTAKE_RKEY,   // names nothing
    SIM_MISTAKE_BOUNDS, // begins inside and ends outside
    SIM_MISTAKE_WRAP,   // passes 2^64
    SIM_MISTAKE_ACCESS, // memory without remote rights
    SIM_MISTAKE_DOMAIN, // memory of another protection domain
    SIM_MISTAKE_LKEY,   // local memory that is not registered
    SIM_MISTAKE_COUNT,
};

// A work request of a send queue, until its completion came and what it does to the peer is sure.
struct sim_op {
    struct list_link link; // in its side's `ops`, in posting order
    uint64_t wr_id;
    enum wqe_opcode opcode;
    enum sim_mistake mistake;
    bool is_signaled, is_fenced;
    bool is_complete;     // its completion came, or that of a later one
    bool is_acknowledged; // ... with success, by the peer's word
    bool is_placed;       // nothing of it is on its way to the peer's memory any more
    bool is_delivered;    // messages: the peer's receive completed
    uint32_t immediate;
    uint32_t len;       // of `content`
    uint8_t *content;   // what travels: to the peer, or (reads, atomics) from it
    uint8_t written[8]; // atomics: what the peer's memory holds afterwards
    struct sim_claim local[SIM_SGE_MAX];
    unsigned local_count;
    struct sim_claim remote;
    struct sim_window *window;   // that it binds, invalidates or goes through
    struct sim_command *command; // that it advertises, closes or goes through
    enum sim_command_use command_use;
};

// A posted receive.
struct sim_recv {
    struct list_link link; // in its side's `recvs` or its node's `srq_recvs`
    uint64_t wr_id;
    struct sim_claim claim[SIM_SGE_MAX];
    unsigned count;
};

// A type 2 memory window of one side, over the whole of one block.
enum sim_window_state { SIM_WINDOW_NONE, SIM_WINDOW_FREE, SIM_WINDOW_CHANGING, SIM_WINDOW_BOUND };
struct sim_window {
    enum sim_window_state state;
    uint32_t rkey;
    struct sim_block *block;
    unsigned users; // work requests of the peer that go through it
};

struct sim_side {
    struct sim_pair *pair;
    unsigned index; // 0: who connects
    struct sim_node *node;
    struct sim_ep ep;
    struct rnic_qp *qp;
    uint32_t qp_num; // also when the queue pair is gone
    bool has_srq;
    bool is_established;    // the event came
    bool has_ended;         // DISCONNECTED, or connecting failed
    bool has_seen_failure;  // a completion said so: the program posts only now and then
    bool has_lost_receives; // they were forgotten with a reset: what came is not known
    bool has_failed_send;   // a send completed with an error: no later one is successful
    uint16_t ird, ord;
    uint32_t ops_left;
    struct list_link ops, recvs;
    uint32_t sq_used;     // posted and not known to be complete
    uint32_t unsignaled;  // posted in a row
    uint32_t recv_posted; // to its own queue and not complete
    struct sim_window window;
    struct sim_command command;
};

enum sim_phase {
    SIM_PHASE_NONE,
    SIM_PHASE_CONNECTING,
    SIM_PHASE_OPEN,     // work is posted
    SIM_PHASE_DRAINING, // all work is posted and has to come to its end
    SIM_PHASE_CLOSING,  // the program has ended it
};

// What connecting ought to come to.
enum sim_fate {
    SIM_FATE_ACCEPTED,
    SIM_FATE_REJECTED,   // by the peer's program
    SIM_FATE_REFUSED,    // nobody listens
    SIM_FATE_DARK,       // the host is silent
    SIM_FATE_UNROUTABLE, // there is no way to it
    SIM_FATE_IGNORED,    // the peer's program drops the request
    SIM_FATE_COUNT,
};

struct sim_pair {
    struct sim *sim;
    unsigned index;
    uint32_t generation; // counts connections of this pair
    enum sim_phase phase;
    enum sim_fate fate;
    instant_ns limit_ns; // the phase ends before this, or liveness is lost
    bool is_disturbed;   // something was done to it that may fail its work
    bool is_killed;      // the program has put both queue pairs into the error state
    bool is_starved;     // ... receives are withheld for good
    bool is_qp_late;     // side 0 gives it its queue pair when the peer has accepted
    bool has_request;    // side 1 has an endpoint that waits for the program's answer
    struct sim_side side[2];
};

// What travels as private data.
struct sim_greeting {
    uint32_t pair, generation, filler[4];
};

const char *sim_phase_name(enum sim_phase phase);

void sim_pair_init(struct sim_pair *pair, struct sim *sim, unsigned index);
// The phase changes; the next one has its own limit.
void sim_pair_enter(struct sim_pair *pair, enum sim_phase phase);
// Starts connecting between two drawn nodes.
void sim_pair_open(struct sim_pair *pair);
// The program answers a request that waits.
void sim_pair_answer(struct sim_pair *pair);
void sim_pair_on_letter(struct sim_node *node, const struct sim_letter *letter);
// The program ends both sides; what is under way may be lost.
void sim_pair_kill(struct sim_pair *pair);
// The program disconnects from one side.
void sim_pair_disconnect(struct sim_pair *pair);
// Moves on to the next phase if it is time.
void sim_pair_settle(struct sim_pair *pair);
// Frees everything at once, whatever state it is in: after a failure.
void sim_pair_abandon(struct sim_pair *pair);

/* ---- side.c ---------------------------------------------------------------------------------- */

void sim_side_begin(struct sim_side *side, struct sim_node *node);
// False: there is none, which has been said.
bool sim_side_make_qp(struct sim_side *side);
// The endpoint is destroyed: no event comes any more.
void sim_side_destroy_ep(struct sim_side *side);
// The queue pair is reset: what it posted never completes.
void sim_side_reset_qp(struct sim_side *side);
// The queue pair is destroyed, perhaps while it is in use.
void sim_side_destroy_qp(struct sim_side *side);
// Whatever is left of it is destroyed.
void sim_side_end(struct sim_side *side);

static inline struct sim_side *sim_side_peer(const struct sim_side *side)
{
    return &side->pair->side[1 - side->index];
}

static inline bool sim_side_is_live(const struct sim_side *side)
{
    return side->is_established && !side->has_ended && side->qp != NULL;
}

// A node: one whole NIC with what a program makes on it before it connects, and the mailbox in
// which its events wait until the program looks.
#pragma once

#include <netinet/in.h>

#include "base/list.h"
#include "base/trace.h"
#include "rnic/create.h"
#include "rnic/rnic.h"
#include "sim/ep.h"
#include "sim/oracle_memory.h"

struct sim;
struct sim_side;

enum {
    SIM_NODE_PORT = 4791,
    SIM_PORT_CLOSED = 4792,                   // where nobody listens
    SIM_BLOCK_OPEN_COUNT = 3,                 // blocks that grant everything
    SIM_BLOCK_PRIVATE = SIM_BLOCK_OPEN_COUNT, // no remote rights
    SIM_BLOCK_FOREIGN,                        // in a domain that no queue pair is in
    SIM_BLOCK_RECEIVES,                       // where receives lie, no remote rights either
    SIM_BLOCK_COUNT,
    SIM_MAILBOX_LEN = 256,
    SIM_CQ_LEN = 4096,
};

// What a callback put away: an event and whom it is for. No end: nobody any more.
struct sim_letter {
    struct sim_ep ep;
    struct sim_side *side;
    struct rnic_ep_event event;
};

struct sim_node {
    struct sim *sim;
    unsigned index;
    struct rnic *rnic;
    struct in_addr addr;
    uint32_t pd, foreign_pd;
    struct sim_block block[SIM_BLOCK_COUNT];
    struct rnic_cq *send_cq, *recv_cq;
    struct rnic_srq *srq;       // NULL: none
    struct list_link srq_recvs; // sim_recv: posted to it and not complete, oldest first
    struct sim_ep listener;
    struct sim_letter *mailbox;
    unsigned letter_count;
    // Arming of recv_cq: a completion that comes after it must raise one event.
    bool is_armed;
    unsigned cq_events, cq_events_at_arm;
    uint32_t srq_posted;
};

// Makes everything. False: the simulation has failed.
bool sim_node_init(struct sim_node *node, struct sim *sim, unsigned index);
// Takes everything down; what is left alive on the RNIC is a failure of the simulation.
void sim_node_fini(struct sim_node *node);

// Registers a block anew after its memory moved. False: the simulation has failed.
bool sim_node_register(struct sim_node *node, struct sim_block *block);
// All blocks of the node are as they ought to be; otherwise the simulation has failed.
void sim_node_check_memory(struct sim_node *node);

// The address of the node's listener, or of a port where nobody listens.
static inline struct sockaddr_in sim_node_addr(const struct sim_node *node, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = node->addr};
}

// Flows of the unreliable services beside the pairs: from one queue pair to another, datagrams (UD)
// or an unreliable connection (UC). Nobody answers for what arrives, so the oracle is of its own:
//
//   - a message is received whole or not at all, into a receive that was posted, with the length,
//     immediate data and sender that it was sent with; no more often than the net has copies of it,
//     and of a connection in the order of sending where the net keeps order;
//   - a Write changes what it names and nothing else; with immediate data, all of it is there when
//     the receive completes;
//   - every work request completes with success, in order, whatever becomes of it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "rnic/rnic.h"
#include "sim/oracle_memory.h"

struct sim;
struct sim_node;

enum { SIM_FLOW_MAX = 3, SIM_FLOW_MESSAGES = 48, SIM_FLOW_RECEIVES = 8 };

struct sim_flow_message {
    bool is_write, has_immediate;
    uint32_t len;
    uint8_t *content;
    struct sim_claim source, target; // target: a Write's, to the end of the flow
    unsigned received;               // how often
};

struct sim_flow {
    struct sim *sim;
    unsigned index;
    enum rnic_qp_type type; // RNIC_QP_UD, RNIC_QP_UC
    struct sim_node *from, *to;
    struct rnic_cq *send_cq, *recv_cq;
    struct rnic_qp *sender, *receiver; // receiver NULL: the program has destroyed it
    struct sim_block source, target, receives;
    struct sim_flow_message message[SIM_FLOW_MESSAGES];
    unsigned posted, completed;
    uint32_t next_order; // of a connection: what may be received next, where order is kept
    struct sim_claim receive[SIM_FLOW_RECEIVES]; // posted, the oldest first
    unsigned receive_first, receive_count;
    instant_ns over_at_ns; // everything has left and what is under way has come; 0: not yet
};

// As many as the parameters say, between drawn nodes. False: the simulation has failed.
bool sim_flows_init(struct sim *sim);
// The programs look: completions are taken out.
void sim_flows_notice(struct sim *sim);
// The programs post.
void sim_flows_act(struct sim *sim);
bool sim_flows_are_over(const struct sim *sim);
void sim_flows_check_memory(struct sim *sim);
// Takes everything down.
void sim_flows_fini(struct sim *sim);

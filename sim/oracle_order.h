// The oracle of order: every work request completes once, in posting order, with a status that what
// was done to its connection allows; every message is delivered once, in order and whole; what was
// sent before it has been placed.
#pragma once

#include "rnic/rnic.h"
#include "sim/pair.h"

// A completion was taken from a queue of the node.
void sim_order_on_send(struct sim_node *node, const struct cqe *cqe);
void sim_order_on_recv(struct sim_node *node, const struct cqe *cqe);

// What is on its way to the peer's memory has been placed in order, and nothing else was.
void sim_order_check_placement(struct sim_side *side);
// All that was posted is complete and, at the peer, delivered.
bool sim_order_is_quiet(const struct sim_side *side);
// The connection is over and the completion queues are empty: every work request has completed.
void sim_order_check_end(struct sim_side *side);
// Forgets what is left; memory keeps what it holds.
void sim_order_forget(struct sim_side *side);
// A block is no longer registered: nothing may change there from now on.
void sim_order_on_deregistered(struct sim_pair *pair, const struct sim_block *block);

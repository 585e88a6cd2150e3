// Events of connections wait in a node's mailbox until its program looks.
#pragma once

#include "sim/ep.h"
#include "sim/node.h"

// What a callback puts away, for the side that the event is for.
void sim_mailbox_put(struct sim_node *node, struct sim_ep ep, struct sim_side *side,
                     const struct rnic_ep_event *event);
// The side that a request is for, or NULL: its connection is not the present one of the pair, and
// nobody takes it.
struct sim_side *sim_mailbox_side_of(struct sim_node *node, const struct rnic_ep_event *request);

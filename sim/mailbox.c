#include "sim/mailbox.h"

#include <string.h>

#include "sim/pair.h"
#include "sim/sim.h"

void sim_mailbox_put(struct sim_node *node, struct sim_ep ep, struct sim_side *side,
                     const struct rnic_ep_event *event)
{
    if (node->letter_count == SIM_MAILBOX_LEN) {
        sim_fail(node->sim, "node %u: more events than anybody has asked for", node->index);
        return;
    }
    node->mailbox[node->letter_count++] =
        (struct sim_letter){.ep = ep, .side = side, .event = *event};
}

struct sim_side *sim_mailbox_side_of(struct sim_node *node, const struct rnic_ep_event *request)
{
    struct sim_greeting greeting;
    if (request->private_data_len != sizeof greeting) {
        sim_fail(node->sim, "node %u: a request came with %u octets of private data", node->index,
                 request->private_data_len);
        return NULL;
    }
    memcpy(&greeting, request->private_data, sizeof greeting);
    if (greeting.pair >= node->sim->params.pairs) {
        sim_fail(node->sim, "node %u: a request came with other private data", node->index);
        return NULL;
    }
    struct sim_pair *pair = &node->sim->pair[greeting.pair];
    return greeting.generation == pair->generation && pair->phase == SIM_PHASE_CONNECTING
               ? &pair->side[1]
               : NULL;
}

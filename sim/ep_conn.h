// The ends of connections that packets carry, as sim/ep.h has them.
#pragma once

#include "sim/ep.h"

int sim_conn_listen(struct sim_node *node);
int sim_conn_connect(struct sim_side *side, const struct sockaddr_in *dst, bool is_qp_late,
                     const struct sim_greeting *greeting);
// The program makes its queue pair ready itself.
int sim_conn_establish(struct sim_side *side);
int sim_conn_accept(struct sim_side *side, const struct sim_greeting *greeting);
int sim_conn_reject(struct sim_side *side, const struct sim_greeting *greeting);
int sim_conn_disconnect(struct sim_side *side);

// A new queue pair that is to be connected: it grants the peer what registered memory grants.
int sim_conn_prepare(struct sim_side *side);
// Two sides whose queue pairs are made and prepared are told of each other, with numbers that are
// drawn: path MTU, PSNs, times, tries. Nothing travels; both are established.
int sim_conn_introduce(struct sim_side *a, struct sim_side *b);

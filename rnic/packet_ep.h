// Endpoints of a device over packets: what the fronts ask of connections, whatever carries them
// (packet_ep_api.c), in the words of rnic/connect.h. State and ports are guarded by the shard's
// lock.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

#include "base/list.h"
#include "rnic/connect.h"
#include "rnic/ep.h"

struct packet_ep {
    struct rnic_ep ep;     // as the fronts have it; of it: device, state, port, peer_addr
    struct list_link link; // in packet_side.endpoints
    struct in6_addr local; // unspecified: any
    uint32_t scope_id;
    uint16_t port_num;
    struct rnic_conn *conn; // listens, or connects; NULL: neither
};

// In EP_BOUND, in no list. NULL: no memory.
struct packet_ep *packet_ep_create(struct rnic *rnic, const struct rnic_ep_port *port);
// As rnic_conn_port has it; `ctx` is the endpoint.
void packet_ep_on_event(void *ctx, const struct rnic_conn_event *event);

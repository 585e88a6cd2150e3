// Two ends of a connection in one process, over 127.0.0.1, or over the own address that
// WEFT_TEST_ADDR names: other devices than weft's need one of their own interface.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

struct end {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
};

struct loopback {
    struct end listener;
    struct end active;
    struct rdma_cm_id *passive; // on the listener's channel, from CONNECT_REQUEST on
};

struct sockaddr_in loopback_addr(uint16_t port);

// A listener on a free port of 127.0.0.1.
void listener_open(struct end *listener);
void bound_open(struct end *bound); // to a port at which nobody listens, nor anybody else
// An id with its route to `port` resolved.
void active_resolve(struct end *active, uint16_t port);
// Likewise, and a small QP.
void active_open(struct end *active, uint16_t port);
void qp_open(struct rdma_cm_id *id);
void end_close(struct end *end); // QP, id, channel; what there is of them

// Takes the next event, which must be of this type, and hands it out unacknowledged.
struct rdma_cm_event *event_expect(struct rdma_event_channel *channel,
                                   enum rdma_cm_event_type type);
// Likewise, acknowledges it and returns its status.
int event_take(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
bool event_waits(struct rdma_event_channel *channel);

// Both ends opened, connected and accepted; ESTABLISHED taken on both sides.
void loopback_open(struct loopback *l);
void loopback_request(struct loopback *l); // only up to CONNECT_REQUEST, which is acknowledged
void loopback_close(struct loopback *l);

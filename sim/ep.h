// An end of a connection as a program holds it, whatever carries it: an endpoint of a stream
// (rnic/rnic.h), a connection by InfiniBand's manager (rnic/connect.h), or nothing at all, where
// the programs have told their queue pairs of each other (by hand). Programs are the same: what a
// connection of packets tells is told as an endpoint tells it.
//
//     ep_stream.c     streams; which of them it is
//     ep_conn.c       connections of packets, by the manager and by hand
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

struct rnic_conn;
struct rnic_ep;
struct sim_greeting;
struct sim_node;
struct sim_side;

struct sim_ep {
    struct rnic_ep *stream;
    struct rnic_conn *conn;
    bool is_by_hand;
};

static inline bool sim_ep_is_none(const struct sim_ep *ep)
{
    return ep->stream == NULL && ep->conn == NULL && !ep->is_by_hand;
}

// Of two that are there.
static inline bool sim_ep_is_same(const struct sim_ep *a, const struct sim_ep *b)
{
    return a->stream == b->stream && a->conn == b->conn && a->is_by_hand == b->is_by_hand;
}

// Negative errno values, as the device gives them. Requests at the node's port are put into its
// mailbox, with the side that they are for.
int sim_ep_listen(struct sim_node *node);
// From side 0, with its queue pair, or (`is_qp_late`) to be told of it by sim_ep_establish.
int sim_ep_connect(struct sim_side *side, const struct sockaddr_in *dst, bool is_qp_late,
                   const struct sim_greeting *greeting);
int sim_ep_establish(struct sim_side *side);
int sim_ep_accept(struct sim_side *side, const struct sim_greeting *greeting);
int sim_ep_reject(struct sim_side *side, const struct sim_greeting *greeting);
int sim_ep_disconnect(struct sim_side *side);
// Nobody is told anything of it any more, and it is none from here on.
void sim_ep_destroy(struct sim_node *node, struct sim_ep *ep);
// Its queue pair ends at once, and what is posted to it is flushed.
void sim_ep_break(struct sim_side *side);

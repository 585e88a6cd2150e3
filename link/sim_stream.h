// What the files of the sim link share.
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/prng.h"
#include "base/time.h"
#include "link/sim.h"

struct sim_net {
    struct sim_net_config config;
    struct prng rng;
    struct list_link links;
    struct list_link connections;
    uint16_t port_next;
};

struct sim_link {
    struct link base;
    struct list_link link; // in the net's
    struct sim_net *net;
    struct in_addr addrs[SIM_LINK_ADDR_MAX];
    unsigned addr_count;
    struct list_link streams; // open ones
    struct list_link closed;  // freed by the next poll: a report may still name them
};

// One direction. Positions count octets from the start: taken <= arrived <= sent <= taken + window.
struct sim_pipe {
    uint8_t *ring; // window_len octets
    uint64_t sent, arrived, taken;
    instant_ns
        arrive_at_ns; // when the next octets, or FIN, arrive; INSTANT_NEVER: none is under way
    bool is_shut;     // FIN follows the last octet
    bool is_cut;      // ... by a fault: what its end has still to send goes nowhere
    bool has_fin_arrived;
};

struct sim_stream;

// Two ends and what travels between them: pipe[i] carries what end i sends. Lives until both ends
// are closed and nothing travels.
struct sim_connection {
    struct list_link link;
    struct sim_net *net;
    struct sim_pipe pipe[2];
    struct sim_stream *end[2];  // 0: who connected; NULL: closed, or not there yet
    instant_ns establish_at_ns; // INSTANT_NEVER: done
    instant_ns break_at_ns;     // when both ends see `break_error`
    int break_error;
    bool is_silent;
};

enum sim_stream_state {
    SIM_STREAM_BOUND,
    SIM_STREAM_LISTENING,
    SIM_STREAM_CONNECTING,
    SIM_STREAM_CONNECTED,
};

struct sim_stream {
    struct link_stream base;
    struct list_link link; // in the link's `streams` or `closed`
    enum sim_stream_state state;
    struct sockaddr_in local, peer;
    struct sim_connection *connection; // from connecting on
    unsigned side;                     // which end of it
    int error;                         // 0, or why it is broken
    bool is_error_named;
    bool wants_in, wants_out;
    bool has_read_fin;
    struct list_link waiting; // listener: connections to accept
    struct list_link waiting_link;
    unsigned waiting_count, backlog;
};

static inline struct sim_link *sim_link_of(const struct link *link)
{
    return (struct sim_link *)link;
}

static inline struct sim_stream *sim_stream_of(const struct link_stream *stream)
{
    return (struct sim_stream *)stream;
}

static inline instant_ns sim_net_now(const struct sim_net *net)
{
    return net->config.clock(net->config.clock_ctx);
}

// sim_stream.c
bool sim_link_has(const struct sim_link *l, struct in_addr addr);
// The link that has this address, or NULL.
struct sim_link *sim_link_find(struct sim_net *net, struct in_addr addr);
// NULL without memory.
struct sim_stream *sim_stream_new(struct sim_link *l, void *owner);

// sim_net.c
instant_ns sim_arrival(struct sim_net *net); // now and a drawn delay
int sim_connection_open(struct sim_stream *from);
// End `side` is closed. `abort`: the other end is reset.
void sim_connection_leave(struct sim_connection *c, unsigned side, bool abort);
size_t sim_pipe_room(const struct sim_connection *c, unsigned side);

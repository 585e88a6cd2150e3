// A server of queue pairs, for protocols over RDMA as node/stream is for those over sockets: it
// listens by librdmacm at some addresses, has the pool registered once with each RNIC, and lets
// each connection have its turns, be they due to its completions, to what the agents say, or to its
// deadline.
//
//     server.c    the listeners, events of connections, the member of the loop
//     pair.c      one connection's life: a queue pair, its completions, when it ends
//     transfer.c  data by the RDMA manager, and how they failed
//     device.c    RNICs: domain, pool, completion channel, who drives
//     agenda.c    what is to be done when the batch ends, and what the operator is told
//
// What a batch of events has brought leaves at its end: the manager's work requests in one chain,
// what the protocol posts itself in another.
#pragma once

#include <stdint.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "listen/address.h"
#include "node/fabric/pair.h"
#include "node/interface/cta_tts.h"
#include "node/loop/loop.h"
#include "text/addresses.h"

struct rdma_event_channel;

struct fabric_parts {
    struct loop *loop;
    struct addresses listen; // each "HOST[:PORT]" or "[HOST][:PORT]"; PORT 0: one that is free
    struct node_pool pool;
    bool *pool_is_pinned;    // set once a device has taken pages of it for its own
    duration_ns patience_ns; // with peers that hold memory (node/stream/progress.h)
    unsigned pair_max;       // connections, of which one address has half; 0: the protocol's
    // One line for the operator about a stranger from this host.
    void (*say)(void *say_ctx, const char *host, const char *line);
    void *say_ctx;
    void *ctx; // of the protocol's on_request
};

#define FABRIC_COUNTERS(X)                                                      \
    X(accepted, "connections")                                                  \
    X(rejected, "connection requests")                                          \
    X(broken, "connections ended by an error of RDMA: bad STags, lengths")      \
    X(stalled, "connections ended because a beginning, or data, took too long") \
    X(descriptors, "work requests of the RDMA manager")                         \
    X(bad_transfers, "data that could not be moved")

struct fabric_counters {
#define X(name, text) uint64_t name;
    FABRIC_COUNTERS(X)
#undef X
};

// One address that is listened at.
struct fabric_listener {
    struct rdma_cm_id *id;
    struct address_end end;
};

struct fabric {
    const struct fabric_protocol *protocol;
    struct fabric_parts parts;
    struct loop_member member;
    struct rdma_event_channel *channel;
    struct loop_watch *channel_watch;
    struct fabric_listener listeners[ADDRESSES_COUNT_MAX];
    unsigned listener_count; // 0: it does not listen
    unsigned pair_count;
    struct list_link devices;
    struct list_link pairs;
    struct list_link dirty;
    struct deadlines deadlines;
    struct fabric_counters counters;
};

// It joins the loop as a member.
void fabric_init(struct fabric *fabric, const struct fabric_protocol *protocol,
                 const struct fabric_parts *parts);
// Every connection is destroyed as it is.
void fabric_fini(struct fabric *fabric);

// At all addresses. 0, or a negative errno with a reason; then nothing listens, and it may be tried
// again.
int fabric_listen(struct fabric *fabric, struct why *ret_why);
// No connection comes any more; those that are there stay. Harmless if it does not listen.
void fabric_close(struct fabric *fabric);
// Those of connections that are there included.
struct fabric_counters fabric_counters(const struct fabric *fabric);
// The same by name, and its connections.
void fabric_figures(const struct fabric *fabric, tts_figure *figure, void *figure_ctx);

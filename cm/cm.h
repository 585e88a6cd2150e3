// What the files of this room share: event channels, ids and events behind the structures that
// programs see, the devices that ids use, and the lock over them.
//
// From the bottom up:
//
//   state.c     which call is legal in which state, and what an event makes of it: two tables
//   addr.c      socket addresses, ports       addrinfo.c  rdma_getaddrinfo
//   device.c    the process's contexts and protection domains; the lock; life across fork
//   channel.c   event channels: a queue of events behind a descriptor that can be polled
//   id.c        ids: created
//   event.c     events: from the RNIC's endpoints into a queue, and acknowledged
//   stream.c    how ids connect where streams carry queue pairs: endpoints of the RNIC
//   packet.c    ... where packets do: InfiniBand's connection manager
//   choose.c    which of the devices an id uses; what it shows to the program
//   group.c     the queue pair of an id and its multicast groups
//   end.c       ids and channels destroyed; ids migrated
//   deliver.c   events: out of a queue, to the program
//   multicast.c groups joined and left
//   resolve.c   bind, resolve
//   connect.c   listen, connect, accept, …    ep.c        endpoints for synchronous programs
//   qp.c        queue pairs, SRQs             option.c, ece.c, newer.c, strings.c
//
// Locking. `cm_lock()` guards every queue, every count and every field that says so; it is taken
// after the RNIC's own lock (an endpoint's event arrives under that), so no call into rnic/ or
// libibverbs may be made while it is held.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/device_wire.h"
#include "base/list.h"
#include "base/sockaddr.h"
#include "rnic/connect.h"
#include "rnic/rnic.h"

/* ---- errors ---------------------------------------------------------------------------------- */

// errno for a public function that fails; `error` is positive.
static inline int cm_fail(int error)
{
    errno = error;
    return -1;
}

// 0, or -1 with errno, from what a call into rnic/ returned.
static inline int cm_result(int negative_errno)
{
    return negative_errno < 0 ? cm_fail(-negative_errno) : 0;
}

/* ---- device, lock, fork (device.c) ----------------------------------------------------------- */

struct cm_way;

struct cm_device {
    struct rnic *rnic;
    const struct cm_way *way;
    struct ibv_context *verbs; // never closed: programs compare the pointers of all ids
    struct ibv_pd *pd;         // the default of every id
    uint8_t max_rd_atom;
    uint32_t max_qp_wr;
    struct cm_device *before; // left behind by an earlier fork
};

// The process's device on this wire, opened on first use; NULL with errno when there is none.
const struct cm_device *cm_device_open(enum device_wire wire);
// Likewise, for who can do without: once it could not be had it is not asked for again, since each
// time says why on standard error.
const struct cm_device *cm_device_try(enum device_wire wire);

void cm_lock(void);
void cm_unlock(void);
// By this thread. What says "cm_lock held" checks it.
bool cm_lock_is_held(void);

// cm_lock held. Waits for a change: an event acknowledged, a pin taken out. No cancellation point,
// since a thread that is cancelled in here would take the lock with it.
void cm_wait(void);
// cm_lock held. Wakes who waits.
void cm_signal(void);

// Prepares for a fork; called by whatever creates a channel or an id.
void cm_fork_prepare(void);
// Counts the forks between this process and the first; objects keep the number of their birth.
// Those of a parent are dead here: their lists may have been cut in the middle, so nothing looks at
// them.
unsigned cm_generation(void);

/* ---- event channels (channel.c) -------------------------------------------------------------- */

struct cm_event;
struct cm_id;

struct cm_channel {
    struct rdma_event_channel channel; // first: what the program holds
    unsigned generation;
    atomic_bool is_destroyed; // kept a while for threads that are still on their way to it
    struct list_link events;  // cm_lock; undelivered, oldest first; the descriptor counts them
    struct list_link ids;     // cm_lock
};

static inline struct cm_channel *cm_channel_of(struct rdma_event_channel *channel)
{
    return (struct cm_channel *)channel;
}

// Whether it is this process's, not one that a fork has left.
bool cm_channel_is_alive(const struct cm_channel *channel);
// cm_lock held. Appends the event and makes the descriptor readable.
void cm_channel_post(struct cm_channel *channel, struct cm_event *event);
// cm_lock held. Takes an undelivered event back, and its count out of the descriptor.
void cm_channel_withdraw(struct cm_channel *channel, struct cm_event *event);
// Closes the channel, of which nothing is left; its memory stays readable for a while.
void cm_channel_bury(struct cm_channel *channel);

/* ---- ids (id.c) ------------------------------------------------------------------------------ */

enum cm_state {
    CM_IDLE,
    CM_BOUND, // has a local address
    CM_LISTENING,
    CM_ADDR_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_CONNECTING, // active: until the answer
    CM_REPLIED,    // active, QP of the program's own: the answer is there, rdma_establish is due
    CM_REQUESTED,  // passive: asks to be accepted or rejected
    CM_ACCEPTING,  // passive: until established
    CM_ESTABLISHED,
    CM_DISCONNECTED, // was established, or nearly, and has ended
    CM_CLOSED,       // failed, or rejected
    CM_STATE_COUNT,
};

struct cm_options {
    bool reuse_addr;
    bool v6_only;
    bool has_tos, has_ack_timeout;
    uint8_t tos, ack_timeout;
};

// A multicast group that an id has joined.
struct cm_group {
    struct list_link link;
    struct sockaddr_storage addr;
    union ibv_gid gid;
    bool receives;
    bool is_being_told; // cm_lock; the program is told that it has joined, and it stays so long
    struct ibv_qp *qp;  // attached to it; NULL: none
};

enum { CM_PRIVATE_DATA_MAX_LEN = 255 }; // a uint8_t counts it in the program's structures

struct cm_id {
    struct rdma_cm_id id; // first: what the program holds
    unsigned generation;
    struct list_link channel_link;  // cm_lock
    const struct cm_device *device; // NULL until an address, or a call, has chosen one
    const struct cm_device *beside; // of a listener: where requests come too; NULL: nowhere else
    struct rnic_ep *ep;             // on streams: NULL until it has an address
    struct cm_packet *packet;       // on packets: likewise
    enum cm_state state;            // cm_lock
    bool is_sync;                   // the channel is the id's own, calls wait for their events
    bool is_closing;                // cm_lock; being destroyed: nothing new is delivered
    bool is_end_told;               // cm_lock; DISCONNECTED was delivered
    bool is_tied;                   // objects of the device are given to what it accepts
    unsigned pin_count;             // cm_lock; a delivery looks at the id's endpoint
    unsigned unacked_count;         // cm_lock; events delivered and not acknowledged
    struct cm_id *listener;         // cm_lock; until its CONNECT_REQUEST was delivered

    struct cm_options options;
    uint8_t initiator_depth, responder_resources;
    uint32_t qp_num;    // QP of the program's own, from its rdma_conn_param
    uint8_t prefix_len; // private data that goes before the program's (ai_connect)
    uint8_t prefix[CM_PRIVATE_DATA_MAX_LEN];
    struct ibv_qp_init_attr *qp_init_attr; // of endpoints that listen: for rdma_get_request
    struct list_link groups;               // struct cm_group; changed under cm_lock
    bool is_resolving;                     // cm_lock; rdma_resolve_addrinfo, until it is asked
    struct rdma_addrinfo *resolved;        // cm_lock; for rdma_query_addrinfo
};

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
    return (struct cm_id *)id;
}

// A new id; `channel` NULL: one of its own. NULL with errno. May be called under the RNIC's lock
// with a channel. It joins the channel's ids with cm_id_attach.
struct cm_id *cm_id_alloc(struct rdma_event_channel *channel, void *context,
                          enum rdma_port_space ps, enum ibv_qp_type qp_type);
void cm_id_attach(struct cm_id *c, struct cm_channel *channel); // cm_lock held

// rdma_create_id with the QP type chosen by the caller.
int cm_id_create(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
                 enum ibv_qp_type qp_type, struct rdma_cm_id **ret);

// Gives the id the device's context, default domain and port, and shows the GIDs of its addresses.
int cm_id_use_device(struct cm_id *c);
// Where packets carry queue pairs: shows the path between its addresses, as a path record of one
// that needs nobody to be asked. -1 with errno.
int cm_id_show_path(struct cm_id *c);
// Asks the RNIC for the addresses of the id's endpoint and shows them to the program.
void cm_id_show_addresses(struct cm_id *c);

/* ---- states (state.c) ------------------------------------------------------------------------ */

enum cm_call {
    CM_CALL_BIND,
    CM_CALL_RESOLVE_ADDR,
    CM_CALL_RESOLVE_ROUTE,
    CM_CALL_LISTEN,
    CM_CALL_CONNECT,
    CM_CALL_ESTABLISH,
    CM_CALL_ACCEPT,
    CM_CALL_REJECT,
    CM_CALL_COUNT,
};

// The state that follows the call, or CM_STATE_COUNT: it is not legal here.
enum cm_state cm_state_after_call(enum cm_state state, enum cm_call call);
// The state that follows an event, or CM_STATE_COUNT: the program is not told of it here.
enum cm_state cm_state_after_event(enum cm_state state, enum rdma_cm_event_type event);
// Whether it is this process's, not one that a fork has left.
bool cm_id_is_alive(const struct cm_id *c);

// Moves the id on for `call`, or refuses it: -1 with errno (EINVAL; EIO for a parent's id).
int cm_id_claim(struct cm_id *c, enum cm_call call, enum cm_state *ret_before);
// The call failed: back to where it was, unless an event has moved the id on meanwhile.
void cm_id_unclaim(struct cm_id *c, enum cm_call call, enum cm_state before);

/* ---- events (event.c) ------------------------------------------------------------------------ */

struct cm_event {
    struct rdma_cm_event event; // first: what the program holds
    unsigned generation;
    struct list_link link;  // cm_lock; in the channel's queue until delivered
    struct cm_id *owner;    // its destruction waits for the acknowledgement
    struct cm_group *group; // MULTICAST_JOIN: of which it tells; NULL: of none
    // The program may read past what private_data_len says, so it ends in zeros.
    uint8_t private_data[CM_PRIVATE_DATA_MAX_LEN + 1];
};

// A new event without contents; NULL: no memory.
struct cm_event *cm_event_new(struct cm_id *owner, enum rdma_cm_event_type type, int status);
// Under the RNIC's lock. Puts it into the queue of `c`, if the program is to be told there; frees
// it otherwise. At CONNECT_REQUEST a new id is made, and `adopt` gives it the connection that asks
// and its device.
void cm_event_tell(struct cm_id *c, struct cm_event *event,
                   void (*adopt)(struct cm_id *c, const void *from), const void *from);

// Puts it into the id's queue, or frees it: -1 with errno.
int cm_event_put(struct cm_id *c, struct cm_event *event);
// Likewise, one without further contents.
int cm_event_post(struct cm_id *c, enum rdma_cm_event_type type, int status);

/* ---- devices and ways (choose.c, stream.c, packet.c) ----------------------------------------- */

// What the program says with connect and accept.
struct cm_params {
    uint8_t data[CM_PRIVATE_DATA_MAX_LEN];
    uint16_t data_len;
    uint8_t responder_resources, initiator_depth;
    uint8_t retry_count, rnr_retry_count;
    bool has_flow_control, has_srq;
    uint32_t qp_num; // of the program's own queue pair
};

// 0 or a negative errno, from any thread.
struct cm_way {
    bool has_datagrams;
    bool has_path_records;
    // The device is found at its own addresses alone: another loopback address, or none, stands for
    // it, as on cards.
    bool has_own_addresses;
    bool listens_beside;  // who listens by it listens on packets too, where there are any
    bool ends_by_program; // its `disconnect` is for whom the peer has disconnected, too
    // Takes the address, NULL: any, when connecting; the id's options count. An id may have one on
    // streams and then, to listen, the same on packets.
    int (*bind)(struct cm_id *c, const struct cm_device *device, const struct sockaddr *addr);
    int (*listen)(struct cm_id *c, int backlog);
    // What a queue pair of the program's own needs for attr->qp_state, RTR or RTS. -EINVAL: there
    // is no peer.
    int (*init_qp_attr)(struct cm_id *c, struct ibv_qp_attr *attr, int *ret_mask);
    // `qp` NULL: the program's own.
    int (*connect)(struct cm_id *c, struct rnic_qp *qp, const struct cm_params *params);
    int (*establish)(struct cm_id *c);
    // Something has come to its queue pair. NULL: the first message tells that anyway.
    int (*notify)(struct cm_id *c);
    int (*accept)(struct cm_id *c, struct rnic_qp *qp, const struct cm_params *params);
    // `for_ece`: for what the peer wants of enhanced connection establishment.
    int (*reject)(struct cm_id *c, const void *data, uint16_t data_len, bool for_ece);
    int (*disconnect)(struct cm_id *c);
    // DISCONNECTED goes to the program. NULL: nothing hangs on whether it looks.
    void (*take_end)(struct cm_id *c);
    void (*destroy)(struct cm_id *c); // harmless when there is nothing
    int (*set_tos)(struct cm_id *c, uint8_t tos);
    int (*local_addr)(struct cm_id *c, struct sockaddr_storage *ret);
    int (*peer_addr)(struct cm_id *c, struct sockaddr_storage *ret);
};

extern const struct cm_way cm_stream_way, cm_packet_way;

// Whether it has taken an address, or was made with one.
static inline bool cm_id_has_address(const struct cm_id *c)
{
    return c->ep != NULL || c->packet != NULL;
}

// The id's device, chosen now if it was not before: streams, or packets where there are no streams.
// Ids of datagrams use packets where `local` (NULL: any) is an address of that device. NULL with
// errno.
const struct cm_device *cm_device_choose(struct cm_id *c, const struct sockaddr *local);
// The other device on which an id with that address can listen too; NULL: none.
const struct cm_device *cm_device_beside(const struct cm_id *c, const struct sockaddr *local);
// As cm_device_choose, by the way to `dst`, which it also tells. A loopback address that is none of
// the device's, of packets, becomes the device's own. 0, or -1 with errno.
int cm_device_route(struct cm_id *c, struct sockaddr_storage *dst,
                    struct sockaddr_storage *ret_src);
// Who binds such an address is found at all of the device's: `addr` becomes the wildcard.
void cm_device_local(const struct cm_device *device, struct sockaddr_storage *addr);
const struct cm_device *cm_device_of(struct cm_id *c);

/* ---- groups (group.c) ------------------------------------------------------------------------ */

// Its queue pair is about to go, and leaves them; who has joined still has.
void cm_groups_detach(struct cm_id *c);
// ... leaves this one: 0 or an errno.
int cm_group_detach(struct cm_id *c, struct cm_group *group);
// MULTICAST_JOIN goes to the program: the id's queue pair is attached, or the event says why not.
void cm_group_tell(struct cm_id *c, struct cm_event *event);

/* ---- out (deliver.c) ------------------------------------------------------------------------- */

// Synchronous ids: waits for the event that ends the call and makes it `id->event`; -1 with the
// errno it carries. Asynchronous ones: 0 at once, and nothing of the id is looked at: another
// thread may have taken the event and destroyed it. So a call asks for `is_sync` as it begins.
int cm_event_complete(struct cm_id *c, bool is_sync);

/* ---- not in older headers (newer.c) ---------------------------------------------------------- */

enum {
    CM_EVENT_ADDRINFO_RESOLVED = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1,
    CM_EVENT_ADDRINFO_ERROR,
    CM_EVENT_USER,
};

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                        uint64_t arg);
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                          const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **ret);

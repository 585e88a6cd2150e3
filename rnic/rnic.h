// The RNIC as the fronts see it: a device, its objects, and how it makes progress. What it includes
// is what they see of the engine.
//
//   device    limits, clock; the process's one RNIC is in host/process.h
//   memory    protection domains, regions, windows
//   cq        creating, polling, arming, resizing
//   qp, srq   creating, posting, states, one-shot RDMA
//   ep        connection endpoints: bind, listen, connect, accept, reject, disconnect
//
// Errors are negative errno values; the fronts turn them into errno. Every function may be called
// from any thread unless it says otherwise. None blocks on a peer. Ports (`rnic_*_port`) are called
// with the shard's lock held: they copy what they need, and call nothing in here.
#pragma once

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/deadlines.h"
#include "base/gate_mirror.h"
#include "base/list.h"
#include "base/port_push.h"
#include "base/qp_state.h"
#include "base/time.h"
#include "base/transport.h"
#include "cq/cq.h"
#include "cq/cqe.h"
#include "mem/table.h"
#include "rnic/gathering.h"
#include "wire/grh.h"
#include "wq/latency.h"
#include "wq/oneshot.h"
#include "wq/srq.h"
#include "wq/wq.h"
#include "wq/wqe.h"

struct rnic;
struct rnic_ep;
struct rnic_conn;
struct point;
struct qp_meeting;

/* ---- device ---------------------------------------------------------------------------------- */

// Constants of the device, for the query verbs. All fixed while the process lives.
struct rnic_limits {
    uint64_t max_mr_len;
    uint32_t max_qp, max_cq, max_mr, max_mw, max_pd, max_srq;
    uint32_t max_qp_wr, max_srq_wr, max_cqe;
    uint32_t max_sge, max_sge_rd, max_inline_len;
    uint32_t max_qp_rd_atom; // IRD and ORD of one QP
    uint32_t max_msg_len;    // octets: 2^31
};
extern const struct rnic_limits rnic_limits;

// False for an object whose RNIC was left behind in a parent process.
bool rnic_is_alive(const struct rnic *rnic);

// The clock that completions are stamped with (CLOCK_MONOTONIC).
instant_ns rnic_now(const struct rnic *rnic);

enum { RNIC_ADDR_MAX = 16 };

// Of a device whose queue pairs are carried by packets: where they leave from. An address keeps its
// place, which is its GID's index; one that has gone leaves it empty, for the next that comes.
struct rnic_port {
    struct rnic_addr {
        struct in6_addr addr; // an IPv4 address is mapped; unspecified: the place is empty
        uint32_t scope_id;    // of a link-local one
        uint32_t interface;   // its index; 0: not known
    } addrs[RNIC_ADDR_MAX];
    unsigned addr_count; // places, up to the last that is not empty; 0: streams carry them
    uint32_t path_mtu;   // octets of payload in a packet at most: 256, 512 … 4096
    // Brings the addresses up to date, in the thread that drives; NULL: they stay as they are.
    void (*follow)(struct rnic_port *port);
};
static inline bool rnic_addr_is_set(const struct rnic_addr *a)
{
    return !IN6_IS_ADDR_UNSPECIFIED(&a->addr);
}
// As it is now.
struct rnic_port rnic_port(struct rnic *rnic);
// The place of an address in it; -1: it is none of the port's.
int rnic_port_find(const struct rnic_port *port, const struct in6_addr *addr);
// The hop limit of the device's packets to an address, where nobody asks for another.
uint8_t rnic_hop_limit(const struct rnic *rnic, const struct in6_addr *remote);

// Who is told, under the shard's lock, that the addresses are others.
struct rnic_port_watch {
    struct list_link link;
    void (*on_change)(void *ctx);
    void *ctx;
};
void rnic_port_watch(struct rnic *rnic, struct rnic_port_watch *watch);
void rnic_port_unwatch(struct rnic *rnic, struct rnic_port_watch *watch);

/* ---- a loop of the program's that drives (drive.c) ------------------------------------------- */

// From now on the caller waits at `*ret_fd`, with other descriptors of its own, and the background
// thread only sees that it comes. Several may. `rouse_fd` is an eventfd, the device's from now on.
// -EOPNOTSUPP: the device has no such descriptor.
int rnic_drive_begin(struct rnic *rnic, int rouse_fd, int *ret_fd);
void rnic_drive_end(struct rnic *rnic);
// What has come is done in the caller's thread.
void rnic_drive_pass(struct rnic *rnic);
// Before a pass of a caller who has waited, and whose descriptor was not readable.
void rnic_drive_rise(struct rnic *rnic);
// Before the caller waits. False: a pass first.
bool rnic_drive_sleep(struct rnic *rnic);

/* ---- memory (thin calls on mem/, under the shard's lock) ------------------------------------- */

int rnic_pd_alloc(struct rnic *rnic, uint32_t *ret_pd);
int rnic_pd_dealloc(struct rnic *rnic, uint32_t pd); // -EBUSY while in use

// `access`: MEM_ACCESS_*, values of IBV_ACCESS_*. -EFAULT: unmapped, or read-only for a writer.
int rnic_region_register(struct rnic *rnic, uint32_t pd, void *addr, uint64_t len, uint64_t iova,
                         uint32_t access, uint32_t *ret_stag);
// As ibv_rereg_mr: `flags` are IBV_REREG_MR_CHANGE_{TRANSLATION 1, PD 2, ACCESS 4}.
int rnic_region_reregister(struct rnic *rnic, uint32_t stag, unsigned flags, uint32_t pd,
                           void *addr, uint64_t len, uint32_t access, uint32_t *ret_stag);
// When it returns no engine touches the memory. -EBUSY while windows are bound.
int rnic_region_deregister(struct rnic *rnic, uint32_t stag);

// Could an element of an on-demand region be used, by writing into it too, and `mapped`: now? As
// ibv_advise_mr: -ENOENT, -EPERM, -EINVAL, -EFAULT.
int rnic_region_prefetch(struct rnic *rnic, uint32_t pd, const struct sge *sge, bool write,
                         bool mapped);

int rnic_window_alloc(struct rnic *rnic, uint32_t pd, unsigned type, uint32_t *ret_rkey);
int rnic_window_dealloc(struct rnic *rnic, uint32_t rkey);

/* ---- completion queues ----------------------------------------------------------------------- */

struct rnic_cq {
    struct rnic *rnic;
    struct cq *cq;
    pthread_mutex_t poll_lock;       // one poller at a time
    atomic_uint users;               // QPs that complete here
    unsigned empty_polls;            // in a row; guarded by poll_lock
    instant_ns empty_since_ns;       // when the first of them was
    instant_ns driven_ns;            // the last look that found none; guarded by poll_lock
    unsigned loop_passes_seen;       // of the shard's, at the last look; guarded by poll_lock
    struct list_link moderated_link; // in the shard's list of CQs with moderation
    struct cq_port port;             // whom its events are told
    struct list_link kept_link;      // in the shard's list of CQs whose event is kept
};

// `port` is told of completion events once per arming, and of an overrun once; it is called with
// the shard's lock held.
int rnic_cq_create(struct rnic *rnic, uint32_t cqe_count, const struct cq_port *port,
                   struct rnic_cq **ret);
int rnic_cq_destroy(struct rnic_cq *cq); // -EBUSY while QPs use it
int rnic_cq_resize(struct rnic_cq *cq, uint32_t cqe_count);
// Completions that it holds: as many as were asked for, or more.
uint32_t rnic_cq_capacity(const struct rnic_cq *cq);

// Takes up to `max` completions, oldest first; drives the RNIC itself when there are none.
// Returns their number, or -EIO when the CQ has overrun.
int rnic_cq_poll(struct rnic_cq *cq, struct cqe *ret, unsigned max);
// For CQ_EX: lock, look (driving when empty), take, unlock. `rnic_cq_peek` returns NULL when empty.
void rnic_cq_poll_begin(struct rnic_cq *cq);
const struct cqe *rnic_cq_peek(struct rnic_cq *cq);
void rnic_cq_pop(struct rnic_cq *cq);
void rnic_cq_poll_end(struct rnic_cq *cq);
// A completion was lost: those inside can still be taken, no other will come.
bool rnic_cq_has_overrun(const struct rnic_cq *cq);

void rnic_cq_arm(struct rnic_cq *cq, bool solicited_only);
void rnic_cq_moderate(struct rnic_cq *cq, uint16_t count, uint16_t period_us);

/* ---- queue pairs and shared receive queues --------------------------------------------------- */

enum rnic_async_event {
    RNIC_EVENT_CQ_ERR,
    RNIC_EVENT_QP_FATAL,
    RNIC_EVENT_QP_REQ_ERR,
    RNIC_EVENT_QP_ACCESS_ERR,
    RNIC_EVENT_COMM_EST,
    RNIC_EVENT_SQ_DRAINED,
    RNIC_EVENT_QP_LAST_WQE_REACHED,
    RNIC_EVENT_SRQ_ERR,
    RNIC_EVENT_SRQ_LIMIT_REACHED,
};

// Where asynchronous events of an object go; `ctx` is the front's own object.
struct rnic_async_port {
    void (*on_event)(void *ctx, enum rnic_async_event event);
    void *ctx;
};

struct rnic_srq {
    struct rnic *rnic;
    struct srq *srq;
    pthread_mutex_t lock; // one poster at a time
    atomic_uint users;
    struct rnic_async_port async;
    atomic_bool wants_receive; // a message waits for a receive: posting one needs a doorbell
};

// By which the peer of a queue pair on packets writes past them (base/port_packet_push.h).
struct rnic_gate {
    struct gate_entry *entry; // NULL: it is closed
    uint64_t opening;
    struct gate shown;
};

// Of a queue pair that packets carry: what it has still to do (rnic/packet/packet.h).
struct rnic_qp_on_packets {
    struct list_link due_link, run_link;
    struct deadline deadline;
    struct rnic_conn *conn; // by the connection manager; NULL: none
    struct rnic_gate gate;
    atomic_uint gathered; // posts since they were last looked at
};

// Octets of Reads that are copied out of the peer's memory, or of a Write into it (rnic/pull.h):
// who copies has no lock.
struct rnic_pull {
    struct list_link link;   // among the shard's that are under way, or in none
    bool is_barred;          // the queue pair is about to go
    bool was_short;          // what left last was: others could have gone with it
    bool is_pushing;         // a Write
    int process;             // whose memory it is
    _Atomic uint64_t leaver; // of its connections: a peer that may still write; 0: none
};

struct rnic_qp {
    struct rnic *rnic;
    struct list_link all_link; // in the RNIC's list of queue pairs
    struct transport *transport;
    struct wq *wq;                  // its work queues
    pthread_mutex_t sq_lock;        // one poster at a time, per queue
    struct latency_sampler sampler; // guarded by it
    pthread_mutex_t rq_lock;
    struct rnic_cq *send_cq, *recv_cq;
    struct rnic_srq *srq; // NULL: a receive queue of its own
    uint32_t qp_num;
    struct rnic_async_port async;
    // Guarded by the shard's lock.
    struct rnic_ep *ep;         // its connection, once there is one
    struct point *point;        // that its number names; NULL: none
    struct qp_meeting *meeting; // with the queue pair that rnic_qp_meet named; NULL: none
    struct rnic_qp_on_packets on_packets;
    struct rnic_pull pull;

    atomic_bool wants_receive; // a message waits for a receive: posting one needs a doorbell
    atomic_bool may_gather;    // what is posted may wait for company, as its carrier has it
    struct gathering_queue gathering;
    atomic_bool is_rung; // waits in the shard's doorbell list
    struct rnic_qp *_Atomic rung_next;
};

// What a queue pair offers; which of these there are is the device's: -EOPNOTSUPP.
enum rnic_qp_type { RNIC_QP_RC, RNIC_QP_UC, RNIC_QP_UD };

struct rnic_qp_init {
    enum rnic_qp_type type;
    uint32_t pd;
    struct rnic_cq *send_cq, *recv_cq;
    struct rnic_srq *srq;
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_len;
    bool sq_sig_all;
    bool is_addressable; // its number names a TCP port of this host, if one is to be had
    struct rnic_async_port async;
};

// Whom a queue pair is to be connected with where there is no connection manager.
struct rnic_meeting {
    struct in6_addr own_addr;  // as the peer knows it; an IPv4 address is mapped
    struct in6_addr peer_addr; // of the same family; and the number of the peer's queue pair
    uint32_t peer_qp_num;
    uint16_t ird; // how many reads and atomics of the peer are served at a time
};

int rnic_qp_create(struct rnic *rnic, const struct rnic_qp_init *init, struct rnic_qp **ret);
// Ends its connection (reset), removes its completions from the CQs, frees it.
void rnic_qp_destroy(struct rnic_qp *qp);
// The QP of that number, or NULL. The caller makes sure that nobody destroys it.
struct rnic_qp *rnic_qp_find(struct rnic *rnic, uint32_t qp_num);
int rnic_qp_modify(struct rnic_qp *qp, enum qp_state to);
// ... and what else the mask says. -EINVAL: the transport's table of states forbids it, and nothing
// has changed.
int rnic_qp_change(struct rnic_qp *qp, const struct qp_change *change);
// To RTR, and connects by itself when the peer has been told the same (meet/meeting.h). Does not
// wait. -EOPNOTSUPP: the queue pair is not addressable; -EINVAL: in no state for that; -ENOMEM.
int rnic_qp_meet(struct rnic_qp *qp, const struct rnic_meeting *with);
enum qp_state rnic_qp_state(struct rnic_qp *qp);
// What a queue pair says of itself, all of one moment.
struct rnic_qp_answer {
    enum qp_state state;
    bool is_draining; // in SQD, and something posted before is not over
    // As base/transport.h has it: what the program or the connection manager has set. Without it:
    // nothing but what the program did.
    bool has_told;
    struct qp_change told;
};
void rnic_qp_query(struct rnic_qp *qp, struct rnic_qp_answer *ret);
// What its queues hold, which may be more than was asked for.
struct wq_caps rnic_qp_caps(const struct rnic_qp *qp);
// What comes to this multicast group, an IPv4 one mapped, is for the queue pair too, until it is
// detached or destroyed. -EALREADY: it is; -EINVAL: not of datagrams, not a group, or not attached;
// -ENOMEM; why the link cannot join.
int rnic_qp_attach(struct rnic_qp *qp, const struct in6_addr *group);
int rnic_qp_detach(struct rnic_qp *qp, const struct in6_addr *group);

// Posting: rnic/post.h. May work requests of this kind be posted now? 0, -EOPNOTSUPP.
int rnic_qp_may_post(const struct rnic_qp *qp, enum wqe_opcode opcode);
// For who fills entries without a cursor, one thread alone.
void rnic_qp_ring_sq(struct rnic_qp *qp);
void rnic_qp_ring_rq(struct rnic_qp *qp);

// One-shot RDMA (wq/oneshot.h); a post is as any other. -EOPNOTSUPP: datagrams and unreliable
// connections have none.
int rnic_oneshot_create(struct rnic_qp *qp, const struct oneshot_config *config);
// NULL before that, then the same while the queue pair lives.
const struct oneshot_config *rnic_oneshot_config(const struct rnic_qp *qp);
// What the connection agreed on; where a part is missing, the message has to say it.
struct rnic_oneshot_agreed {
    bool is_known; // there is a connection, and the peer's choice is in
    bool has_advertise, has_close;
};
struct rnic_oneshot_agreed rnic_oneshot_agreed(const struct rnic_qp *qp);
// Is the list that a command is to open mapped, and writable if asked? 0, -EFAULT. Takes no lock.
int rnic_oneshot_probe(const struct rnic_qp *qp, const struct mem_list *list, bool writable,
                       struct mem_known *known);
// When it returns no engine touches the memory. -EINVAL: not an open region of this QP.
int rnic_oneshot_revoke(struct rnic_qp *qp, uint32_t stag);

int rnic_srq_create(struct rnic *rnic, uint32_t pd, uint32_t max_wr, uint32_t max_sge,
                    const struct rnic_async_port *async, struct rnic_srq **ret);
int rnic_srq_destroy(struct rnic_srq *srq); // -EBUSY while QPs use it
int rnic_srq_set_limit(struct rnic_srq *srq, uint32_t limit);
uint32_t rnic_srq_max_wr(const struct rnic_srq *srq); // what it holds: as asked, or more
void rnic_srq_ring(struct rnic_srq *srq);

/* ---- connection endpoints -------------------------------------------------------------------- */

enum rnic_ep_event_type {
    RNIC_EP_CONNECT_REQUEST, // on a listener: `new_ep` asks to be accepted or rejected
    RNIC_EP_CONNECT_REPLY,   // active, when connected with qp == NULL: rnic_ep_establish follows
    RNIC_EP_ESTABLISHED,
    RNIC_EP_REJECTED, // status -ECONNREFUSED (nobody listens, or the peer's answer: private data)
    RNIC_EP_UNREACHABLE,   // status -ETIMEDOUT, -ENETUNREACH, …
    RNIC_EP_CONNECT_ERROR, // start-up failed: status says how
    RNIC_EP_DISCONNECTED,  // once per established connection, also to who disconnects; and of an
                           // accepted one whose peer goes before its first FPDU
};

enum { RNIC_PRIVATE_DATA_MAX_LEN = 512 };

struct rnic_ep_event {
    enum rnic_ep_event_type type;
    int status;                       // 0 or a negative errno
    struct rnic_ep *new_ep;           // CONNECT_REQUEST: the connection that asks
    struct rnic_ep_port *new_ep_port; // CONNECT_REQUEST: where its events go; empty: let go
    uint16_t ird, ord; // what the peer offers to serve and to ask; ESTABLISHED of a responder, or
                       // where the peer said nothing: our own
    uint16_t private_data_len;
    uint8_t private_data[RNIC_PRIVATE_DATA_MAX_LEN];
};

// Called with the shard's lock held.
struct rnic_ep_port {
    void (*on_event)(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event);
    void *ctx;
};

struct rnic_ep_params {
    const void *private_data;
    uint16_t private_data_len; // -EINVAL when longer than the start-up frame has room for
    uint16_t ird;              // responder resources; at most rnic_limits.max_qp_rd_atom
    uint16_t ord;              // initiator depth
};

enum rnic_ep_flags { RNIC_EP_REUSE_ADDR = 1, RNIC_EP_V6_ONLY = 2 };

// Which local address reaches `dst` (rdma_resolve_addr). Negative errno: no route.
int rnic_route(struct rnic *rnic, const struct sockaddr *dst, struct sockaddr_storage *ret_src);

// Takes a local address; port 0 fixes a free one at once. `addr` may be NULL (active side, any).
int rnic_ep_bind(struct rnic *rnic, const struct sockaddr *addr, unsigned flags,
                 const struct rnic_ep_port *port, struct rnic_ep **ret);
int rnic_ep_listen(struct rnic_ep *ep, int backlog);
// `qp` may be NULL: then CONNECT_REPLY comes in place of ESTABLISHED, and rnic_ep_establish
// follows.
int rnic_ep_connect(struct rnic_ep *ep, const struct sockaddr *dst, struct rnic_qp *qp,
                    const struct rnic_ep_params *params);
int rnic_ep_establish(struct rnic_ep *ep, struct rnic_qp *qp);
int rnic_ep_accept(struct rnic_ep *ep, struct rnic_qp *qp, const struct rnic_ep_params *params);
int rnic_ep_reject(struct rnic_ep *ep, const void *private_data, uint16_t private_data_len);
// Orderly end: what was posted leaves first, then FIN. DISCONNECTED follows on both sides.
int rnic_ep_disconnect(struct rnic_ep *ep);
// No event of this endpoint is delivered any more once this returns.
void rnic_ep_destroy(struct rnic_ep *ep);
// From here on events go to this port (a new endpoint's, or after rdma_migrate_id).
void rnic_ep_set_port(struct rnic_ep *ep, const struct rnic_ep_port *port);
int rnic_ep_set_tos(struct rnic_ep *ep, uint8_t tos);

int rnic_ep_local_addr(struct rnic_ep *ep, struct sockaddr_storage *ret);
int rnic_ep_peer_addr(struct rnic_ep *ep, struct sockaddr_storage *ret);

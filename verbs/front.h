// The objects behind the pointers that programs hold. Each begins with the public structure, so
// that one cast leads from the one to the other. Names here are `front_*`: `verbs_*` and `ibv_*`
// are the ABI's own.
//
//   device.c     the devices, their list and GUIDs     qp.c      create, destroy, query
//   context.c    open, close, the table of operations  modify.c  states and attributes
//   query.c      device, port, P_Key                   post.c    ibv_post_*
//   gid.c        the GID table                         qp_ex.c   ibv_wr_*
//   addresses.c  ... as the host has them
//   pd.c mr.c    domains, regions                      srq.c     shared receive queues
//   ah.c mcast.c address handles, multicast groups
//   mw.c         windows                               event.c   descriptors that count events
//   oneshot.c    one-shot RDMA, <weft/oneshot.h>
//   drive.c      a program's loop drives, <weft/drive.h>
//   cq.c cq_ex.c completion queues                     channel.c completion and async events
//   strings.c rates.c fork.c newer.c absent.c private.c       what needs no object
//
// Errors: functions that return a pointer answer NULL and set errno; those that return int answer a
// positive errno and set it too, unless the manual pages say -1. In the child of a fork, calls on
// objects made before it answer EIO; queries of the device work. Destroying frees what is of this
// room and touches neither the parent's device nor any lock, which the fork may have caught taken.
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "base/port_datagram.h"
#include "rnic/post.h"
#include "rnic/rnic.h"
#include "verbs/event.h"
#include "view/identity.h"

enum {
    FRONT_PORT_NUM = 1,
    FRONT_COMP_VECTOR_COUNT = 1,
    FRONT_PRIVATE_TAIL_LEN = 256,
};

// In octets.
#define FRONT_MTU_LEN(mtu) (128U << (mtu))

// Provider libraries of the system (libmlx5, libefa) tell their own devices by a pointer behind the
// public structure, so there is zeroed room behind it.
struct front_device {
    struct ibv_device device;
    uint64_t private_tail[FRONT_PRIVATE_TAIL_LEN / sizeof(uint64_t)];
    const struct identity *identity; // what it says of itself
    enum device_wire wire;
};

static inline const struct front_device *front_device_of(const struct ibv_device *device)
{
    return (const struct front_device *)device;
}

static inline const struct identity *front_identity_of(const struct ibv_context *context)
{
    return front_device_of(context->device)->identity;
}

struct front_context {
    struct verbs_context verbs; // holds the ibv_context, as its last member
    struct rnic *rnic;
    struct event_queue async;
    struct event_source gid_change;
    struct rnic_port_watch port_watch; // of a device of packets
    atomic_uint user_count; // the program until it closes, and every object made with the context

    // A device of streams: the address that is its GID, as it was looked up last (gid.c).
    pthread_mutex_t own_addr_lock;
    struct rnic_addr own_addr;
    instant_ns own_addr_until_ns; // it is looked up anew from then on
};

static inline struct front_context *front_context_of(struct ibv_context *context)
{
    return (struct front_context *)((char *)context -
                                    offsetof(struct front_context, verbs.context));
}

// Behind the making of an object, and at the end of its destruction. The last one to release frees
// the context: a program that closes the device first may still destroy what it made with it.
static inline void front_context_hold(struct ibv_context *context)
{
    atomic_fetch_add(&front_context_of(context)->user_count, 1);
}

void front_context_release(struct ibv_context *context);

static inline bool front_is_alive(struct ibv_context *context)
{
    return rnic_is_alive(front_context_of(context)->rnic);
}

// One protection domain, by whatever names.
static inline bool front_pd_is_same(const struct ibv_pd *a, const struct ibv_pd *b)
{
    return a->context == b->context && a->handle == b->handle;
}

// The handle of an object that the device knows by no number of its own: of its own in a process.
static inline uint32_t front_handle_of(const void *object)
{
    return (uint32_t)((uintptr_t)object >> 4);
}

// For functions that return int: the value, also left in errno.
static inline int front_fail(int error)
{
    errno = error;
    return error;
}

// For functions that return a pointer.
static inline void *front_null(int error)
{
    errno = error;
    return NULL;
}

struct front_channel {
    struct ibv_comp_channel channel; // refcnt is guarded by the context's mutex
    struct event_queue events;       // events.fd is channel.fd
    bool is_driver;                  // weft_drive_begin; guarded likewise
};

struct front_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex cq_ex; // only for those of ibv_create_cq_ex
    };
    struct rnic_cq *rnic_cq;
    struct event_source completions;
    struct event_source overrun;
    uint64_t wallclock_ahead_ns; // of the clock that stamps completions; the poller's, 0: unknown
    const struct cqe *current;   // between start_poll and end_poll: the entry being read, or NULL
};

struct front_srq {
    struct ibv_srq srq;
    struct rnic_srq *rnic_srq;
    uint32_t max_wr, max_sge;
    atomic_uint limit; // 0: not armed
    struct event_source error;
    struct event_source limit_reached;
};

enum { FRONT_QP_EVENT_COUNT = RNIC_EVENT_QP_LAST_WQE_REACHED + 1 };

struct front_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex qp_ex; // only where is_ex
    };
    struct rnic_qp *rnic_qp;
    bool is_ex; // made with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
    bool sq_sig_all;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr; // what ibv_modify_qp was told; guarded by qp.mutex
    struct event_source events[FRONT_QP_EVENT_COUNT]; // by enum rnic_async_event
    atomic_uint group_count;                          // attached to; each as often as it was
    // What <weft/oneshot.h> knows beside the engine's table; written before that is made.
    struct {
        uint32_t stag_offset;
        bool request_is_present, answer_is_present;
    } oneshot;
    // Between wr_start and wr_complete; who has the cursor has all of it.
    struct rnic_sq_cursor cursor; // without a queue behind a fork, which may have caught it taken
    struct send_wqe *wr_current;  // the work request being built, or NULL
    bool has_wr_address;          // of it: wr_set_ud_addr was called
    int wr_error;                 // the first error, positive; nothing is built any more
    bool has_bind;                // one of the sequence is of a window
};

// A thread domain is a promise of the program's that locks here have no need of; so nothing but its
// life is kept. It and a protection domain last while parent domains name them.
struct front_td {
    struct ibv_td td;
    atomic_uint parent_count;
};

// A parent domain is a second name of a protection domain: the handle is the same, which so tells
// whether two are one.
struct front_pd {
    struct ibv_pd pd;
    struct ibv_pd as_made;   // what a program may have changed
    struct front_pd *domain; // of a parent domain: whose name it is; else NULL
    struct front_td *td;     // of a parent domain: what it was made with, or NULL
    atomic_uint parent_count;
    atomic_uint ah_count; // address handles, which the engine does not know
};

// The domain that a parent domain was made of, which may be another parent's; else itself.
static inline struct front_pd *front_domain_of(struct ibv_pd *pd)
{
    struct front_pd *front = (struct front_pd *)pd;
    return front->domain != NULL ? front->domain : front;
}

// Does the kernel know a domain by what the program has in its hands?
static inline bool front_pd_is_known(const struct ibv_pd *pd)
{
    return front_pd_is_same(pd, &((const struct front_pd *)pd)->as_made);
}

struct front_mw {
    struct ibv_mw mw;
    uint32_t stag; // its first key, which is its handle too; programs write into mw.rkey
};

struct front_ah {
    struct ibv_ah ah;
    struct front_pd *domain; // which lasts as long as this; ah.pd may be a parent domain
    struct datagram_path path;
};

// ah.c. To whom a datagram of this queue pair goes, into an entry of its send queue. 0 or EINVAL.
int front_address_fill(const struct front_qp *qp, struct send_wqe *wqe, const struct ibv_ah *ah,
                       uint32_t remote_qpn, uint32_t remote_qkey);

// post.c. May this work request, filled but for its elements' contents, be posted? 0 or a positive
// errno, as ibv_post_send(3) has it.
int front_send_check(const struct front_qp *qp, const struct send_wqe *wqe);
// The same of what is otherwise as the engine is to have it: and makes it so.
int front_send_seal(const struct front_qp *qp, struct send_wqe *wqe);
// A work request into the slot of a cursor; NULL: the queue is full. 0 or a positive errno.
int front_send_fill(const struct front_qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr);
// As IBV_WR_BIND_MW has it; allows windows of `type` only. 0 or a positive errno. The window's key
// will be wqe->bind.mw_rkey; whoever posts writes it to mw->rkey.
int front_bind_fill(struct send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
                    const struct ibv_mw_bind_info *info, enum ibv_mw_type type);
int front_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int front_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int front_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

// query.c
int front_query_device_ex(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *attr, size_t attr_len);
// The smallest that has room for so many octets.
enum ibv_mtu front_mtu_of(uint32_t len);
int front_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
                     size_t attr_len);
int front_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

// mw.c
struct ibv_mw *front_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int front_dealloc_mw(struct ibv_mw *mw);
int front_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

// pd.c
struct ibv_td *front_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int front_dealloc_td(struct ibv_td *td); // EBUSY while a parent domain names it
struct ibv_pd *front_alloc_parent_domain(struct ibv_context *context,
                                         struct ibv_parent_domain_init_attr *attr);

// mr.c
int front_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                    struct ibv_sge *sg_list, uint32_t num_sge);

// cq.c
int front_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int front_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int front_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
// An entry as ibv_poll_cq gives it. struct ibv_wc has no field for the reference of one-shot
// RDMA, which so lies in `vendor_err` and `src_qp`.
void front_wc_fill(struct ibv_wc *wc, const struct cqe *cqe);
// Makes the CQ of either kind; NULL with errno.
struct front_cq *front_cq_make(struct ibv_context *context, uint32_t cqe_count, void *cq_context,
                               struct ibv_comp_channel *channel, uint32_t comp_vector);

// cq_ex.c
struct ibv_cq_ex *front_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

// qp.c, qp_ex.c
struct ibv_qp *front_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
// Sets the ibv_wr_* functions. EOPNOTSUPP for operations that are not there.
int front_qp_ex_init(struct front_qp *qp, uint64_t send_ops_flags);

// channel.c: the port of a CQ, and of a QP or SRQ
void front_cq_on_completion(void *ctx);
void front_cq_on_overrun(void *ctx);

/* ---- channel.c and drive.c ------------------------------------------------------------------- */

struct front_cq_event {
    struct ibv_cq *cq;
    void *cq_context;
};
// For event_wait and event_take; the context is a struct front_cq_event.
void front_completion_taken(struct event_source *source, void *ctx);
// Is the calling thread within a pass of the loop that waits for this channel's events?
bool front_drives(const struct front_channel *channel);
// The channel is about to go.
void front_drive_forget(struct front_channel *channel);

// rnic_port_watch; the context is the front_context.
void front_port_on_change(void *ctx);
void front_qp_on_event(void *ctx, enum rnic_async_event event);
void front_srq_on_event(void *ctx, enum rnic_async_event event);
void front_qp_events_init(struct front_qp *qp);
void front_srq_events_init(struct front_srq *srq);
// How many were taken, after withdrawing the rest.
unsigned front_qp_events_withdraw(struct front_qp *qp);
unsigned front_srq_events_withdraw(struct front_srq *srq);
// Waits until the events that a program has taken are acknowledged: *completed, under `mutex`, is
// `taken_count`.
void front_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond,
                             const uint32_t *completed, unsigned taken_count);

// addresses.c: what a device of packets begins with, and how it follows the host.
struct rnic_port front_port_find(const struct identity *identity);

// gid.c: addresses of the host, or those that the open device has its packets from.
// The index of a GID; -1: it is none of ours.
int front_gid_find(const struct ibv_context *context, const struct in6_addr *addr);
// ... of the first that is of the same family.
int front_gid_of_family(const struct ibv_context *context, const struct in6_addr *addr);
// The group of that family that it may stand for. False: none.
bool front_gid_as_group(const union ibv_gid *gid, bool is_ipv4, struct in6_addr *ret);
// False: it holds no multicast group, or one that none of our GIDs is of the family of.
bool front_gid_group(const struct ibv_context *context, const union ibv_gid *gid,
                     struct in6_addr *ret);
// The way that an address vector describes. 0, or EINVAL: it has no GID of ours to leave from, or
// none of a host's to go to.
int front_path_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                    struct datagram_path *ret);
// ... of a datagram, which may go to a group.
int front_datagram_path_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                             struct datagram_path *ret);

/* ---- exported, and known to rdma-core's own programs alone ----------------------------------- */

const char *ibv_get_sysfs_path(void);
// The file's text without its newline; its length, or -1.
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* ---- exported, and not in older headers ------------------------------------------------------ */

struct ibv_dmah;
struct ibv_dmah_init_attr;
struct mr_init_attr;
struct ibv_buf;
struct ibv_comp_cntr;
struct comp_cntr_attr;

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct mr_init_attr *attr);
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **ret);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
int _ibv_query_comp_cntr_caps(struct ibv_context *context, void *caps, size_t caps_size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                           struct comp_cntr_attr *attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
                            struct comp_cntr_attr *attr);
int ibv_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);

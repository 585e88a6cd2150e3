// A connection over RDMA, embedded in a protocol's own: a queue pair and its completions, the RDMA
// manager that moves the data, what silence means. A protocol says what messages are:
//
//     on_received, on_sent   what has come, and what has gone
//     retry                  takes what had to wait
//     send                   posts what is to go, with the manager and beside it
//     await                  what has to come, and by when
//
// All of it runs in the loop's thread. A call touches the pair; at the end of the batch each
// touched one takes its completions, sends, and waits for what it needs.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/drive.h>
#include <weft/manager.h>
#include <weft/oneshot.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/lookout.h"
#include "base/time.h"
#include "base/why.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/stream/progress.h"

struct fabric;
struct fabric_pair;

enum { FABRIC_POLL_BATCH = 32 };

// An RNIC that connections have come over, for as long as the server is there.
struct fabric_device {
    struct fabric *fabric;
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    struct fabric_part {
        uint32_t generation; // of the pool's part that is registered; 0: none
        struct ibv_mr *mr;
    } parts[NODE_UNIT_COUNT_MAX];
    unsigned sink_access; // of memory that RDMA Reads go to
    bool can_invalidate;  // Send with Invalidate
    struct ibv_comp_channel *completions;
    struct loop_watch *watch;
    struct loop_watch *drive_watch; // NULL: the loop does not drive the RNIC
    struct weft_drive_calls drive;
    bool may_wait;          // said before this turn
    uint64_t event_count;   // of completions that have come
    struct lookout lookout; // for the next one
    bool has_oneshot;       // it is weft's
    struct weft_oneshot_calls oneshot;
    struct list_link link;
};

enum fabric_state {
    FABRIC_ACCEPTING, // the peer has been answered
    FABRIC_UP,
    FABRIC_LEAVING, // by us: what was posted arrives first
    FABRIC_ENDED,   // no queue pair any more; commands are under way
};

struct fabric_pair {
    struct fabric *fabric;
    struct fabric_device *device;
    struct rdma_cm_id *id;
    enum fabric_state state;
    struct why why;             // it shall end: because of this; empty: it shall not
    char host[CLIENT_HOST_MAX]; // who is at the other end, for limits
    bool has_said_so;           // to the connection manager
    bool is_disconnected;       // the connection manager has said so
    instant_ns silent_until_ns; // it ends then: of a beginning, by the protocol
    struct progress moving;     // data, for which the pool has lent memory
    struct deadline deadline;   // of these, or of leaving

    struct ibv_cq *recv_cq; // armed always
    struct ibv_cq *send_cq; // armed while something is outstanding
    bool is_recv_armed, is_send_armed;
    struct weft_rdma_manager *manager;
    unsigned transfer_count;  // requests at the manager
    struct list_link sending; // what the protocol has posted, in order

    struct list_link link;       // all of its server
    struct list_link dirty_link; // the touched ones
};

struct fabric_protocol {
    const char *name; // what the operator reads
    const char *late; // why, when silent_until_ns has come
    const char *default_port;
    unsigned pair_max; // connections, if its server names no other number; one address has half

    // A connection request: it becomes a pair (fabric_pair_accept), or is rejected. True: the id is
    // a pair's.
    bool (*on_request)(void *ctx, const struct rdma_cm_event *event);
    // A good completion.
    void (*on_received)(struct fabric_pair *p, const struct ibv_wc *wc, instant_ns now);
    void (*on_sent)(struct fabric_pair *p, const struct ibv_wc *wc);
    // Receives that are free.
    void (*receives_post)(struct fabric_pair *p);
    void (*retry)(struct fabric_pair *p, instant_ns now);
    // False: there was nothing to send.
    bool (*send)(struct fabric_pair *p, instant_ns now);
    // Sets silent_until_ns.
    void (*await)(struct fabric_pair *p, instant_ns now);
    // It begins to end: nothing new is taken.
    void (*close)(struct fabric_pair *p, instant_ns now);
    // The queue pair is gone, and no transfer is under way. What is lent to the pair goes back.
    void (*abandon)(struct fabric_pair *p, instant_ns now);
    // Asked each time it is touched after that: false while something is under way.
    bool (*is_over)(struct fabric_pair *p);
    // Gives all memory back, also while something is under way, when its server goes.
    void (*destroy)(struct fabric_pair *p);
};

/* ---- for protocols: a pair is made ----------------------------------------------------------- */

// How many work requests it may have posted.
struct fabric_shape {
    unsigned receive_count;
    unsigned descriptor_count; // by the manager,
    unsigned send_count;       // and by the protocol itself
    uint64_t quantum_len;      // more than a request moves: so they leave in their order
};

// The device that `verbs` is, registered with at the first connection. NULL with `ret_why`.
struct fabric_device *fabric_device_find(struct fabric *fabric, struct ibv_context *verbs,
                                         struct why *ret_why);
// The key of a unit's part of the pool; 0: it cannot be registered.
uint32_t fabric_device_lkey(struct fabric_device *device, uint32_t unit);

// Why one more connection from the peer of this request cannot be had; NULL: it can.
const char *fabric_pair_limit(const struct fabric *fabric, struct rdma_cm_id *id);

// All zero but for device and id. False with errno: what there is goes with fabric_pair_fini.
bool fabric_pair_init(struct fabric_pair *p, const struct fabric_shape *shape);
// Answers, once receives are posted. False with errno.
bool fabric_pair_accept(struct fabric_pair *p, struct rdma_conn_param *param);
// The queue pair, the manager, the completion queues.
void fabric_pair_fini(struct fabric_pair *p);

/* ---- for protocols: at work ------------------------------------------------------------------ */

static inline bool fabric_is_usable(const struct fabric_pair *p)
{
    return p->state == FABRIC_ACCEPTING || p->state == FABRIC_UP;
}

// It is looked at when the batch ends.
void fabric_touch(struct fabric_pair *p);
// One line for the operator, about a peer.
void fabric_say(const struct fabric *fabric, struct rdma_cm_id *id, const char *what,
                const char *why);
// It shall end; at the end of the batch it does. The first reason holds.
void fabric_end(struct fabric_pair *p, const char *why);
// The same for a reason that the operator is told.
void fabric_fail(struct fabric_pair *p, const char *why);

// Hands the request to the manager, to be posted by weft_rdma_manager_post. False: it was refused,
// and nothing of it is under way; the pair fails.
bool fabric_request_submit(struct fabric_pair *p, struct weft_rdma_request *request);
// From its on_complete: has it moved its `len` octets?
bool fabric_request_over(struct fabric_pair *p, const struct weft_rdma_request *request,
                         uint64_t len);
// A completion that is not good: no more than that the connection is over, or why it fails.
void fabric_on_bad_completion(struct fabric_pair *p, enum ibv_wc_status status);
// Posts a chain that ends with `last`, whose completion stands for all.
void fabric_send(struct fabric_pair *p, struct ibv_send_wr *first, struct ibv_send_wr *last);

/* ---- for the server -------------------------------------------------------------------------- */

// Takes it further when the batch ends. True: there may be more to do at once.
bool fabric_pair_update(struct fabric_pair *p, instant_ns now);
// The server goes.
void fabric_pair_destroy(struct fabric_pair *p, instant_ns now);
// Members of the loop that drives the RNICs.
bool fabric_devices_may_sleep(struct fabric *fabric);
void fabric_devices_wake(struct fabric *fabric);
void fabric_device_destroy(struct fabric_device *device);

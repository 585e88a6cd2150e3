// One connection of the NVMe/RDMA TTS, for its files: a queue pair with its receives, the RDMA
// manager that moves the data, and the responses.
//
//     nvme_rdma.c           the listeners, events of connections, the TTS as the UMA sees it
//     nvme_rdma_device.c    RNICs: domain, pool, completion channel
//     nvme_rdma_queue.c     a connection's life
//     nvme_rdma_transfer.c  capsules, data, responses
//     nvme_rdma_agenda.c    what is to be done when the batch ends
//
// The life of a slot. There are two for each command that the host may have outstanding, and all of
// them are posted at first: so the host, which sends the next command when it has a response, finds
// a receive even while that response's completion has not been polled.
//
//     posted ──capsule──▶ command ──respond──▶ response posted ──completion──▶ posted
//                            │  └──fetch────▶ RDMA Read ──completion──▶ command
//                            └─────deliver──▶ RDMA Write and response ──completion──▶ posted
//
// What a batch of events has brought leaves at its end (nvme_rdma_queue_run): the manager's work
// requests in one chain, the other responses in another.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include <weft/drive.h>
#include <weft/manager.h>
#include <weft/oneshot.h>

#include "base/deadlines.h"
#include "base/time.h"
#include "listen/address.h"
#include "node/interface/request.h"
#include "node/nvme/wire.h"
#include "node/stream/progress.h"
#include "node/tts/nvme_rdma.h"
#include "text/addresses.h"

enum nvme_rdma_limits {
    NVME_RDMA_QUEUE_MAX = 512,       // connections
    NVME_RDMA_IN_CAPSULE_LEN = 4096, // octets of data in a capsule
    NVME_RDMA_CAPSULE_LEN = NVME_SQE_LEN + NVME_RDMA_IN_CAPSULE_LEN,
    NVME_RDMA_SLOTS_PER_COMMAND = 2,
    NVME_RDMA_DESCRIPTORS_PER_SLOT = 2, // a Write and the response behind it
    NVME_RDMA_POLL_BATCH = 32,
};

// An RNIC that connections have come over, for as long as the TTS is there.
struct nvme_rdma_device {
    struct nvme_rdma *rdma;
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    struct nvme_rdma_part {
        uint32_t generation; // of the pool's part that is registered; 0: none
        struct ibv_mr *mr;
    } parts[NODE_UNIT_COUNT_MAX];
    unsigned sink_access; // of memory that RDMA Reads go to
    bool can_invalidate;  // Send with Invalidate
    struct ibv_comp_channel *completions;
    struct loop_watch *watch;
    struct loop_watch *drive_watch; // NULL: the loop does not drive the RNIC
    struct weft_drive_calls drive;
    bool may_wait;    // said before this turn
    bool has_oneshot; // it is weft's
    struct weft_oneshot_calls oneshot;
    struct list_link link;
};

// A receive, and the command that came in it.
struct nvme_rdma_slot {
    struct nvme_rdma_queue *queue;
    uint8_t *capsule;
    uint8_t *cqe;
    uint32_t in_capsule_len;      // octets that have come behind the SQE
    struct nvme_command *command; // what is to be moved or answered; NULL: it has been given back
    bool is_advertised;           // the capsule's own header named the memory,
    uint32_t stag;                // which is this
    struct weft_rdma_request request; // data under way,
    struct weft_rdma_element element; // where they go or come from,
    struct weft_rdma_buffer buffer;   // and the other way round
    struct ibv_sge response_sge;
    struct ibv_send_wr response;
    struct list_link link; // idle, waiting, delivering, responding or sending
};

enum nvme_rdma_state {
    QUEUE_ACCEPTING, // the client has been answered
    QUEUE_UP,
    QUEUE_LEAVING, // disconnected by us: what was posted leaves first
    QUEUE_ENDED,   // no queue pair any more; commands are under way
};

struct nvme_rdma_queue {
    struct nvme_rdma *rdma;
    struct nvme_rdma_device *device;
    struct rdma_cm_id *id;
    enum nvme_rdma_state state;
    struct why why;           // it shall end: because of this; empty: it shall not
    bool is_disconnected;     // the connection manager has said so
    instant_ns connect_until; // a Connect has succeeded by then
    struct progress moving;   // data, for which the pool has lent memory
    struct deadline deadline; // of these, or of leaving
    struct nvme_queue *nvme;

    struct ibv_cq *recv_cq; // armed always
    struct ibv_cq *send_cq; // armed while something is outstanding
    bool is_recv_armed, is_send_armed;
    struct weft_rdma_manager *manager;
    unsigned transfer_count; // requests at the manager

    uint8_t *memory; // capsules, CQEs, scratch
    struct ibv_mr *message_mr;
    struct ibv_mr *scratch_mr;
    struct mspan scratch;
    struct nvme_rdma_slot *slots;
    unsigned slot_count;
    struct list_link idle;       // receives to be posted
    struct list_link waiting;    // capsules that the controllers have no room for
    struct list_link delivering; // data and responses that leave at the end of the batch
    struct list_link responding; // likewise responses alone
    struct list_link sending;    // responses that are out, in order
    bool has_fetches;            // RDMA Reads that leave then too

    struct list_link link;       // all queues
    struct list_link dirty_link; // those to be looked at when the batch ends
};

// One address that is listened at.
struct nvme_rdma_listener {
    struct rdma_cm_id *id;
    struct address_end end;
};

struct nvme_rdma {
    struct nvme_rdma_parts parts;
    struct loop_member member;
    struct rdma_event_channel *channel;
    struct loop_watch *channel_watch;
    struct nvme_rdma_listener listeners[ADDRESSES_COUNT_MAX];
    unsigned listener_count;
    unsigned queue_count;
    struct list_link devices;
    struct list_link queues;
    struct list_link dirty;
    struct deadlines deadlines;
    struct nvme_rdma_counters counters;
};

// What a connection request asks for, in its private data.
struct nvme_rdma_wish {
    uint16_t qid;
    uint16_t command_count; // HSQSIZE + 1
    uint8_t read_count;     // RDMA Reads that may be outstanding
};

// ---- nvme_rdma_device.c

// The device that `verbs` is, registered with at the first connection. NULL with `ret_why`.
struct nvme_rdma_device *nvme_rdma_device_find(struct nvme_rdma *rdma, struct ibv_context *verbs,
                                               struct why *ret_why);
// Members of the loop that drives the RNICs.
bool nvme_rdma_devices_may_sleep(struct nvme_rdma *rdma);
void nvme_rdma_devices_wake(struct nvme_rdma *rdma);
void nvme_rdma_device_destroy(struct nvme_rdma_device *device);
// The key of a unit's part of the pool; 0: it cannot be registered.
uint32_t nvme_rdma_device_lkey(struct nvme_rdma_device *device, uint32_t unit);

// ---- nvme_rdma_queue.c

// Makes the queue pair on `id`, posts all receives and accepts. NULL with `ret_why`; then the id is
// still the caller's, to be rejected.
struct nvme_rdma_queue *nvme_rdma_queue_create(struct nvme_rdma *rdma, struct rdma_cm_id *id,
                                               const struct nvme_rdma_wish *wish,
                                               struct why *ret_why);
// Waits for the Connect and for data under way; ends it if they have been waited for too long.
void nvme_rdma_queue_await(struct nvme_rdma_queue *q, instant_ns now);
// Ends it in order: what was posted leaves first.
void nvme_rdma_queue_leave(struct nvme_rdma_queue *q, instant_ns now);
// The connection is over: whatever is under way on it ends now.
void nvme_rdma_queue_sever(struct nvme_rdma_queue *q, instant_ns now);
// Takes completions, sends what there is, arms. False: there may be more to take.
bool nvme_rdma_queue_run(struct nvme_rdma_queue *q, instant_ns now);
// It has ended, and none of its commands is under way.
void nvme_rdma_queue_destroy(struct nvme_rdma_queue *q);
// When the node ends in spite of commands that do not.
void nvme_rdma_queue_force_destroy(struct nvme_rdma_queue *q);

// ---- nvme_rdma_transfer.c

extern const struct nvme_transport nvme_rdma_transport;
// Takes the completions there are, at most a batch of each kind. How many.
unsigned nvme_rdma_take(struct nvme_rdma_queue *q, instant_ns now);
// Posts what waits for the end of the batch. False: nothing did.
bool nvme_rdma_send(struct nvme_rdma_queue *q, instant_ns now);
// Posts the receives of idle slots.
void nvme_rdma_receives_post(struct nvme_rdma_queue *q);
// Capsules that had to wait.
void nvme_rdma_retry(struct nvme_rdma_queue *q, instant_ns now);
// The connection is gone: commands in hand are given back.
void nvme_rdma_abandon(struct nvme_rdma_queue *q, instant_ns now);

// ---- nvme_rdma_agenda.c

// It is looked at when the batch ends.
void nvme_rdma_touch(struct nvme_rdma_queue *q);
// One line for the operator, about a client.
void nvme_rdma_say(const struct nvme_rdma *rdma, struct rdma_cm_id *id, const char *what,
                   const char *why);
// It shall end; at the end of the batch it does. The first reason holds.
void nvme_rdma_queue_end(struct nvme_rdma_queue *q, const char *why);
// The same for a reason that the operator is told.
void nvme_rdma_queue_fail(struct nvme_rdma_queue *q, const char *why);

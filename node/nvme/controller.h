// NVMe controllers, whatever transport carries their queues: discovery and I/O controllers, their
// admin and I/O commands, keep alive, async events, statuses and the error log. This is the
// contract between them and a transport (node/tts/nvme_tcp*, node/tts/nvme_rdma*).
//
//     target        all of a node: subsystems, controllers, where it listens. One per node
//     subsystem     the volumes of a group, by its name (NQN); of a volume that stands alone the
//                   name is made of its UUID
//     namespace     a volume, by its number in the group (NSID)
//     controller    one host's session with a subsystem: an admin queue and I/O queues
//     queue         a connection of the transport; an I/O queue is one at the UMA and CTA for each
//                   namespace that it uses
//     command       one capsule, until its response is out
//
// The life of a command. Everything on one thread; each side may call the other from within a call,
// but for what is said below.
//
//     transport                                        controllers
//     nvme_queue_on_capsule(sqe, in-capsule length) ─▶ checks every field; submits to the CTA
//
//     write    ◀──────────────────────── fetch          a buffer is there: get the host's data
//              nvme_command_done ─────▶                 to the device
//              ◀──────────────────────── respond        the status
//              nvme_command_done ─────▶                 the command is free
//
//     read     ◀──────────────────────── deliver        data and good status together
//              nvme_command_done ─────▶                 buffer and command are free
//
//     refusal, or no data    ◀────────── respond
//              nvme_command_done ─────▶
//
// The transport asks for the response's octets (nvme_command_cqe) when it hands it to the wire, in
// the order of sending: that is when the queue's head moves.
//
// The life of a queue. nvme_queue_create when the transport's connection is up. The transport ends
// it, because the connection is lost or because it was asked to (`close`), by nvme_queue_close;
// gives back what it still holds (nvme_command_done with any status); and when nvme_queue_is_over,
// of which `wake` tells, destroys it. nvme_queue_destroy calls the UMA, so it is not called from
// within any call of the controllers, but at the end of a batch.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/interface/reservation.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/nvme/sgl.h"

enum nvme_limits {
    NVME_QUEUE_DEPTH_MAX = 128,   // commands of a queue at a time, as told to hosts (CAP.MQES + 1)
    NVME_IO_QUEUE_COUNT_MAX = 16, // of a controller
    NVME_CONTROLLER_COUNT_MAX = 256,
    NVME_CONTROLLER_OF_HOST_MAX = 128, // from one address,
    NVME_DISCOVERY_OF_HOST_MAX = 16,   // of them discovery controllers
    NVME_KATO_MAX_MS = 60 * 60 * 1000,
    NVME_LISTENER_COUNT_MAX = 16, // of all transports
    NVME_MDTS_LOG2 = 8,           // data of a command: 4096 octets times 2 to this
    NVME_DATA_LEN_MAX = 1 << 20,  // the same in octets
    NVME_COPY_LEN_MAX = 16 << 20, // data of a Copy
    NVME_COPY_RANGE_MAX = 128,
    NVME_SCRATCH_LEN = (64 + 4) << 10, // of a queue: of a log; ranges and what is copied of them
    NVME_ADDRESS_MAX = 64,             // with the terminator
    NVME_PATH_MAX = NVME_NQN_MAX + 12, // likewise
};

struct nvme_target;
struct nvme_queue;
struct nvme_controller;
struct nvme_command;

// Its queue is bound to its namespace (NODE_OK), or not to be.
typedef void nvme_on_bound(struct nvme_command *command, enum node_completion completion,
                           instant_ns now);

// The controllers own it, and lend it to the transport from fetch, deliver or respond until
// nvme_command_done.
struct nvme_command {
    // For the transport to read.
    struct nvme_sgl sgl; // checked against the transport's kinds and the capsule's length in fetch
                         // and deliver; anything at all in respond
    void *data;          // fetch: to be filled; deliver: to be sent. In the pool of the CTA, or in
                         // the queue's scratch
    uint32_t data_len;   // octets, at most sgl.len
    uint32_t data_at;    // deliver: where they begin in the host's memory, from where `sgl` says
    bool has_more;       // deliver: what comes behind them is not the response, but more of them
    void *capsule;       // as given to nvme_queue_on_capsule: the transport's own record of it

    // The controllers'.
    struct nvme_queue *queue;
    struct service_request service;
    struct reservation_request reserve;
    struct list_link wait_link; // free, or waiting for the scratch or an event
    void (*on_scratch)(struct nvme_command *command, instant_ns now);
    void (*on_fetched)(struct nvme_command *command, instant_ns now); // or delivered: has_more
    nvme_on_bound *on_bound;
    uint8_t sqe[NVME_SQE_LEN];
    uint32_t nsid; // of the namespace that it is for, once that has been looked at
    bool is_bound; // it counts there
    uint32_t in_capsule_len;
    uint64_t result;
    uint16_t status;          // enum nvme_status
    uint16_t transfer_status; // what the transport said
    uint8_t stage;
    bool flushes_behind;              // a write that shall be stable, on a volume without FUA
    uint32_t range_at, range_count;   // Dataset Management, Copy
    uint32_t range_done, blocks_done; // Copy: blocks, of the range and of all
    uint32_t block_len;               // of the namespace, when it was looked at
    struct nvme_command *compare;     // a fused Write: that one; NULL: alone
    struct nvme_command *fused_write; // a fused Compare: that one; NULL: alone, or it has not come
    unsigned fetch_count;             // a fused Write: data of the two still to come
};

// What a transport offers. `connection` is the context of the queue. None of them fails, and none
// of them destroys the queue. A transport whose connection is gone gives the command back at once.
struct nvme_transport {
    const char *name; // "tcp", "rdma": as `nvme connect -t` has it
    uint8_t trtype;   // enum nvme_trtype
    unsigned sgl_kinds;
    uint32_t in_capsule_len_max; // octets of data in a capsule of an I/O queue; 16-octet units
    // Gets the host's data, `data_len` octets from where `sgl` says, into `data`. Then
    // nvme_command_done: NVME_OK, or the status of the failure (NVME_DATA_TRANSFER_ERROR,
    // NVME_TRANSIENT_TRANSPORT_ERROR), which becomes that of the command.
    void (*fetch)(void *connection, struct nvme_command *command);
    // Puts `data` where `sgl` and `data_at` say, and behind it the response, unless `has_more`:
    // then nvme_command_done is followed by another deliver, or by respond. `data` is free at
    // nvme_command_done.
    void (*deliver)(void *connection, struct nvme_command *command);
    // Sends the response. nvme_command_done may follow at once, or when it is sent.
    void (*respond)(void *connection, struct nvme_command *command);
    // The queue shall end, for the reason `why`: what has been handed over is still sent if that
    // needs no waiting; then nvme_queue_close. Not from within this call.
    void (*close)(void *connection, const char *why);
    // A command has ended, or the last of a queue that was closed: at the end of the batch the
    // transport looks whether capsules that had to wait fit in now, or the queue is over. Called
    // from within any call; does no more than take note.
    void (*wake)(void *connection);
};

/* ---- the target ------------------------------------------------------------------------------ */

struct nvme_target_parts {
    const struct uma_for_tts *uma;
    void *uma_ctx;
    const struct cta_for_tts *cta;
    void *cta_ctx;
    // The number of the first controller, of NVME_CONTROLLER_COUNT_MAX: two nodes that have one
    // subsystem have ranges of their own. 0: 1.
    uint16_t cntlid_min;
    // One line for the operator about a stranger from this host, as in struct client: each refused
    // Connect with who and why. The receiver bounds how many it shows.
    void (*say)(void *ctx, const char *host, const char *line);
    void *ctx;
};

#define NVME_COUNTERS(X)                                                               \
    X(controllers, "admin queues connected: sessions since the start")                 \
    X(queues, "queues connected")                                                      \
    X(refused, "Connects refused")                                                     \
    X(commands, "commands taken")                                                      \
    X(errors, "commands answered with an error")                                       \
    X(expired, "controllers ended because nothing was heard of the host for too long") \
    X(transfers_bad, "data that the transport could not move")

struct nvme_counters {
#define X(name, text) uint64_t name;
    NVME_COUNTERS(X)
#undef X
};

// NULL without memory.
struct nvme_target *nvme_target_create(const struct nvme_target_parts *parts);
// No queue is left.
void nvme_target_destroy(struct nvme_target *target);

// The target as the UMA sees it, with the target as context: learns of changes in the table, is
// asked to drop connections and to stop. Added to the UMA beside the transports' own.
extern const struct tts_for_uma nvme_for_uma;

// Where a transport listens; it stands in the discovery log from then on.
struct nvme_listener {
    uint8_t trtype;                 // enum nvme_trtype
    uint8_t adrfam;                 // enum nvme_adrfam
    bool is_wildcard;               // hosts are told the address that they themselves came to
    char address[NVME_ADDRESS_MAX]; // "192.0.2.1", "2001:db8::1"
    char service[8];                // the port, in decimal
    uint8_t tsas[NVME_ENTRY_TSAS_LEN];
};

// False: NVME_LISTENER_COUNT_MAX.
bool nvme_target_listener_add(struct nvme_target *target, const struct nvme_listener *listener);

// Its subsystem, if the operator gave it one (else empty), and its number there.
static inline const char *nvme_group(const struct resource *volume)
{
    return volume->places[VOLUME_IN_SUBSYSTEM].group;
}

static inline uint32_t nvme_nsid(const struct resource *volume)
{
    return volume->places[VOLUME_IN_SUBSYSTEM].member;
}

// Of a volume: as the operator has it, else "nqn.2014-08.org.nvmexpress:uuid:...".
void nvme_subsystem_nqn(const struct resource *volume, char ret[NVME_NQN_MAX]);
// With "/NSID" behind it, where the subsystem may have several.
void nvme_namespace_path(const struct resource *volume, char ret[NVME_PATH_MAX]);

// At the end of each batch; false: it has something to do then.
bool nvme_target_is_settled(const struct nvme_target *target);
void nvme_target_on_batch_end(struct nvme_target *target, instant_ns now);

instant_ns nvme_target_next_deadline(const struct nvme_target *target);
void nvme_target_on_deadline(struct nvme_target *target, instant_ns now);

struct nvme_counters nvme_target_counters(const struct nvme_target *target);
unsigned nvme_target_controller_count(const struct nvme_target *target);

/* ---- queues ---------------------------------------------------------------------------------- */

struct nvme_queue_parts {
    struct nvme_target *target;
    const struct nvme_transport *transport;
    void *connection;       // its context
    uint32_t command_count; // taken at a time; what comes beyond must wait in the transport
    int qid;                // as the transport's own start-up had it, to be held against Connect;
                            // -1: it has none
    struct mspan scratch;   // the transport's: data of Identify, logs, Connect, ranges;
                            // NVME_SCRATCH_LEN octets
    char host_address[CLIENT_ADDRESS_MAX]; // "192.0.2.7:40312"
    char host[CLIENT_HOST_MAX];            // "192.0.2.7": as in struct client
    char local_address[NVME_ADDRESS_MAX];  // "192.0.2.1": where the host came to
};

// NULL without memory. Memory is taken here and nowhere else.
struct nvme_queue *nvme_queue_create(const struct nvme_queue_parts *parts);
// It is over, and the caller is not within a call of the controllers. NULL is allowed.
void nvme_queue_destroy(struct nvme_queue *queue);

// A command capsule has come: NVME_SQE_LEN octets, copied before this returns, then
// `in_capsule_len` octets of data, which stay where the transport has them until fetch (they may
// still be on their way). False: no room, again after `wake`.
bool nvme_queue_on_capsule(struct nvme_queue *queue, const uint8_t *sqe, uint32_t in_capsule_len,
                           void *capsule, instant_ns now);

// What fetch, deliver or respond began is over. The command is not the transport's any more.
void nvme_command_done(struct nvme_command *command, enum nvme_status status, instant_ns now);

// The response, made as it is sent. NVME_CQE_LEN octets.
void nvme_command_cqe(struct nvme_command *command, uint8_t *ret);

// The connection is gone, or going. Nothing is asked of the transport for it any more but `wake`.
void nvme_queue_close(struct nvme_queue *queue, instant_ns now);

// Gives its memory back when the node ends in spite of commands that do not. NULL is allowed.
void nvme_queue_force_destroy(struct nvme_queue *queue);

// No command is under way.
bool nvme_queue_is_idle(const struct nvme_queue *queue);

// Closed, and idle.
bool nvme_queue_is_over(const struct nvme_queue *queue);

// Does the host follow the queue's head? Without that a response may have no capsule of its own,
// where the transport can say so otherwise.
bool nvme_queue_has_flow_control(const struct nvme_queue *queue);

// Has a Connect succeeded? A transport ends connections on which none does.
bool nvme_queue_is_connected(const struct nvme_queue *queue);

// The inside of the NVMe controllers, for their files.
//
//     target.c     the target: listeners, deadlines, and the UMA's side of it
//     subsystem.c  subsystems: volumes that have one name
//     namespaces.c a controller's namespaces, as volumes come and go
//     binding.c    a queue's connections at the UMA and the CTA, for its namespaces
//     connecting.c how these come about, and who waits for them
//     queue.c      queues, commands, the scratch, what goes to and comes from transport and CTA
//     session.c    controllers: their table, their end, keep alive
//     fabrics.c    Connect, Property Get and Set
//     admin.c      admin commands: async events, Abort, Keep Alive
//     features.c   what Set and Get Features set and get
//     identify.c   what Identify answers
//     logs.c       what Get Log Page answers
//     io.c         I/O commands
//     copy.c       Copy
//     fused.c      Compare and Write as one
//     reservation.c  those about who may use the volume
//     notices.c    what hosts are told of that
#pragma once

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/nvme/controller.h"

enum {
    NVME_EVENT_REQUEST_MAX = 4,   // of a controller
    NVME_ERROR_LOG_COUNT = 16,    // entries kept
    NVME_DISCOVERY_MDTS_LOG2 = 4, // as NVME_MDTS_LOG2
    NVME_DISCOVERY_DATA_LEN_MAX = 4096 << NVME_DISCOVERY_MDTS_LOG2,
    NVME_NOTICE_MAX = 8,                          // about reservations, that a host has not read
    NVME_NAMESPACE_COUNT_MAX = VOLUME_MEMBER_MAX, // NSIDs of a subsystem are 1 .. this
};

STATIC_CHECK(NVME_DATA_LEN_MAX == 4096 << NVME_MDTS_LOG2);

// What the controllers know of a volume; from the hardware resource table.
struct nvme_volume {
    uint32_t number; // 0: there is none
    uint32_t abilities;
    uint64_t blocks;
    uint32_t block_len; // octets
};

// One of a controller, by its NSID.
struct nvme_namespace {
    struct nvme_volume volume;
    bool has_changed;        // since the host has read the log that tells so
    uint32_t masked_notices; // bits by enum nvme_notice_type
    bool is_inaccessible;    // by this node, as far as is known: another one has the volume
    uint64_t access_changes; // of that
    uint64_t seen;           // the table's generation that had it last
};

enum nvme_stage {
    NVME_FREE,
    NVME_WAITING,    // for the scratch, an event, its second, its binding, or other connections to
                     // be over
    NVME_CONNECTING, // the UMA has been asked
    NVME_AT_CTA,
    NVME_FETCHING, // at the transport, as the next two
    NVME_DELIVERING,
    NVME_RESPONDING,
};

struct nvme_error {
    uint64_t count;
    uint64_t lba;
    uint32_t nsid;
    uint16_t sqid, cid, status, location;
};

// About a reservation.
struct nvme_notice {
    uint8_t type; // enum nvme_notice_type
    uint32_t nsid;
};

struct nvme_controller {
    bool is_used;
    bool is_ending;
    bool is_discovery;
    struct nvme_target *target;
    uint16_t cntlid;
    struct client client;
    uint8_t hostid[NVME_HOSTID_LEN];
    char subnqn[NVME_NQN_MAX];
    uint32_t cc, csts;
    uint32_t kato_ms; // 0: none
    instant_ns heard_ns;
    unsigned io_queue_count; // granted
    unsigned queue_count;
    struct nvme_queue *queues[1 + NVME_IO_QUEUE_COUNT_MAX]; // by QID; NULL: none

    uint32_t enabled_events; // enum nvme_async_event
    uint32_t pending_events;
    uint32_t masked_events; // reported; masked until the log has been read
    struct list_link event_requests;
    unsigned event_request_count;
    uint64_t notice_serial; // read so far
    unsigned notice_count;
    struct nvme_notice notices[NVME_NOTICE_MAX]; // the oldest first

    uint64_t error_count;
    struct nvme_error errors[NVME_ERROR_LOG_COUNT]; // by count
    uint64_t reads, writes, octets_read, octets_written;

    bool has_news;                                              // of its namespaces
    bool has_access_news;                                       // likewise, of their paths
    uint64_t access_changes;                                    // of all of them
    struct nvme_namespace namespaces[NVME_NAMESPACE_COUNT_MAX]; // by NSID, less 1
};

enum nvme_queue_state {
    NVME_QUEUE_NEW,        // only Connect is taken
    NVME_QUEUE_CONNECTING, // Connect is under way
    NVME_QUEUE_CONNECTED,
};

enum nvme_binding_state {
    NVME_UNBOUND,
    NVME_WISHED,  // the UMA is to be asked
    NVME_ASKED,   // it has been
    NVME_REFUSED, // who waits is to be told
    NVME_BOUND,   // as NVME_LEAVING: it is a connection at the UMA
    NVME_LEAVING, // its volume goes
};

// What a queue is to the volume of a namespace.
struct nvme_binding {
    uint8_t state;       // enum nvme_binding_state
    uint8_t status;      // NVME_REFUSED: enum connect_status
    uint32_t volume;     // its number
    uint32_t connection; // for service requests
    uint32_t under_way;  // commands
};

struct nvme_queue {
    struct nvme_queue_parts parts;
    struct nvme_target *target;
    struct nvme_controller *controller; // once a Connect has named it
    enum nvme_queue_state state;
    bool is_closed;
    bool is_leaving; // its transport has been asked to close it
    bool has_flow_control;
    uint16_t qid;
    uint32_t entries; // of the submission queue
    uint32_t head;
    struct nvme_command *connecting;  // the Connect under way
    struct nvme_command *fused_first; // waits for its second
    uint32_t under_way;
    struct list_link free;
    struct list_link scratch_waiters;
    struct nvme_command *scratch_holder;
    struct list_link link; // of the target's queues

    struct nvme_binding bindings[NVME_NAMESPACE_COUNT_MAX]; // by NSID, less 1
    bool may_wish;                                          // one of them may be NVME_WISHED
    uint32_t asked_nsid; // of the one that the UMA has been asked for; 0: none
    struct connect_request connect;
    void (*on_answered)(struct nvme_queue *queue, enum connect_status status); // for its Connect
    struct list_link unbound;        // commands that wait for their binding
    struct list_link unsettled_link; // there is something to do at the end of the batch

    struct nvme_command commands[];
};

struct nvme_bound {
    struct nvme_queue *queue; // NULL: none
    uint32_t nsid;
};

struct nvme_target {
    struct nvme_target_parts parts;
    struct list_link queues;
    struct list_link unsettled;                         // of them
    struct nvme_bound bound[NODE_CONNECTION_COUNT_MAX]; // by slots of connections
    bool is_stopping;
    instant_ns tick_ns;  // no controller expires before
    uint16_t cntlid_min; // controllers have this number and those behind it
    unsigned cntlid_serial;
    unsigned listener_count;
    struct nvme_listener listeners[NVME_LISTENER_COUNT_MAX];
    uint64_t discovery_generation;
    uint64_t discovery_digest; // of what the discovery log shows
    struct nvme_counters counters;
    struct nvme_controller controllers[NVME_CONTROLLER_COUNT_MAX];
};

/* ---- subsystem.c ----------------------------------------------------------------------------- */

const struct resource_table *nvme_resources(const struct nvme_target *target);

// What stands behind a subsystem's name for this host: the best of its volumes.
enum nvme_found {
    NVME_FOUND_NOTHING,
    NVME_FOUND_NOT_ALLOWED,
    NVME_FOUND_NOT_READY,
    NVME_FOUND_READY,
};
enum nvme_found nvme_subsystem_find(const struct nvme_target *target, const char *nqn,
                                    const struct client *client);
bool nvme_may_see(const struct nvme_target *target, const struct resource *row,
                  const struct client *client);
// Likewise by another transport than it has come by.
bool nvme_may_see_by(const struct nvme_target *target, const struct resource *row,
                     const struct client *client, enum nvme_trtype trtype);
// What the TTS of the transport is called.
void nvme_service_name(enum nvme_trtype trtype, char ret[TTS_NAME_MAX]);
void nvme_say_refused(struct nvme_target *target, const struct client *client, const char *nqn,
                      const char *why);

/* ---- namespaces.c ---------------------------------------------------------------------------- */

// NULL: the controller has none of this number.
struct nvme_namespace *nvme_namespace_find(struct nvme_controller *c, uint32_t nsid);
// The first one behind `nsid`; 0: there is none.
uint32_t nvme_namespace_next(const struct nvme_controller *c, uint32_t nsid);
// The ANA group that a namespace is alone in.
static inline uint32_t nvme_access_group(uint32_t nsid)
{
    return nsid;
}
// What any of them can: enum volume_ability.
uint32_t nvme_namespace_abilities(const struct nvme_controller *c);
// Those that there are, for a controller that begins.
void nvme_namespaces_begin(struct nvme_controller *c);
// A row of the table that is one of its subsystem; then, when all have been looked at, none is left
// that the table does not have. False: none is left.
void nvme_namespaces_look(struct nvme_controller *c, const struct resource_table *table,
                          const struct resource *row);
bool nvme_namespaces_drop(struct nvme_controller *c, const struct resource_table *table);
// The host has read which have changed.
void nvme_namespaces_read(struct nvme_controller *c);

/* ---- binding.c ------------------------------------------------------------------------------- */

bool nvme_queue_is_bound(const struct nvme_queue *queue, uint32_t nsid);
// The connection that is bound to the namespace of a command.
uint32_t nvme_connection_of(const struct nvme_command *command);
// The connection is the queue's, for the namespace.
void nvme_bound_put(struct nvme_queue *queue, uint32_t nsid, uint32_t connection);
// Which queue, and namespace, a connection is; NULL: none.
const struct nvme_bound *nvme_bound_find(const struct nvme_target *target, uint32_t connection);
// The command counts there, from now on; no more, which is harmless if it did not.
void nvme_bound_take(struct nvme_command *command);
void nvme_unbind(struct nvme_command *command);
// The connection's volume is going.
void nvme_binding_leave(struct nvme_target *target, uint32_t connection);
// One, which is a connection; all that the queue has. They call the UMA.
void nvme_binding_end(struct nvme_queue *queue, uint32_t nsid);
void nvme_bindings_end(struct nvme_queue *queue);
// The queue is looked at at the end of the batch.
void nvme_unsettle(struct nvme_queue *queue);

/* ---- connecting.c ---------------------------------------------------------------------------- */

// The queue, which is connecting, is bound to the namespace, now or later; then `on_answered`.
void nvme_bind_first(struct nvme_queue *queue, uint32_t nsid,
                     void (*on_answered)(struct nvme_queue *queue, enum connect_status status));
// To all that its controller has, at the end of the batch.
void nvme_bind_all(struct nvme_queue *queue);
// The command goes on by `on_bound` once its queue is bound to its namespace, now or later.
void nvme_bind(struct nvme_command *command, nvme_on_bound *on_bound, instant_ns now);
// The UMA's answer.
void nvme_on_connected(struct nvme_queue *queue);
// What waited for former queues of its host may go on.
void nvme_connect_pending(struct nvme_target *target);

/* ---- session.c ------------------------------------------------------------------------------- */

// A controller with a number of its own; NULL: NVME_CONTROLLER_COUNT_MAX.
struct nvme_controller *nvme_controller_begin(struct nvme_target *target);
// May this host have one more controller?
bool nvme_controller_is_allowed(const struct nvme_target *target, const char *host,
                                bool is_discovery);
struct nvme_controller *nvme_controller_find(struct nvme_target *target, uint16_t cntlid);
void nvme_controller_join(struct nvme_controller *c, struct nvme_queue *queue);
// The last queue takes the controller with it.
void nvme_controller_leave(struct nvme_controller *c, struct nvme_queue *queue);
// The first of its I/O queues that is connected; NULL: there is none.
struct nvme_queue *nvme_controller_first_io(const struct nvme_controller *c);
// The first that is bound to the namespace.
struct nvme_queue *nvme_controller_first_bound(const struct nvme_controller *c, uint32_t nsid);
// Asks the transports to end all its queues.
void nvme_controller_end(struct nvme_controller *c, const char *why);
// The same but for the admin queue.
void nvme_controller_end_io(struct nvme_controller *c, const char *why);
void nvme_keep_alive_begin(struct nvme_controller *c, uint32_t kato_ms, instant_ns now);

/* ---- command.c ------------------------------------------------------------------------------- */

// The command's response: good, with `result` set before; or an error, at octet `location` of the
// SQE (NVME_ERROR_NO_LOCATION: none), which also goes into the error log.
void nvme_command_succeed(struct nvme_command *command);
void nvme_command_fail(struct nvme_command *command, unsigned status, unsigned location);
// The same of a command that would be no better the next time: the host is not to retry it (DNR).
void nvme_command_refuse(struct nvme_command *command, unsigned status, unsigned location);
// It ends as the host has wished: no error, and not in that log.
void nvme_command_abort(struct nvme_command *command, unsigned status);
// Ends the command of the queue with this identifier as the host has wished, if it waits to begin.
bool nvme_waiter_abort(struct nvme_queue *queue, uint16_t cid);
// The first `len` octets of the scratch, with a good response.
void nvme_command_deliver_scratch(struct nvme_command *command, uint32_t len);
// The same with so much of more than the scratch has room for; then `on_delivered` has the next.
void nvme_command_deliver_piece(struct nvme_command *command, uint32_t len,
                                void (*on_delivered)(struct nvme_command *command, instant_ns now));
// The scratch, now or in turn; then `on_scratch`. `len` octets of it are the command's data.
void nvme_scratch_take(struct nvme_command *command, uint32_t len,
                       void (*on_scratch)(struct nvme_command *command, instant_ns now),
                       instant_ns now);
// Gets the host's data into the scratch that it has; then `on_fetched`.
void nvme_scratch_fetch(struct nvme_command *command,
                        void (*on_fetched)(struct nvme_command *command, instant_ns now));
// To the CTA.
void nvme_command_submit(struct nvme_command *command, enum node_operation operation,
                         unsigned flags, uint64_t offset, uint64_t len, instant_ns now);
// The flags that make a Write with FUA stable, or a flush follows it.
unsigned nvme_command_stable_flags(struct nvme_command *command);
// Submits that flush, if there is one to be.
bool nvme_command_flush_behind(struct nvme_command *command, instant_ns now);
// Without a response: the queue is closed.
void nvme_command_drop(struct nvme_command *command);
// It is free again.
void nvme_command_end(struct nvme_command *command, instant_ns now);
// Is `len` octets of data what the command's descriptor can move? Refuses it otherwise.
bool nvme_command_can_move(struct nvme_command *command, uint32_t len);
// The transport moves its data: from the host, or to it with a good response.
void nvme_command_fetch(struct nvme_command *command);
void nvme_command_deliver(struct nvme_command *command);

/* ---- queue.c --------------------------------------------------------------------------------- */

// As the CTA calls it, with the target as context.
extern const struct tts_for_cta nvme_for_cta;

/* ---- what a command does --------------------------------------------------------------------- */

void nvme_fabrics_execute(struct nvme_command *command, instant_ns now);
void nvme_admin_execute(struct nvme_command *command, instant_ns now);
void nvme_io_execute(struct nvme_command *command, instant_ns now);

/* ---- fabrics.c ------------------------------------------------------------------------------- */

// The data of its Connect did not come: the queue may ask again.
void nvme_connect_forget(struct nvme_queue *queue);

/* ---- io.c ------------------------------------------------------------------------------------ */

// The volume of the namespace that the command names.
static inline const struct nvme_volume *nvme_io_volume(const struct nvme_command *command)
{
    return &command->queue->controller->namespaces[command->nsid - 1].volume;
}
// The CTA has answered an I/O command.
void nvme_io_complete(struct nvme_command *command, enum node_completion completion,
                      instant_ns now);

// The CTA has a buffer for it. Are its data the node's alone, and so dealt with? False: they move
// between the buffer and the host.
bool nvme_io_take_buffer(struct nvme_command *command, instant_ns now);

// The octets of the volume that a Read, Write or Compare names, and can move. False: refused.
bool nvme_io_data_take(struct nvme_command *command, uint64_t *ret_offset, uint64_t *ret_len);
// The same of one that has been looked at.
void nvme_io_range(const struct nvme_command *command, uint64_t *ret_offset, uint64_t *ret_len);
// The status that says so.
unsigned nvme_io_status(const struct nvme_command *command, enum node_completion completion);
void nvme_io_count_write(struct nvme_command *command, uint64_t len);

// What the command with this opcode does to a namespace: enum nvme_effects; 0: there is none.
uint32_t nvme_io_effects(const struct nvme_controller *c, uint8_t opcode);

/* ---- copy.c ---------------------------------------------------------------------------------- */

void nvme_copy(struct nvme_command *command, instant_ns now);
// The CTA has a buffer for a piece that is read, or written.
void nvme_copy_transfer(struct nvme_command *command, instant_ns now);
// What was asked of the CTA is done: the next piece, or the response.
void nvme_copy_written(struct nvme_command *command, instant_ns now);
// Blocks of one Copy, and of a range of it.
uint32_t nvme_copy_blocks_max(uint32_t block_len);

/* ---- fused.c --------------------------------------------------------------------------------- */

// Is the command one of two, or breaks up two? False: it goes on alone.
bool nvme_fused_take(struct nvme_command *command, instant_ns now);
static inline bool nvme_is_fused(const struct nvme_command *command)
{
    return command->compare != NULL || command->fused_write != NULL;
}

// The CTA has a buffer for both.
void nvme_fused_transfer(struct nvme_command *write, instant_ns now);
// The data of one of them have been moved, or have not.
void nvme_fused_moved(struct nvme_command *command, instant_ns now);
// The CTA has answered.
void nvme_fused_complete(struct nvme_command *write, enum node_completion completion,
                         instant_ns now);

/* ---- reservation.c --------------------------------------------------------------------------- */

void nvme_registrant_name(const uint8_t hostid[NVME_HOSTID_LEN], char ret[CLIENT_REGISTRANT_MAX]);
void nvme_reservation_change(struct nvme_command *command, instant_ns now);
void nvme_reservation_report(struct nvme_command *command, instant_ns now);
// As the CTA calls it, with the target as context.
void nvme_on_reserved(void *ctx, struct reservation_request *request, instant_ns now);
// The reservation of a namespace; NULL: none is to be had.
const struct reservation *nvme_reservation_of(const struct nvme_controller *c, uint32_t nsid);

/* ---- notices.c ------------------------------------------------------------------------------- */

// As the CTA calls it, with the target as context.
void nvme_on_reservation(void *ctx, uint32_t connection, enum reservation_event event,
                         instant_ns now);
// The oldest notice that has not been read, into a page of zeroes; and it has been.
void nvme_notice_emit(const struct nvme_controller *c, uint8_t page[NVME_NOTICE_LEN]);
void nvme_notice_read(struct nvme_controller *c);

/* ---- admin.c --------------------------------------------------------------------------------- */

// As nvme_io_effects.
uint32_t nvme_admin_effects(const struct nvme_controller *c, uint8_t opcode);
// Those that Set Features may enable.
uint32_t nvme_events_offered(const struct nvme_controller *c);
void nvme_event_raise(struct nvme_controller *c, uint32_t event);
// The controller is reset: requests for events end, and nothing is to be reported.
void nvme_events_abort(struct nvme_controller *c);
// Its log has been read: the next one may be reported.
void nvme_event_read(struct nvme_controller *c, uint32_t event);

/* ---- features.c ------------------------------------------------------------------------------ */

void nvme_set_features(struct nvme_command *command, instant_ns now);
void nvme_get_features(struct nvme_command *command, instant_ns now);
// Is there this feature, and of what: NVME_SUPPORTED and enum nvme_effects; 0: there is none.
uint32_t nvme_feature_effects(uint8_t fid);

/* ---- identify.c and logs.c: write into the scratch and deliver ------------------------------- */

void nvme_identify(struct nvme_command *command, instant_ns now);
void nvme_get_log(struct nvme_command *command, instant_ns now);
// A number that changes with what the discovery log shows to some host.
uint64_t nvme_discovery_digest(const struct nvme_target *target);

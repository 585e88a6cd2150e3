// The inside of the initiator, for its files.
//
// Each calls those below it:
//
//     controller.c   a controller's life
//     identify.c     what it says of itself and its namespaces
//     admin.c        commands that are waited for: fabrics, Identify, logs
//     progress.c     what has come, and what is due
//     post.c         commands that nobody waits for: keep-alive, requests for events
//     by_rdma.c      the carrier that the files below are together
//     by_tcp.c       the other one; tcp/ has its PDUs
//     answers.c      what completes on queue pairs
//     lose.c         the end of a connection
//     io.c           a program's reads, writes and so on, as commands; their memory over RDMA
//     sending.c      commands that leave by a queue pair, one by one or together
//     meet.c         a queue's connection, by librdmacm
//     queue.c        a queue pair's life, and places for commands, whatever carries them
//     access.c       how namespaces are reached by a controller: its log, its events, statuses
//     namespaces.c   those that the program has asked about
//     descriptors.c  what is waited on, and the clock
//     identity.c     who this host is
//     address.c      where a subsystem is
//     status.c       statuses: names, errno
//     why.c          reasons, which are octets of the program's at the public door
//
// **One-shot.** The Send of a command advertises the memory; its SGL descriptor is keyed, with
// invalidation, address 0 and key 0. The answer closes the STag. Both ends find a command by its
// CID, which is the reference number. docs/nvme-rdma.md has the target's side of it.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <weft/drive.h>
#include <weft/nvme.h>
#include <weft/oneshot.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/lookout.h"
#include "base/time.h"
#include "base/why.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"

enum {
    ADMIN_DEPTH = 31,
    ADMIN_DATA_LEN = 4096,
    ACCESS_LOG_MAX = 16384,
    ADMIN_ROOM_LEN = ADMIN_DATA_LEN + ACCESS_LOG_MAX,
    IN_CAPSULE_MAX = 8192,
    ANSWER_LEN = 64,     // room for one; a right one has NVME_CQE_LEN
    CID_INDEX_BITS = 10, // of a slot; the rest of a CID is its generation
    NAMESPACE_MAX = 64,  // that may be asked for
    TOGETHER_MAX = 8,    // commands that leave together: the target is to begin meanwhile
};

// wr_id: what has completed, of which queue, which slot or room for an answer.
enum initiator_wr { WR_SEND = 0, WR_RECEIVE = 1, WR_QUEUE_SHIFT = 32, WR_KIND_SHIFT = 48 };

// How the data of a command travels.
enum initiator_data_way {
    DATA_NONE,
    DATA_IN_CAPSULE,
    DATA_ONESHOT,
    DATA_LENT,       // in memory that the program lent
    DATA_REGISTERED, // registered for this command
    DATA_COPIED,     // by way of a buffer of the slot's
};

struct initiator_queue;
struct initiator_slot;

// Data of a command, `len` octets in these pieces until it is answered.
struct initiator_data {
    const struct iovec *memory;
    uint32_t len; // 0: none
    unsigned count;
    bool is_to_target;
    bool is_own; // of the slot: a range that trim names
};

// An answer that has come.
struct initiator_arrival {
    struct initiator_queue *queue;
    uint8_t cqe[NVME_CQE_LEN];
};

// What carries capsules and data.
struct initiator_carrier {
    bool takes_keyed; // SGLs
    // What all queues share; nvme->admin_data by the first meet at the latest.
    int (*open)(struct weft_nvme *nvme, struct why *ret_why);
    void (*close)(struct weft_nvme *nvme);
    // Connects a queue, whose slots are there; says where their SQEs lie, and its limit.
    int (*meet)(struct initiator_queue *queue, struct why *ret_why);
    // Nobody reaches the program's memory by it any more.
    void (*end)(struct initiator_queue *queue);
    void (*destroy)(struct initiator_queue *queue);
    // The controller is ready for I/O.
    void (*begin)(struct weft_nvme *nvme);
    // Sends the slot's SQE and sees to its data. 0, or a negative errno; -EAGAIN: there is no room.
    int (*send)(struct initiator_slot *slot, const struct initiator_data *data);
    // Sends what waits for others that were said to follow. NULL: nothing does.
    int (*send_waiting)(struct weft_nvme *nvme);
    // Before the program hears of the end: what was made for the data goes, those of a read that
    // went well are where they belong.
    void (*settle)(struct initiator_slot *slot, bool is_good);
    int (*lend)(struct weft_nvme *nvme, void *ptr, size_t len);
    void (*take_back)(struct weft_nvme *nvme, void *ptr);
    // As weft_nvme_poll, and as weft_nvme_wait of no time.
    int (*poll)(struct weft_nvme *nvme);
    int (*look_on)(struct weft_nvme *nvme);
    // For initiator_poll_by_taking: 1: an answer; 0: none; or a negative errno, the connection is
    // lost, with the reason.
    int (*take)(struct weft_nvme *nvme, struct initiator_arrival *ret, struct why *ret_why);
};

extern const struct initiator_carrier initiator_by_rdma, initiator_by_tcp;

// Where the answer of a command that somebody waits for goes.
struct initiator_admin_answer {
    bool is_there;
    uint16_t status; // with NVME_STATUS_DNR
    uint64_t result;
};

// Place for one command of a queue.
struct initiator_slot {
    struct initiator_queue *queue;
    uint16_t cid;
    bool awaits_answer;
    bool awaits_send; // the capsule is read until then
    enum initiator_data_way way;
    struct weft_nvme_io *io;               // NULL: not a program's
    struct initiator_admin_answer *answer; // NULL: nobody waits
    uint8_t range[NVME_DSM_RANGE_LEN];     // of a trim
    struct iovec range_piece;
    uint32_t stag;     // DATA_ONESHOT
    struct ibv_mr *mr; // DATA_REGISTERED
    uint8_t *copy;     // DATA_COPIED; kept for the next one
    struct ibv_mr *copy_mr;
    size_t copy_capacity;
    struct list_link link; // free
};

// A command that is to leave.
struct initiator_waiting {
    struct initiator_slot *slot;
    struct ibv_sge body;
    union {
        struct ibv_send_wr send;
        struct weft_oneshot_wr oneshot;
    };
};

struct initiator_queue {
    struct weft_nvme *nvme;
    uint16_t number; // 0: admin
    uint8_t *sqes;   // of slot 0; the others follow
    size_t sqe_stride;
    void *own; // by_tcp.c's
    struct rdma_cm_id *id;
    unsigned depth; // slots
    unsigned limit; // of them in use at a time: what the target has room for
    unsigned taken;
    unsigned capsule_len; // room for one: the SQE and in-capsule data
    uint8_t *messages;    // capsules by slot, then room for answers
    struct ibv_mr *mr;    // of messages
    struct initiator_slot *slots;
    struct list_link free;
    uint16_t *free_answers; // room that no posted receive has: a stack
    unsigned free_answer_count;
    unsigned spare_receives; // posted for commands that then could not be sent
    unsigned unsignalled;    // Sends since the last one whose completion was asked for
    bool is_oneshot;
    struct initiator_waiting waiting[TOGETHER_MAX]; // all of one kind
    unsigned waiting_count;
    bool waits_for_oneshot; // their kind
};

static inline uint8_t *initiator_slot_sqe(const struct initiator_slot *slot)
{
    const struct initiator_queue *queue = slot->queue;
    return queue->sqes + (size_t)(slot - queue->slots) * queue->sqe_stride;
}

static inline uint8_t *initiator_answer_room(const struct initiator_queue *queue, unsigned index)
{
    return queue->messages + (size_t)queue->depth * queue->capsule_len + (size_t)index * ANSWER_LEN;
}

struct initiator_lent {
    uint8_t *ptr;
    size_t len;
    struct ibv_mr *mr;
};

struct initiator_namespace_known {
    uint32_t nsid;
    uint8_t block_shift;
    bool is_read_only;
    uint8_t access; // enum weft_nvme_access
    uint64_t len;
};

// Asymmetric access: an event request is with the controller all the time; when it is answered, and
// after statuses that say so, the log is read.
struct initiator_access {
    bool is_known; // the controller has states
    bool has_events;
    bool is_reading, is_stale; // the log
    instant_ns read_at;
    uint32_t change_ms;
    struct initiator_admin_answer event, log;
    struct iovec room; // of the log, as much as is read
};

// What a vendor says of a namespace, as the program's last look at it has told.
struct initiator_vendor {
    uint32_t nsid; // 0: none, or the program has been told
    uint8_t said[WEFT_NVME_VENDOR_MAX];
};

// A discovery controller that is kept: an event request is with it all the time.
struct initiator_watch {
    bool has_events;
    bool has_changed; // the log, since it was read
    struct initiator_admin_answer event;
};

struct weft_nvme {
    struct weft_nvme_attr attr; // defaults filled in
    struct weft_nvme_address address;
    char host_nqn[WEFT_NVME_NAME_MAX];
    struct weft_nvme_info info;
    struct weft_nvme_counters counters;
    const struct initiator_carrier *carrier;

    int epoll_fd; // the three that follow, and the RNIC's while it is driven from here
    int timer_fd;
    struct rdma_event_channel *channel;
    struct ibv_comp_channel *completions;
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    // Of answers, and of Sends. Those are looked for when answers come, so that none tells of its
    // completion but where a command waits for nothing else.
    struct ibv_cq *cq, *send_cq;
    bool is_armed, is_send_armed;
    bool is_telling;        // the program of answers: what it submits meanwhile leaves together
    unsigned awaited_sends; // of all queues: signalled, and not seen to complete
    unsigned late_sends;    // ... of commands that have their answer
    unsigned polls;         // since descriptors were looked at
    int drive_fd;           // -1: the RNIC's own thread drives it
    struct weft_drive_calls drive;
    struct lookout lookout; // for answers

    bool has_oneshot; // the RNIC does
    struct weft_oneshot_calls oneshot;

    struct initiator_queue admin;
    struct initiator_queue *queues;
    unsigned queue_count;
    uint8_t *admin_data; // ADMIN_ROOM_LEN octets: what is waited for, then the log of access
    struct iovec admin_piece;
    struct ibv_mr *admin_mr;

    struct initiator_access access;
    struct initiator_watch watch;
    struct initiator_vendor vendor;

    uint64_t capabilities; // CAP
    bool awaits_keep_alive;
    instant_ns keep_alive_at;

    struct initiator_lent lent[WEFT_NVME_LENT_MAX];
    unsigned lent_count;
    struct initiator_namespace_known namespaces[NAMESPACE_MAX];
    unsigned namespace_count;

    bool is_lost;
    int lost_error;
    struct why lost_why;
};

/* ---- identify.c ------------------------------------------------------------------------------ */

int initiator_identify_controller(struct weft_nvme *nvme, struct why *ret_why);

/* ---- admin.c --------------------------------------------------------------------------------- */

// An admin command: what differs from zero.
struct initiator_admin_command {
    uint8_t opcode;
    uint8_t fctype; // of NVME_FABRICS
    uint32_t nsid;
    uint32_t cdw10, cdw11, cdw12, cdw13;
    uint64_t value;           // Property Set
    uint32_t data_len;        // from the target
    const struct iovec *room; // for them; NULL: nvme->admin_piece
    const char *name;         // for messages
};

// Blocks until it is answered. 0 and its answer, whatever the status; or a negative errno.
int initiator_admin_run(struct weft_nvme *nvme, const struct initiator_admin_command *command,
                        struct initiator_admin_answer *ret, struct why *ret_why);
// The same where only success will do: else the status's errno, with the reason.
int initiator_admin_demand(struct weft_nvme *nvme, const struct initiator_admin_command *command,
                           uint64_t *ret_result, struct why *ret_why);
// The fabrics command that makes a queue of the controller's one.
int initiator_admin_connect(struct initiator_queue *queue, struct why *ret_why);
// CC.EN and CSTS.RDY.
int initiator_admin_enable(struct weft_nvme *nvme, struct why *ret_why);
void initiator_admin_shut_down(struct weft_nvme *nvme);
// Has the controller tell of access, and reads what it is now.
int initiator_admin_access_begin(struct weft_nvme *nvme, struct why *ret_why);
// Has a discovery controller tell of changes of its log, if it does such a thing.
int initiator_admin_watch_begin(struct weft_nvme *nvme, struct why *ret_why);

/* ---- progress.c ------------------------------------------------------------------------------ */

// Polls, of a carrier that has queue pairs, and of one that is asked for answers.
int initiator_poll_device(struct weft_nvme *nvme);
int initiator_poll_by_taking(struct weft_nvme *nvme);
// The first of them, going on for a moment while answers are awaited.
int initiator_look_on_device(struct weft_nvme *nvme);
// From now on the RNIC wakes up whoever waits.
void initiator_drive_begin(struct weft_nvme *nvme);

/* ---- post.c ---------------------------------------------------------------------------------- */

// Into a slot's SQE; and the data that go with it.
void initiator_admin_fill(uint8_t *sqe, const struct initiator_admin_command *command);
struct initiator_data initiator_admin_data(const struct weft_nvme *nvme,
                                           const struct initiator_admin_command *command);
// Sent without waiting. False: no room.
bool initiator_admin_keep_alive(struct weft_nvme *nvme);
bool initiator_admin_event_request(struct weft_nvme *nvme, struct initiator_admin_answer *ret);
// Takes what the controller has told of, and asks on, without waiting.
void initiator_admin_follow(struct weft_nvme *nvme);

/* ---- answers.c ------------------------------------------------------------------------------- */

// An answer that has come. Whether it was an I/O's.
bool initiator_on_arrival(const struct initiator_arrival *arrival);
// Why the target may have ended the connection, in words.
const char *initiator_ended_why(const struct weft_nvme *nvme);
// Sends what waits. How many I/O ended since they could not be sent.
int initiator_queues_send(struct weft_nvme *nvme);

// Takes completions; how many I/O completed, or a negative errno: the connection is lost.
int initiator_queues_poll(struct weft_nvme *nvme, unsigned *ret_wc_count);
// Whether whatever is still to complete will be told of; sees to it; and it has been told of.
bool initiator_queues_are_armed(const struct weft_nvme *nvme);
void initiator_queues_arm(struct weft_nvme *nvme);
void initiator_on_event(struct weft_nvme *nvme, struct ibv_cq *cq);

/* ---- lose.c ---------------------------------------------------------------------------------- */

// The connection is of no more use: all queue pairs go, all that is outstanding completes.
void initiator_lose(struct weft_nvme *nvme, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- io.c ------------------------------------------------------------------------------------ */

// Over RDMA.
int initiator_data_send(struct initiator_slot *slot, const struct initiator_data *data);
void initiator_data_settle(struct initiator_slot *slot, bool is_good);
int initiator_lend(struct weft_nvme *nvme, void *ptr, size_t len);
void initiator_take_back(struct weft_nvme *nvme, void *ptr);

// The answer is there (error 0), or will never be: gives the slot back, then calls the program.
void initiator_io_complete(struct initiator_slot *slot, uint16_t status, int error);

/* ---- sending.c ------------------------------------------------------------------------------- */

// Sends the capsule, with so many octets behind the SQE, now or with others that follow. 0 or a
// negative errno; -EAGAIN: the send queue is full.
int initiator_queue_send(struct initiator_slot *slot, uint32_t in_capsule_len);
// The same by one-shot, with the memory that the answer closes.
int initiator_queue_send_oneshot(struct initiator_slot *slot, const struct iovec *memory,
                                 unsigned count, unsigned access);
// All that waits. 0, or the error of the first that does still.
int initiator_waiting_send(struct initiator_queue *queue);
// The first one does not leave.
struct initiator_slot *initiator_waiting_withdraw(struct initiator_queue *queue);

/* ---- meet.c ---------------------------------------------------------------------------------- */

// The channel that all queues meet by.
int initiator_channel_open(struct weft_nvme *nvme, struct why *ret_why);
// Connects one queue. 0 or a negative errno with the reason.
int initiator_queue_meet(struct initiator_queue *queue, struct why *ret_why);
// Takes the connection's events. False: it has ended.
bool initiator_on_cm_events(struct weft_nvme *nvme);

/* ---- queue.c --------------------------------------------------------------------------------- */

// Room for queue->depth commands. 0 or -ENOMEM.
int initiator_slots_create(struct initiator_queue *queue);
// Makes the queue pair on queue->id. 0 or a negative errno.
int initiator_queue_create(struct initiator_queue *queue);
// Ends the queue pair, so that nothing reaches the program's memory any more.
void initiator_queue_end(struct initiator_queue *queue);
void initiator_queue_destroy(struct initiator_queue *queue);
void initiator_device_release(struct weft_nvme *nvme);

// A free place; NULL: none. Its SQE is zeroed but for flags and CID.
struct initiator_slot *initiator_queue_take(struct initiator_queue *queue);
// Free again, if nothing is awaited any more.
void initiator_slot_release(struct initiator_slot *slot);

/* ---- access.c -------------------------------------------------------------------------------- */

// What Identify Controller says of it, in nvme->admin_data.
void initiator_access_take(struct weft_nvme *nvme);
// A namespace's state in a log of `len` octets; WEFT_NVME_OPTIMIZED: it says nothing of it.
enum weft_nvme_access initiator_access_find(const uint8_t *log, size_t len, uint32_t nsid);
// The same, of the log that was read.
enum weft_nvme_access initiator_access_of(const struct weft_nvme *nvme, uint32_t nsid);
// The event request was answered. False: no other one is sent.
bool initiator_access_on_event(struct initiator_access *access);
void initiator_access_on_log(struct weft_nvme *nvme);
void initiator_access_on_status(struct weft_nvme *nvme, uint32_t nsid, uint16_t status);
// The log is to be read, now.
bool initiator_access_is_due(const struct initiator_access *access, instant_ns now);
// Get Log Page, all of it.
struct initiator_admin_command initiator_access_command(const struct initiator_access *access);

/* ---- namespaces.c ---------------------------------------------------------------------------- */

// NULL: the program has not asked about it.
const struct initiator_namespace_known *initiator_namespace_find(const struct weft_nvme *nvme,
                                                                 uint32_t nsid);
// In the place of what was known of it. False: there are NAMESPACE_MAX others.
bool initiator_namespace_keep(struct weft_nvme *nvme,
                              const struct initiator_namespace_known *known);

/* ---- descriptors.c --------------------------------------------------------------------------- */

// The next one in the epoll set.
bool initiator_watch(const struct weft_nvme *nvme, int fd);
bool initiator_set_nonblocking(int fd);
// Until a descriptor is ready, or the time is up.
void initiator_sleep(const struct weft_nvme *nvme, int timeout_ms);

/* ---- why.c ----------------------------------------------------------------------------------- */

// Says why; gives `error` back.
int initiator_why(struct why *ret_why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// What a public function ends with: the reason, if there is one, into the program's
// WEFT_NVME_WHY_MAX octets or nowhere (NULL). Gives `result` back.
int initiator_tell(char *ret, const struct why *why, int result);

/* ---- identity.c ------------------------------------------------------------------------------ */

void initiator_identity_choose(struct weft_nvme *nvme);

/* ---- status.c -------------------------------------------------------------------------------- */

// Of a status without NVME_STATUS_DNR.
int initiator_status_errno(uint16_t status);

// The SCSI device that volumes are to initiators, whatever transport (a TTS) carries their
// commands: a logical unit per volume, with the number that it has in its target. Figures are those
// of SAM-5, SPC-4 and SBC-3.
//
//     target.c     logical units, the nexuses with them, what they are told unasked
//     nexus.c      which units a session has, by their numbers
//     command.c    the commands there are, and where a task begins
//     order.c      which tasks wait for which
//     task.c       its life: data, requests to the CTA, its end
//     block.c      those that read and change blocks: from blocks to the node's neutral requests
//     provisioning.c  which blocks have something allocated
//     reservation.c  the commands about which nexuses may use the unit
//     device.c     those that say what the unit is
//     inquiry.c    INQUIRY, vital product data
//     mode.c       mode pages
//     sense.c      why a command failed
//
// A transport that has a command for a nexus fills a task and calls task_execute. The task is the
// device's until `respond`, or until task_delivered.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/cta_tts.h"
#include "node/interface/reservation.h"
#include "node/interface/volume.h"
#include "node/scsi/sense.h"

enum scsi_device_limits {
    SCSI_SCRATCH_OF_NEXUS_MAX = 1 << 20, // octets of data that are no blocks, of one nexus
    SCSI_PORT_NAME_MAX = 256,
    SCSI_UNIT_COUNT_MAX = VOLUME_MEMBER_MAX, // of a target: numbers 0 .. this - 1
    SCSI_WRITE_SAME_BLOCKS_MAX = 1 << 23,
    SCSI_UNMAP_DESCRIPTOR_MAX = 256,
};

struct scsi_target;
struct logical_unit;
struct scsi_task;

#define SCSI_DEVICE_COUNTERS(X)                    \
    X(commands, "commands taken")                  \
    X(errors, "that ended with a check condition") \
    X(refusals, "for want of memory: busy, or task set full")

struct scsi_device_counters {
#define X(name, text) uint64_t name;
    SCSI_DEVICE_COUNTERS(X)
#undef X
};

// What a transport does for a task; from within these calls it may answer already.
struct scsi_transport {
    // The initiator's data, `data_len` octets, into `data`: then task_fetched.
    void (*fetch)(struct scsi_task *task, instant_ns now);
    // What it fetches is not wanted any more. True: nothing comes from now on. False: some is on
    // its way, and task_fetched follows when it has come.
    bool (*forget)(struct scsi_task *task);
    // `data_len` octets of `data` to the initiator, with good status: then task_delivered.
    void (*deliver)(struct scsi_task *task, instant_ns now);
    // The status, with sense data if there are any. The task is the transport's again.
    void (*respond)(struct scsi_task *task, instant_ns now);
    // The task need not wait for others of its unit any more: scsi_target_go_on follows soon, and
    // not from within this call.
    void (*turn)(struct scsi_task *task);
};

// Things that an initiator is told once, with its next command, in this order.
enum scsi_attention {
    SCSI_ATTENTION_POWER_ON,
    SCSI_ATTENTION_RESET,
    SCSI_ATTENTION_CLEARED,
    SCSI_ATTENTION_CAPACITY,
    SCSI_ATTENTION_UNITS,
    SCSI_ATTENTION_MODE,
    SCSI_ATTENTION_PREEMPTED,
    SCSI_ATTENTION_RELEASED,
    SCSI_ATTENTION_REGISTRATIONS,
    SCSI_ATTENTION_COUNT
};

struct it_nexus;

// A session and a logical unit of its target (an I_T_L nexus); the transport's memory.
struct nexus {
    struct it_nexus *it;
    struct logical_unit *unit; // NULL: where there is none
    uint32_t lun;
    uint32_t connection;     // the UMA's number
    unsigned attentions;     // bits of enum scsi_attention
    uint32_t scratch_len;    // in use
    struct list_link tasks;  // under way
    struct list_link link;   // the unit's
    struct list_link beside; // the session's, by number
};

// An initiator port and a target port, which have a session (an I_T nexus); the transport's memory.
struct it_nexus {
    const struct scsi_transport *transport;
    struct scsi_target *target;
    char initiator_port[SCSI_PORT_NAME_MAX]; // who it is: the registrant of its struct client
    char target_name[SCSI_PORT_NAME_MAX];    // for the device identification page
    uint8_t protocol;                        // its identifier (SPC-4 section 7.6.1),
    uint16_t protocol_version;               // and its version descriptor (section 6.4.2)
    struct list_link nexuses;
    struct nexus nowhere; // commands to numbers without a unit
};

// In which order tasks of a unit are carried out; numbered as transports have them.
enum scsi_attribute {
    SCSI_UNTAGGED = 0, // as simple
    SCSI_SIMPLE = 1,
    SCSI_ORDERED = 2,
    SCSI_HEAD_OF_QUEUE = 3, // beyond: refused
};

enum task_place { TASK_IN_NO_SET, TASK_WAITS, TASK_GOES };

struct scsi_task {
    // The transport's.
    struct nexus *nexus;
    uint8_t attribute; // enum scsi_attribute
    uint8_t cdb[SCSI_CDB_LEN];
    uint32_t in_max;  // octets that the initiator takes,
    uint32_t out_max; // and has
    bool is_aborted;  // nobody waits for its end; by task_abort alone
    uint64_t abort;   // which of the target's aborts that was

    // The answer.
    enum scsi_status_code status;
    enum scsi_fault fault; // with SCSI_CHECK_CONDITION
    bool fails_by_naca;    // ... and it is that bit's
    bool has_information;  // ... and this is told with it
    uint64_t information;
    uint8_t *data; // of fetch and deliver
    uint32_t data_len;
    uint64_t whole_len; // octets that the command would move: beside in_max or out_max the residual
    uint64_t moved_len; // of what the initiator has; beside that the residual of one that fails

    // The device's.
    struct service_request service;
    struct reservation_request reserve;
    const struct task_way *way; // what follows the request under way
    const struct scsi_command *command;
    void (*on_fetched)(struct scsi_task *task, instant_ns now); // NULL: for the CTA
    bool is_fetching, is_delivering;
    bool flushes_behind;
    uint8_t *scratch;
    uint32_t scratch_len;
    enum task_place place; // in the set of its unit,
    struct list_link turn; // and of those that wait
    uint32_t block_len;    // of the unit, when it began
    uint64_t lba, blocks;  // of the command,
    uint64_t done;         // and how much of that is over
    struct list_link link; // the nexus's
};

struct scsi_target_parts {
    const struct cta_for_tts *cta;
    void *cta_ctx;
};

// NULL without memory.
struct scsi_target *scsi_target_create(const struct scsi_target_parts *parts);
// No nexus is left.
void scsi_target_destroy(struct scsi_target *target);
// The volumes as they are now: who has a nexus with one that changed is told.
void scsi_target_advertise(struct scsi_target *target, const struct resource_table *table);
struct scsi_device_counters scsi_target_counters(const struct scsi_target *target);

// What the UMA connects (struct connect_request), but for on_reservation, which is the transport's,
// and ends with scsi_target_on_reservation.
extern const struct tts_for_cta scsi_for_cta;
// The nexus of the connection is to be told.
void scsi_target_on_reservation(struct scsi_target *target, uint32_t connection,
                                enum reservation_event event, instant_ns now);

// Its transport, target and names are set.
void it_nexus_begin(struct it_nexus *it);
// For a command: by the number as on the wire; `nowhere` if it is no unit's.
struct nexus *it_nexus_find(struct it_nexus *it, uint64_t lun);
// Begins a nexus, whose session, number and connection are set, with a volume; the session's others
// are told. False: no memory.
bool nexus_begin(struct nexus *nexus, const struct resource *row);
// Its unit is not there any more for new commands; the session's others are told.
void nexus_leave(struct nexus *nexus);
// It has left, and none of its tasks is under way.
void nexus_end(struct nexus *nexus);

// Where a new task begins.
void task_execute(struct scsi_task *task, instant_ns now);
// Tasks that waited for others of their unit begin, where they need not wait any more. Transports
// call it behind `turn`, when no tasks are walked over.
void scsi_target_go_on(struct scsi_target *target, instant_ns now);
// After fetch: the data are there, or will not come.
void task_fetched(struct scsi_task *task, bool is_there, instant_ns now);
// After deliver; the task is the transport's again.
void task_delivered(struct scsi_task *task, bool is_there, instant_ns now);
// It ends soon, by respond, and nobody is to hear of it. Data that it fetches do not come.
void task_abort(struct scsi_task *task, instant_ns now);
// Sense data for its fault, SCSI_SENSE_EMIT_MAX octets at most: how many.
uint32_t task_sense_emit(const struct scsi_task *task, uint8_t *ret);
// All of its tasks.
void nexus_abort(struct nexus *nexus, instant_ns now);
// All tasks of all nexuses with the unit are aborted; who lost some by another's wish is told.
void nexus_clear(struct nexus *nexus, instant_ns now);
// All tasks of all nexuses with the unit are aborted; the others' initiators are told.
void nexus_reset_unit(struct nexus *nexus, instant_ns now);
// How many tasks have been aborted so far: the number of the last one.
uint64_t scsi_target_aborts(const struct scsi_target *target);
// Is a task of any nexus with the unit, aborted by this number or one before, still with the
// volume, which it may change? One that waits for its initiator's data gets none any more, and one
// that delivers has changed nothing.
bool nexus_unit_is_aborting(const struct nexus *nexus, uint64_t abort);

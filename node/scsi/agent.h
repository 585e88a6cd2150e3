// The inside of the SCSI device, for its files.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/scsi/device.h"

// What initiators have changed of its mode pages; all zero: nothing.
struct unit_mode {
    bool is_write_through;
    bool has_descriptor_sense;
};

// The tasks of all its nexuses.
struct task_set {
    unsigned going_count, head_count;
    bool has_ordered;         // of those that go
    struct list_link waiting; // in the order in which they came
};

// A volume as initiators see it.
struct logical_unit {
    uint32_t volume;
    uint32_t abilities;
    uint64_t blocks;
    uint32_t block_len;
    uint32_t preferred; // octets
    struct unit_mode mode;
    struct task_set set;
    uint8_t uuid[VOLUME_UUID_LEN];
    uint8_t lineage[VOLUME_LINEAGE_LEN]; // as it is told
    char name[VOLUME_NAME_MAX];
    struct list_link nexuses;
    struct list_link link; // the target's
};

struct scsi_target {
    struct scsi_target_parts parts;
    struct list_link units;
    uint64_t abort_count;
    unsigned waiting_count; // tasks that wait for others of their set
    struct scsi_device_counters counters;
};

enum { SCSI_RESERVE_6 = 0x16, SCSI_RELEASE_6 = 0x17, SCSI_START_STOP_UNIT = 0x1b };
// Octet 4 of START STOP UNIT.
enum { SCSI_START = 1 << 0, SCSI_NO_FLUSH = 1 << 2, SCSI_POWER_CONDITION = 0xf0 };
enum { SCSI_NO_ACTION = 0xff, SCSI_ACTION_MASK = 0x1f };
enum { SCSI_NACA_BIT = 2 }; // of the control octet, the last one of a CDB

// What a command needs, and so what a reservation keeps from others. The first is answered by units
// that are not there, too, and before unit attentions.
enum scsi_needs {
    NEEDS_NOTHING,
    NEEDS_UNIT,
    NEEDS_READ,
    NEEDS_CONTROL,
    NEEDS_WRITE, // refused where the volume is read-only
};

// One command: which it is, what of its CDB is looked at (REPORT SUPPORTED OPERATION CODES shows
// that), what it needs.
struct scsi_command {
    uint8_t opcode;
    uint8_t action;   // in octet 1; SCSI_NO_ACTION: none
    uint32_t ability; // that the volume must have
    enum scsi_needs needs;
    void (*execute)(struct scsi_task *task, instant_ns now);
    uint8_t usage[SCSI_CDB_LEN]; // from octet 1 on
};

extern const struct scsi_command scsi_commands[];
extern const unsigned scsi_command_count;
// NULL: there is none.
const struct scsi_command *scsi_command_find(const uint8_t *cdb, bool has_action);
bool scsi_opcode_has_actions(uint8_t opcode);
bool scsi_command_is_there(const struct scsi_command *command, const struct logical_unit *unit);

enum { TASK_EXTENT_MAX = 64 }; // that an answer to NODE_EXTENTS has

// What follows a request to the CTA.
struct task_way {
    void (*on_transfer)(struct scsi_task *task, instant_ns now); // NULL: nothing moves
    void (*on_done)(struct scsi_task *task, instant_ns now);     // it ended well
};

static inline bool unit_can(const struct logical_unit *unit, uint32_t ability)
{
    return (unit->abilities & ability) == ability;
}

// Of one COMPARE AND WRITE.
static inline uint8_t unit_compare_blocks_max(const struct logical_unit *unit)
{
    uint32_t most = NODE_SWAP_MAX / unit->block_len;
    return (uint8_t)(most < UINT8_MAX ? most : UINT8_MAX);
}

/* ---- task.c: ends, and ways there ------------------------------------------------------------ */

void task_succeed(struct scsi_task *task, instant_ns now);
void task_fail(struct scsi_task *task, enum scsi_fault fault, instant_ns now);
// ... and this is told with it, as the command has it: where it failed.
void task_fail_at(struct scsi_task *task, enum scsi_fault fault, uint64_t information,
                  instant_ns now);
void task_refuse(struct scsi_task *task, enum scsi_status_code status, instant_ns now);
// A reservation is in its way.
void task_conflict(struct scsi_task *task, instant_ns now);
// Gives the task memory of its own, zeroed. False: it has been refused.
bool task_scratch_create(struct scsi_task *task, uint32_t len, instant_ns now);
// Delivers what is in the scratch: `len` octets of it, at most `max`, the command's own limit.
void task_deliver_scratch(struct scsi_task *task, uint32_t len, uint32_t max, instant_ns now);
// Fetches `len` octets into the scratch, which has room; refused if the initiator has fewer.
void task_fetch_scratch(struct scsi_task *task, uint32_t len,
                        void (*on_fetched)(struct scsi_task *task, instant_ns now), instant_ns now);
// Fetches or delivers what the CTA has a buffer for.
void task_fetch(struct scsi_task *task, void *data, uint32_t len, instant_ns now);
void task_deliver(struct scsi_task *task, void *data, uint32_t len, instant_ns now);
void task_submit(struct scsi_task *task, const struct task_way *way, enum node_operation operation,
                 unsigned flags, uint64_t lba, uint64_t blocks, instant_ns now);
// Ends it when all that has been written is stable.
void task_flush(struct scsi_task *task, instant_ns now);
// The data in the buffer of the CTA have been taken, or put there.
void task_transferred(struct scsi_task *task, enum node_completion outcome, instant_ns now);

/* ---- the commands ---------------------------------------------------------------------------- */

void execute_test_unit_ready(struct scsi_task *task, instant_ns now);
void execute_request_sense(struct scsi_task *task, instant_ns now);
void execute_send_diagnostic(struct scsi_task *task, instant_ns now);
void execute_inquiry(struct scsi_task *task, instant_ns now);
void execute_mode_sense(struct scsi_task *task, instant_ns now);
void execute_mode_select(struct scsi_task *task, instant_ns now);
void execute_start_stop(struct scsi_task *task, instant_ns now);
void execute_read_capacity_10(struct scsi_task *task, instant_ns now);
void execute_read_capacity_16(struct scsi_task *task, instant_ns now);
void execute_lba_status(struct scsi_task *task, instant_ns now);
void execute_report_luns(struct scsi_task *task, instant_ns now);
void execute_report_opcodes(struct scsi_task *task, instant_ns now);
void execute_read(struct scsi_task *task, instant_ns now);
void execute_write(struct scsi_task *task, instant_ns now);
void execute_write_verify(struct scsi_task *task, instant_ns now);
void execute_verify(struct scsi_task *task, instant_ns now);
void execute_flush(struct scsi_task *task, instant_ns now);
void execute_prefetch(struct scsi_task *task, instant_ns now);
void execute_unmap(struct scsi_task *task, instant_ns now);
void execute_write_same(struct scsi_task *task, instant_ns now);
void execute_or_write(struct scsi_task *task, instant_ns now);
void execute_compare_and_write(struct scsi_task *task, instant_ns now);

/* ---- order.c --------------------------------------------------------------------------------- */

// A new task: does it begin? If not, it waits for others of its unit.
bool order_enter(struct scsi_task *task);
// It has done with the unit: those that wait for it need not any more. Said twice it is nothing.
void order_leave(struct scsi_task *task);
// The first that waits, if its turn has come: it begins. NULL: none does.
struct scsi_task *order_take_next(struct task_set *set);

/* ---- reservation.c --------------------------------------------------------------------------- */

// Does a reservation of somebody else keep this command from the unit? Those that read and change
// blocks are asked again by the CTA.
bool reservation_conflicts(const struct scsi_task *task);
void execute_reserve(struct scsi_task *task, instant_ns now);
void execute_release(struct scsi_task *task, instant_ns now);
void execute_reserve_in(struct scsi_task *task, instant_ns now);
void execute_reserve_out(struct scsi_task *task, instant_ns now);

// What the CTA says, with any context.
void reservation_on_reserved(void *ctx, struct reservation_request *request, instant_ns now);

/* ---- nexus.c --------------------------------------------------------------------------------- */

// A nexus that has its number and unit.
void it_nexus_add(struct nexus *nexus);
// The initiator has read which units there are.
void it_nexus_units_read(struct it_nexus *it);

/* ---- target.c -------------------------------------------------------------------------------- */

// All initiators that use the unit but this one are to be told.
void nexus_tell_others(const struct nexus *nexus, enum scsi_attention attention);
// The first thing that the initiator is to be told, and is now.
enum scsi_fault nexus_attention_take(struct nexus *nexus);

// The commands there are, where a task begins, and where it goes on when the CTA says so.

#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

/* ---- which there are ------------------------------------------------------------------------- */

// The usage of a CDB: octets that are looked at, as SPC-4 section 6.29.3 has it.
#define USAGE_10(flags)                           \
    {                                             \
        flags, 255, 255, 255, 255, 0, 255, 255, 0 \
    }
#define USAGE_12(flags)                                     \
    {                                                       \
        flags, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0 \
    }
#define USAGE_16(flags)                                                         \
    {                                                                           \
        flags, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0 \
    }

enum {
    DPO_FUA = 0x18 | 0xe0,
    BYTCHK = 0x06 | 0x10 | 0xe0,
    SAME_FLAGS = 0x18 | 0xe0,
    SAME_NDOB = 1
};

const struct scsi_command scsi_commands[] = {
    {0x00, SCSI_NO_ACTION, 0, NEEDS_UNIT, execute_test_unit_ready, {0}},
    {0x03, SCSI_NO_ACTION, 0, NEEDS_NOTHING, execute_request_sense, {1, 0, 0, 255}},
    {0x08, SCSI_NO_ACTION, 0, NEEDS_READ, execute_read, {0x1f, 255, 255, 255}},
    {0x0a, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_write, {0x1f, 255, 255, 255}},
    {0x12, SCSI_NO_ACTION, 0, NEEDS_NOTHING, execute_inquiry, {1, 255, 255, 255}},
    {0x15, SCSI_NO_ACTION, 0, NEEDS_CONTROL, execute_mode_select, {0x11, 0, 0, 255}},
    {SCSI_RESERVE_6, SCSI_NO_ACTION, 0, NEEDS_UNIT, execute_reserve, {0}},
    {SCSI_RELEASE_6, SCSI_NO_ACTION, 0, NEEDS_UNIT, execute_release, {0}},
    {0x1a, SCSI_NO_ACTION, 0, NEEDS_READ, execute_mode_sense, {0x08, 255, 255, 255}},
    {SCSI_START_STOP_UNIT, SCSI_NO_ACTION, 0, NEEDS_CONTROL, execute_start_stop, {0, 0, 0, 0xf5}},
    {0x1d, SCSI_NO_ACTION, 0, NEEDS_CONTROL, execute_send_diagnostic, {0xe4, 0, 255, 255}},
    {0x25, SCSI_NO_ACTION, 0, NEEDS_UNIT, execute_read_capacity_10, {0}},
    {0x28, SCSI_NO_ACTION, 0, NEEDS_READ, execute_read, USAGE_10(DPO_FUA)},
    {0x2a, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_write, USAGE_10(DPO_FUA)},
    {0x2e, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_write_verify, USAGE_10(BYTCHK)},
    {0x2f, SCSI_NO_ACTION, 0, NEEDS_READ, execute_verify, USAGE_10(BYTCHK)},
    {0x34, SCSI_NO_ACTION, 0, NEEDS_READ, execute_prefetch, USAGE_10(0x02)},
    {0x35, SCSI_NO_ACTION, 0, NEEDS_CONTROL, execute_flush, USAGE_10(0x02)},
    {0x41, SCSI_NO_ACTION, VOLUME_CAN_WRITE_ZEROES, NEEDS_WRITE, execute_write_same,
     USAGE_10(SAME_FLAGS)},
    {0x42,
     SCSI_NO_ACTION,
     VOLUME_CAN_TRIM,
     NEEDS_WRITE,
     execute_unmap,
     {1, 0, 0, 0, 0, 0, 255, 255}},
    {0x55, SCSI_NO_ACTION, 0, NEEDS_CONTROL, execute_mode_select, {0x11, 0, 0, 0, 0, 0, 255, 255}},
    {0x5a, SCSI_NO_ACTION, 0, NEEDS_READ, execute_mode_sense, {0x18, 255, 255, 0, 0, 0, 255, 255}},
    {0x5e, 0, 0, NEEDS_UNIT, execute_reserve_in, {0, 0, 0, 0, 0, 0, 255, 255}},
    {0x5e, 1, 0, NEEDS_UNIT, execute_reserve_in, {1, 0, 0, 0, 0, 0, 255, 255}},
    {0x5e, 2, 0, NEEDS_UNIT, execute_reserve_in, {2, 0, 0, 0, 0, 0, 255, 255}},
    {0x5e, 3, 0, NEEDS_UNIT, execute_reserve_in, {3, 0, 0, 0, 0, 0, 255, 255}},
    {0x5f, 0, 0, NEEDS_UNIT, execute_reserve_out, {0, 255, 0, 0, 255, 255, 255, 255}},
    {0x5f, 1, 0, NEEDS_UNIT, execute_reserve_out, {1, 255, 0, 0, 255, 255, 255, 255}},
    {0x5f, 2, 0, NEEDS_UNIT, execute_reserve_out, {2, 255, 0, 0, 255, 255, 255, 255}},
    {0x5f, 3, 0, NEEDS_UNIT, execute_reserve_out, {3, 255, 0, 0, 255, 255, 255, 255}},
    {0x5f, 4, 0, NEEDS_UNIT, execute_reserve_out, {4, 255, 0, 0, 255, 255, 255, 255}},
    {0x5f, 5, 0, NEEDS_UNIT, execute_reserve_out, {5, 255, 0, 0, 255, 255, 255, 255}},
    {0x5f, 6, 0, NEEDS_UNIT, execute_reserve_out, {6, 255, 0, 0, 255, 255, 255, 255}},
    {0x88, SCSI_NO_ACTION, 0, NEEDS_READ, execute_read, USAGE_16(DPO_FUA)},
    {0x89,
     SCSI_NO_ACTION,
     0,
     NEEDS_WRITE,
     execute_compare_and_write,
     {DPO_FUA, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 255, 0, 0}},
    {0x8a, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_write, USAGE_16(DPO_FUA)},
    {0x8b, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_or_write, USAGE_16(DPO_FUA)},
    {0x8e, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_write_verify, USAGE_16(BYTCHK)},
    {0x8f, SCSI_NO_ACTION, 0, NEEDS_READ, execute_verify, USAGE_16(BYTCHK)},
    {0x90, SCSI_NO_ACTION, 0, NEEDS_READ, execute_prefetch, USAGE_16(0x02)},
    {0x91, SCSI_NO_ACTION, 0, NEEDS_CONTROL, execute_flush, USAGE_16(0x02)},
    {0x93, SCSI_NO_ACTION, VOLUME_CAN_WRITE_ZEROES, NEEDS_WRITE, execute_write_same,
     USAGE_16(SAME_FLAGS | SAME_NDOB)},
    {0x9e,
     SCSI_READ_CAPACITY_16,
     0,
     NEEDS_UNIT,
     execute_read_capacity_16,
     {SCSI_READ_CAPACITY_16, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0}},
    {0x9e,
     SCSI_LBA_STATUS,
     VOLUME_CAN_EXTENTS,
     NEEDS_READ,
     execute_lba_status,
     {SCSI_LBA_STATUS, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0}},
    {0xa0,
     SCSI_NO_ACTION,
     0,
     NEEDS_NOTHING,
     execute_report_luns,
     {0, 255, 0, 0, 0, 255, 255, 255, 255}},
    {0xa3,
     SCSI_REPORT_SUPPORTED_OPERATION_CODES,
     0,
     NEEDS_UNIT,
     execute_report_opcodes,
     {SCSI_REPORT_SUPPORTED_OPERATION_CODES, 0x87, 255, 255, 255, 255, 255, 255, 255, 0, 0}},
    {0xa8, SCSI_NO_ACTION, 0, NEEDS_READ, execute_read, USAGE_12(DPO_FUA)},
    {0xaa, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_write, USAGE_12(DPO_FUA)},
    {0xae, SCSI_NO_ACTION, 0, NEEDS_WRITE, execute_write_verify, USAGE_12(BYTCHK)},
    {0xaf, SCSI_NO_ACTION, 0, NEEDS_READ, execute_verify, USAGE_12(BYTCHK)},
};

const unsigned scsi_command_count = sizeof scsi_commands / sizeof scsi_commands[0];

const struct scsi_command *scsi_command_find(const uint8_t *cdb, bool has_action)
{
    for (unsigned i = 0; i < scsi_command_count; i++) {
        const struct scsi_command *command = &scsi_commands[i];
        bool is_action = command->action == SCSI_NO_ACTION ||
                         (has_action && (cdb[1] & SCSI_ACTION_MASK) == command->action);
        if (command->opcode == cdb[0] && is_action) {
            return command;
        }
    }
    return NULL;
}

bool scsi_opcode_has_actions(uint8_t opcode)
{
    for (unsigned i = 0; i < scsi_command_count; i++) {
        if (scsi_commands[i].opcode == opcode) {
            return scsi_commands[i].action != SCSI_NO_ACTION;
        }
    }
    return false;
}

bool scsi_command_is_there(const struct scsi_command *command, const struct logical_unit *unit)
{
    return unit_can(unit, command->ability);
}

/* ---- the task -------------------------------------------------------------------------------- */

// Standard inquiry data say that there is no auto contingent allegiance (NORMACA is 0).
static bool wants_naca(const struct scsi_task *task)
{
    uint8_t control = task->cdb[scsi_cdb_len(task->cdb[0]) - 1];
    return (control & 1 << SCSI_NACA_BIT) != 0;
}

// REQUEST SENSE tells of one itself; INQUIRY and REPORT LUNS leave it (SAM-5 section 5.14).
static enum scsi_fault door_fault(struct scsi_task *task)
{
    struct nexus *nexus = task->nexus;
    const struct scsi_command *command = task->command;
    bool is_anywhere = command != NULL && command->needs == NEEDS_NOTHING;
    if (nexus->unit == NULL && !is_anywhere) {
        return FAULT_NO_UNIT;
    }
    enum scsi_fault attention = is_anywhere ? FAULT_NONE : nexus_attention_take(nexus);
    if (attention != FAULT_NONE) {
        return attention;
    }
    if (!is_anywhere && (command == NULL || !scsi_command_is_there(command, nexus->unit))) {
        return scsi_opcode_has_actions(task->cdb[0]) ? FAULT_CDB_FIELD : FAULT_OPCODE;
    }
    task->fails_by_naca = wants_naca(task);
    if (task->fails_by_naca) {
        return FAULT_CDB_FIELD;
    }
    if (task->attribute > SCSI_HEAD_OF_QUEUE) {
        return FAULT_ATTRIBUTE;
    }
    bool is_protected = command->needs == NEEDS_WRITE && !unit_can(nexus->unit, VOLUME_CAN_WRITE);
    return is_protected ? FAULT_WRITE_PROTECTED : FAULT_NONE;
}

// It counts in the blocks that the unit has now: of its data some may come, or have to be compared,
// when the unit has others, and they are as long as they were.
static void begin(struct scsi_task *task, instant_ns now)
{
    const struct logical_unit *unit = task->nexus->unit;
    enum scsi_fault fault = door_fault(task);
    task->block_len = unit != NULL ? unit->block_len : 0;
    if (fault != FAULT_NONE) {
        task_fail(task, fault, now);
    } else if (reservation_conflicts(task)) {
        task_conflict(task, now);
    } else {
        task->command->execute(task, now);
    }
}

void task_execute(struct scsi_task *task, instant_ns now)
{
    struct nexus *nexus = task->nexus;
    task->command = scsi_command_find(task->cdb, true);
    task->status = SCSI_GOOD;
    task->fault = FAULT_NONE;
    task->fails_by_naca = task->has_information = false;
    task->whole_len = task->moved_len = 0;
    task->done = 0;
    task->is_aborted = task->is_fetching = task->is_delivering = false;
    task->flushes_behind = false;
    task->scratch = NULL;
    task->scratch_len = 0;
    task->place = TASK_IN_NO_SET;
    list_push_tail(&nexus->tasks, &task->link);
    nexus->it->target->counters.commands++;
    if (order_enter(task)) {
        begin(task, now);
    }
}

void scsi_target_go_on(struct scsi_target *target, instant_ns now)
{
    struct list_link *all = &target->units;
    for (struct list_link *l = all->next; target->waiting_count > 0 && l != all; l = l->next) {
        struct task_set *set = &LIST_ENTRY(l, struct logical_unit, link)->set;
        for (struct scsi_task *task; (task = order_take_next(set)) != NULL;) {
            begin(task, now);
        }
    }
}

/* ---- what the CTA says ----------------------------------------------------------------------- */

static void on_transfer(void *ctx, struct service_request *service, instant_ns now)
{
    struct scsi_task *task = LIST_ENTRY(service, struct scsi_task, service);
    task->way->on_transfer(task, now);
}

static enum scsi_fault fault_of(const struct scsi_task *task)
{
    static const enum scsi_fault faults[NODE_COMPLETION_COUNT] = {
        [NODE_MALFORMED] = FAULT_CDB_FIELD,   [NODE_RANGE] = FAULT_LBA,
        [NODE_UNSUPPORTED] = FAULT_OPCODE,    [NODE_READ_ONLY] = FAULT_WRITE_PROTECTED,
        [NODE_NO_SPACE] = FAULT_NO_SPACE,     [NODE_MEDIA] = FAULT_WRITE,
        [NODE_TRANSFER] = FAULT_TRANSFER,     [NODE_TIMED_OUT] = FAULT_TIMED_OUT,
        [NODE_NO_VOLUME] = FAULT_NO_UNIT,     [NODE_INTERNAL] = FAULT_INTERNAL,
        [NODE_RETRY] = FAULT_INTERNAL,        [NODE_RESERVED] = FAULT_INTERNAL,
        [NODE_MISCOMPARE] = FAULT_MISCOMPARE, [NODE_STANDBY] = FAULT_STANDBY,
    };
    enum node_completion completion = task->service.completion;
    if (completion == NODE_TRANSFER && task->fault != FAULT_NONE) {
        return task->fault; // the transport's own word
    }
    return completion == NODE_MEDIA && task->service.operation == NODE_READ ? FAULT_READ
                                                                            : faults[completion];
}

// Which block the medium has lost is known where it was asked for one alone.
static bool is_one_block(const struct scsi_task *task)
{
    return task->service.len == task->block_len;
}

// SBC-3 section 5.2: of COMPARE AND WRITE the first octet that is not as expected is told.
static void on_complete(void *ctx, struct service_request *service, instant_ns now)
{
    struct scsi_task *task = LIST_ENTRY(service, struct scsi_task, service);
    if (service->completion == NODE_OK) {
        task->way->on_done(task, now);
    } else if (service->completion == NODE_RETRY) {
        task_refuse(task, SCSI_BUSY, now);
    } else if (service->completion == NODE_RESERVED) {
        task_conflict(task, now);
    } else if (service->completion == NODE_MISCOMPARE) {
        task_fail_at(task, FAULT_MISCOMPARE, service->miscompare_at, now);
    } else if (service->completion == NODE_MEDIA && is_one_block(task)) {
        task_fail_at(task, fault_of(task), service->offset / service->len, now);
    } else {
        task_fail(task, fault_of(task), now);
    }
}

const struct tts_for_cta scsi_for_cta = {
    .transfer = on_transfer,
    .complete = on_complete,
    .on_reserved = reservation_on_reserved,
};

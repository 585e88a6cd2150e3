// Commands that say what the unit is.

#include "node/scsi/device.h"

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/volume.h"
#include "node/scsi/agent.h"
#include "node/scsi/sense.h"

void execute_test_unit_ready(struct scsi_task *task, instant_ns now)
{
    task_succeed(task, now);
}

// SPC-4 section 6.39: octet 1 asks for descriptors, octet 4 is the allocation length.
void execute_request_sense(struct scsi_task *task, instant_ns now)
{
    bool is_descriptor = (task->cdb[1] & 1) != 0;
    bool is_there = task->nexus->unit != NULL;
    enum scsi_fault fault = is_there ? nexus_attention_take(task->nexus) : FAULT_NO_UNIT;
    if (!task_scratch_create(task, SCSI_SENSE_EMIT_MAX, now)) {
        return;
    }
    uint32_t len =
        scsi_sense_emit(task->scratch, &(struct scsi_sense){.fault = fault}, is_descriptor);
    task_deliver_scratch(task, len, task->cdb[4], now);
}

enum { SELF_TEST_CODE = 0xe0 };

// SPC-4 section 6.42: the default self-test, which finds nothing that the commands before it would
// not have told. There are no others, and no pages.
void execute_send_diagnostic(struct scsi_task *task, instant_ns now)
{
    if ((task->cdb[1] & SELF_TEST_CODE) != 0 || get_be16(task->cdb + 3) != 0) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else {
        task_succeed(task, now);
    }
}

/* ---- READ CAPACITY --------------------------------------------------------------------------- */

enum {
    CAPACITY_10_LEN = 8,
    CAPACITY_16_LEN = 32,
    CAPACITY_MANAGED = 1 << 7,
    PHYSICAL_MAX = 4096, // octets
};

// SBC-3 section 5.15
void execute_read_capacity_10(struct scsi_task *task, instant_ns now)
{
    const struct logical_unit *unit = task->nexus->unit;
    uint64_t last = unit->blocks > 0 ? unit->blocks - 1 : 0;
    if (!task_scratch_create(task, CAPACITY_10_LEN, now)) {
        return;
    }
    put_be32(task->scratch, last > UINT32_MAX ? UINT32_MAX : (uint32_t)last);
    put_be32(task->scratch + 4, unit->block_len);
    task_deliver_scratch(task, CAPACITY_10_LEN, CAPACITY_10_LEN, now);
}

// How many blocks are one physical block, as an exponent of 2: those of a size that the volume is
// served best by, up to the sector of disks.
static uint8_t physical_exponent(const struct logical_unit *unit)
{
    uint32_t physical = unit->preferred < PHYSICAL_MAX ? unit->preferred : PHYSICAL_MAX;
    uint8_t exponent = 0;
    while (unit->block_len << (exponent + 1) <= physical) {
        exponent++;
    }
    return exponent;
}

// SBC-3 section 5.16: octet 14 tells of logical block provisioning management
void execute_read_capacity_16(struct scsi_task *task, instant_ns now)
{
    const struct logical_unit *unit = task->nexus->unit;
    if (!task_scratch_create(task, CAPACITY_16_LEN, now)) {
        return;
    }
    put_be64(task->scratch, unit->blocks > 0 ? unit->blocks - 1 : 0);
    put_be32(task->scratch + 8, unit->block_len);
    task->scratch[13] = physical_exponent(unit);
    task->scratch[14] = unit_can(unit, VOLUME_CAN_TRIM) ? CAPACITY_MANAGED : 0;
    task_deliver_scratch(task, CAPACITY_16_LEN, get_be32(task->cdb + 10), now);
}

/* ---- REPORT LUNS ----------------------------------------------------------------------------- */

enum { LUNS_ALL = 2, LUNS_WELL_KNOWN = 1, LUNS_HEADER_LEN = 8, LUNS_ONE_LEN = 8, LUNS_MIN = 16 };

static uint32_t luns_emit(const struct it_nexus *it, uint8_t *at)
{
    uint32_t len = 0;
    for (const struct list_link *l = it->nexuses.next; l != &it->nexuses; l = l->next) {
        put_be64(at + len, scsi_lun_of(LIST_ENTRY(l, struct nexus, beside)->lun));
        len += LUNS_ONE_LEN;
    }
    return len;
}

// SPC-4 section 6.33: those of the session; there are no well known ones.
void execute_report_luns(struct scsi_task *task, instant_ns now)
{
    uint8_t select = task->cdb[2];
    uint32_t max = get_be32(task->cdb + 6);
    struct it_nexus *it = task->nexus->it;
    if (select > LUNS_ALL || max < LUNS_MIN) {
        task_fail(task, FAULT_CDB_FIELD, now);
        return;
    }
    if (task_scratch_create(task, LUNS_HEADER_LEN + LUNS_ONE_LEN * SCSI_UNIT_COUNT_MAX, now)) {
        bool has_any = select != LUNS_WELL_KNOWN;
        uint32_t len = has_any ? luns_emit(it, task->scratch + LUNS_HEADER_LEN) : 0;
        put_be32(task->scratch, len);
        if (has_any) {
            it_nexus_units_read(it);
        }
        task_deliver_scratch(task, LUNS_HEADER_LEN + len, max, now);
    }
}

/* ---- REPORT SUPPORTED OPERATION CODES -------------------------------------------------------- */

// SPC-4 section 6.29: which (octet 2), operation code (3), service action (4), whether with times
// (bit 7 of octet 2).
enum {
    OPCODES_ALL = 0,
    OPCODES_ONE = 1,
    OPCODES_ONE_ACTION = 2,
    OPCODES_EITHER = 3,
    OPCODES_TIMES = 1 << 7,
    TIMES_LEN = 12, // of the descriptor of timeouts, all "not said"
    OPCODE_LEN = 8,
    OPCODES_HEADER_LEN = 4,
    ONE_NOT_THERE = 1,
    ONE_IS_THERE = 3,
    ONE_HAS_TIMES = 1 << 7,
    ALL_HAS_TIMES = 1 << 1,
    ALL_HAS_ACTION = 1 << 0,
};

static uint32_t times_emit(uint8_t *at, bool has_times)
{
    if (has_times) {
        put_be16(at, TIMES_LEN - 2);
    }
    return has_times ? TIMES_LEN : 0;
}

static void report_all(struct scsi_task *task, bool has_times, instant_ns now)
{
    uint32_t each = OPCODE_LEN + (has_times ? TIMES_LEN : 0), len = OPCODES_HEADER_LEN;
    if (!task_scratch_create(task, OPCODES_HEADER_LEN + scsi_command_count * each, now)) {
        return;
    }
    for (unsigned i = 0; i < scsi_command_count; i++) {
        const struct scsi_command *command = &scsi_commands[i];
        uint8_t *at = task->scratch + len;
        if (!scsi_command_is_there(command, task->nexus->unit)) {
            continue;
        }
        bool has_action = command->action != SCSI_NO_ACTION;
        at[0] = command->opcode;
        put_be16(at + 2, has_action ? command->action : 0);
        at[5] = (uint8_t)((has_action ? ALL_HAS_ACTION : 0) | (has_times ? ALL_HAS_TIMES : 0));
        put_be16(at + 6, (uint16_t)scsi_cdb_len(command->opcode));
        len += OPCODE_LEN + times_emit(at + OPCODE_LEN, has_times);
    }
    put_be32(task->scratch, len - OPCODES_HEADER_LEN);
    task_deliver_scratch(task, len, get_be32(task->cdb + 6), now);
}

// Is it asked for in the way that it has? One with service actions needs one.
static bool is_asked_rightly(const struct scsi_command *command, uint8_t which)
{
    bool has_action = command != NULL && command->action != SCSI_NO_ACTION;
    return command == NULL || which == OPCODES_EITHER ||
           has_action == (which == OPCODES_ONE_ACTION);
}

static void report_one(struct scsi_task *task, uint8_t which, bool has_times, instant_ns now)
{
    uint8_t asked[2] = {task->cdb[3], task->cdb[5] & SCSI_ACTION_MASK};
    const struct scsi_command *command = scsi_command_find(asked, which != OPCODES_ONE);
    bool lacks_action = which == OPCODES_ONE && scsi_opcode_has_actions(asked[0]);
    if (lacks_action || !is_asked_rightly(command, which)) {
        task_fail(task, FAULT_CDB_FIELD, now);
        return;
    }
    if (!task_scratch_create(task, OPCODES_HEADER_LEN + SCSI_CDB_LEN + TIMES_LEN, now)) {
        return;
    }
    uint8_t *at = task->scratch;
    uint32_t len = OPCODES_HEADER_LEN;
    if (command == NULL || !scsi_command_is_there(command, task->nexus->unit)) {
        at[1] = ONE_NOT_THERE;
    } else {
        unsigned cdb_len = scsi_cdb_len(command->opcode);
        at[1] = (uint8_t)(ONE_IS_THERE | (has_times ? ONE_HAS_TIMES : 0));
        put_be16(at + 2, (uint16_t)cdb_len);
        at[4] = command->opcode;
        memcpy(at + 5, command->usage, cdb_len - 1);
        len += cdb_len;
        len += times_emit(at + len, has_times);
    }
    task_deliver_scratch(task, len, get_be32(task->cdb + 6), now);
}

void execute_report_opcodes(struct scsi_task *task, instant_ns now)
{
    bool has_times = (task->cdb[2] & OPCODES_TIMES) != 0;
    uint8_t which = task->cdb[2] & 0x07;
    if (which == OPCODES_ALL) {
        report_all(task, has_times, now);
    } else if (which <= OPCODES_EITHER) {
        report_one(task, which, has_times, now);
    } else {
        task_fail(task, FAULT_CDB_FIELD, now);
    }
}

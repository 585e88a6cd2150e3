// Commands that read and change blocks: from blocks to the node's neutral requests.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

enum { CHUNK_MAX = 1 << 20, FUA = 1 << 3, PROTECT = 0xe0, ANCHOR = 1 << 4 };

/* ---- ranges ---------------------------------------------------------------------------------- */

// SPC-4 section 4.2.5: where address and count stand follows from the length of the CDB.
static void range_parse(struct scsi_task *task)
{
    const uint8_t *cdb = task->cdb;
    switch (scsi_cdb_len(cdb[0])) {
    case 6:
        task->lba = get_be24(cdb + 1) & 0x1fffff;
        task->blocks = cdb[4] != 0 ? cdb[4] : 256;
        return;
    case 10:
        task->lba = get_be32(cdb + 2);
        task->blocks = get_be16(cdb + 7);
        return;
    case 12:
        task->lba = get_be32(cdb + 2);
        task->blocks = get_be32(cdb + 6);
        return;
    default:
        task->lba = get_be64(cdb + 2);
        task->blocks = get_be32(cdb + 10);
        return;
    }
}

static bool has_flag(const struct scsi_task *task, uint8_t flag)
{
    return scsi_cdb_len(task->cdb[0]) > 6 && (task->cdb[1] & flag) != 0;
}

static bool is_within(const struct scsi_task *task, uint64_t lba, uint64_t blocks)
{
    return node_range_is_within(lba, blocks, task->nexus->unit->blocks);
}

static uint64_t octets_of(const struct scsi_task *task, uint64_t blocks)
{
    return blocks * task->block_len;
}

// The first block that is none is told.
static void refuse_range(struct scsi_task *task, uint64_t lba, instant_ns now)
{
    uint64_t end = task->nexus->unit->blocks;
    task_fail_at(task, FAULT_LBA, lba > end ? lba : end, now);
}

// The blocks that the command names, none of them with protection information. False: refused.
static bool range_take(struct scsi_task *task, instant_ns now)
{
    range_parse(task);
    if (has_flag(task, PROTECT)) {
        task_fail(task, FAULT_CDB_FIELD, now);
        return false;
    }
    if (!is_within(task, task->lba, task->blocks)) {
        refuse_range(task, task->lba, now);
        return false;
    }
    return true;
}

// Likewise of a command whose data move in one go.
static bool transfer_take(struct scsi_task *task, instant_ns now)
{
    if (!range_take(task, now)) {
        return false;
    }
    if (task->blocks > NODE_TRANSFER_MAX / task->block_len) {
        task_fail(task, FAULT_CDB_FIELD, now);
        return false;
    }
    task->whole_len = octets_of(task, task->blocks);
    return true;
}

/* ---- what is stable -------------------------------------------------------------------------- */

static void succeed_stable(struct scsi_task *task, instant_ns now);
static const struct task_way flush_way = {.on_done = task_succeed};
static const struct task_way change_way = {.on_done = succeed_stable};

void task_flush(struct scsi_task *task, instant_ns now)
{
    if (unit_can(task->nexus->unit, VOLUME_CAN_FLUSH)) {
        task_submit(task, &flush_way, NODE_FLUSH, 0, 0, 0, now);
    } else {
        task_succeed(task, now); // what is completed is stable
    }
}

// Where the volume has no FUA of its own, a flush behind the command makes the same of it.
static unsigned stable_flags(struct scsi_task *task)
{
    bool is_wished = has_flag(task, FUA) || task->nexus->unit->mode.is_write_through;
    bool has_fua = unit_can(task->nexus->unit, VOLUME_CAN_FUA);
    task->flushes_behind = is_wished && !has_fua;
    return is_wished && has_fua ? NODE_FUA : 0;
}

static void succeed_stable(struct scsi_task *task, instant_ns now)
{
    if (task->flushes_behind) {
        task_flush(task, now);
    } else {
        task_succeed(task, now);
    }
}

void execute_flush(struct scsi_task *task, instant_ns now)
{
    if (range_take(task, now)) {
        task_flush(task, now);
    }
}

// STOP makes all of it stable (SBC-3 section 5.20); a volume has nothing to stop.
void execute_start_stop(struct scsi_task *task, instant_ns now)
{
    if ((task->cdb[4] & (SCSI_START | SCSI_NO_FLUSH | SCSI_POWER_CONDITION)) == 0) {
        task_flush(task, now);
    } else {
        task_succeed(task, now);
    }
}

// Advice, which the node leaves to its caches.
void execute_prefetch(struct scsi_task *task, instant_ns now)
{
    if (range_take(task, now)) {
        task_succeed(task, now);
    }
}

/* ---- READ, WRITE ----------------------------------------------------------------------------- */

static void read_on_transfer(struct scsi_task *task, instant_ns now)
{
    task_deliver(task, task->service.data, task->service.buffer.len, now);
}

static const struct task_way read_way = {.on_transfer = read_on_transfer};

// No more is read than the initiator takes.
static void read_wanted(struct scsi_task *task, instant_ns now)
{
    uint64_t wanted = ((uint64_t)task->in_max + task->block_len - 1) / task->block_len;
    uint64_t blocks = task->blocks < wanted ? task->blocks : wanted;
    if (blocks == 0 || task->is_aborted) {
        task_succeed(task, now);
    } else {
        task_submit(task, &read_way, NODE_READ, 0, task->lba, blocks, now);
    }
}

static const struct task_way read_flush_way = {.on_done = read_wanted};

// What is read with FUA is made stable before (FUA, SBC-3 section 5.11).
void execute_read(struct scsi_task *task, instant_ns now)
{
    if (!transfer_take(task, now)) {
        return;
    }
    if (has_flag(task, FUA) && task->blocks > 0 && unit_can(task->nexus->unit, VOLUME_CAN_FLUSH)) {
        task_submit(task, &read_flush_way, NODE_FLUSH, NODE_FOR_READ, 0, 0, now);
    } else {
        read_wanted(task, now);
    }
}

static void write_on_transfer(struct scsi_task *task, instant_ns now)
{
    task_fetch(task, task->service.data, task->service.data_len, now);
}

static const struct task_way write_way = {.on_transfer = write_on_transfer,
                                          .on_done = succeed_stable};

// Of an initiator that has less than the command names no more is written than it has, in whole
// blocks. If it has a part of one, nothing is: who is told that all is well may believe that its
// last octets are there. As FCP-4 has it, and with its residual: so much is missing. False: no.
static bool whole_blocks_take(struct scsi_task *task, instant_ns now)
{
    bool is_part = task->out_max < task->whole_len && task->out_max % task->block_len != 0;
    if (is_part) {
        task->moved_len = task->whole_len;
        task_fail(task, FAULT_PART_OF_A_BLOCK, now);
    }
    return !is_part;
}

static void submit_with_data(struct scsi_task *task, enum node_operation operation, instant_ns now)
{
    if (!whole_blocks_take(task, now)) {
        return;
    }
    uint64_t there = task->out_max / task->block_len;
    uint64_t blocks = task->blocks < there ? task->blocks : there;
    unsigned flags = stable_flags(task);
    if (blocks == 0) {
        task_succeed(task, now);
    } else {
        task_submit(task, &write_way, operation, flags, task->lba, blocks, now);
    }
}

void execute_write(struct scsi_task *task, instant_ns now)
{
    if (transfer_take(task, now)) {
        submit_with_data(task, NODE_WRITE, now);
    }
}

// The blocks get the initiator's bits beside their own: these are read first, into as much room.
void execute_or_write(struct scsi_task *task, instant_ns now)
{
    if (!transfer_take(task, now)) {
        return;
    }
    if (task->whole_len > NODE_TRANSFER_MAX / 2) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else {
        submit_with_data(task, NODE_OR_WRITE, now);
    }
}

/* ---- VERIFY: the volume is read, piece by piece, and compared with the scratch --------------- */

enum verify_check { CHECK_MEDIUM = 0, CHECK_ALL = 1, CHECK_ONE_BLOCK = 3 };

static enum verify_check check_of(const struct scsi_task *task)
{
    return (enum verify_check)((task->cdb[1] >> 1) & 3);
}

static uint64_t chunk_blocks(const struct scsi_task *task)
{
    uint64_t left = task->blocks - task->done, most = CHUNK_MAX / task->block_len;
    return left < most ? left : most;
}

static bool is_same(const struct scsi_task *task, const uint8_t *read, uint32_t len)
{
    uint32_t block_len = task->block_len;
    if (check_of(task) == CHECK_ALL) {
        return memcmp(read, task->scratch + octets_of(task, task->done), len) == 0;
    }
    for (uint32_t at = 0; at < len; at += block_len) {
        if (memcmp(read + at, task->scratch, block_len) != 0) {
            return false;
        }
    }
    return true;
}

static void verify_next(struct scsi_task *task, instant_ns now);

static void verify_on_transfer(struct scsi_task *task, instant_ns now)
{
    uint32_t len = task->service.buffer.len;
    bool is_as_expected = check_of(task) == CHECK_MEDIUM || is_same(task, task->service.data, len);
    task_transferred(task, NODE_OK, now);
    task->done += len / task->block_len;
    if (is_as_expected) {
        verify_next(task, now);
    } else {
        task_fail(task, FAULT_MISCOMPARE, now);
    }
}

static const struct task_way verify_way = {.on_transfer = verify_on_transfer};

static void verify_next(struct scsi_task *task, instant_ns now)
{
    if (task->done == task->blocks || task->is_aborted) {
        task_succeed(task, now);
    } else {
        task_submit(task, &verify_way, NODE_READ, 0, task->lba + task->done, chunk_blocks(task),
                    now);
    }
}

void execute_verify(struct scsi_task *task, instant_ns now)
{
    enum verify_check check = check_of(task);
    bool is_known = check == CHECK_MEDIUM || check == CHECK_ALL || check == CHECK_ONE_BLOCK;
    if (!range_take(task, now)) {
        return;
    }
    uint64_t len = octets_of(task, check == CHECK_ONE_BLOCK ? 1 : task->blocks);
    if (!is_known || (check == CHECK_ALL && len > SCSI_SCRATCH_OF_NEXUS_MAX)) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (check == CHECK_MEDIUM || task->blocks == 0) {
        verify_next(task, now);
    } else if (task_scratch_create(task, (uint32_t)len, now)) {
        task_fetch_scratch(task, (uint32_t)len, verify_next, now);
    }
}

/* ---- WRITE AND VERIFY: the scratch is written, made stable, compared with what is read ------- */

static void write_verify_next(struct scsi_task *task, instant_ns now);

static void write_verify_on_transfer(struct scsi_task *task, instant_ns now)
{
    memcpy(task->service.data, task->scratch + octets_of(task, task->done), task->service.data_len);
    task_transferred(task, NODE_OK, now);
}

static void write_verify_on_done(struct scsi_task *task, instant_ns now)
{
    task->done += task->service.len / task->block_len;
    write_verify_next(task, now);
}

static const struct task_way write_verify_way = {.on_transfer = write_verify_on_transfer,
                                                 .on_done = write_verify_on_done};
static const struct task_way write_verify_flush_way = {.on_done = verify_next};

static void write_verify_next(struct scsi_task *task, instant_ns now)
{
    if (task->done < task->blocks && !task->is_aborted) {
        task_submit(task, &write_verify_way, NODE_WRITE, 0, task->lba + task->done,
                    chunk_blocks(task), now);
        return;
    }
    task->done = task->is_aborted ? task->blocks : 0;
    if (unit_can(task->nexus->unit, VOLUME_CAN_FLUSH)) {
        task_submit(task, &write_verify_flush_way, NODE_FLUSH, 0, 0, 0, now);
    } else {
        verify_next(task, now);
    }
}

// The residual is counted from what the command named, also where the initiator has less.
static void write_verify_fetched(struct scsi_task *task, instant_ns now)
{
    uint64_t there = task->blocks;
    range_parse(task);
    task->whole_len = octets_of(task, task->blocks);
    task->blocks = there;
    write_verify_next(task, now);
}

void execute_write_verify(struct scsi_task *task, instant_ns now)
{
    if (!transfer_take(task, now) || !whole_blocks_take(task, now)) {
        return;
    }
    uint64_t there = task->out_max / task->block_len;
    enum verify_check check = check_of(task);
    task->blocks = task->blocks < there ? task->blocks : there;
    uint64_t len = octets_of(task, task->blocks);
    if ((check != CHECK_MEDIUM && check != CHECK_ALL) || len > SCSI_SCRATCH_OF_NEXUS_MAX) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (task->blocks == 0) {
        task_succeed(task, now);
    } else if (task_scratch_create(task, (uint32_t)len, now)) {
        task_fetch_scratch(task, (uint32_t)len, write_verify_fetched, now);
    }
}

/* ---- WRITE SAME ------------------------------------------------------------------------------ */

enum { SAME_NO_DATA = 1 << 0 };

static void same_next(struct scsi_task *task, instant_ns now);

static void same_on_transfer(struct scsi_task *task, instant_ns now)
{
    uint32_t block_len = task->block_len;
    uint8_t *to = task->service.data;
    for (uint32_t at = 0; at < task->service.data_len; at += block_len) {
        memcpy(to + at, task->scratch, block_len);
    }
    task_transferred(task, NODE_OK, now);
}

static void same_on_done(struct scsi_task *task, instant_ns now)
{
    task->done += task->service.len / task->block_len;
    same_next(task, now);
}

static const struct task_way same_way = {.on_transfer = same_on_transfer, .on_done = same_on_done};

static void same_next(struct scsi_task *task, instant_ns now)
{
    if (task->done == task->blocks || task->is_aborted) {
        succeed_stable(task, now);
    } else {
        task_submit(task, &same_way, NODE_WRITE, 0, task->lba + task->done, chunk_blocks(task),
                    now);
    }
}

static bool is_zero(const uint8_t *octets, uint32_t len)
{
    return octets[0] == 0 && memcmp(octets, octets + 1, len - 1) == 0;
}

static void run_same(struct scsi_task *task, instant_ns now)
{
    bool may_be_hole = (task->cdb[1] & SCSI_SAME_UNMAP) != 0;
    if (task->scratch != NULL && !is_zero(task->scratch, task->scratch_len)) {
        same_next(task, now);
    } else {
        task_submit(task, &change_way, NODE_WRITE_ZEROES, may_be_hole ? 0 : NODE_NO_HOLE, task->lba,
                    task->blocks, now);
    }
}

// No number of blocks stands for all up to the end.
void execute_write_same(struct scsi_task *task, instant_ns now)
{
    uint32_t block_len = task->block_len;
    bool has_no_data = (task->cdb[1] & SAME_NO_DATA) != 0 && scsi_cdb_len(task->cdb[0]) == 16;
    if (!range_take(task, now)) {
        return;
    }
    task->blocks = task->blocks > 0 ? task->blocks : task->nexus->unit->blocks - task->lba;
    task->flushes_behind = task->nexus->unit->mode.is_write_through;
    if (has_flag(task, ANCHOR) || task->blocks > SCSI_WRITE_SAME_BLOCKS_MAX ||
        (!has_no_data && task->out_max != block_len)) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (task->blocks == 0) {
        refuse_range(task, task->lba, now);
    } else if (has_no_data) {
        run_same(task, now);
    } else if (task_scratch_create(task, block_len, now)) {
        task_fetch_scratch(task, block_len, run_same, now);
    }
}

/* ---- UNMAP: the descriptors lie in the scratch, and are trimmed one after the other ---------- */

enum { UNMAP_HEADER_LEN = 8, UNMAP_ONE_LEN = 16 };

static void unmap_next(struct scsi_task *task, instant_ns now);

static const struct task_way unmap_way = {.on_done = unmap_next};

// Those that are whole in what the list says that it has, and in what the command brings of it. A
// part of one, behind the last, is ignored (SBC-3 and -4, "UNMAP parameter list").
static uint32_t unmap_count(const struct scsi_task *task)
{
    uint32_t said = get_be16(task->scratch + SCSI_UNMAP_DESCRIPTORS_LEN);
    uint32_t there = task->data_len - UNMAP_HEADER_LEN;
    return (said < there ? said : there) / UNMAP_ONE_LEN;
}

static void unmap_next(struct scsi_task *task, instant_ns now)
{
    uint32_t count = unmap_count(task);
    while (task->done < count && !task->is_aborted) {
        const uint8_t *at = task->scratch + UNMAP_HEADER_LEN + task->done * UNMAP_ONE_LEN;
        uint64_t lba = get_be64(at), blocks = get_be32(at + 8);
        task->done++;
        if (blocks > 0) {
            task_submit(task, &unmap_way, NODE_TRIM, 0, lba, blocks, now);
            return;
        }
    }
    task_succeed(task, now);
}

// SBC-3 section 5.28.2: more of them than block limits say is a fault of the list.
static enum scsi_fault list_fault(const struct scsi_task *task)
{
    if (unmap_count(task) > SCSI_UNMAP_DESCRIPTOR_MAX) {
        return FAULT_LIST_FIELD;
    }
    for (uint32_t i = 0; i < unmap_count(task); i++) {
        const uint8_t *at = task->scratch + UNMAP_HEADER_LEN + i * UNMAP_ONE_LEN;
        if (!is_within(task, get_be64(at), get_be32(at + 8))) {
            return FAULT_LBA;
        }
    }
    return FAULT_NONE;
}

static void unmap_fetched(struct scsi_task *task, instant_ns now)
{
    enum scsi_fault fault = list_fault(task);
    if (fault != FAULT_NONE) {
        task_fail(task, fault, now);
        return;
    }
    unmap_next(task, now);
}

void execute_unmap(struct scsi_task *task, instant_ns now)
{
    uint32_t len = get_be16(task->cdb + 7);
    if ((task->cdb[1] & 1) != 0) { // ANCHOR
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (len == 0) {
        task_succeed(task, now);
    } else if (len < UNMAP_HEADER_LEN) {
        task_fail(task, FAULT_LIST_LENGTH, now);
    } else if (task_scratch_create(task, len, now)) {
        task_fetch_scratch(task, len, unmap_fetched, now);
    }
}

/* ---- COMPARE AND WRITE: what is expected comes first, then what is to be written ------------- */

static void compare_on_transfer(struct scsi_task *task, instant_ns now)
{
    task_fetch(task, task->service.data, task->service.data_len, now);
}

static const struct task_way compare_way = {.on_transfer = compare_on_transfer,
                                            .on_done = succeed_stable};

void execute_compare_and_write(struct scsi_task *task, instant_ns now)
{
    range_parse(task);
    task->blocks = task->cdb[13];
    uint64_t len = 2 * octets_of(task, task->blocks);
    if (has_flag(task, PROTECT) || task->blocks > unit_compare_blocks_max(task->nexus->unit)) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (!is_within(task, task->lba, task->blocks)) {
        refuse_range(task, task->lba, now);
    } else if (task->out_max != len) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (task->blocks == 0) {
        task_succeed(task, now);
    } else {
        unsigned flags = stable_flags(task);
        task->whole_len = len;
        task_submit(task, &compare_way, NODE_COMPARE_AND_WRITE, flags, task->lba, task->blocks,
                    now);
    }
}

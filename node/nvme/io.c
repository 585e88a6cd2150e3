// I/O commands: from blocks to the node's neutral requests, and from completions to statuses.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

static void fail_as(struct nvme_command *command, enum node_completion completion)
{
    nvme_command_fail(command, nvme_io_status(command, completion), NVME_ERROR_NO_LOCATION);
}

static bool can(const struct nvme_command *command, uint32_t ability)
{
    return (nvme_io_volume(command)->abilities & ability) != 0;
}

/* ---- Read, Write, Compare, Verify, Write Zeroes ---------------------------------------------- */

void nvme_io_range(const struct nvme_command *command, uint64_t *ret_offset, uint64_t *ret_len)
{
    *ret_offset = get_le64(command->sqe + NVME_RW_OFF_SLBA) * command->block_len;
    *ret_len = (get_le16(command->sqe + NVME_RW_OFF_NLB) + UINT64_C(1)) * command->block_len;
}

// The octets of the volume that the command names, in the blocks that there are now: there may be
// others when it goes on, and the descriptor has been looked at for these. False: refused.
static bool range_take(struct nvme_command *command, uint64_t *ret_offset, uint64_t *ret_len)
{
    const struct nvme_volume *volume = nvme_io_volume(command);
    uint64_t block = get_le64(command->sqe + NVME_RW_OFF_SLBA);
    uint64_t count = get_le16(command->sqe + NVME_RW_OFF_NLB) + UINT64_C(1);
    if (block > volume->blocks || count > volume->blocks - block) {
        nvme_command_refuse(command, NVME_LBA_OUT_OF_RANGE, NVME_RW_OFF_SLBA);
        return false;
    }
    command->block_len = volume->block_len;
    nvme_io_range(command, ret_offset, ret_len);
    return true;
}

static bool may_change(struct nvme_command *command)
{
    if (!can(command, VOLUME_CAN_WRITE)) {
        nvme_command_refuse(command, NVME_NAMESPACE_READ_ONLY, NVME_SQE_OFF_NSID);
        return false;
    }
    return true;
}

static bool buffer_fits(struct nvme_command *command, uint64_t len)
{
    if (len > NVME_DATA_LEN_MAX) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_RW_OFF_NLB);
        return false;
    }
    return true;
}

// A read or write moves all of its blocks, no less and no more.
static bool data_fit(struct nvme_command *command, uint64_t len)
{
    if (!buffer_fits(command, len) || !nvme_command_can_move(command, (uint32_t)len)) {
        return false;
    }
    if (command->sgl.len != len) {
        nvme_command_refuse(command, NVME_INVALID_SGL_LENGTH,
                            NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_LENGTH);
        return false;
    }
    return true;
}

static uint16_t control_of(const struct nvme_command *command)
{
    return get_le16(command->sqe + NVME_RW_OFF_CONTROL);
}

static bool data_take(struct nvme_command *command, uint64_t *ret_offset, uint64_t *ret_len)
{
    return range_take(command, ret_offset, ret_len) && data_fit(command, *ret_len);
}

// What is read with FUA is made stable before (NVM Express NVM Command Set 1.0 section 3.2.4): by a
// flush, on the reader's behalf.
static void read_submit(struct nvme_command *command, enum node_operation operation,
                        uint64_t offset, uint64_t len, instant_ns now)
{
    bool is_stable = (control_of(command) & NVME_RW_FUA) == 0 || !can(command, VOLUME_CAN_FLUSH);
    if (is_stable) {
        nvme_command_submit(command, operation, 0, offset, len, now);
    } else {
        nvme_command_submit(command, NODE_FLUSH, NODE_FOR_READ, 0, 0, now);
    }
}

// The flush is over, or the compare.
static void read_go_on(struct nvme_command *command, instant_ns now)
{
    bool compares = command->sqe[NVME_SQE_OFF_OPCODE] == NVME_IO_COMPARE;
    uint64_t offset, len;
    if (command->service.operation != NODE_FLUSH) {
        nvme_command_succeed(command);
        return;
    }
    nvme_io_range(command, &offset, &len);
    nvme_command_submit(command, compares ? NODE_COMPARE : NODE_READ, 0, offset, len, now);
}

static void execute_read(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    uint64_t offset, len;
    if (data_take(command, &offset, &len)) {
        c->reads++;
        c->octets_read += len;
        read_submit(command, NODE_READ, offset, len, now);
    }
}

void nvme_io_count_write(struct nvme_command *command, uint64_t len)
{
    command->queue->controller->writes++;
    command->queue->controller->octets_written += len;
}

static void execute_write(struct nvme_command *command, instant_ns now)
{
    uint64_t offset, len;
    if (may_change(command) && data_take(command, &offset, &len)) {
        nvme_io_count_write(command, len);
        nvme_command_submit(command, NODE_WRITE, nvme_command_stable_flags(command), offset, len,
                            now);
    }
}

static void execute_compare(struct nvme_command *command, instant_ns now)
{
    uint64_t offset, len;
    if (data_take(command, &offset, &len)) {
        read_submit(command, NODE_COMPARE, offset, len, now);
    }
}

// Can the blocks be read? They come to the node and no further.
static void execute_verify(struct nvme_command *command, instant_ns now)
{
    uint64_t offset, len;
    if (range_take(command, &offset, &len) && buffer_fits(command, len)) {
        read_submit(command, NODE_READ, offset, len, now);
    }
}

static void verified(struct nvme_command *command, instant_ns now)
{
    struct nvme_target *target = command->queue->target;
    target->parts.cta->transferred(target->parts.cta_ctx, &command->service, NODE_OK, now);
    nvme_command_succeed(command);
}

static void execute_write_zeroes(struct nvme_command *command, instant_ns now)
{
    uint64_t offset, len;
    bool may_be_hole = (control_of(command) & NVME_RW_DEALLOCATE) != 0;
    if (may_change(command) && range_take(command, &offset, &len)) {
        unsigned flags = nvme_command_stable_flags(command) | (may_be_hole ? 0 : NODE_NO_HOLE);
        nvme_command_submit(command, NODE_WRITE_ZEROES, flags, offset, len, now);
    }
}

/* ---- Flush ----------------------------------------------------------------------------------- */

static void flush(struct nvme_command *command, enum node_completion bound, instant_ns now)
{
    if (bound == NODE_OK) {
        nvme_command_submit(command, NODE_FLUSH, 0, 0, 0, now);
    } else {
        fail_as(command, bound);
    }
}

static bool is_of_all(const struct nvme_command *command)
{
    return get_le32(command->sqe + NVME_SQE_OFF_NSID) == NVME_NSID_ALL;
}

// All namespaces are flushed one after the other, but for those whose completed writes are stable.
static void flush_next(struct nvme_command *command, instant_ns now)
{
    const struct nvme_controller *c = command->queue->controller;
    uint32_t nsid = is_of_all(command) ? command->nsid : NVME_NAMESPACE_COUNT_MAX;
    nvme_unbind(command);
    while ((nsid = nvme_namespace_next(c, nsid)) != 0) {
        if ((c->namespaces[nsid - 1].volume.abilities & VOLUME_CAN_FLUSH) != 0) {
            command->nsid = nsid;
            nvme_bind(command, flush, now);
            return;
        }
    }
    nvme_command_succeed(command);
}

static void execute_flush(struct nvme_command *command, instant_ns now)
{
    if (!is_of_all(command) && can(command, VOLUME_CAN_FLUSH)) {
        flush(command, NODE_OK, now);
    } else {
        flush_next(command, now);
    }
}

/* ---- Dataset Management ---------------------------------------------------------------------- */

// The ranges lie in the scratch, and are trimmed one after the other, in the blocks that there were
// when the command began.
static void trim_next(struct nvme_command *command, instant_ns now)
{
    const struct nvme_volume *volume = nvme_io_volume(command);
    const uint64_t blocks = volume->blocks * volume->block_len / command->block_len;
    while (command->range_at < command->range_count) {
        const uint8_t *range =
            command->queue->parts.scratch.ptr + command->range_at * NVME_DSM_RANGE_LEN;
        uint64_t block = get_le64(range + NVME_DSM_RANGE_OFF_SLBA);
        uint64_t count = get_le32(range + NVME_DSM_RANGE_OFF_NLB);
        if (block > blocks || count > blocks - block) {
            nvme_command_refuse(command, NVME_LBA_OUT_OF_RANGE, NVME_ERROR_NO_LOCATION);
            return;
        }
        command->range_at++;
        if (count > 0) {
            nvme_command_submit(command, NODE_TRIM, 0, block * command->block_len,
                                count * command->block_len, now);
            return;
        }
    }
    nvme_command_succeed(command);
}

static void on_ranges_scratch(struct nvme_command *command, instant_ns now)
{
    nvme_scratch_fetch(command, trim_next);
}

static void execute_dsm(struct nvme_command *command, instant_ns now)
{
    uint32_t count = (get_le32(command->sqe + NVME_SQE_OFF_CDW10) & 0xff) + 1;
    bool deallocates = (get_le32(command->sqe + NVME_SQE_OFF_CDW11) & NVME_DSM_DEALLOCATE) != 0;
    if (!may_change(command) || !nvme_command_can_move(command, count * NVME_DSM_RANGE_LEN)) {
        return;
    }
    if (!deallocates) {
        nvme_command_succeed(command); // hints that mean nothing here
        return;
    }
    command->range_at = 0;
    command->range_count = count;
    command->block_len = nvme_io_volume(command)->block_len;
    nvme_scratch_take(command, count * NVME_DSM_RANGE_LEN, on_ranges_scratch, now);
}

/* ---- Copy ------------------------------------------------------------------------------------ */

static void execute_copy(struct nvme_command *command, instant_ns now)
{
    if (may_change(command)) {
        nvme_copy(command, now);
    }
}

/* ---- statuses -------------------------------------------------------------------------------- */

unsigned nvme_io_status(const struct nvme_command *command, enum node_completion completion)
{
    static const uint16_t statuses[NODE_COMPLETION_COUNT] = {
        [NODE_OK] = NVME_OK,
        [NODE_RETRY] = NVME_NAMESPACE_NOT_READY,
        [NODE_MALFORMED] = NVME_INVALID_FIELD | NVME_STATUS_DNR,
        [NODE_RANGE] = NVME_LBA_OUT_OF_RANGE | NVME_STATUS_DNR,
        [NODE_UNSUPPORTED] = NVME_INVALID_OPCODE | NVME_STATUS_DNR,
        [NODE_READ_ONLY] = NVME_NAMESPACE_READ_ONLY | NVME_STATUS_DNR,
        [NODE_NO_SPACE] = NVME_CAPACITY_EXCEEDED | NVME_STATUS_DNR,
        [NODE_MEDIA] = NVME_WRITE_FAULT | NVME_STATUS_DNR,
        [NODE_TRANSFER] = NVME_DATA_TRANSFER_ERROR,
        [NODE_TIMED_OUT] = NVME_INTERNAL_ERROR,
        [NODE_NO_VOLUME] = NVME_INVALID_NAMESPACE | NVME_STATUS_DNR,
        [NODE_INTERNAL] = NVME_INTERNAL_ERROR,
        [NODE_RESERVED] = NVME_RESERVATION_CONFLICT | NVME_STATUS_DNR,
        [NODE_MISCOMPARE] = NVME_COMPARE_FAILURE | NVME_STATUS_DNR,
        [NODE_STANDBY] = NVME_ANA_INACCESSIBLE,
    };
    bool is_read = command->service.operation == NODE_READ;
    if (completion == NODE_TRANSFER && command->transfer_status != NVME_OK) {
        return command->transfer_status;
    }
    if (completion == NODE_MEDIA && is_read) {
        return NVME_UNRECOVERED_READ | NVME_STATUS_DNR;
    }
    return statuses[completion];
}

/* ---- the command ----------------------------------------------------------------------------- */

static const struct io_facts {
    void (*execute)(struct nvme_command *command, instant_ns now);
    uint32_t ability; // that the volume must have
    bool changes;
    // The CTA has a buffer for data that are the node's alone. NULL: they are the host's.
    void (*on_buffer)(struct nvme_command *command, instant_ns now);
    // What was asked of the CTA is done. NULL: that was all.
    void (*on_done)(struct nvme_command *command, instant_ns now);
} commands[] = {
    [NVME_IO_FLUSH] = {execute_flush, 0, false, .on_done = flush_next},
    [NVME_IO_WRITE] = {execute_write, 0, true},
    [NVME_IO_READ] = {execute_read, 0, false, .on_done = read_go_on},
    [NVME_IO_COMPARE] = {execute_compare, 0, false, .on_done = read_go_on},
    [NVME_IO_WRITE_ZEROES] = {execute_write_zeroes, VOLUME_CAN_WRITE_ZEROES, true},
    [NVME_IO_DATASET_MANAGEMENT] = {execute_dsm, VOLUME_CAN_TRIM, true, .on_done = trim_next},
    [NVME_IO_VERIFY] = {execute_verify, 0, false, .on_buffer = verified, .on_done = read_go_on},
    [NVME_IO_RESERVATION_REGISTER] = {nvme_reservation_change, 0, false},
    [NVME_IO_RESERVATION_REPORT] = {nvme_reservation_report, 0, false},
    [NVME_IO_RESERVATION_ACQUIRE] = {nvme_reservation_change, 0, false},
    [NVME_IO_RESERVATION_RELEASE] = {nvme_reservation_change, 0, false},
    [NVME_IO_COPY] = {execute_copy, 0, true, nvme_copy_transfer, nvme_copy_written},
};

static const struct io_facts *facts_of(uint8_t opcode)
{
    bool is_known = opcode < sizeof commands / sizeof commands[0];
    return is_known && commands[opcode].execute != NULL ? &commands[opcode] : NULL;
}

static const struct io_facts *facts_of_command(const struct nvme_command *command)
{
    return facts_of(command->sqe[NVME_SQE_OFF_OPCODE]);
}

uint32_t nvme_io_effects(const struct nvme_controller *c, uint8_t opcode)
{
    const struct io_facts *facts = facts_of(opcode);
    if (facts == NULL || (nvme_namespace_abilities(c) & facts->ability) != facts->ability) {
        return 0;
    }
    return NVME_EFFECTS_SUPPORTED | NVME_EFFECTS_OF_NAMESPACE |
           (facts->changes ? NVME_EFFECTS_CHANGES_BLOCKS : 0);
}

// Is it a command of the controller's, and of one of its namespaces, or of all? Refuses it
// otherwise.
static bool names_namespace(struct nvme_command *command)
{
    uint8_t opcode = command->sqe[NVME_SQE_OFF_OPCODE];
    uint32_t nsid = get_le32(command->sqe + NVME_SQE_OFF_NSID);
    bool is_all = nsid == NVME_NSID_ALL && opcode == NVME_IO_FLUSH;
    if (facts_of(opcode) == NULL) {
        nvme_command_refuse(command, NVME_INVALID_OPCODE, NVME_SQE_OFF_OPCODE);
        return false;
    }
    if (!is_all && nvme_namespace_find(command->queue->controller, nsid) == NULL) {
        nvme_command_refuse(command, NVME_INVALID_NAMESPACE, NVME_SQE_OFF_NSID);
        return false;
    }
    command->nsid = is_all ? 0 : nsid;
    return true;
}

// Refuses what no command of its kind may be.
static bool admit(struct nvme_command *command)
{
    if (!names_namespace(command)) {
        return false;
    }
    uint32_t ability = facts_of_command(command)->ability;
    bool is_known = ability == 0 || can(command, ability) ||
                    !can(command, VOLUME_CAN_WRITE); // those are refused as changes
    if (!is_known) {
        nvme_command_refuse(command, NVME_INVALID_OPCODE, NVME_SQE_OFF_OPCODE);
    } else if ((command->queue->controller->csts & NVME_CSTS_RDY) == 0) {
        nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_SQE_OFF_OPCODE);
    } else {
        return true;
    }
    return false;
}

bool nvme_io_data_take(struct nvme_command *command, uint64_t *ret_offset, uint64_t *ret_len)
{
    bool is_write = command->sqe[NVME_SQE_OFF_OPCODE] == NVME_IO_WRITE;
    return admit(command) && (!is_write || may_change(command)) &&
           data_take(command, ret_offset, ret_len);
}

/* ---- what the CTA says ----------------------------------------------------------------------- */

bool nvme_io_take_buffer(struct nvme_command *command, instant_ns now)
{
    const struct io_facts *facts = facts_of_command(command);
    if (facts->on_buffer != NULL) {
        facts->on_buffer(command, now);
    }
    return facts->on_buffer != NULL;
}

void nvme_io_complete(struct nvme_command *command, enum node_completion completion, instant_ns now)
{
    const struct io_facts *facts = facts_of_command(command);
    if (completion != NODE_OK) {
        fail_as(command, completion);
    } else if (facts->on_done != NULL) {
        facts->on_done(command, now);
    } else if (!nvme_command_flush_behind(command, now)) {
        nvme_command_succeed(command);
    }
}

/* ---- where it begins ------------------------------------------------------------------------- */

static void on_bound(struct nvme_command *command, enum node_completion bound, instant_ns now)
{
    if (bound == NODE_OK) {
        facts_of_command(command)->execute(command, now);
    } else {
        fail_as(command, bound);
    }
}

void nvme_io_execute(struct nvme_command *command, instant_ns now)
{
    if (!admit(command)) {
        return;
    }
    if (command->nsid != 0) {
        nvme_bind(command, on_bound, now);
    } else {
        on_bound(command, NODE_OK, now); // one after the other
    }
}

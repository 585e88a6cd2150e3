// Copy: ranges of a namespace go to one place in it, one after the other, by way of the scratch. It
// has the ranges in front, and a piece of what is copied behind them.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/request.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

enum { PIECE_LEN = NVME_SCRATCH_LEN - NVME_COPY_RANGE_MAX * NVME_COPY_RANGE_LEN };

uint32_t nvme_copy_blocks_max(uint32_t block_len)
{
    uint32_t blocks = NVME_COPY_LEN_MAX / block_len;
    return blocks < UINT16_MAX ? blocks : UINT16_MAX;
}

/* ---- the ranges ------------------------------------------------------------------------------ */

static const uint8_t *range_at(const struct nvme_command *command, uint32_t index)
{
    return command->queue->parts.scratch.ptr + (size_t)index * NVME_COPY_RANGE_LEN;
}

static uint64_t source_of(const uint8_t *range)
{
    return get_le64(range + NVME_COPY_RANGE_OFF_SLBA);
}

static uint32_t count_of(const uint8_t *range)
{
    return get_le16(range + NVME_COPY_RANGE_OFF_NLB) + UINT32_C(1);
}

static uint64_t destination_of(const struct nvme_command *command)
{
    return get_le64(command->sqe + NVME_COPY_OFF_SDLBA);
}

static bool is_within(const struct nvme_volume *volume, uint64_t block, uint64_t count)
{
    return block <= volume->blocks && count <= volume->blocks - block;
}

// None is begun before all are known to fit.
static unsigned ranges_fault(const struct nvme_command *command)
{
    const struct nvme_volume *volume = nvme_io_volume(command);
    uint32_t most = nvme_copy_blocks_max(command->block_len);
    uint64_t whole = 0;
    for (uint32_t i = 0; i < command->range_count; i++) {
        const uint8_t *range = range_at(command, i);
        whole += count_of(range);
        if (whole > most) { // no range is longer, and all together are not
            return NVME_COMMAND_SIZE_LIMIT_EXCEEDED;
        }
        if (!is_within(volume, source_of(range), count_of(range))) {
            return NVME_LBA_OUT_OF_RANGE;
        }
    }
    return is_within(volume, destination_of(command), whole) ? NVME_OK : NVME_LBA_OUT_OF_RANGE;
}

/* ---- piece by piece -------------------------------------------------------------------------- */

static uint8_t *piece_of(const struct nvme_command *command)
{
    return command->queue->parts.scratch.ptr + (NVME_SCRATCH_LEN - PIECE_LEN);
}

// The volume may go, and its number be another one's, while pieces are under way.
static uint32_t piece_blocks(const struct nvme_command *command)
{
    uint32_t left = count_of(range_at(command, command->range_at)) - command->range_done;
    uint32_t most = PIECE_LEN / command->block_len;
    return left < most ? left : most;
}

static void piece_submit(struct nvme_command *command, enum node_operation operation,
                         unsigned flags, uint64_t block, instant_ns now)
{
    nvme_command_submit(command, operation, flags, block * command->block_len,
                        (uint64_t)piece_blocks(command) * command->block_len, now);
}

// The result says which range was not copied, as long as one is not.
static void copy_next(struct nvme_command *command, instant_ns now)
{
    command->result = command->range_at;
    if (command->range_at < command->range_count) {
        uint64_t source = source_of(range_at(command, command->range_at));
        piece_submit(command, NODE_READ, 0, source + command->range_done, now);
    } else if (!nvme_command_flush_behind(command, now)) {
        command->result = 0;
        nvme_command_succeed(command);
    }
}

void nvme_copy_written(struct nvme_command *command, instant_ns now)
{
    uint32_t blocks = command->range_at < command->range_count ? piece_blocks(command) : 0;
    command->blocks_done += blocks;
    command->range_done += blocks;
    if (blocks > 0 && command->range_done == count_of(range_at(command, command->range_at))) {
        command->range_at++;
        command->range_done = 0;
    }
    copy_next(command, now);
}

static void transferred(struct nvme_command *command, enum node_completion outcome, instant_ns now)
{
    struct nvme_target *target = command->queue->target;
    target->parts.cta->transferred(target->parts.cta_ctx, &command->service, outcome, now);
}

// What has been read is kept while its buffer is given back, for the one that it is written from
// may be had only then.
static void on_read(struct nvme_command *command, instant_ns now)
{
    memcpy(piece_of(command), command->service.data, command->service.buffer.len);
    transferred(command, NODE_OK, now);
    if (command->queue->is_closed) {
        nvme_command_drop(command);
        return;
    }
    piece_submit(command, NODE_WRITE, nvme_command_stable_flags(command),
                 destination_of(command) + command->blocks_done, now);
}

void nvme_copy_transfer(struct nvme_command *command, instant_ns now)
{
    if (command->service.operation == NODE_READ) {
        on_read(command, now);
    } else {
        memcpy(command->service.data, piece_of(command), command->service.buffer.len);
        transferred(command, command->queue->is_closed ? NODE_TRANSFER : NODE_OK, now);
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static void on_ranges(struct nvme_command *command, instant_ns now)
{
    unsigned fault = ranges_fault(command);
    if (fault != NVME_OK) {
        nvme_command_refuse(command, fault, NVME_ERROR_NO_LOCATION);
    } else {
        copy_next(command, now);
    }
}

static void on_scratch(struct nvme_command *command, instant_ns now)
{
    nvme_scratch_fetch(command, on_ranges);
}

void nvme_copy(struct nvme_command *command, instant_ns now)
{
    uint32_t count = command->sqe[NVME_COPY_OFF_NR] + UINT32_C(1);
    uint32_t len = count * NVME_COPY_RANGE_LEN;
    command->block_len = nvme_io_volume(command)->block_len;
    if (command->block_len == 0) { // it went while the queue was bound
        nvme_command_refuse(command, NVME_INVALID_NAMESPACE, NVME_SQE_OFF_NSID);
    } else if ((command->sqe[NVME_COPY_OFF_DESFMT] & NVME_COPY_DESFMT_MASK) != 0) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_COPY_OFF_DESFMT);
    } else if (count > NVME_COPY_RANGE_MAX) {
        nvme_command_refuse(command, NVME_COMMAND_SIZE_LIMIT_EXCEEDED, NVME_COPY_OFF_NR);
    } else if (nvme_command_can_move(command, len)) {
        command->range_at = command->range_done = 0;
        command->range_count = count;
        command->blocks_done = 0;
        nvme_scratch_take(command, len, on_scratch, now);
    }
}

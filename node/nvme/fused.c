// Fused commands: a Compare and the Write behind it in the same queue, which are done as one. The
// Compare waits for its Write; the CTA is asked once, for both, by the Write.

#include "base/bytes.h"
#include "base/check.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/request.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

static unsigned fuse_of(const struct nvme_command *command)
{
    return command->sqe[NVME_SQE_OFF_FLAGS] & NVME_SQE_FUSE_MASK;
}

/* ---- two that belong together ---------------------------------------------------------------- */

// The first one waits in vain.
static void abandon_first(struct nvme_queue *queue)
{
    struct nvme_command *first = queue->fused_first;
    queue->fused_first = NULL;
    nvme_command_refuse(first, NVME_MISSING_FUSED, NVME_SQE_OFF_FLAGS);
}

static bool is_same_range(const struct nvme_command *compare, const struct nvme_command *write)
{
    return get_le64(compare->sqe + NVME_RW_OFF_SLBA) == get_le64(write->sqe + NVME_RW_OFF_SLBA) &&
           get_le16(compare->sqe + NVME_RW_OFF_NLB) == get_le16(write->sqe + NVME_RW_OFF_NLB) &&
           get_le32(compare->sqe + NVME_SQE_OFF_NSID) == get_le32(write->sqe + NVME_SQE_OFF_NSID);
}

static bool names_sgl(const struct nvme_command *command)
{
    return (command->sqe[NVME_SQE_OFF_FLAGS] & NVME_SQE_PSDT_MASK) == NVME_SQE_PSDT_SGL;
}

// Refuses one of them, by itself. NULL: neither.
static struct nvme_command *refuse_half(struct nvme_command *compare, struct nvme_command *write,
                                        uint64_t *ret_offset, uint64_t *ret_len)
{
    if (!names_sgl(compare) || compare->sqe[NVME_SQE_OFF_OPCODE] != NVME_IO_COMPARE) {
        nvme_command_refuse(compare, NVME_INVALID_FIELD, NVME_SQE_OFF_FLAGS);
        return compare;
    }
    if (!names_sgl(write) || write->sqe[NVME_SQE_OFF_OPCODE] != NVME_IO_WRITE) {
        nvme_command_refuse(write, NVME_INVALID_FIELD, NVME_SQE_OFF_FLAGS);
        return write;
    }
    if (!nvme_io_data_take(compare, ret_offset, ret_len)) {
        return compare;
    }
    if (!is_same_range(compare, write)) {
        nvme_command_refuse(write, NVME_INVALID_FIELD, NVME_RW_OFF_SLBA);
        return write;
    }
    if (!nvme_io_data_take(write, ret_offset, ret_len)) {
        return write;
    }
    if (*ret_len > NODE_SWAP_MAX) {
        nvme_command_refuse(write, NVME_ATOMIC_WRITE_UNIT_EXCEEDED, NVME_RW_OFF_NLB);
        return write;
    }
    return NULL;
}

static void on_bound(struct nvme_command *write, enum node_completion bound, instant_ns now)
{
    uint64_t offset, len;
    if (bound != NODE_OK) {
        nvme_fused_complete(write, bound, now);
        return;
    }
    nvme_io_range(write, &offset, &len);
    nvme_io_count_write(write, len);
    nvme_command_submit(write, NODE_COMPARE_AND_WRITE, nvme_command_stable_flags(write), offset,
                        len, now);
}

static void execute_pair(struct nvme_command *compare, struct nvme_command *write, instant_ns now)
{
    uint64_t offset, len;
    const struct nvme_command *refused = refuse_half(compare, write, &offset, &len);
    if (refused != NULL) {
        nvme_command_refuse(refused == compare ? write : compare, NVME_FAILED_FUSED,
                            NVME_ERROR_NO_LOCATION);
        return;
    }
    write->compare = compare;
    compare->fused_write = write;
    nvme_bind(write, on_bound, now);
}

bool nvme_fused_take(struct nvme_command *command, instant_ns now)
{
    struct nvme_queue *queue = command->queue;
    struct nvme_command *first = queue->fused_first;
    unsigned fuse = fuse_of(command);
    bool is_io = queue->qid != 0 && queue->state == NVME_QUEUE_CONNECTED;
    if (fuse == NVME_SQE_FUSE_SECOND && first != NULL) {
        queue->fused_first = NULL;
        execute_pair(first, command, now);
        return true;
    }
    if (first != NULL) {
        abandon_first(queue);
    }
    if (fuse == 0) {
        return false;
    }
    if (fuse == NVME_SQE_FUSE_MASK || !is_io) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_FLAGS);
    } else if (fuse == NVME_SQE_FUSE_SECOND) {
        nvme_command_refuse(command, NVME_MISSING_FUSED, NVME_SQE_OFF_FLAGS);
    } else {
        queue->fused_first = command;
    }
    return true;
}

/* ---- their data ------------------------------------------------------------------------------ */

static void transferred(struct nvme_command *write, enum node_completion outcome, instant_ns now)
{
    struct nvme_target *target = write->queue->target;
    target->parts.cta->transferred(target->parts.cta_ctx, &write->service, outcome, now);
}

void nvme_fused_transfer(struct nvme_command *write, instant_ns now)
{
    struct nvme_command *compare = write->compare;
    uint8_t *data = write->service.data;
    uint32_t len = write->service.buffer.len / 2;
    if (write->queue->is_closed) {
        transferred(write, NODE_TRANSFER, now);
        return;
    }
    compare->data = data;
    write->data = data + len;
    compare->data_len = write->data_len = len;
    write->fetch_count = 2;
    nvme_command_fetch(compare);
    nvme_command_fetch(write);
}

void nvme_fused_moved(struct nvme_command *command, instant_ns now)
{
    struct nvme_command *write = command->fused_write != NULL ? command->fused_write : command;
    CHECK(write->fetch_count > 0);
    if (--write->fetch_count == 0) {
        bool is_there =
            write->transfer_status == NVME_OK && write->compare->transfer_status == NVME_OK;
        transferred(write, is_there ? NODE_OK : NODE_TRANSFER, now);
    }
}

/* ---- their end ------------------------------------------------------------------------------- */

// From here on each is a command by itself. Gives the Compare.
static struct nvme_command *part(struct nvme_command *write)
{
    struct nvme_command *compare = write->compare;
    compare->fused_write = write->compare = NULL;
    return compare;
}

static void succeed(struct nvme_command *write)
{
    struct nvme_command *compare = part(write);
    nvme_command_succeed(compare);
    nvme_command_succeed(write);
}

// Who is to blame says why, the other that it was fused with that one.
static void fail_pair(struct nvme_command *write, enum node_completion completion)
{
    struct nvme_command *compare = write->compare;
    unsigned status = nvme_io_status(write, completion);
    bool is_of_compare = completion == NODE_MISCOMPARE ||
                         (completion == NODE_TRANSFER && compare->transfer_status != NVME_OK);
    if (completion == NODE_TRANSFER && is_of_compare) {
        status = compare->transfer_status;
    }
    part(write);
    nvme_command_fail(compare, is_of_compare ? status : NVME_FAILED_FUSED, NVME_ERROR_NO_LOCATION);
    nvme_command_fail(write, is_of_compare ? NVME_FAILED_FUSED : status, NVME_ERROR_NO_LOCATION);
}

static void drop(struct nvme_command *write)
{
    struct nvme_command *compare = part(write);
    nvme_command_drop(compare);
    nvme_command_drop(write);
}

void nvme_fused_complete(struct nvme_command *write, enum node_completion completion,
                         instant_ns now)
{
    if (write->queue->is_closed) {
        drop(write);
    } else if (completion != NODE_OK) {
        fail_pair(write, completion);
    } else if (!nvme_command_flush_behind(write, now)) {
        succeed(write);
    }
}

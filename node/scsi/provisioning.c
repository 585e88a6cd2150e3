// GET LBA STATUS (SBC-3 section 5.3): which blocks of the volume have something allocated.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/request.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

// OFFSET SIZE FIELD
//      0    4 length of what follows this field
//      8      descriptors, each:
//      0    8 first block
//      8    4 number of blocks
//     12    1 provisioning status
enum {
    STATUS_HEADER_LEN = 8,
    STATUS_DESCRIPTOR_LEN = 16,
    STATUS_MIN = STATUS_HEADER_LEN + STATUS_DESCRIPTOR_LEN, // shorter is refused
    STATUS_OFF_BLOCKS = 8,
    STATUS_OFF_PROVISIONING = 12,
};
enum { PROVISIONING_MAPPED = 0, PROVISIONING_DEALLOCATED = 1 };

static uint32_t status_max(const struct scsi_task *task)
{
    return get_be32(task->cdb + 10);
}

static void descriptor_emit(uint8_t *at, uint64_t lba, uint64_t blocks, bool is_hole)
{
    put_be64(at, lba);
    put_be32(at + STATUS_OFF_BLOCKS, (uint32_t)blocks);
    at[STATUS_OFF_PROVISIONING] = is_hole ? PROVISIONING_DEALLOCATED : PROVISIONING_MAPPED;
}

// A block is deallocated if all of it is. What does not fit the length of a descriptor ends the
// answer, which the initiator takes up again behind it.
static uint32_t descriptors_emit(const struct scsi_task *task, uint32_t extent_count)
{
    const uint32_t block_len = task->block_len;
    uint8_t *at = task->scratch + STATUS_HEADER_LEN;
    uint64_t octet = task->lba * block_len, lba = task->lba;
    for (uint32_t i = 0; i < extent_count; i++) {
        struct node_extent extent;
        memcpy(&extent, (const uint8_t *)task->service.data + i * sizeof extent, sizeof extent);
        const bool is_hole = (extent.flags & NODE_EXTENT_HOLE) != 0;
        octet += extent.len;
        const uint64_t end = (octet + (is_hole ? 0 : block_len - 1)) / block_len;
        if (end <= lba) {
            continue; // all of it was within the block before
        }
        const uint64_t blocks = end - lba < UINT32_MAX ? end - lba : UINT32_MAX;
        descriptor_emit(at, lba, blocks, is_hole);
        at += STATUS_DESCRIPTOR_LEN;
        lba += blocks;
        if (lba < end) {
            break;
        }
    }
    return (uint32_t)(at - task->scratch);
}

static void status_on_transfer(struct scsi_task *task, instant_ns now)
{
    const uint32_t extent_count = task->service.buffer.len / sizeof(struct node_extent);
    const uint32_t len =
        descriptors_emit(task, extent_count < TASK_EXTENT_MAX ? extent_count : TASK_EXTENT_MAX);
    put_be32(task->scratch, len - 4);
    task_transferred(task, NODE_OK, now);
    task_deliver_scratch(task, len, status_max(task), now);
}

static const struct task_way status_way = {.on_transfer = status_on_transfer};

void execute_lba_status(struct scsi_task *task, instant_ns now)
{
    const uint64_t blocks = task->nexus->unit->blocks;
    task->lba = get_be64(task->cdb + 2);
    if (task->lba >= blocks) {
        task_fail(task, FAULT_LBA, now);
    } else if (status_max(task) < STATUS_MIN) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (task_scratch_create(
                   task, STATUS_HEADER_LEN + TASK_EXTENT_MAX * STATUS_DESCRIPTOR_LEN, now)) {
        task_submit(task, &status_way, NODE_EXTENTS, 0, task->lba, blocks - task->lba, now);
    }
}

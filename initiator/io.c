// A program's I/O as commands: checks, SQEs, the way that its data goes, and its end.

#include <errno.h>
#include <stdlib.h>

#include "initiator/agent.h"

enum {
    IO_FLAGS_ALL = WEFT_NVME_FUA | WEFT_NVME_NO_HOLE,
    OWN_IS_OUT = 0, // index in weft_nvme_io.own
};

#define BLOCKS_IN_RW  (UINT64_C(1) << 16)
#define BLOCKS_IN_DSM UINT64_C(0xffffffff)

struct operation {
    uint8_t opcode;
    bool has_data, has_range, changes;
    uint64_t block_count_max;
    unsigned flags;
};

static const struct operation operations[] = {
    [WEFT_NVME_READ] = {NVME_IO_READ, true, true, false, BLOCKS_IN_RW, 0},
    [WEFT_NVME_WRITE] = {NVME_IO_WRITE, true, true, true, BLOCKS_IN_RW, WEFT_NVME_FUA},
    [WEFT_NVME_FLUSH] = {NVME_IO_FLUSH, false, false, false, 0, 0},
    [WEFT_NVME_TRIM] = {NVME_IO_DATASET_MANAGEMENT, false, true, true, BLOCKS_IN_DSM, 0},
    [WEFT_NVME_WRITE_ZEROES] = {NVME_IO_WRITE_ZEROES, false, true, true, BLOCKS_IN_RW,
                                IO_FLAGS_ALL},
};

/* ---- what may be asked for ------------------------------------------------------------------- */

static bool has_memory(const struct weft_nvme_io *io)
{
    uint64_t left = io->len;
    if (io->memory_count == 0 || io->memory_count > WEFT_NVME_PIECE_MAX) {
        return false;
    }
    for (unsigned i = 0; i < io->memory_count; i++) {
        if (io->memory[i].iov_len > left) {
            return false;
        }
        left -= io->memory[i].iov_len;
    }
    return left == 0;
}

static int range_check(const struct weft_nvme *nvme, const struct weft_nvme_io *io,
                       const struct operation *operation,
                       const struct initiator_namespace_known *ns)
{
    uint64_t mask = (UINT64_C(1) << ns->block_shift) - 1;
    if (io->len == 0 || ((io->offset | io->len) & mask) != 0 || io->offset > ns->len ||
        io->len > ns->len - io->offset) {
        return -EINVAL;
    }
    bool is_long = operation->has_data && io->len > nvme->info.transfer_max_len;
    return is_long || io->len >> ns->block_shift > operation->block_count_max ? -EMSGSIZE : 0;
}

static int io_check(const struct weft_nvme *nvme, const struct weft_nvme_io *io,
                    const struct initiator_namespace_known *ns)
{
    if (nvme->is_lost) {
        return -ENOTCONN;
    }
    if ((unsigned)io->operation >= sizeof operations / sizeof operations[0] || ns == NULL) {
        return -EINVAL;
    }
    const struct operation *operation = &operations[io->operation];
    if ((io->flags & ~(operation->flags | WEFT_NVME_MORE)) != 0 || io->own[OWN_IS_OUT] != 0 ||
        (operation->has_data && !has_memory(io))) {
        return -EINVAL;
    }
    if ((io->operation == WEFT_NVME_TRIM && !nvme->info.can_trim) ||
        (io->operation == WEFT_NVME_WRITE_ZEROES && !nvme->info.can_write_zeroes)) {
        return -EOPNOTSUPP;
    }
    if (operation->changes && ns->is_read_only) {
        return -EROFS;
    }
    return operation->has_range ? range_check(nvme, io, operation, ns) : 0;
}

uint64_t weft_nvme_range_max_len(const struct weft_nvme *nvme, uint32_t nsid,
                                 enum weft_nvme_operation operation)
{
    const struct initiator_namespace_known *ns = initiator_namespace_find(nvme, nsid);
    if (ns == NULL || (operation != WEFT_NVME_TRIM && operation != WEFT_NVME_WRITE_ZEROES)) {
        return 0;
    }
    return operations[operation].block_count_max << ns->block_shift;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int lent_access(void)
{
    return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
}

int initiator_lend(struct weft_nvme *nvme, void *ptr, size_t len)
{
    if (nvme->info.is_oneshot) {
        return 0;
    }
    if (nvme->lent_count == WEFT_NVME_LENT_MAX) {
        return -ENOSPC;
    }
    struct ibv_mr *mr = ibv_reg_mr(nvme->pd, ptr, len, lent_access());
    if (mr == NULL) {
        return -errno;
    }
    nvme->lent[nvme->lent_count++] = (struct initiator_lent){.ptr = ptr, .len = len, .mr = mr};
    return 0;
}

void initiator_take_back(struct weft_nvme *nvme, void *ptr)
{
    for (unsigned i = 0; i < nvme->lent_count; i++) {
        if (nvme->lent[i].ptr == ptr) {
            ibv_dereg_mr(nvme->lent[i].mr);
            nvme->lent[i] = nvme->lent[--nvme->lent_count];
            return;
        }
    }
}

static const struct initiator_lent *lent_find(const struct weft_nvme *nvme,
                                              const struct iovec *piece)
{
    for (unsigned i = 0; i < nvme->lent_count; i++) {
        const struct initiator_lent *lent = &nvme->lent[i];
        uintptr_t at = (uintptr_t)piece->iov_base, start = (uintptr_t)lent->ptr;
        if (at >= start && at - start <= lent->len && piece->iov_len <= lent->len - (at - start)) {
            return lent;
        }
    }
    return NULL;
}

static void pieces_copy(const struct iovec *pieces, unsigned count, uint8_t *to, bool is_back)
{
    for (unsigned i = 0; i < count; i++) {
        const struct iovec *piece = &pieces[i];
        memcpy(is_back ? piece->iov_base : to, is_back ? to : piece->iov_base, piece->iov_len);
        to += piece->iov_len;
    }
}

// The slot's own buffer, as long as this and the next ones need. The target may read it, also what
// nobody has written yet.
static int copy_room_take(struct initiator_slot *slot, size_t len)
{
    struct weft_nvme *nvme = slot->queue->nvme;
    if (slot->copy_capacity >= len) {
        return 0;
    }
    if (slot->copy_mr != NULL) {
        ibv_dereg_mr(slot->copy_mr);
    }
    free(slot->copy);
    slot->copy_mr = NULL;
    slot->copy_capacity = 0;
    slot->copy = calloc(1, len);
    if (slot->copy == NULL) {
        return -ENOMEM;
    }
    slot->copy_mr = ibv_reg_mr(nvme->pd, slot->copy, len, lent_access());
    if (slot->copy_mr == NULL) {
        return -errno;
    }
    slot->copy_capacity = len;
    return 0;
}

/* ---- data pointers --------------------------------------------------------------------------- */

static void sgl_keyed(struct initiator_slot *slot, uint64_t address, uint64_t len, uint32_t key)
{
    uint8_t *sgl = initiator_slot_sqe(slot) + NVME_SQE_OFF_SGL1;
    put_le64(sgl + NVME_SGL_OFF_ADDRESS, address);
    put_le32(sgl + NVME_SGL_OFF_LENGTH, (uint32_t)len); // the key is written over the fourth octet
    put_le32(sgl + NVME_SGL_OFF_KEY, key);
    sgl[NVME_SGL_OFF_ID] = NVME_SGL_KEYED;
}

static void sgl_in_capsule(struct initiator_slot *slot, uint32_t len)
{
    uint8_t *sgl = initiator_slot_sqe(slot) + NVME_SQE_OFF_SGL1;
    put_le32(sgl + NVME_SGL_OFF_LENGTH, len); // at offset 0 behind the SQE
    sgl[NVME_SGL_OFF_ID] = NVME_SGL_IN_CAPSULE;
}

static int data_in_capsule(struct initiator_slot *slot, const struct initiator_data *data)
{
    pieces_copy(data->memory, data->count, initiator_slot_sqe(slot) + NVME_SQE_LEN, false);
    sgl_in_capsule(slot, data->len);
    slot->way = DATA_IN_CAPSULE;
    return initiator_queue_send(slot, data->len);
}

static int data_oneshot(struct initiator_slot *slot, const struct initiator_data *data)
{
    sgl_keyed(slot, 0, data->len, 0);
    initiator_slot_sqe(slot)[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = NVME_SGL_KEYED_INVALIDATE;
    slot->way = DATA_ONESHOT;
    return initiator_queue_send_oneshot(slot, data->memory, data->count,
                                        data->is_to_target ? IBV_ACCESS_REMOTE_READ
                                                           : IBV_ACCESS_REMOTE_WRITE);
}

static int data_copied(struct initiator_slot *slot, const struct initiator_data *data)
{
    int error = copy_room_take(slot, data->len);
    if (error != 0) {
        return error;
    }
    if (data->is_to_target) {
        pieces_copy(data->memory, data->count, slot->copy, false);
    }
    sgl_keyed(slot, (uintptr_t)slot->copy, data->len, slot->copy_mr->rkey);
    slot->way = DATA_COPIED;
    return initiator_queue_send(slot, 0);
}

static int data_keyed(struct initiator_slot *slot, const struct initiator_data *data)
{
    struct weft_nvme *nvme = slot->queue->nvme;
    const struct iovec *piece = &data->memory[0];
    const struct initiator_lent *lent = lent_find(nvme, piece);
    uint32_t key = lent != NULL ? lent->mr->rkey : 0;
    slot->way = DATA_LENT;
    if (lent == NULL) {
        int access = data->is_to_target ? IBV_ACCESS_REMOTE_READ
                                        : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        slot->mr = ibv_reg_mr(nvme->pd, piece->iov_base, piece->iov_len, access);
        if (slot->mr == NULL) {
            return -errno;
        }
        key = slot->mr->rkey;
        slot->way = DATA_REGISTERED;
    }
    sgl_keyed(slot, (uintptr_t)piece->iov_base, data->len, key);
    return initiator_queue_send(slot, 0);
}

// Of an admin command: somewhere in the memory that all these commands use.
static int data_admin(struct initiator_slot *slot, const struct initiator_data *data)
{
    const struct weft_nvme *nvme = slot->queue->nvme;
    sgl_keyed(slot, (uintptr_t)data->memory->iov_base, data->len, nvme->admin_mr->rkey);
    return initiator_queue_send(slot, 0);
}

int initiator_data_send(struct initiator_slot *slot, const struct initiator_data *data)
{
    const struct weft_nvme *nvme = slot->queue->nvme;
    bool is_asked = (nvme->attr.flags & WEFT_NVME_NO_IN_CAPSULE) == 0 || data->is_own;
    if (data->len == 0) {
        return initiator_queue_send(slot, 0);
    }
    if (slot->io == NULL) {
        return data_admin(slot, data);
    }
    if (is_asked && data->is_to_target && data->len <= nvme->info.in_capsule_len) {
        return data_in_capsule(slot, data);
    }
    if (slot->queue->is_oneshot && !data->is_own) {
        return data_oneshot(slot, data);
    }
    return data->count > 1 || data->is_own ? data_copied(slot, data) : data_keyed(slot, data);
}

void initiator_data_settle(struct initiator_slot *slot, bool is_good)
{
    const struct weft_nvme_io *io = slot->io;
    if (slot->mr != NULL) {
        ibv_dereg_mr(slot->mr);
        slot->mr = NULL;
    }
    if (slot->way == DATA_COPIED && io->operation == WEFT_NVME_READ && is_good) {
        pieces_copy(io->memory, io->memory_count, slot->copy, true);
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

static int carry(struct initiator_slot *slot, const struct initiator_data *data)
{
    return slot->queue->nvme->carrier->send(slot, data);
}

// One range, as data of the command.
static int trim_send(struct initiator_slot *slot, const struct weft_nvme_io *io,
                     uint8_t block_shift)
{
    memset(slot->range, 0, sizeof slot->range);
    put_le32(slot->range + NVME_DSM_RANGE_OFF_NLB, (uint32_t)(io->len >> block_shift));
    put_le64(slot->range + NVME_DSM_RANGE_OFF_SLBA, io->offset >> block_shift);
    put_le32(initiator_slot_sqe(slot) + NVME_SQE_OFF_CDW11, NVME_DSM_DEALLOCATE);
    slot->range_piece = (struct iovec){slot->range, sizeof slot->range};
    const struct initiator_data data = {.memory = &slot->range_piece,
                                        .len = sizeof slot->range,
                                        .count = 1,
                                        .is_to_target = true,
                                        .is_own = true};
    int error = carry(slot, &data);
    slot->way = DATA_NONE; // no data of the program's
    return error;
}

static int io_send(struct initiator_slot *slot, const struct weft_nvme_io *io,
                   const struct initiator_namespace_known *ns)
{
    const struct operation *operation = &operations[io->operation];
    uint8_t *sqe = initiator_slot_sqe(slot);
    sqe[NVME_SQE_OFF_OPCODE] = operation->opcode;
    put_le32(sqe + NVME_SQE_OFF_NSID, io->nsid);
    if (io->operation == WEFT_NVME_TRIM) {
        return trim_send(slot, io, ns->block_shift);
    }
    if (operation->has_range) {
        uint16_t control = (io->flags & WEFT_NVME_FUA) != 0 ? NVME_RW_FUA : 0;
        if (io->operation == WEFT_NVME_WRITE_ZEROES && (io->flags & WEFT_NVME_NO_HOLE) == 0) {
            control |= NVME_RW_DEALLOCATE;
        }
        put_le64(sqe + NVME_RW_OFF_SLBA, io->offset >> ns->block_shift);
        put_le16(sqe + NVME_RW_OFF_NLB, (uint16_t)((io->len >> ns->block_shift) - 1));
        put_le16(sqe + NVME_RW_OFF_CONTROL, control);
    }
    const struct initiator_data data = {.memory = io->memory,
                                        .len = operation->has_data ? (uint32_t)io->len : 0,
                                        .count = io->memory_count,
                                        .is_to_target = io->operation == WEFT_NVME_WRITE};
    return carry(slot, &data);
}

// The queue with the fewest commands.
static struct initiator_slot *slot_take(struct weft_nvme *nvme)
{
    struct initiator_queue *best = NULL;
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        struct initiator_queue *queue = &nvme->queues[i];
        if (best == NULL || queue->taken < best->taken) {
            best = queue;
        }
    }
    return best != NULL ? initiator_queue_take(best) : NULL;
}

static void way_count(struct weft_nvme_counters *counters, enum initiator_data_way way)
{
    uint64_t *const by_way[] = {
        [DATA_IN_CAPSULE] = &counters->in_capsules,
        [DATA_ONESHOT] = &counters->oneshots,
        [DATA_LENT] = &counters->lent,
        [DATA_REGISTERED] = &counters->registrations,
        [DATA_COPIED] = &counters->copies,
    };
    if (way != DATA_NONE) {
        ++*by_way[way];
    }
}

int weft_nvme_submit(struct weft_nvme *nvme, struct weft_nvme_io *io)
{
    const struct initiator_namespace_known *ns = initiator_namespace_find(nvme, io->nsid);
    int error = io_check(nvme, io, ns);
    if (error != 0) {
        return error;
    }
    struct initiator_slot *slot = slot_take(nvme);
    if (slot == NULL) {
        return -EAGAIN;
    }
    slot->io = io;
    error = io_send(slot, io, ns);
    if (error != 0) {
        nvme->carrier->settle(slot, false);
        initiator_slot_release(slot);
        return error;
    }
    io->own[OWN_IS_OUT] = 1;
    nvme->counters.commands++;
    way_count(&nvme->counters, slot->way);
    return 0;
}

static void octets_count(struct weft_nvme_counters *counters, const struct weft_nvme_io *io)
{
    if (io->error != 0) {
        counters->errors++;
    } else if (io->operation == WEFT_NVME_READ) {
        counters->octets_read += io->len;
    } else if (io->operation == WEFT_NVME_WRITE) {
        counters->octets_written += io->len;
    }
}

void initiator_io_complete(struct initiator_slot *slot, uint16_t status, int error)
{
    struct weft_nvme_io *io = slot->io;
    uint16_t code = status & ~(NVME_STATUS_DNR | NVME_STATUS_MORE);
    io->own[OWN_IS_OUT] = 0;
    io->status = code;
    io->error = error != 0 ? error : initiator_status_errno(code);
    io->may_retry = io->error != 0 && (status & NVME_STATUS_DNR) == 0;
    initiator_access_on_status(slot->queue->nvme, io->nsid, code);
    slot->queue->nvme->carrier->settle(slot, io->error == 0);
    octets_count(&slot->queue->nvme->counters, io);
    slot->io = NULL;
    initiator_slot_release(slot);
    io->on_complete(io);
}

// A queue pair's life, and places for commands, which leave by sending.c and are answered by
// answers.c.

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "initiator/agent.h"

/* ---- a queue's life -------------------------------------------------------------------------- */

// What all queues of a controller share: made with the first, since only its address says which
// RNIC it is.
static int device_take(struct weft_nvme *nvme, struct ibv_context *verbs)
{
    if (nvme->verbs != NULL) {
        return nvme->verbs == verbs ? 0 : -EXDEV;
    }
    unsigned depth = ADMIN_DEPTH + 1 + nvme->attr.queue_count * (nvme->attr.depth + 1);
    nvme->verbs = verbs;
    nvme->has_oneshot =
        (nvme->attr.flags & WEFT_NVME_NO_ONESHOT) == 0 && weft_oneshot_find(&nvme->oneshot);
    nvme->pd = ibv_alloc_pd(verbs);
    nvme->completions = ibv_create_comp_channel(verbs);
    if (nvme->pd == NULL || nvme->completions == NULL) {
        return -errno;
    }
    if (!initiator_set_nonblocking(nvme->completions->fd) ||
        !initiator_watch(nvme, nvme->completions->fd)) {
        return -errno;
    }
    nvme->cq = ibv_create_cq(verbs, (int)(2 * depth), NULL, nvme->completions, 0);
    nvme->send_cq = ibv_create_cq(verbs, (int)(2 * depth), NULL, nvme->completions, 0);
    nvme->admin_data = aligned_alloc(ADMIN_DATA_LEN, ADMIN_ROOM_LEN);
    if (nvme->cq == NULL || nvme->send_cq == NULL || nvme->admin_data == NULL) {
        return -ENOMEM;
    }
    memset(nvme->admin_data, 0, ADMIN_ROOM_LEN); // the target may read all of it
    nvme->admin_mr =
        ibv_reg_mr(nvme->pd, nvme->admin_data, ADMIN_ROOM_LEN,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    return nvme->admin_mr != NULL ? 0 : -errno;
}

int initiator_slots_create(struct initiator_queue *queue)
{
    list_init(&queue->free);
    queue->slots = calloc(queue->depth, sizeof *queue->slots);
    if (queue->slots == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < queue->depth; i++) {
        queue->slots[i].queue = queue;
        queue->slots[i].cid = (uint16_t)i;
        list_push_tail(&queue->free, &queue->slots[i].link);
    }
    return 0;
}

static int memory_take(struct initiator_queue *queue)
{
    unsigned depth = queue->depth;
    size_t len = (size_t)depth * (queue->capsule_len + ANSWER_LEN);
    queue->messages = calloc(1, len);
    queue->free_answers = calloc(depth, sizeof *queue->free_answers);
    if (queue->messages == NULL || queue->free_answers == NULL) {
        return -ENOMEM;
    }
    queue->mr = ibv_reg_mr(queue->nvme->pd, queue->messages, len, IBV_ACCESS_LOCAL_WRITE);
    if (queue->mr == NULL) {
        return -errno;
    }
    queue->sqes = queue->messages;
    queue->sqe_stride = queue->capsule_len;
    for (unsigned i = 0; i < depth; i++) {
        queue->free_answers[queue->free_answer_count++] = (uint16_t)i;
    }
    return 0;
}

// Both ends find a command by its CID. Where the device has no one-shot RDMA, none is agreed on.
static int oneshot_prepare(struct initiator_queue *queue)
{
    const struct weft_nvme *nvme = queue->nvme;
    const uint8_t flags = WEFT_ONESHOT_LITTLE_ENDIAN | WEFT_ONESHOT_PRESENT;
    const struct weft_oneshot_attr attr = {
        .max_commands = queue->depth,
        .max_memory = WEFT_NVME_PIECE_MAX,
        .request = {.offset = NVME_SQE_OFF_CID, .length = sizeof(uint16_t), .flags = flags},
        .answer = {.offset = NVME_CQE_OFF_CID, .length = sizeof(uint16_t), .flags = flags},
        .stag_offset = WEFT_ONESHOT_NOWHERE,
    };
    const int error = nvme->oneshot.create(queue->id->qp, &attr);
    return error != EOPNOTSUPP ? -error : 0;
}

int initiator_queue_create(struct initiator_queue *queue)
{
    struct weft_nvme *nvme = queue->nvme;
    int error = device_take(nvme, queue->id->verbs);
    if (error != 0 || (error = memory_take(queue)) != 0) {
        return error;
    }
    struct ibv_qp_init_attr attr = {
        .send_cq = nvme->send_cq,
        .recv_cq = nvme->cq,
        .cap = {.max_send_wr = 2 * queue->depth + 2,
                .max_recv_wr = queue->depth + 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = NVME_SQE_LEN},
        .qp_type = IBV_QPT_RC,
    };
    if (rdma_create_qp(queue->id, nvme->pd, &attr) != 0) {
        return -errno;
    }
    return nvme->has_oneshot && queue->number > 0 ? oneshot_prepare(queue) : 0;
}

void initiator_queue_end(struct initiator_queue *queue)
{
    queue->waiting_count = 0; // who waits is told with the others that it is over
    if (queue->id != NULL && queue->id->qp != NULL) {
        rdma_disconnect(queue->id);
        rdma_destroy_qp(queue->id);
    }
}

void initiator_queue_destroy(struct initiator_queue *queue)
{
    for (unsigned i = 0; queue->slots != NULL && i < queue->depth; i++) {
        if (queue->slots[i].copy_mr != NULL) {
            ibv_dereg_mr(queue->slots[i].copy_mr);
        }
        free(queue->slots[i].copy);
    }
    if (queue->mr != NULL) {
        ibv_dereg_mr(queue->mr);
    }
    if (queue->id != NULL) {
        rdma_destroy_id(queue->id);
    }
    free(queue->messages);
    free(queue->free_answers);
}

void initiator_device_release(struct weft_nvme *nvme)
{
    if (nvme->drive_fd >= 0) {
        nvme->drive.end(nvme->completions);
    }
    for (unsigned i = 0; i < nvme->lent_count; i++) {
        ibv_dereg_mr(nvme->lent[i].mr);
    }
    if (nvme->admin_mr != NULL) {
        ibv_dereg_mr(nvme->admin_mr);
    }
    if (nvme->cq != NULL) {
        ibv_destroy_cq(nvme->cq);
    }
    if (nvme->send_cq != NULL) {
        ibv_destroy_cq(nvme->send_cq);
    }
    if (nvme->completions != NULL) {
        ibv_destroy_comp_channel(nvme->completions);
    }
    if (nvme->pd != NULL) {
        ibv_dealloc_pd(nvme->pd);
    }
    if (nvme->channel != NULL) {
        rdma_destroy_event_channel(nvme->channel);
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

struct initiator_slot *initiator_queue_take(struct initiator_queue *queue)
{
    struct list_link *link = queue->taken < queue->limit ? list_pop_head(&queue->free) : NULL;
    if (link == NULL) {
        return NULL;
    }
    queue->taken++;
    struct initiator_slot *slot = LIST_ENTRY(link, struct initiator_slot, link);
    uint8_t *sqe = initiator_slot_sqe(slot);
    slot->cid = (uint16_t)(slot->cid + (1 << CID_INDEX_BITS)); // a late answer to the last is known
    slot->way = DATA_NONE;
    memset(sqe, 0, NVME_SQE_LEN);
    sqe[NVME_SQE_OFF_FLAGS] = NVME_SQE_PSDT_SGL;
    put_le16(sqe + NVME_SQE_OFF_CID, slot->cid);
    sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = NVME_SGL_KEYED; // of no octets
    return slot;
}

void initiator_slot_release(struct initiator_slot *slot)
{
    if (!slot->awaits_answer && !slot->awaits_send) {
        slot->io = NULL;
        slot->answer = NULL;
        slot->queue->taken--;
        list_push_head(&slot->queue->free, &slot->link);
    }
}

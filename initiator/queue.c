// A queue pair's life, places for commands, and their answers. How commands leave: sending.c.

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "initiator/agent.h"

enum { WC_BATCH = 32 };

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

int initiator_queues_send(struct weft_nvme *nvme)
{
    int ended = 0, error;
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        struct initiator_queue *queue = &nvme->queues[i];
        // Of those that were there: who is told of an end may submit more.
        for (unsigned n = queue->waiting_count;
             n > 0 && (error = initiator_waiting_send(queue)) != 0; n--) {
            initiator_io_complete(initiator_waiting_withdraw(queue), NVME_OK,
                                  error == -EAGAIN ? -EBUSY : error);
            ended++;
        }
    }
    return ended;
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct initiator_queue *queue_of(struct weft_nvme *nvme, const struct ibv_wc *wc)
{
    unsigned number = (uint16_t)(wc->wr_id >> WR_QUEUE_SHIFT);
    return number == 0 ? &nvme->admin : &nvme->queues[number - 1];
}

// Did the answer end the memory that the command advertised?
static bool is_closed(const struct initiator_slot *slot, const struct ibv_wc *wc)
{
    uint32_t stag = 0;
    if ((wc->wc_flags & IBV_WC_WITH_INV) != 0) {
        stag = wc->invalidated_rkey;
    } else if (!slot->queue->nvme->oneshot.wc_closed(wc, &stag)) {
        return false;
    }
    return stag == slot->stag;
}

// What the answer left open is taken back before the program hears of it.
static void oneshot_settle(struct initiator_slot *slot, const struct ibv_wc *wc)
{
    struct weft_nvme *nvme = slot->queue->nvme;
    if (slot->way != DATA_ONESHOT) {
        return;
    }
    if (is_closed(slot, wc)) {
        nvme->counters.closes++;
    } else {
        nvme->oneshot.revoke(slot->queue->id->qp, slot->stag);
        nvme->counters.revokes++;
    }
}

// The command that an answer is to. NULL: none.
static struct initiator_slot *slot_of(struct initiator_queue *queue, const uint8_t *cqe,
                                      uint32_t len)
{
    uint16_t cid = get_le16(cqe + NVME_CQE_OFF_CID);
    unsigned index = cid & ((1 << CID_INDEX_BITS) - 1);
    if (len != NVME_CQE_LEN || index >= queue->depth) {
        return NULL;
    }
    struct initiator_slot *slot = &queue->slots[index];
    return slot->awaits_answer && slot->cid == cid ? slot : NULL;
}

// The command's answer, whatever carried it. Whether it was an I/O's.
static bool answer_take(struct initiator_slot *slot, const uint8_t *cqe)
{
    uint16_t status = get_le16(cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT;
    bool is_io = slot->io != NULL;
    slot->awaits_answer = false;
    slot->queue->nvme->late_sends += slot->awaits_send;
    if (slot->answer != NULL) {
        *slot->answer = (struct initiator_admin_answer){
            .is_there = true, .status = status, .result = get_le64(cqe + NVME_CQE_OFF_RESULT)};
    } else if (!is_io) {
        slot->queue->nvme->awaits_keep_alive = false;
    }
    if (is_io) {
        initiator_io_complete(slot, status, 0);
    } else {
        initiator_slot_release(slot);
    }
    return is_io;
}

bool initiator_on_arrival(const struct initiator_arrival *arrival)
{
    struct initiator_slot *slot = slot_of(arrival->queue, arrival->cqe, NVME_CQE_LEN);
    if (slot == NULL) {
        arrival->queue->nvme->counters.strange++;
        return false;
    }
    return answer_take(slot, arrival->cqe);
}

// The room is given back before the program is told, who may send at once.
static bool on_answer(struct initiator_queue *queue, const struct ibv_wc *wc)
{
    unsigned index = (uint32_t)wc->wr_id;
    uint8_t cqe[NVME_CQE_LEN];
    memcpy(cqe, initiator_answer_room(queue, index), sizeof cqe);
    struct initiator_slot *slot = slot_of(queue, cqe, wc->byte_len);
    queue->free_answers[queue->free_answer_count++] = (uint16_t)index;
    if (slot == NULL) {
        queue->nvme->counters.strange++;
        return false;
    }
    oneshot_settle(slot, wc);
    return answer_take(slot, cqe);
}

static void on_sent(struct initiator_queue *queue, const struct ibv_wc *wc)
{
    struct initiator_slot *slot = &queue->slots[(uint32_t)wc->wr_id];
    queue->nvme->awaited_sends--;
    queue->nvme->late_sends -= !slot->awaits_answer;
    slot->awaits_send = false;
    initiator_slot_release(slot);
}

// A target that runs on weft's RNIC and knows nothing of commands that advertise finds the key 0 in
// them, which is that of no memory.
const char *initiator_ended_why(const struct weft_nvme *nvme)
{
    const struct weft_nvme_counters *counters = &nvme->counters;
    bool is_understood = counters->oneshots == 0 || counters->closes + counters->revokes > 0;
    return is_understood ? "the target ended the connection"
                         : "the target ended the connection, and has answered no command by "
                           "one-shot RDMA: if it is none of weft's, set WEFT_ONESHOT=off";
}

// How many I/O completed; or the error that ends the connection.
static int on_completion(struct weft_nvme *nvme, const struct ibv_wc *wc)
{
    struct initiator_queue *queue = queue_of(nvme, wc);
    if (wc->status != IBV_WC_SUCCESS) {
        initiator_lose(nvme, -ECONNRESET, "queue %u: %s", queue->number,
                       wc->status == IBV_WC_WR_FLUSH_ERR ? initiator_ended_why(nvme)
                                                         : ibv_wc_status_str(wc->status));
        return -ECONNRESET;
    }
    if ((wc->wr_id >> WR_KIND_SHIFT) == WR_SEND) {
        on_sent(queue, wc);
        return 0;
    }
    return on_answer(queue, wc);
}

// How many I/O completed.
static int completions_take(struct weft_nvme *nvme, const struct ibv_wc *wc, int count)
{
    int completed = 0;
    for (int i = 0; i < count && !nvme->is_lost; i++) {
        int result = on_completion(nvme, &wc[i]);
        completed += result > 0 ? result : 0;
    }
    return completed;
}

static unsigned sends_take(struct weft_nvme *nvme)
{
    struct ibv_wc wc[WC_BATCH];
    unsigned taken = 0;
    int count = WC_BATCH;
    while (count == WC_BATCH && nvme->awaited_sends > 0 && !nvme->is_lost) {
        count = ibv_poll_cq(nvme->send_cq, WC_BATCH, wc);
        completions_take(nvme, wc, count);
        taken += count > 0 ? (unsigned)count : 0;
    }
    return taken;
}

// By the time an answer is there, the Send of its command is mostly over. That is dealt with first:
// it makes room for who is told of the answer, and sends the next command. What is submitted
// meanwhile leaves together.
int initiator_queues_poll(struct weft_nvme *nvme, unsigned *ret_wc_count)
{
    struct ibv_wc wc[WC_BATCH];
    int completed = 0, count = WC_BATCH;
    *ret_wc_count = 0;
    while (count == WC_BATCH && !nvme->is_lost) {
        count = ibv_poll_cq(nvme->cq, WC_BATCH, wc);
        *ret_wc_count += sends_take(nvme) + (count > 0 ? (unsigned)count : 0);
        nvme->is_telling = true;
        completed += completions_take(nvme, wc, count);
        nvme->is_telling = false;
        completed += initiator_queues_send(nvme);
    }
    return nvme->is_lost ? nvme->lost_error : completed;
}

bool initiator_queues_are_armed(const struct weft_nvme *nvme)
{
    return nvme->is_armed && (nvme->is_send_armed || nvme->late_sends == 0);
}

void initiator_queues_arm(struct weft_nvme *nvme)
{
    bool arms_send = nvme->late_sends > 0 && !nvme->is_send_armed;
    nvme->is_armed = nvme->is_armed || ibv_req_notify_cq(nvme->cq, 0) == 0;
    nvme->is_send_armed |= arms_send && ibv_req_notify_cq(nvme->send_cq, 0) == 0;
    if (!initiator_queues_are_armed(nvme)) {
        initiator_lose(nvme, -EIO, "the completion queues cannot be armed");
    }
}

void initiator_on_event(struct weft_nvme *nvme, struct ibv_cq *cq)
{
    ibv_ack_cq_events(cq, 1);
    *(cq == nvme->cq ? &nvme->is_armed : &nvme->is_send_armed) = false;
}

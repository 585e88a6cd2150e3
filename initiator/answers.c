// What completes on queue pairs: answers to commands, and Sends.

#include <errno.h>

#include "initiator/agent.h"

enum { WC_BATCH = 32 };

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

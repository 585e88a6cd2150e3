// Commands that leave by a queue pair, each with the receive for its answer, so that there are
// always as many as there can be answers.
//
// **Together.** What a program submits while it is told of answers, or says that more follow, waits
// and leaves in one chain: the first work request of a chain costs as much as some ten behind it,
// and wakes the target as often as all of them. A chain is short, since the target does nothing
// before it has come.

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "initiator/agent.h"

static uint64_t wr_id(const struct initiator_queue *queue, enum initiator_wr kind, unsigned index)
{
    return (uint64_t)kind << WR_KIND_SHIFT | (uint64_t)queue->number << WR_QUEUE_SHIFT | index;
}

/* ---- receives -------------------------------------------------------------------------------- */

static void receive_fill(const struct initiator_queue *queue, unsigned index,
                         struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
    *sge = (struct ibv_sge){.addr = (uintptr_t)initiator_answer_room(queue, index),
                            .length = ANSWER_LEN,
                            .lkey = queue->mr->lkey};
    *wr = (struct ibv_recv_wr){
        .wr_id = wr_id(queue, WR_RECEIVE, index), .sg_list = sge, .num_sge = 1};
}

// For the answers to all that waits, but for those that are posted and unused.
static int receives_post(struct initiator_queue *queue)
{
    struct ibv_recv_wr wrs[TOGETHER_MAX], *bad;
    struct ibv_sge sges[TOGETHER_MAX];
    unsigned count = 0;
    while (queue->spare_receives + count < queue->waiting_count) {
        unsigned index = queue->free_answers[queue->free_answer_count - 1 - count];
        receive_fill(queue, index, &wrs[count], &sges[count]);
        if (count > 0) {
            wrs[count - 1].next = &wrs[count];
        }
        count++;
    }
    if (count == 0) {
        return 0;
    }
    int error = ibv_post_recv(queue->id->qp, wrs, &bad);
    unsigned posted = error == 0 ? count : (unsigned)(bad - wrs);
    queue->free_answer_count -= posted;
    queue->spare_receives += posted;
    return -error;
}

/* ---- what waits ------------------------------------------------------------------------------ */

// Every so many Sends, one says when it is done: else the send queue would never empty.
static unsigned send_flags(const struct initiator_queue *queue, uint32_t len)
{
    unsigned interval = queue->depth / 2 + 1;
    unsigned flags = len <= NVME_SQE_LEN ? IBV_SEND_INLINE : IBV_SEND_SIGNALED;
    return queue->unsignalled + 1 >= interval ? flags | IBV_SEND_SIGNALED : flags;
}

static struct initiator_waiting *waiting_add(struct initiator_slot *slot, uint32_t len,
                                             unsigned flags)
{
    struct initiator_queue *queue = slot->queue;
    struct initiator_waiting *w = &queue->waiting[queue->waiting_count++];
    bool is_signalled = (flags & IBV_SEND_SIGNALED) != 0;
    w->slot = slot;
    w->body = (struct ibv_sge){
        .addr = (uintptr_t)initiator_slot_sqe(slot), .length = len, .lkey = queue->mr->lkey};
    queue->unsignalled = is_signalled ? 0 : queue->unsignalled + 1;
    slot->awaits_answer = true;
    slot->awaits_send = is_signalled;
    queue->nvme->awaited_sends += is_signalled;
    return w;
}

static void waiting_remove(struct initiator_queue *queue, unsigned count)
{
    queue->waiting_count -= count;
    if (queue->waiting_count > 0) {
        memmove(queue->waiting, queue->waiting + count,
                queue->waiting_count * sizeof *queue->waiting);
    }
}

// Who is to tell of the Sends before it, the next one does then.
struct initiator_slot *initiator_waiting_withdraw(struct initiator_queue *queue)
{
    struct initiator_slot *slot = queue->waiting[0].slot;
    waiting_remove(queue, 1);
    queue->unsignalled = slot->awaits_send ? queue->depth : queue->unsignalled;
    queue->nvme->awaited_sends -= slot->awaits_send;
    slot->awaits_answer = slot->awaits_send = false;
    return slot;
}

/* ---- posted ---------------------------------------------------------------------------------- */

// How many have been posted.
static unsigned sends_post(struct initiator_queue *queue, int *ret_error)
{
    struct initiator_waiting *w = queue->waiting;
    struct ibv_send_wr *bad;
    for (unsigned i = 0; i < queue->waiting_count; i++) {
        w[i].send.sg_list = &w[i].body;
        w[i].send.next = i + 1 < queue->waiting_count ? &w[i + 1].send : NULL;
    }
    *ret_error = ibv_post_send(queue->id->qp, &w->send, &bad);
    return *ret_error == 0 ? queue->waiting_count
                           : (unsigned)(LIST_ENTRY(bad, struct initiator_waiting, send) - w);
}

static unsigned oneshots_post(struct initiator_queue *queue, int *ret_error)
{
    struct initiator_waiting *w = queue->waiting;
    struct weft_oneshot_wr *bad;
    for (unsigned i = 0; i < queue->waiting_count; i++) {
        w[i].oneshot.next = i + 1 < queue->waiting_count ? &w[i + 1].oneshot : NULL;
    }
    *ret_error = queue->nvme->oneshot.post(queue->id->qp, &w->oneshot, &bad);
    unsigned count = *ret_error == 0
                         ? queue->waiting_count
                         : (unsigned)(LIST_ENTRY(bad, struct initiator_waiting, oneshot) - w);
    for (unsigned i = 0; i < count; i++) {
        w[i].slot->stag = w[i].oneshot.stag;
    }
    return count;
}

int initiator_waiting_send(struct initiator_queue *queue)
{
    if (queue->waiting_count == 0) {
        return 0;
    }
    int error = receives_post(queue);
    if (error != 0) {
        return error;
    }
    unsigned count =
        queue->waits_for_oneshot ? oneshots_post(queue, &error) : sends_post(queue, &error);
    queue->spare_receives -= count;
    waiting_remove(queue, count);
    return error == ENOMEM ? -EAGAIN : -error;
}

/* ---- one command ----------------------------------------------------------------------------- */

static bool may_wait(const struct initiator_slot *slot)
{
    const struct weft_nvme_io *io = slot->io;
    return io != NULL && (slot->queue->nvme->is_telling || (io->flags & WEFT_NVME_MORE) != 0);
}

// Is there room for one more of this kind?
static bool make_room(struct initiator_queue *queue, bool is_oneshot)
{
    if (queue->waiting_count > 0 && queue->waits_for_oneshot != is_oneshot) {
        initiator_waiting_send(queue);
    }
    if (queue->waiting_count == 0) {
        queue->waits_for_oneshot = is_oneshot;
    }
    return queue->waits_for_oneshot == is_oneshot && queue->waiting_count < TOGETHER_MAX;
}

// An error is its own: others that wait hear of theirs when what waits is sent.
static int leave(struct initiator_slot *slot)
{
    struct initiator_queue *queue = slot->queue;
    if (may_wait(slot) && queue->waiting_count < TOGETHER_MAX) {
        return 0;
    }
    int error = initiator_waiting_send(queue);
    if (error == 0 || queue->waiting[0].slot != slot) {
        return 0;
    }
    initiator_waiting_withdraw(queue);
    return error;
}

int initiator_queue_send(struct initiator_slot *slot, uint32_t in_capsule_len)
{
    struct initiator_queue *queue = slot->queue;
    uint32_t len = NVME_SQE_LEN + in_capsule_len;
    unsigned flags = send_flags(queue, len);
    if (!make_room(queue, false)) {
        return -EAGAIN;
    }
    waiting_add(slot, len, flags)->send =
        (struct ibv_send_wr){.wr_id = wr_id(queue, WR_SEND, (unsigned)(slot - queue->slots)),
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = flags};
    return leave(slot);
}

int initiator_queue_send_oneshot(struct initiator_slot *slot, const struct iovec *memory,
                                 unsigned count, unsigned access)
{
    struct initiator_queue *queue = slot->queue;
    unsigned flags = send_flags(queue, NVME_SQE_LEN);
    if (!make_room(queue, true)) {
        return -EAGAIN;
    }
    struct initiator_waiting *w = waiting_add(slot, NVME_SQE_LEN, flags);
    w->oneshot =
        (struct weft_oneshot_wr){.wr_id = wr_id(queue, WR_SEND, (unsigned)(slot - queue->slots)),
                                 .send_flags = flags,
                                 .access = access,
                                 .reference = slot->cid,
                                 .memory = memory,
                                 .memory_count = count,
                                 .body = w->body};
    return leave(slot);
}

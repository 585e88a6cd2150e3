// NVMe over RDMA: capsules as they come, data by the RDMA manager, responses.
//
// A response that tells of data leaves right behind them, as the trailer of their request, so the
// host has all octets when it has the response. Which memory they go to, or come from, the
// command's SGL descriptor says; or the header of its Send, where that advertised memory (one-shot
// RDMA).

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/nvme/pages.h"
#include "node/nvme/sgl.h"
#include "node/nvme/wire.h"
#include "node/stream/progress.h"
#include "node/tts/nvme_rdma_queue.h"

static instant_ns now_of(const struct nvme_rdma_queue *q)
{
    return loop_now(q->rdma->parts.loop);
}

static bool is_usable(const struct nvme_rdma_queue *q)
{
    return q->state == QUEUE_ACCEPTING || q->state == QUEUE_UP;
}

// The command is the controllers' again.
static void give_back(struct nvme_rdma_slot *slot, enum nvme_status status, instant_ns now)
{
    struct nvme_command *command = slot->command;
    slot->command = NULL;
    nvme_command_done(command, status, now);
}

static void slot_free(struct nvme_rdma_slot *slot)
{
    list_push_tail(&slot->queue->idle, &slot->link);
}

/* ---- data ------------------------------------------------------------------------------------ */

static uint32_t lkey_of(const struct nvme_rdma_queue *q, const void *data)
{
    uint32_t unit = node_pool_unit(&q->rdma->parts.pool, data);
    return unit < NODE_UNIT_COUNT_MAX ? nvme_rdma_device_lkey(q->device, unit)
                                      : q->scratch_mr->lkey;
}

// The host's memory, where the command says it is, and ours.
static void request_fill(struct nvme_rdma_slot *slot, enum ibv_wr_opcode opcode)
{
    const struct nvme_command *command = slot->command;
    slot->buffer = (struct weft_rdma_buffer){.addr = (uintptr_t)command->data,
                                             .len = command->data_len,
                                             .lkey = lkey_of(slot->queue, command->data)};
    slot->element =
        (struct weft_rdma_element){.buffers = &slot->buffer,
                                   .buffer_count = 1,
                                   .rkey = slot->is_advertised ? slot->stag : command->sgl.key,
                                   .remote_addr = command->sgl.address};
    slot->request.elements = &slot->element;
    slot->request.opcode = opcode;
    slot->request.context = slot;
}

// Hands the request to the manager, to be posted at the end of the batch. False: it was refused,
// and nothing of it is under way.
static bool request_submit(struct nvme_rdma_slot *slot)
{
    struct nvme_rdma_queue *q = slot->queue;
    q->transfer_count++;
    enum weft_rdma_refusal refusal =
        weft_rdma_request_submit(q->manager, &slot->request, WEFT_RDMA_MORE);
    if (refusal != WEFT_RDMA_ACCEPTED) {
        q->transfer_count--;
        q->rdma->counters.bad_transfers++;
        nvme_rdma_queue_fail(q, weft_rdma_refusal_str(refusal));
    }
    return refusal == WEFT_RDMA_ACCEPTED;
}

// What is flushed says no more than that the connection is over.
static void on_bad_completion(struct nvme_rdma_queue *q, enum ibv_wc_status status)
{
    if (status == IBV_WC_WR_FLUSH_ERR) {
        q->is_disconnected = true;
        nvme_rdma_touch(q);
        return;
    }
    q->rdma->counters.broken += !why_is_said(&q->why);
    nvme_rdma_queue_fail(q, ibv_wc_status_str(status));
}

// How the controllers are told of it.
static enum nvme_status outcome_of(struct nvme_rdma_slot *slot)
{
    struct nvme_rdma_queue *q = slot->queue;
    q->transfer_count--;
    if (slot->request.result.outcome == WEFT_RDMA_SUCCESS) {
        progress_note(&q->moving, slot->buffer.len, q->rdma->parts.patience_ns, now_of(q));
        return NVME_OK;
    }
    q->rdma->counters.bad_transfers++;
    on_bad_completion(q, slot->request.result.status);
    return NVME_TRANSIENT_TRANSPORT_ERROR;
}

static void on_fetched(struct weft_rdma_request *request)
{
    struct nvme_rdma_slot *slot = request->context;
    struct nvme_rdma_queue *q = slot->queue;
    enum nvme_status status = outcome_of(slot);
    q->rdma->counters.fetched_len += status == NVME_OK ? slot->buffer.len : 0;
    give_back(slot, status, now_of(q));
}

static void on_delivered(struct weft_rdma_request *request)
{
    struct nvme_rdma_slot *slot = request->context;
    struct nvme_rdma_queue *q = slot->queue;
    enum nvme_status status = outcome_of(slot);
    q->rdma->counters.delivered_len += status == NVME_OK ? slot->buffer.len : 0;
    give_back(slot, status, now_of(q));
    slot_free(slot);
}

static void fetch_from_capsule(struct nvme_rdma_slot *slot)
{
    const struct nvme_command *command = slot->command;
    const struct nvme_sgl *sgl = &command->sgl;
    CHECK(sgl->address <= slot->in_capsule_len &&
          command->data_len <= slot->in_capsule_len - sgl->address);
    memcpy(command->data, slot->capsule + NVME_SQE_LEN + sgl->address, command->data_len);
    slot->queue->rdma->counters.in_capsule_len += command->data_len;
    give_back(slot, NVME_OK, now_of(slot->queue));
}

/* ---- responses ------------------------------------------------------------------------------- */

// Which of the host's regions the response ends. False: none.
static bool ends_memory(const struct nvme_rdma_slot *slot, uint32_t *ret_rkey)
{
    const struct nvme_sgl *sgl = &slot->command->sgl;
    *ret_rkey = slot->is_advertised ? slot->stag : sgl->key;
    return slot->is_advertised ||
           (sgl->id == NVME_SGL_KEYED_INVALIDATE && slot->queue->device->can_invalidate);
}

// The response as a work request. Its octets are made now: the queue's head moves.
static struct ibv_send_wr *response_fill(struct nvme_rdma_slot *slot)
{
    uint32_t rkey;
    bool is_end = ends_memory(slot, &rkey);
    nvme_command_cqe(slot->command, slot->cqe);
    slot->response_sge = (struct ibv_sge){.addr = (uintptr_t)slot->cqe,
                                          .length = NVME_CQE_LEN,
                                          .lkey = slot->queue->message_mr->lkey};
    slot->response =
        (struct ibv_send_wr){.wr_id = (uintptr_t)slot,
                             .sg_list = &slot->response_sge,
                             .num_sge = 1,
                             .opcode = is_end ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
                             .send_flags = slot->is_advertised ? WEFT_ONESHOT_CLOSES : 0,
                             .invalidate_rkey = is_end ? rkey : 0};
    slot->queue->rdma->counters.invalidates += is_end;
    return &slot->response;
}

/* ---- what the controllers call --------------------------------------------------------------- */

static struct nvme_rdma_slot *slot_of(struct nvme_command *command)
{
    struct nvme_rdma_slot *slot = command->capsule;
    slot->command = command;
    return slot;
}

// True: the connection is gone or going, and the command has been given back.
static bool is_too_late(struct nvme_rdma_slot *slot)
{
    if (is_usable(slot->queue)) {
        return false;
    }
    give_back(slot, NVME_TRANSIENT_TRANSPORT_ERROR, now_of(slot->queue));
    return true;
}

static void transport_fetch(void *connection, struct nvme_command *command)
{
    struct nvme_rdma_queue *q = connection;
    struct nvme_rdma_slot *slot = slot_of(command);
    if (is_too_late(slot)) {
        return;
    }
    if (command->sgl.id == NVME_SGL_IN_CAPSULE) {
        fetch_from_capsule(slot);
        return;
    }
    request_fill(slot, IBV_WR_RDMA_READ);
    slot->request.trailer = NULL;
    slot->request.on_complete = on_fetched;
    q->has_fetches = true;
    if (!request_submit(slot)) {
        give_back(slot, NVME_TRANSIENT_TRANSPORT_ERROR, now_of(q));
    }
    nvme_rdma_touch(q);
}

static void transport_deliver(void *connection, struct nvme_command *command)
{
    struct nvme_rdma_queue *q = connection;
    struct nvme_rdma_slot *slot = slot_of(command);
    if (is_too_late(slot)) {
        return;
    }
    list_push_tail(command->data_len > 0 ? &q->delivering : &q->responding, &slot->link);
    nvme_rdma_touch(q);
}

static void transport_respond(void *connection, struct nvme_command *command)
{
    struct nvme_rdma_queue *q = connection;
    struct nvme_rdma_slot *slot = slot_of(command);
    if (is_too_late(slot)) {
        return;
    }
    list_push_tail(&q->responding, &slot->link);
    nvme_rdma_touch(q);
}

static void transport_close(void *connection, const char *why)
{
    nvme_rdma_queue_end(connection, why);
}

static void transport_wake(void *connection)
{
    struct nvme_rdma_queue *q = connection;
    if (!list_is_empty(&q->waiting) || q->state == QUEUE_ENDED) {
        nvme_rdma_touch(q);
    }
}

const struct nvme_transport nvme_rdma_transport = {
    .name = "rdma",
    .trtype = NVME_TRTYPE_RDMA,
    .sgl_kinds = NVME_SGL_KIND_IN_CAPSULE | NVME_SGL_KIND_KEYED,
    .in_capsule_len_max = NVME_RDMA_IN_CAPSULE_LEN,
    .fetch = transport_fetch,
    .deliver = transport_deliver,
    .respond = transport_respond,
    .close = transport_close,
    .wake = transport_wake,
};

/* ---- out, at the end of a batch -------------------------------------------------------------- */

// The manager refuses nothing that the controllers have checked, unless it is broken: then the
// queue fails with it.
static void deliveries_submit(struct nvme_rdma_queue *q, instant_ns now)
{
    for (struct list_link *l; (l = list_pop_head(&q->delivering)) != NULL;) {
        struct nvme_rdma_slot *slot = LIST_ENTRY(l, struct nvme_rdma_slot, link);
        request_fill(slot, IBV_WR_RDMA_WRITE);
        slot->request.trailer = response_fill(slot);
        slot->request.on_complete = on_delivered;
        if (!request_submit(slot)) {
            give_back(slot, NVME_TRANSIENT_TRANSPORT_ERROR, now);
        }
    }
    q->has_fetches = false;
    weft_rdma_manager_post(q->manager);
}

// In one chain, of which the last is signalled: its completion stands for all.
static void responses_post(struct nvme_rdma_queue *q, instant_ns now)
{
    struct ibv_send_wr *first = NULL, *last = NULL, *bad;
    for (struct list_link *l; (l = list_pop_head(&q->responding)) != NULL;) {
        struct nvme_rdma_slot *slot = LIST_ENTRY(l, struct nvme_rdma_slot, link);
        struct ibv_send_wr *wr = response_fill(slot);
        *(first == NULL ? &first : &last->next) = wr;
        last = wr;
        list_push_tail(&q->sending, &slot->link);
        give_back(slot, NVME_OK, now);
    }
    if (first == NULL) {
        return;
    }
    last->send_flags |= IBV_SEND_SIGNALED;
    if (ibv_post_send(q->id->qp, first, &bad) != 0) {
        nvme_rdma_queue_fail(q, "its responses cannot be sent");
    }
}

bool nvme_rdma_send(struct nvme_rdma_queue *q, instant_ns now)
{
    bool has_sent = q->has_fetches || !list_is_empty(&q->delivering);
    if (has_sent) {
        deliveries_submit(q, now);
    }
    has_sent |= !list_is_empty(&q->responding);
    responses_post(q, now);
    return has_sent;
}

/* ---- in -------------------------------------------------------------------------------------- */

void nvme_rdma_receives_post(struct nvme_rdma_queue *q)
{
    struct ibv_recv_wr wrs[NVME_RDMA_POLL_BATCH], *bad;
    struct ibv_sge sges[NVME_RDMA_POLL_BATCH];
    while (!list_is_empty(&q->idle)) {
        unsigned count = 0;
        for (struct list_link *l;
             count < NVME_RDMA_POLL_BATCH && (l = list_pop_head(&q->idle)) != NULL; count++) {
            struct nvme_rdma_slot *slot = LIST_ENTRY(l, struct nvme_rdma_slot, link);
            sges[count] = (struct ibv_sge){.addr = (uintptr_t)slot->capsule,
                                           .length = NVME_RDMA_CAPSULE_LEN,
                                           .lkey = q->message_mr->lkey};
            wrs[count] = (struct ibv_recv_wr){
                .wr_id = (uintptr_t)slot, .sg_list = &sges[count], .num_sge = 1};
            if (count > 0) {
                wrs[count - 1].next = &wrs[count];
            }
        }
        if (ibv_post_recv(q->id->qp, wrs, &bad) != 0) {
            nvme_rdma_queue_fail(q, "its receives cannot be posted");
        }
    }
}

static bool is_good(struct nvme_rdma_queue *q, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS) {
        on_bad_completion(q, wc->status);
    }
    return wc->status == IBV_WC_SUCCESS;
}

// The response, and all before it.
static void on_sent(struct nvme_rdma_queue *q, const struct ibv_wc *wc)
{
    struct nvme_rdma_slot *last = (struct nvme_rdma_slot *)(uintptr_t)wc->wr_id;
    if (!is_good(q, wc)) {
        return; // what is out is given up when the connection is
    }
    for (struct list_link *l; (l = list_pop_head(&q->sending)) != NULL;) {
        struct nvme_rdma_slot *slot = LIST_ENTRY(l, struct nvme_rdma_slot, link);
        slot_free(slot);
        if (slot == last) {
            return;
        }
    }
}

static bool capsule_hand_over(struct nvme_rdma_slot *slot, instant_ns now)
{
    return nvme_queue_on_capsule(slot->queue->nvme, slot->capsule, slot->in_capsule_len, slot, now);
}

static void on_capsule(struct nvme_rdma_queue *q, const struct ibv_wc *wc, instant_ns now)
{
    struct nvme_rdma_slot *slot = (struct nvme_rdma_slot *)(uintptr_t)wc->wr_id;
    if (!is_good(q, wc) || !is_usable(q)) {
        return;
    }
    if (wc->byte_len < NVME_SQE_LEN) {
        q->rdma->counters.malformed++;
        nvme_rdma_queue_fail(q, "the client sent a capsule of less than 64 octets");
        return;
    }
    q->rdma->counters.capsules++;
    slot->in_capsule_len = wc->byte_len - NVME_SQE_LEN;
    slot->is_advertised =
        q->device->has_oneshot && q->device->oneshot.wc_advertised(wc, &slot->stag);
    q->rdma->counters.oneshots += slot->is_advertised;
    if (!list_is_empty(&q->waiting) || !capsule_hand_over(slot, now)) {
        list_push_tail(&q->waiting, &slot->link);
    }
}

void nvme_rdma_retry(struct nvme_rdma_queue *q, instant_ns now)
{
    while (!list_is_empty(&q->waiting)) {
        struct nvme_rdma_slot *slot = LIST_ENTRY(q->waiting.next, struct nvme_rdma_slot, link);
        if (!capsule_hand_over(slot, now)) {
            return;
        }
        list_remove(&slot->link);
    }
}

unsigned nvme_rdma_take(struct nvme_rdma_queue *q, instant_ns now)
{
    struct ibv_wc wcs[NVME_RDMA_POLL_BATCH];
    // Sends first: what they end makes room for what has come.
    int sent = ibv_poll_cq(q->send_cq, NVME_RDMA_POLL_BATCH, wcs);
    for (int i = 0; i < sent; i++) {
        if (weft_rdma_manager_on_wc(q->manager, &wcs[i])) {
            is_good(q, &wcs[i]);
        } else {
            on_sent(q, &wcs[i]);
        }
    }
    nvme_rdma_receives_post(q);
    int received = ibv_poll_cq(q->recv_cq, NVME_RDMA_POLL_BATCH, wcs);
    for (int i = 0; i < received; i++) {
        on_capsule(q, &wcs[i], now);
    }
    if (sent < 0 || received < 0) {
        nvme_rdma_queue_fail(q, "its completion queue cannot be polled");
        return 0;
    }
    return (unsigned)(sent + received);
}

/* ---- the end --------------------------------------------------------------------------------- */

void nvme_rdma_abandon(struct nvme_rdma_queue *q, instant_ns now)
{
    struct list_link *const in_hand[] = {&q->delivering, &q->responding};
    weft_rdma_manager_flush(q->manager);
    for (unsigned i = 0; i < sizeof in_hand / sizeof in_hand[0]; i++) {
        for (struct list_link *l; (l = list_pop_head(in_hand[i])) != NULL;) {
            give_back(LIST_ENTRY(l, struct nvme_rdma_slot, link), NVME_TRANSIENT_TRANSPORT_ERROR,
                      now);
        }
    }
}

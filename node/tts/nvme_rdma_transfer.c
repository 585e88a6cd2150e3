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
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/fabric/pair.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/nvme/sgl.h"
#include "node/stream/progress.h"
#include "node/tts/nvme_rdma_queue.h"

static instant_ns now_of(const struct nvme_rdma_queue *q)
{
    return loop_now(q->rdma->parts.loop);
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
    return unit < NODE_UNIT_COUNT_MAX ? fabric_device_lkey(q->pair.device, unit)
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
                                   .remote_addr = command->sgl.address + command->data_at};
    slot->request.elements = &slot->element;
    slot->request.opcode = opcode;
    slot->request.context = slot;
}

// How the controllers are told of it.
static enum nvme_status outcome_of(struct nvme_rdma_slot *slot)
{
    bool is_there = fabric_request_over(&slot->queue->pair, &slot->request, slot->buffer.len);
    return is_there ? NVME_OK : NVME_TRANSIENT_TRANSPORT_ERROR;
}

static void on_fetched(struct weft_rdma_request *request)
{
    struct nvme_rdma_slot *slot = request->context;
    struct nvme_rdma_queue *q = slot->queue;
    enum nvme_status status = outcome_of(slot);
    q->rdma->counters.fetched += status == NVME_OK ? slot->buffer.len : 0;
    give_back(slot, status, now_of(q));
}

static void on_delivered(struct weft_rdma_request *request)
{
    struct nvme_rdma_slot *slot = request->context;
    struct nvme_rdma_queue *q = slot->queue;
    enum nvme_status status = outcome_of(slot);
    bool has_more = slot->command->has_more;
    q->rdma->counters.delivered += status == NVME_OK ? slot->buffer.len : 0;
    give_back(slot, status, now_of(q));
    if (!has_more) {
        slot_free(slot);
    }
}

static void fetch_from_capsule(struct nvme_rdma_slot *slot)
{
    const struct nvme_command *command = slot->command;
    const struct nvme_sgl *sgl = &command->sgl;
    CHECK(sgl->address <= slot->in_capsule_len &&
          command->data_len <= slot->in_capsule_len - sgl->address);
    memcpy(command->data, slot->capsule + NVME_SQE_LEN + sgl->address, command->data_len);
    slot->queue->rdma->counters.in_capsule += command->data_len;
    give_back(slot, NVME_OK, now_of(slot->queue));
}

/* ---- responses ------------------------------------------------------------------------------- */

// Which of the host's regions the response ends. False: none.
static bool ends_memory(const struct nvme_rdma_slot *slot, uint32_t *ret_rkey)
{
    const struct nvme_sgl *sgl = &slot->command->sgl;
    *ret_rkey = slot->is_advertised ? slot->stag : sgl->key;
    return slot->is_advertised ||
           (sgl->id == NVME_SGL_KEYED_INVALIDATE && slot->queue->pair.device->can_invalidate);
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
    if (fabric_is_usable(&slot->queue->pair)) {
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
    if (!fabric_request_submit(&q->pair, &slot->request)) {
        give_back(slot, NVME_TRANSIENT_TRANSPORT_ERROR, now_of(q));
    }
    fabric_touch(&q->pair);
}

static void transport_deliver(void *connection, struct nvme_command *command)
{
    struct nvme_rdma_queue *q = connection;
    struct nvme_rdma_slot *slot = slot_of(command);
    if (is_too_late(slot)) {
        return;
    }
    list_push_tail(command->data_len > 0 ? &q->delivering : &q->responding, &slot->link);
    fabric_touch(&q->pair);
}

static void transport_respond(void *connection, struct nvme_command *command)
{
    struct nvme_rdma_queue *q = connection;
    struct nvme_rdma_slot *slot = slot_of(command);
    if (is_too_late(slot)) {
        return;
    }
    list_push_tail(&q->responding, &slot->link);
    fabric_touch(&q->pair);
}

static void transport_close(void *connection, const char *why)
{
    fabric_end(&((struct nvme_rdma_queue *)connection)->pair, why);
}

static void transport_wake(void *connection)
{
    struct nvme_rdma_queue *q = connection;
    if (!list_is_empty(&q->waiting) || q->pair.state == FABRIC_ENDED) {
        fabric_touch(&q->pair);
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
        slot->request.trailer = slot->command->has_more ? NULL : response_fill(slot);
        slot->request.on_complete = on_delivered;
        if (!fabric_request_submit(&q->pair, &slot->request)) {
            give_back(slot, NVME_TRANSIENT_TRANSPORT_ERROR, now);
        }
    }
    q->has_fetches = false;
    weft_rdma_manager_post(q->pair.manager);
}

// In one chain, of which the last is signalled: its completion stands for all.
static void responses_post(struct nvme_rdma_queue *q, instant_ns now)
{
    struct ibv_send_wr *first = NULL, *last = NULL;
    for (struct list_link *l; (l = list_pop_head(&q->responding)) != NULL;) {
        struct nvme_rdma_slot *slot = LIST_ENTRY(l, struct nvme_rdma_slot, link);
        struct ibv_send_wr *wr = response_fill(slot);
        *(first == NULL ? &first : &last->next) = wr;
        last = wr;
        list_push_tail(&q->pair.sending, &slot->link);
        give_back(slot, NVME_OK, now);
    }
    if (first != NULL) {
        fabric_send(&q->pair, first, last);
    }
}

bool nvme_rdma_send(struct fabric_pair *p, instant_ns now)
{
    struct nvme_rdma_queue *q = nvme_rdma_queue_of(p);
    bool has_sent = q->has_fetches || !list_is_empty(&q->delivering);
    if (has_sent) {
        deliveries_submit(q, now);
    }
    has_sent |= !list_is_empty(&q->responding);
    responses_post(q, now);
    return has_sent;
}

/* ---- in -------------------------------------------------------------------------------------- */

// The response, and all before it.
void nvme_rdma_on_sent(struct fabric_pair *p, const struct ibv_wc *wc)
{
    struct nvme_rdma_slot *last = (struct nvme_rdma_slot *)(uintptr_t)wc->wr_id;
    for (struct list_link *l; (l = list_pop_head(&p->sending)) != NULL;) {
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

void nvme_rdma_on_capsule(struct fabric_pair *p, const struct ibv_wc *wc, instant_ns now)
{
    struct nvme_rdma_queue *q = nvme_rdma_queue_of(p);
    struct nvme_rdma_slot *slot = (struct nvme_rdma_slot *)(uintptr_t)wc->wr_id;
    if (wc->byte_len < NVME_SQE_LEN) {
        q->rdma->counters.malformed_capsules++;
        fabric_fail(p, "the client sent a capsule of less than 64 octets");
        return;
    }
    q->rdma->counters.capsules++;
    slot->in_capsule_len = wc->byte_len - NVME_SQE_LEN;
    slot->is_advertised =
        q->pair.device->has_oneshot && q->pair.device->oneshot.wc_advertised(wc, &slot->stag);
    q->rdma->counters.oneshots += slot->is_advertised;
    if (!list_is_empty(&q->waiting) || !capsule_hand_over(slot, now)) {
        list_push_tail(&q->waiting, &slot->link);
    }
}

void nvme_rdma_retry(struct fabric_pair *p, instant_ns now)
{
    struct nvme_rdma_queue *q = nvme_rdma_queue_of(p);
    while (!list_is_empty(&q->waiting)) {
        struct nvme_rdma_slot *slot = LIST_ENTRY(q->waiting.next, struct nvme_rdma_slot, link);
        if (!capsule_hand_over(slot, now)) {
            return;
        }
        list_remove(&slot->link);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

void nvme_rdma_abandon(struct fabric_pair *p, instant_ns now)
{
    struct nvme_rdma_queue *q = nvme_rdma_queue_of(p);
    struct list_link *const in_hand[] = {&q->delivering, &q->responding};
    for (unsigned i = 0; i < sizeof in_hand / sizeof in_hand[0]; i++) {
        for (struct list_link *l; (l = list_pop_head(in_hand[i])) != NULL;) {
            give_back(LIST_ENTRY(l, struct nvme_rdma_slot, link), NVME_TRANSIENT_TRANSPORT_ERROR,
                      now);
        }
    }
}

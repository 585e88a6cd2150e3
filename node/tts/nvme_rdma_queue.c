// NVMe over RDMA: one connection's life, from its request to the last of its commands.

#include "node/tts/nvme_rdma_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "base/why.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/nvme/wire.h"
#include "text/address.h"

enum { ROUND_MAX = 8 }; // batches of completions, before other queues have their turn

static const duration_ns connect_within_ns = 10 * NS_PER_S;
static const duration_ns leave_within_ns = 2 * NS_PER_S;

/* ---- made ------------------------------------------------------------------------------------ */

static size_t scratch_len(const struct nvme_rdma_wish *wish)
{
    return wish->qid == 0 ? NVME_SCRATCH_LEN : NVME_SCRATCH_IO_LEN;
}

// Capsules, then responses, then what the controllers put their own data into.
static bool memory_create(struct nvme_rdma_queue *q, const struct nvme_rdma_wish *wish)
{
    size_t message_len = (size_t)q->slot_count * (NVME_RDMA_CAPSULE_LEN + NVME_CQE_LEN);
    q->slots = calloc(q->slot_count, sizeof *q->slots);
    q->memory = calloc(1, message_len + scratch_len(wish));
    if (q->slots == NULL || q->memory == NULL) {
        return false;
    }
    q->scratch = mspan_of(q->memory + message_len, scratch_len(wish));
    q->message_mr = ibv_reg_mr(q->device->pd, q->memory, message_len, IBV_ACCESS_LOCAL_WRITE);
    q->scratch_mr =
        ibv_reg_mr(q->device->pd, q->scratch.ptr, q->scratch.len, (int)q->device->sink_access);
    for (unsigned i = 0; i < q->slot_count; i++) {
        struct nvme_rdma_slot *slot = &q->slots[i];
        slot->queue = q;
        slot->capsule = q->memory + (size_t)i * NVME_RDMA_CAPSULE_LEN;
        slot->cqe = q->memory + (size_t)q->slot_count * NVME_RDMA_CAPSULE_LEN + i * NVME_CQE_LEN;
        list_push_tail(&q->idle, &slot->link);
    }
    return q->message_mr != NULL && q->scratch_mr != NULL;
}

// Room for all that the slots may post at a time, so that the manager never waits for descriptors,
// and responses leave in the order in which they are made.
static bool pair_create(struct nvme_rdma_queue *q)
{
    unsigned descriptor_count = NVME_RDMA_DESCRIPTORS_PER_SLOT * q->slot_count;
    struct ibv_context *verbs = q->device->verbs;
    q->recv_cq = ibv_create_cq(verbs, (int)q->slot_count, q, q->device->completions, 0);
    q->send_cq =
        ibv_create_cq(verbs, (int)(descriptor_count + q->slot_count), q, q->device->completions, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = q->send_cq,
        .recv_cq = q->recv_cq,
        .cap = {.max_send_wr = descriptor_count + q->slot_count,
                .max_recv_wr = q->slot_count,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    if (q->recv_cq == NULL || q->send_cq == NULL ||
        rdma_create_qp(q->id, q->device->pd, &attr) != 0) {
        return false;
    }
    const struct weft_rdma_manager_attr manager = {.qp = q->id->qp,
                                                   .descriptor_count = descriptor_count,
                                                   .quantum_len = 2 * NVME_DATA_LEN_MAX};
    int error = weft_rdma_manager_create(&manager, &q->manager);
    errno = -error;
    return error == 0;
}

static bool nvme_create(struct nvme_rdma_queue *q, const struct nvme_rdma_wish *wish)
{
    struct nvme_queue_parts parts = {.target = q->rdma->parts.target,
                                     .transport = &nvme_rdma_transport,
                                     .connection = q,
                                     .command_count = q->slot_count,
                                     .qid = wish->qid,
                                     .scratch = q->scratch};
    struct address_end own;
    address_end_of(rdma_get_local_addr(q->id), &own);
    snprintf(parts.local_address, sizeof parts.local_address, "%s", own.host);
    text_address_format(rdma_get_peer_addr(q->id), parts.host_address);
    address_host(rdma_get_peer_addr(q->id), parts.host, sizeof parts.host);
    q->nvme = nvme_queue_create(&parts);
    return q->nvme != NULL;
}

// RDMA Reads are ours alone: the host asks for none.
static bool accept_client(struct nvme_rdma_queue *q, const struct nvme_rdma_wish *wish)
{
    uint8_t reply[NVME_RDMA_ACCEPT_LEN] = {0};
    put_le16(reply + NVME_RDMA_ACCEPT_OFF_CRQSIZE, (uint16_t)q->slot_count);
    struct rdma_conn_param param = {.private_data = reply,
                                    .private_data_len = sizeof reply,
                                    .initiator_depth = wish->read_count,
                                    .rnr_retry_count = 7};
    return rdma_accept(q->id, &param) == 0;
}

static void parts_destroy(struct nvme_rdma_queue *q)
{
    struct ibv_cq *const cqs[] = {q->recv_cq, q->send_cq};
    struct ibv_mr *const mrs[] = {q->message_mr, q->scratch_mr};
    if (q->id->qp != NULL) {
        rdma_destroy_qp(q->id);
    }
    if (q->manager != NULL) {
        weft_rdma_manager_flush(q->manager);
        weft_rdma_manager_destroy(q->manager);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (cqs[i] != NULL) {
            ibv_destroy_cq(cqs[i]);
        }
        if (mrs[i] != NULL) {
            ibv_dereg_mr(mrs[i]);
        }
    }
    free(q->slots);
    free(q->memory);
}

static bool build(struct nvme_rdma_queue *q, const struct nvme_rdma_wish *wish, struct why *ret_why)
{
    const char *what = NULL;
    if (!memory_create(q, wish)) {
        what = "no memory for its capsules";
    } else if (!pair_create(q)) {
        what = "no queue pair";
    } else if (!nvme_create(q, wish)) {
        what = "no memory for its commands";
    } else {
        nvme_rdma_receives_post(q);
        what = why_is_said(&q->why) || !accept_client(q, wish) ? "it cannot be accepted" : NULL;
    }
    if (what != NULL) {
        why_say(ret_why, "%s: %s", what, strerror(errno));
    }
    return what == NULL;
}

struct nvme_rdma_queue *nvme_rdma_queue_create(struct nvme_rdma *rdma, struct rdma_cm_id *id,
                                               const struct nvme_rdma_wish *wish,
                                               struct why *ret_why)
{
    struct nvme_rdma_device *device = nvme_rdma_device_find(rdma, id->verbs, ret_why);
    struct nvme_rdma_queue *q = device != NULL ? calloc(1, sizeof *q) : NULL;
    if (q == NULL) {
        return NULL;
    }
    *q = (struct nvme_rdma_queue){.rdma = rdma, .device = device, .id = id};
    q->slot_count = NVME_RDMA_SLOTS_PER_COMMAND * (unsigned)wish->command_count;
    struct list_link *const lists[] = {&q->idle,       &q->waiting, &q->delivering,
                                       &q->responding, &q->sending, &q->dirty_link};
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        list_init(lists[i]);
    }
    if (!build(q, wish, ret_why)) {
        nvme_queue_force_destroy(q->nvme);
        list_remove(&q->dirty_link);
        parts_destroy(q);
        free(q);
        return NULL;
    }
    id->context = q;
    q->connect_until = instant_after(loop_now(rdma->parts.loop), connect_within_ns);
    list_push_tail(&rdma->queues, &q->link);
    rdma->queue_count++;
    nvme_rdma_touch(q);
    return q;
}

/* ---- at work --------------------------------------------------------------------------------- */

// Is anything out whose completion nobody else would tell of?
static bool awaits_sends(const struct nvme_rdma_queue *q)
{
    return q->transfer_count > 0 || !list_is_empty(&q->sending);
}

static void cq_arm(struct nvme_rdma_queue *q, struct ibv_cq *cq, bool *is_armed)
{
    *is_armed = true;
    if (ibv_req_notify_cq(cq, 0) != 0) {
        nvme_rdma_queue_fail(q, "its completions cannot be waited for");
    }
}

// True: something has been armed, so that what came before must be looked for once more.
static bool arm(struct nvme_rdma_queue *q)
{
    bool arms_recv = !q->is_recv_armed;
    bool arms_send = !q->is_send_armed && awaits_sends(q);
    if (arms_recv) {
        cq_arm(q, q->recv_cq, &q->is_recv_armed);
    }
    if (arms_send) {
        cq_arm(q, q->send_cq, &q->is_send_armed);
    }
    return arms_recv || arms_send;
}

// Most of what is sent has completed when it is looked for, so nothing needs to tell of it.
bool nvme_rdma_queue_run(struct nvme_rdma_queue *q, instant_ns now)
{
    for (unsigned i = 0; i < ROUND_MAX; i++) {
        bool has_moved = nvme_rdma_take(q, now) > 0;
        nvme_rdma_retry(q, now);
        has_moved |= nvme_rdma_send(q, now);
        if (why_is_said(&q->why) || q->is_disconnected || (!has_moved && !arm(q))) {
            return true;
        }
    }
    return false;
}

void nvme_rdma_queue_await(struct nvme_rdma_queue *q, instant_ns now)
{
    struct nvme_rdma *rdma = q->rdma;
    bool is_connected = nvme_queue_is_connected(q->nvme);
    instant_ns connect_until = is_connected ? INSTANT_NEVER : q->connect_until;
    progress_await(&q->moving, q->transfer_count > 0, rdma->parts.patience_ns, now);
    instant_ns until = instant_min(connect_until, progress_deadline(&q->moving));
    if (until > now) {
        deadline_arm(&rdma->deadlines, &q->deadline, until);
        return;
    }
    rdma->counters.stalled++;
    nvme_rdma_queue_fail(q, connect_until <= now ? "no Connect has succeeded in time"
                                                 : "its data did not move for too long (patience)");
}

/* ---- the end --------------------------------------------------------------------------------- */

void nvme_rdma_queue_leave(struct nvme_rdma_queue *q, instant_ns now)
{
    nvme_rdma_send(q, now);
    q->state = QUEUE_LEAVING;
    deadline_arm(&q->rdma->deadlines, &q->deadline, instant_after(now, leave_within_ns));
    nvme_queue_close(q->nvme, now);
    rdma_disconnect(q->id);
}

void nvme_rdma_queue_sever(struct nvme_rdma_queue *q, instant_ns now)
{
    bool is_closed = q->state == QUEUE_LEAVING;
    q->state = QUEUE_ENDED;
    deadline_disarm(&q->rdma->deadlines, &q->deadline);
    rdma_destroy_qp(q->id); // from here on nothing of the host's reaches our memory
    if (!is_closed) {
        nvme_queue_close(q->nvme, now);
    }
    nvme_rdma_abandon(q, now);
}

static void destroy(struct nvme_rdma_queue *q)
{
    struct weft_rdma_counters manager;
    weft_rdma_manager_counters(q->manager, &manager);
    q->rdma->counters.descriptors += manager.descriptor_count;
    list_remove(&q->link);
    list_remove(&q->dirty_link);
    q->rdma->queue_count--;
    parts_destroy(q);
    rdma_destroy_id(q->id);
    free(q);
}

void nvme_rdma_queue_destroy(struct nvme_rdma_queue *q)
{
    nvme_queue_destroy(q->nvme);
    destroy(q);
}

void nvme_rdma_queue_force_destroy(struct nvme_rdma_queue *q)
{
    if (q->state != QUEUE_ENDED) {
        nvme_rdma_queue_sever(q, loop_now(q->rdma->parts.loop));
    }
    nvme_queue_force_destroy(q->nvme);
    destroy(q);
}

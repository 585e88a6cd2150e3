// NVMe over RDMA: one connection's life, from its request to the last of its commands.

#include "node/tts/nvme_rdma_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/retries.h"
#include "base/span.h"
#include "base/time.h"
#include "base/why.h"
#include "format/nvme_wire.h"
#include "listen/address.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "text/address.h"

static const duration_ns connect_within_ns = 10 * NS_PER_S;

/* ---- made ------------------------------------------------------------------------------------ */

// Capsules, then responses, then what the controllers put their own data into.
static bool memory_create(struct nvme_rdma_queue *q)
{
    size_t message_len = (size_t)q->slot_count * (NVME_RDMA_CAPSULE_LEN + NVME_CQE_LEN);
    q->slots = calloc(q->slot_count, sizeof *q->slots);
    q->memory = calloc(1, message_len + NVME_SCRATCH_LEN);
    if (q->slots == NULL || q->memory == NULL) {
        return false;
    }
    q->scratch = mspan_of(q->memory + message_len, NVME_SCRATCH_LEN);
    q->message_mr = ibv_reg_mr(q->pair.device->pd, q->memory, message_len, IBV_ACCESS_LOCAL_WRITE);
    q->scratch_mr = ibv_reg_mr(q->pair.device->pd, q->scratch.ptr, q->scratch.len,
                               (int)q->pair.device->sink_access);
    for (unsigned i = 0; i < q->slot_count; i++) {
        struct nvme_rdma_slot *slot = &q->slots[i];
        slot->queue = q;
        slot->capsule = q->memory + (size_t)i * NVME_RDMA_CAPSULE_LEN;
        slot->cqe = q->memory + (size_t)q->slot_count * NVME_RDMA_CAPSULE_LEN + i * NVME_CQE_LEN;
        list_push_tail(&q->idle, &slot->link);
    }
    return q->message_mr != NULL && q->scratch_mr != NULL;
}

static struct fabric_shape shape_of(const struct nvme_rdma_queue *q)
{
    return (struct fabric_shape){.receive_count = q->slot_count,
                                 .descriptor_count = NVME_RDMA_DESCRIPTORS_PER_SLOT * q->slot_count,
                                 .send_count = q->slot_count,
                                 .quantum_len = 2 * NVME_DATA_LEN_MAX};
}

static bool nvme_create(struct nvme_rdma_queue *q, const struct nvme_rdma_wish *wish,
                        const struct nvme_transport *transport)
{
    struct nvme_queue_parts parts = {.target = q->rdma->parts.target,
                                     .transport = transport,
                                     .connection = q,
                                     .command_count = q->slot_count,
                                     .qid = wish->qid,
                                     .scratch = q->scratch};
    struct address_end own;
    address_end_of(rdma_get_local_addr(q->pair.id), &own);
    snprintf(parts.local_address, sizeof parts.local_address, "%s", own.host);
    text_address_format(rdma_get_peer_addr(q->pair.id), parts.host_address);
    address_host(rdma_get_peer_addr(q->pair.id), parts.host, sizeof parts.host);
    q->nvme = nvme_queue_create(&parts);
    return q->nvme != NULL;
}

void nvme_rdma_receives_post(struct fabric_pair *p)
{
    struct nvme_rdma_queue *q = nvme_rdma_queue_of(p);
    struct ibv_recv_wr wrs[FABRIC_POLL_BATCH], *bad;
    struct ibv_sge sges[FABRIC_POLL_BATCH];
    while (!list_is_empty(&q->idle)) {
        unsigned count = 0;
        for (struct list_link *l;
             count < FABRIC_POLL_BATCH && (l = list_pop_head(&q->idle)) != NULL; count++) {
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
        if (ibv_post_recv(p->id->qp, wrs, &bad) != 0) {
            fabric_fail(p, "its receives cannot be posted");
        }
    }
}

// RDMA Reads are ours alone: the host asks for none.
static bool accept_client(struct nvme_rdma_queue *q, const struct nvme_rdma_wish *wish)
{
    uint8_t reply[NVME_RDMA_ACCEPT_LEN] = {0};
    put_le16(reply + NVME_RDMA_ACCEPT_OFF_CRQSIZE, (uint16_t)q->slot_count);
    struct rdma_conn_param param = {.private_data = reply,
                                    .private_data_len = sizeof reply,
                                    .initiator_depth = wish->read_count,
                                    .rnr_retry_count = RETRIES_MAX};
    return fabric_pair_accept(&q->pair, &param);
}

static void memory_destroy(struct nvme_rdma_queue *q)
{
    struct ibv_mr *const mrs[] = {q->message_mr, q->scratch_mr};
    for (unsigned i = 0; i < 2; i++) {
        if (mrs[i] != NULL) {
            ibv_dereg_mr(mrs[i]);
        }
    }
    free(q->slots);
    free(q->memory);
    free(q);
}

static bool build(struct nvme_rdma_queue *q, const struct nvme_rdma_wish *wish,
                  const struct nvme_transport *transport, struct why *ret_why)
{
    const struct fabric_shape shape = shape_of(q);
    const char *what = NULL;
    if (!fabric_pair_init(&q->pair, &shape)) {
        what = "no queue pair";
    } else if (!memory_create(q)) {
        what = "no memory for its capsules";
    } else if (!nvme_create(q, wish, transport)) {
        what = "no memory for its commands";
    } else {
        nvme_rdma_receives_post(&q->pair);
        what = accept_client(q, wish) ? NULL : "it cannot be accepted";
    }
    if (what != NULL) {
        why_say(ret_why, "%s: %s", what, strerror(errno));
    }
    return what == NULL;
}

bool nvme_rdma_queue_create(struct nvme_rdma *rdma, struct rdma_cm_id *id,
                            const struct nvme_rdma_wish *wish,
                            const struct nvme_transport *transport, struct why *ret_why)
{
    struct fabric_device *device = fabric_device_find(&rdma->fabric, id->verbs, ret_why);
    struct nvme_rdma_queue *q = device != NULL ? calloc(1, sizeof *q) : NULL;
    if (q == NULL) {
        return false;
    }
    *q = (struct nvme_rdma_queue){.pair = {.device = device, .id = id}, .rdma = rdma};
    q->slot_count = NVME_RDMA_SLOTS_PER_COMMAND * (unsigned)wish->command_count;
    struct list_link *const lists[] = {&q->idle, &q->waiting, &q->delivering, &q->responding};
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        list_init(lists[i]);
    }
    q->connect_until = instant_after(loop_now(rdma->parts.loop), connect_within_ns);
    if (!build(q, wish, transport, ret_why)) {
        nvme_queue_force_destroy(q->nvme);
        fabric_pair_fini(&q->pair);
        memory_destroy(q);
        return false;
    }
    return true;
}

/* ---- what the pair asks ---------------------------------------------------------------------- */

void nvme_rdma_await(struct fabric_pair *p, instant_ns now)
{
    const struct nvme_rdma_queue *q = nvme_rdma_queue_of(p);
    p->silent_until_ns = nvme_queue_is_connected(q->nvme) ? INSTANT_NEVER : q->connect_until;
}

void nvme_rdma_close(struct fabric_pair *p, instant_ns now)
{
    nvme_queue_close(nvme_rdma_queue_of(p)->nvme, now);
}

bool nvme_rdma_is_over(struct fabric_pair *p)
{
    return nvme_queue_is_over(nvme_rdma_queue_of(p)->nvme);
}

void nvme_rdma_queue_destroy(struct fabric_pair *p)
{
    struct nvme_rdma_queue *q = nvme_rdma_queue_of(p);
    if (nvme_queue_is_over(q->nvme)) {
        nvme_queue_destroy(q->nvme);
    } else {
        nvme_queue_force_destroy(q->nvme);
    }
    memory_destroy(q);
}

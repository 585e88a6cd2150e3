// One connection of the NVMe/RDMA TTS, for its files: one NVMe queue over a queue pair
// (node/fabric), with its receives and responses.
//
//     nvme_rdma.c           connection requests, the TTS as the UMA sees it
//     nvme_rdma_queue.c     a connection's life
//     nvme_rdma_transfer.c  capsules, data, responses
//
// The life of a slot. There are two for each command that the host may have outstanding, and all of
// them are posted at first: so the host, which sends the next command when it has a response, finds
// a receive even while that response's completion has not been polled.
//
//     posted ──capsule──▶ command ──respond──▶ response posted ──completion──▶ posted
//                            │  └──fetch────▶ RDMA Read ──completion──▶ command
//                            └─────deliver──▶ RDMA Write and response ──completion──▶ posted
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/manager.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "base/why.h"
#include "format/nvme_wire.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/nvme/controller.h"
#include "node/tts/nvme_rdma.h"

enum nvme_rdma_limits {
    NVME_RDMA_QUEUE_MAX = 512,       // connections, if the operator names no other number
    NVME_RDMA_IN_CAPSULE_LEN = 4096, // octets of data in a capsule
    NVME_RDMA_CAPSULE_LEN = NVME_SQE_LEN + NVME_RDMA_IN_CAPSULE_LEN,
    NVME_RDMA_SLOTS_PER_COMMAND = 2,
    NVME_RDMA_DESCRIPTORS_PER_SLOT = 2, // a Write and the response behind it
};

// A receive, and the command that came in it.
struct nvme_rdma_slot {
    struct nvme_rdma_queue *queue;
    uint8_t *capsule;
    uint8_t *cqe;
    uint32_t in_capsule_len;      // octets that have come behind the SQE
    struct nvme_command *command; // what is to be moved or answered; NULL: it has been given back
    bool is_advertised;           // the capsule's own header named the memory,
    uint32_t stag;                // which is this
    struct weft_rdma_request request; // data under way,
    struct weft_rdma_element element; // where they go or come from,
    struct weft_rdma_buffer buffer;   // and the other way round
    struct ibv_sge response_sge;
    struct ibv_send_wr response;
    struct list_link link; // idle, waiting, delivering, responding or sending
};

struct nvme_rdma_queue {
    struct fabric_pair pair;
    struct nvme_rdma *rdma;
    instant_ns connect_until; // a Connect has succeeded by then
    struct nvme_queue *nvme;

    uint8_t *memory; // capsules, CQEs, scratch
    struct ibv_mr *message_mr;
    struct ibv_mr *scratch_mr;
    struct mspan scratch;
    struct nvme_rdma_slot *slots;
    unsigned slot_count;
    struct list_link idle;       // receives to be posted
    struct list_link waiting;    // capsules that the controllers have no room for
    struct list_link delivering; // data and responses that leave at the end of the batch
    struct list_link responding; // likewise responses alone
    bool has_fetches;            // RDMA Reads that leave then too
};

#define NVME_RDMA_COUNTERS(X)                                                    \
    X(malformed_capsules, "connections ended because of a capsule that is none") \
    X(capsules, "capsules taken")                                                \
    X(in_capsule, "octets of data that came with their commands")                \
    X(fetched, "octets of data by RDMA Read")                                    \
    X(delivered, "octets of data by RDMA Write")                                 \
    X(oneshots, "commands whose memory was advertised by their own Send")        \
    X(invalidates, "responses that ended the memory of their command")

struct nvme_rdma_counters {
#define X(name, text) uint64_t name;
    NVME_RDMA_COUNTERS(X)
#undef X
};

struct nvme_rdma {
    struct nvme_rdma_parts parts;
    struct fabric fabric;
    struct nvme_rdma_counters counters;
};

// What a connection request asks for, in its private data.
struct nvme_rdma_wish {
    uint16_t qid;
    uint16_t command_count; // HSQSIZE + 1
    uint8_t read_count;     // RDMA Reads that may be outstanding
};

static inline struct nvme_rdma_queue *nvme_rdma_queue_of(struct fabric_pair *p)
{
    return LIST_ENTRY(p, struct nvme_rdma_queue, pair);
}

/* ---- nvme_rdma_queue.c ----------------------------------------------------------------------- */

// Makes the queue pair on `id`, whose commands move their data by `transport`, posts all receives
// and accepts. False with `ret_why`; then the id is still the caller's, to be rejected.
bool nvme_rdma_queue_create(struct nvme_rdma *rdma, struct rdma_cm_id *id,
                            const struct nvme_rdma_wish *wish,
                            const struct nvme_transport *transport, struct why *ret_why);
// What a pair asks of it, as struct fabric_protocol says.
void nvme_rdma_receives_post(struct fabric_pair *p);
void nvme_rdma_await(struct fabric_pair *p, instant_ns now);
void nvme_rdma_close(struct fabric_pair *p, instant_ns now);
bool nvme_rdma_is_over(struct fabric_pair *p);
void nvme_rdma_queue_destroy(struct fabric_pair *p);

/* ---- nvme_rdma_transfer.c -------------------------------------------------------------------- */

extern const struct nvme_transport nvme_rdma_transport;
// As struct fabric_protocol says.
void nvme_rdma_on_capsule(struct fabric_pair *p, const struct ibv_wc *wc, instant_ns now);
void nvme_rdma_on_sent(struct fabric_pair *p, const struct ibv_wc *wc);
void nvme_rdma_retry(struct fabric_pair *p, instant_ns now);
bool nvme_rdma_send(struct fabric_pair *p, instant_ns now);
void nvme_rdma_abandon(struct fabric_pair *p, instant_ns now);

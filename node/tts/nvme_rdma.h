// The target transport service for NVMe over RDMA: NVMe over Fabrics' binding to RDMA, over iWARP
// with weft's verbs and over any RNIC with another's. It listens by librdmacm; a connection is one
// queue pair for one NVMe queue, whose commands are the controllers' (node/nvme/controller.h).
// docs/nvme-rdma.md has what goes over the wire.
#pragma once

#include "base/time.h"
#include "node/fabric/fabric.h"
#include "node/interface/cta_tts.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "text/addresses.h"

struct nvme_rdma;

struct nvme_rdma_parts {
    struct loop *loop;
    struct addresses listen; // "HOST[:PORT]", "[HOST][:PORT]"; PORT 4420 if none, 0: a free one
    struct nvme_target *target;
    struct node_pool pool;
    bool *pool_is_pinned;    // set once a device has taken pages of it for its own
    duration_ns patience_ns; // with hosts that hold memory (node/stream/progress.h)
    unsigned connection_max; // of which one address has half; 0: NVME_RDMA_QUEUE_MAX
    // One line for the operator about a stranger from this host; as in struct nvme_target_parts.
    void (*say)(void *ctx, const char *host, const char *line);
    void *ctx;
};

// NULL without memory. It joins the loop as a member.
struct nvme_rdma *nvme_rdma_create(const struct nvme_rdma_parts *parts);
void nvme_rdma_destroy(struct nvme_rdma *rdma);

// Listens, and has URIs: "nvme+rdma://127.0.0.1:4420/NQN". Connections at the UMA are the
// controllers'.
extern const struct tts_for_uma nvme_rdma_for_uma;

// NVMe over RDMA: what is to be done with a connection when the batch ends, and what the operator
// is told of it.

#include <stdio.h>

#include "base/list.h"
#include "base/why.h"
#include "listen/address.h"
#include "node/interface/uma_tts.h"
#include "node/tts/nvme_rdma_queue.h"
#include "text/address.h"

enum { LINE_MAX = 384 };

void nvme_rdma_touch(struct nvme_rdma_queue *q)
{
    if (list_is_empty(&q->dirty_link)) {
        list_push_tail(&q->rdma->dirty, &q->dirty_link);
    }
}

void nvme_rdma_say(const struct nvme_rdma *rdma, struct rdma_cm_id *id, const char *what,
                   const char *why)
{
    char line[LINE_MAX], client[TEXT_ADDRESS_MAX], host[CLIENT_HOST_MAX];
    text_address_format(rdma_get_peer_addr(id), client);
    address_host(rdma_get_peer_addr(id), host, sizeof host);
    snprintf(line, sizeof line, "nvme-rdma: %s: %s: %s", client, what, why);
    rdma->parts.say(rdma->parts.ctx, host, line);
}

void nvme_rdma_queue_end(struct nvme_rdma_queue *q, const char *why)
{
    if (!why_is_said(&q->why)) {
        why_say(&q->why, "%s", why);
    }
    nvme_rdma_touch(q);
}

void nvme_rdma_queue_fail(struct nvme_rdma_queue *q, const char *why)
{
    if (!why_is_said(&q->why)) {
        nvme_rdma_say(q->rdma, q->id, "the connection ends", why);
    }
    nvme_rdma_queue_end(q, why);
}

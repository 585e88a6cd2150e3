// NVMe over RDMA: the RNICs that connections come over. Each has a protection domain, in which the
// pool is registered once for all connections, and one completion channel.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "node/loop/loop.h"
#include "node/tts/nvme_rdma_queue.h"

// A completion queue that was armed has something: it is the context of the event.
static void on_completions(void *ctx, uint32_t events)
{
    struct nvme_rdma_device *device = ctx;
    struct ibv_cq *cq;
    void *cq_context;
    while (ibv_get_cq_event(device->completions, &cq, &cq_context) == 0) {
        struct nvme_rdma_queue *q = cq_context;
        ibv_ack_cq_events(cq, 1);
        *(cq == q->recv_cq ? &q->is_recv_armed : &q->is_send_armed) = false;
        nvme_rdma_touch(q);
    }
}

static struct ibv_comp_channel *channel_create(struct ibv_context *verbs)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(verbs);
    if (channel != NULL) {
        fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    }
    return channel;
}

// A foreign iWARP's RDMA Read goes to memory that the peer may write to. weft's does without that
// right: its sink STags are open for the very answer alone.
static unsigned sink_access_of(const struct nvme_rdma_device *device)
{
    bool is_foreign_iwarp =
        device->verbs->device->transport_type == IBV_TRANSPORT_IWARP && !device->has_oneshot;
    return IBV_ACCESS_LOCAL_WRITE | (is_foreign_iwarp ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0);
}

static bool device_open(struct nvme_rdma_device *device, struct why *ret_why)
{
    const struct nvme_rdma_parts *parts = &device->rdma->parts;
    struct ibv_device_attr attr;
    const char *what = "its limits cannot be had";
    if (ibv_query_device(device->verbs, &attr) == 0) {
        device->can_invalidate =
            (attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0 || device->has_oneshot;
        device->pd = ibv_alloc_pd(device->verbs);
        what = "it has no protection domain";
    }
    if (device->pd != NULL) {
        device->pool =
            ibv_reg_mr(device->pd, parts->pool.ptr, parts->pool.len, (int)device->sink_access);
        what = "the pool cannot be registered (ulimit -l is too low, or --pool too large)";
    }
    if (device->pool != NULL) {
        device->completions = channel_create(device->verbs);
        what = "it has no completion channel";
    }
    if (device->completions != NULL) {
        device->watch =
            loop_watch(parts->loop, device->completions->fd, EPOLLIN, on_completions, device);
    }
    if (device->watch == NULL) {
        why_say(ret_why, "%s: %s", what, strerror(errno));
    }
    return device->watch != NULL;
}

void nvme_rdma_device_destroy(struct nvme_rdma_device *device)
{
    list_remove(&device->link);
    loop_unwatch(device->watch);
    if (device->completions != NULL) {
        ibv_destroy_comp_channel(device->completions);
    }
    if (device->pool != NULL) {
        ibv_dereg_mr(device->pool);
    }
    if (device->pd != NULL) {
        ibv_dealloc_pd(device->pd);
    }
    free(device);
}

struct nvme_rdma_device *nvme_rdma_device_find(struct nvme_rdma *rdma, struct ibv_context *verbs,
                                               struct why *ret_why)
{
    for (struct list_link *l = rdma->devices.next; l != &rdma->devices; l = l->next) {
        struct nvme_rdma_device *device = LIST_ENTRY(l, struct nvme_rdma_device, link);
        if (device->verbs == verbs) {
            return device;
        }
    }
    struct nvme_rdma_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        why_say(ret_why, "no memory");
        return NULL;
    }
    *device = (struct nvme_rdma_device){.rdma = rdma, .verbs = verbs};
    device->has_oneshot = weft_oneshot_find(&device->oneshot);
    device->sink_access = sink_access_of(device);
    list_init(&device->link);
    if (!device_open(device, ret_why)) {
        nvme_rdma_device_destroy(device);
        return NULL;
    }
    list_push_tail(&rdma->devices, &device->link);
    return device;
}

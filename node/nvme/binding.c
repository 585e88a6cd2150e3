// Bindings: a queue is a connection at the UMA and the CTA for each namespace that its host uses.
// Here is what one is; connecting.c has how it comes about.
//
//     UNBOUND ─wish─▶ WISHED ─its turn─▶ ASKED ─yes─▶ BOUND ─the volume goes─▶ LEAVING ─▶ UNBOUND
//                                          └─no──▶ REFUSED ─▶ UNBOUND       its commands have ended

#include "base/check.h"
#include "base/list.h"
#include "node/interface/request.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

void nvme_unsettle(struct nvme_queue *queue)
{
    list_remove(&queue->unsettled_link);
    list_push_tail(&queue->target->unsettled, &queue->unsettled_link);
}

bool nvme_queue_is_bound(const struct nvme_queue *queue, uint32_t nsid)
{
    return queue->bindings[nsid - 1].state == NVME_BOUND;
}

uint32_t nvme_connection_of(const struct nvme_command *command)
{
    return command->queue->bindings[command->nsid - 1].connection;
}

void nvme_bound_put(struct nvme_queue *queue, uint32_t nsid, uint32_t connection)
{
    queue->bindings[nsid - 1].connection = connection;
    queue->target->bound[node_connection_slot(connection)] =
        (struct nvme_bound){.queue = queue, .nsid = nsid};
}

const struct nvme_bound *nvme_bound_find(const struct nvme_target *target, uint32_t connection)
{
    const struct nvme_bound *bound = &target->bound[node_connection_slot(connection)];
    bool is_it =
        bound->queue != NULL && bound->queue->bindings[bound->nsid - 1].connection == connection;
    return is_it ? bound : NULL;
}

/* ---- commands -------------------------------------------------------------------------------- */

void nvme_bound_take(struct nvme_command *command)
{
    command->queue->bindings[command->nsid - 1].under_way++;
    command->is_bound = true;
}

void nvme_unbind(struct nvme_command *command)
{
    if (!command->is_bound) {
        return;
    }
    struct nvme_binding *b = &command->queue->bindings[command->nsid - 1];
    CHECK(b->under_way > 0);
    command->is_bound = false;
    if (--b->under_way == 0 && (b->state == NVME_LEAVING || command->queue->is_closed)) {
        nvme_unsettle(command->queue);
    }
}

/* ---- their end ------------------------------------------------------------------------------- */

void nvme_binding_leave(struct nvme_target *target, uint32_t connection)
{
    const struct nvme_bound *bound = nvme_bound_find(target, connection);
    if (bound != NULL) {
        bound->queue->bindings[bound->nsid - 1].state = NVME_LEAVING;
        nvme_unsettle(bound->queue);
    }
}

void nvme_binding_end(struct nvme_queue *queue, uint32_t nsid)
{
    struct nvme_target *target = queue->target;
    struct nvme_binding *b = &queue->bindings[nsid - 1];
    target->bound[node_connection_slot(b->connection)] = (struct nvme_bound){.queue = NULL};
    target->parts.uma->disconnect(target->parts.uma_ctx, b->connection);
    *b = (struct nvme_binding){.state = NVME_UNBOUND};
}

void nvme_bindings_end(struct nvme_queue *queue)
{
    list_remove(&queue->unsettled_link);
    for (uint32_t nsid = 1; nsid <= NVME_NAMESPACE_COUNT_MAX; nsid++) {
        if (queue->bindings[nsid - 1].state >= NVME_BOUND) {
            nvme_binding_end(queue, nsid);
        }
    }
}

// The target: its life, its listeners, and what the UMA says.

#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"
#include "node/nvme/wire.h"

struct nvme_target *nvme_target_create(const struct nvme_target_parts *parts)
{
    struct nvme_target *target = calloc(1, sizeof *target);
    if (target != NULL) {
        target->parts = *parts;
        target->tick_ns = INSTANT_NEVER;
        list_init(&target->queues);
    }
    return target;
}

void nvme_target_destroy(struct nvme_target *target)
{
    CHECK(target == NULL || list_is_empty(&target->queues));
    free(target);
}

bool nvme_target_listener_add(struct nvme_target *target, const struct nvme_listener *listener)
{
    if (target->listener_count == NVME_LISTENER_COUNT_MAX) {
        return false;
    }
    target->listeners[target->listener_count++] = *listener;
    return true;
}

struct nvme_counters nvme_target_counters(const struct nvme_target *target)
{
    return target->counters;
}

unsigned nvme_target_controller_count(const struct nvme_target *target)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        count += target->controllers[i].is_used;
    }
    return count;
}

/* ---- what the UMA calls ---------------------------------------------------------------------- */

static int tts_start(void *ctx, struct why *ret_why)
{
    return 0; // the transports listen
}

static bool is_same(const struct nvme_volume *a, const struct nvme_volume *b)
{
    return a->number == b->number && a->abilities == b->abilities && a->blocks == b->blocks &&
           a->block_len == b->block_len;
}

static void follow_volume(struct nvme_controller *c, const struct resource_table *table)
{
    const struct resource *row = resource_by_volume(table, c->volume.number);
    if (row == NULL) {
        nvme_controller_end(c, "its volume has gone");
        return;
    }
    struct nvme_volume fresh = nvme_volume_of(row);
    bool is_probed = row->profile.block_size > 0 && row->state == RESOURCE_READY;
    if (is_probed && !is_same(&fresh, &c->volume)) {
        c->volume = fresh;
        c->has_changed_namespace = true;
        nvme_event_raise(c, NVME_EVENT_NAMESPACE_ATTRIBUTES);
    }
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    struct nvme_target *target = ctx;
    uint64_t digest = nvme_discovery_digest(target);
    bool is_new = digest != target->discovery_digest;
    target->discovery_digest = digest;
    target->discovery_generation += is_new;
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        struct nvme_controller *c = &target->controllers[i];
        if (!c->is_used || c->is_ending) {
            continue;
        }
        if (!c->is_discovery) {
            follow_volume(c, table);
        } else if (is_new) {
            nvme_event_raise(c, NVME_EVENT_DISCOVERY_CHANGE);
        }
    }
}

static void tts_on_connected(void *ctx, struct connect_request *request)
{
    nvme_on_connected(LIST_ENTRY(request, struct nvme_queue, connect));
}

static void tts_drop(void *ctx, uint32_t connection)
{
    struct nvme_target *target = ctx;
    for (struct list_link *l = target->queues.next; l != &target->queues; l = l->next) {
        struct nvme_queue *queue = LIST_ENTRY(l, struct nvme_queue, link);
        if (queue->has_connection && queue->connection == connection && !queue->is_closed) {
            queue->parts.transport->close(queue->parts.connection, "its volume is going");
        }
    }
}

static void tts_stop(void *ctx)
{
    struct nvme_target *target = ctx;
    target->is_stopping = true;
    for (struct list_link *l = target->queues.next; l != &target->queues; l = l->next) {
        struct nvme_queue *queue = LIST_ENTRY(l, struct nvme_queue, link);
        if (!queue->is_closed) {
            queue->parts.transport->close(queue->parts.connection, "the node stops");
        }
    }
}

const struct tts_for_uma nvme_for_uma = {
    .name = "nvme",
    .start = tts_start,
    .advertise = tts_advertise,
    .on_connected = tts_on_connected,
    .drop = tts_drop,
    .stop = tts_stop,
};

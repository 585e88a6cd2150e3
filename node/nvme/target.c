// The target: its life, its listeners, and what the UMA says.

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_wire.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

struct nvme_target *nvme_target_create(const struct nvme_target_parts *parts)
{
    struct nvme_target *target = calloc(1, sizeof *target);
    if (target != NULL) {
        target->parts = *parts;
        target->cntlid_min = parts->cntlid_min != 0 ? parts->cntlid_min : 1;
        target->tick_ns = INSTANT_NEVER;
        list_init(&target->queues);
        list_init(&target->unsettled);
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

static bool is_live(const struct nvme_controller *c)
{
    return c->is_used && !c->is_ending && !c->is_discovery;
}

static void controller_follow(struct nvme_controller *c, const struct resource_table *table)
{
    bool has_any = nvme_namespaces_drop(c, table), has_news = c->has_news;
    bool has_access_news = c->has_access_news;
    c->has_news = c->has_access_news = false;
    if (!has_any) {
        nvme_controller_end(c, "its volume has gone");
        return;
    }
    if (has_access_news) {
        nvme_event_raise(c, NVME_EVENT_ANA_CHANGE);
    }
    if (!has_news) {
        return;
    }
    nvme_event_raise(c, NVME_EVENT_NAMESPACE_ATTRIBUTES);
    if (nvme_controller_first_io(c) != NULL) {
        nvme_bind_all(nvme_controller_first_io(c));
    }
}

static void namespaces_follow(struct nvme_target *target, const struct resource_table *table)
{
    char nqn[NVME_NQN_MAX];
    for (size_t i = 0; i < table->count; i++) {
        nvme_subsystem_nqn(&table->rows[i], nqn);
        for (unsigned j = 0; j < NVME_CONTROLLER_COUNT_MAX; j++) {
            struct nvme_controller *c = &target->controllers[j];
            if (is_live(c) && strcmp(c->subnqn, nqn) == 0) {
                nvme_namespaces_look(c, table, &table->rows[i]);
            }
        }
    }
    for (unsigned j = 0; j < NVME_CONTROLLER_COUNT_MAX; j++) {
        if (is_live(&target->controllers[j])) {
            controller_follow(&target->controllers[j], table);
        }
    }
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    struct nvme_target *target = ctx;
    uint64_t digest = nvme_discovery_digest(target);
    bool is_new = digest != target->discovery_digest;
    target->discovery_digest = digest;
    target->discovery_generation += is_new;
    namespaces_follow(target, table);
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX && is_new; i++) {
        struct nvme_controller *c = &target->controllers[i];
        if (c->is_used && !c->is_ending && c->is_discovery) {
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
    nvme_binding_leave(ctx, connection);
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

static void tts_figures(void *ctx, tts_figure *figure, void *figure_ctx)
{
    const struct nvme_target *target = ctx;
    const struct nvme_counters *c = &target->counters;
    figure(figure_ctx, "sessions", TTS_GAUGE, nvme_target_controller_count(target));
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c->name);
    NVME_COUNTERS(X)
#undef X
}

const struct tts_for_uma nvme_for_uma = {
    .name = "nvme",
    .start = tts_start,
    .advertise = tts_advertise,
    .on_connected = tts_on_connected,
    .drop = tts_drop,
    .stop = tts_stop,
    .figures = tts_figures,
};

// Controllers: a host's sessions with subsystems.

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_wire.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

// Nothing heard for this many times what the host has promised: networks, and hosts, may be slow.
enum { KEEP_ALIVE_PATIENCE = 2 };

// A discovery controller whose host promises nothing is looked after all the same.
enum { DISCOVERY_KATO_MS = 60 * 1000 };

bool nvme_controller_is_allowed(const struct nvme_target *target, const char *host,
                                bool is_discovery)
{
    unsigned count = 0, discovery_count = 0;
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        const struct nvme_controller *c = &target->controllers[i];
        bool is_its = c->is_used && strcmp(c->client.host, host) == 0;
        count += is_its;
        discovery_count += is_its && c->is_discovery;
    }
    return count < NVME_CONTROLLER_OF_HOST_MAX &&
           (!is_discovery || discovery_count < NVME_DISCOVERY_OF_HOST_MAX);
}

struct nvme_controller *nvme_controller_begin(struct nvme_target *target)
{
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        // In turn, so that a number is not used again soon.
        unsigned slot = (target->cntlid_serial + i) % NVME_CONTROLLER_COUNT_MAX;
        struct nvme_controller *c = &target->controllers[slot];
        if (!c->is_used) {
            target->cntlid_serial = slot + 1;
            *c = (struct nvme_controller){.is_used = true,
                                          .target = target,
                                          .cntlid = (uint16_t)(target->cntlid_min + slot),
                                          .io_queue_count = NVME_IO_QUEUE_COUNT_MAX,
                                          .enabled_events = NVME_EVENT_RESERVATION};
            list_init(&c->event_requests);
            target->counters.controllers++;
            return c;
        }
    }
    return NULL;
}

struct nvme_controller *nvme_controller_find(struct nvme_target *target, uint16_t cntlid)
{
    unsigned slot = (unsigned)cntlid - target->cntlid_min; // wraps below it
    struct nvme_controller *c =
        slot < NVME_CONTROLLER_COUNT_MAX ? &target->controllers[slot] : NULL;
    return c != NULL && c->is_used && !c->is_ending ? c : NULL;
}

void nvme_controller_join(struct nvme_controller *c, struct nvme_queue *queue)
{
    CHECK(c->queues[queue->qid] == NULL);
    c->queues[queue->qid] = queue;
    c->queue_count++;
    queue->controller = c;
}

void nvme_controller_leave(struct nvme_controller *c, struct nvme_queue *queue)
{
    CHECK(c->queues[queue->qid] == queue && c->queue_count > 0);
    c->queues[queue->qid] = NULL;
    queue->controller = NULL;
    if (--c->queue_count == 0) {
        c->is_used = false;
    }
}

struct nvme_queue *nvme_controller_first_io(const struct nvme_controller *c)
{
    for (unsigned i = 1; i <= NVME_IO_QUEUE_COUNT_MAX; i++) {
        if (c->queues[i] != NULL && c->queues[i]->state == NVME_QUEUE_CONNECTED) {
            return c->queues[i];
        }
    }
    return NULL;
}

struct nvme_queue *nvme_controller_first_bound(const struct nvme_controller *c, uint32_t nsid)
{
    for (unsigned i = 1; i <= NVME_IO_QUEUE_COUNT_MAX; i++) {
        if (c->queues[i] != NULL && nvme_queue_is_bound(c->queues[i], nsid)) {
            return c->queues[i];
        }
    }
    return NULL;
}

static void queue_end(struct nvme_queue *queue, const char *why)
{
    if (queue != NULL && !queue->is_closed) {
        queue->is_leaving = true;
        queue->parts.transport->close(queue->parts.connection, why);
    }
}

void nvme_controller_end_io(struct nvme_controller *c, const char *why)
{
    for (unsigned i = 1; i <= NVME_IO_QUEUE_COUNT_MAX; i++) {
        queue_end(c->queues[i], why);
    }
}

void nvme_controller_end(struct nvme_controller *c, const char *why)
{
    if (!c->is_ending) {
        c->is_ending = true;
        nvme_controller_end_io(c, why);
        queue_end(c->queues[0], why);
    }
}

/* ---- keep alive ------------------------------------------------------------------------------ */

static instant_ns expires_at(const struct nvme_controller *c)
{
    bool is_awaited = c->is_used && !c->is_ending && c->kato_ms > 0;
    return is_awaited ? instant_after(c->heard_ns, c->kato_ms * NS_PER_MS * KEEP_ALIVE_PATIENCE)
                      : INSTANT_NEVER;
}

void nvme_keep_alive_begin(struct nvme_controller *c, uint32_t kato_ms, instant_ns now)
{
    c->kato_ms = kato_ms == 0 && c->is_discovery ? DISCOVERY_KATO_MS : kato_ms;
    c->heard_ns = now;
    c->target->tick_ns = instant_min(c->target->tick_ns, expires_at(c));
}

// What is heard of hosts only moves the instants away: the nearest that was known is soon enough.
instant_ns nvme_target_next_deadline(const struct nvme_target *target)
{
    return target->tick_ns;
}

void nvme_target_on_deadline(struct nvme_target *target, instant_ns now)
{
    target->tick_ns = INSTANT_NEVER;
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        struct nvme_controller *c = &target->controllers[i];
        if (expires_at(c) <= now) {
            target->counters.expired++;
            nvme_controller_end(c, "keep alive expired");
        }
        target->tick_ns = instant_min(target->tick_ns, expires_at(c));
    }
}

// How queues come to be bound. The first I/O queue of a controller is bound to all its namespaces,
// so that the host hears of their reservations; another is by the first command for one. The UMA is
// asked for one at a time, and commands wait; they go on at the end of a batch.

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

static struct nvme_binding *binding_of(struct nvme_queue *queue, uint32_t nsid)
{
    return &queue->bindings[nsid - 1];
}

/* ---- asking the UMA -------------------------------------------------------------------------- */

// Requests of a former session of this host may still reach the volume; nothing may be done through
// a new one before.
static bool must_wait(const struct nvme_queue *queue, uint32_t nsid)
{
    const struct nvme_controller *c = queue->controller;
    const struct list_link *queues = &queue->target->queues;
    for (const struct list_link *l = queues->next; l != queues; l = l->next) {
        const struct nvme_queue *other = LIST_ENTRY(l, struct nvme_queue, link);
        const struct nvme_binding *b = &other->bindings[nsid - 1];
        bool is_former = other->is_closed && other->controller != NULL && b->state >= NVME_BOUND;
        if (is_former && b->volume == c->namespaces[nsid - 1].volume.number &&
            strcmp(other->controller->client.identity, c->client.identity) == 0) {
            return true;
        }
    }
    return false;
}

static void ask(struct nvme_queue *queue, uint32_t nsid)
{
    struct nvme_target *target = queue->target;
    struct nvme_binding *b = binding_of(queue, nsid);
    b->state = NVME_ASKED;
    b->volume = queue->controller->namespaces[nsid - 1].volume.number;
    queue->asked_nsid = nsid;
    queue->connect = (struct connect_request){.client = queue->controller->client,
                                              .volume = b->volume,
                                              .tts = &nvme_for_uma,
                                              .service = &nvme_for_cta,
                                              .tts_ctx = target};
    memcpy(queue->connect.client.address, queue->parts.host_address,
           sizeof queue->connect.client.address);
    memcpy(queue->connect.client.host, queue->parts.host, sizeof queue->connect.client.host);
    if (queue->connecting != NULL) {
        queue->connecting->stage = NVME_CONNECTING;
    }
    target->parts.uma->connect(target->parts.uma_ctx, &queue->connect);
}

static void answered(struct nvme_queue *queue, uint32_t nsid, enum connect_status status)
{
    struct nvme_binding *b = binding_of(queue, nsid);
    bool is_bound = status == CONNECT_OK;
    b->status = (uint8_t)status;
    b->state = is_bound ? NVME_BOUND : NVME_REFUSED;
    if (queue->connecting != NULL) {
        b->state = is_bound ? NVME_BOUND : NVME_UNBOUND;
        queue->on_answered(queue, status);
    }
    nvme_unsettle(queue);
}

void nvme_on_connected(struct nvme_queue *queue)
{
    uint32_t nsid = queue->asked_nsid;
    CHECK(nsid != 0);
    queue->asked_nsid = 0;
    if (queue->connect.status == CONNECT_OK) {
        nvme_bound_put(queue, nsid, queue->connect.connection);
    }
    answered(queue, nsid, queue->connect.status);
}

// The first that is wished and need not wait. All queues are asked whenever one ends, and of most
// nothing is wished.
static void ask_next(struct nvme_queue *queue)
{
    bool is_any_wished = false;
    if (!queue->may_wish) {
        return;
    }
    for (uint32_t nsid = 1; nsid <= NVME_NAMESPACE_COUNT_MAX; nsid++) {
        bool may_ask = queue->controller != NULL && !queue->is_closed && queue->asked_nsid == 0;
        if (!may_ask) {
            return;
        }
        if (binding_of(queue, nsid)->state != NVME_WISHED) {
            continue;
        }
        is_any_wished = true;
        if (nvme_namespace_find(queue->controller, nsid) == NULL) {
            answered(queue, nsid, CONNECT_NO_VOLUME);
        } else if (!must_wait(queue, nsid)) {
            ask(queue, nsid);
        }
    }
    queue->may_wish = is_any_wished;
}

static void note_wish(struct nvme_queue *queue, struct nvme_binding *b)
{
    b->state = NVME_WISHED;
    queue->may_wish = true;
}

static void wish(struct nvme_queue *queue, uint32_t nsid)
{
    struct nvme_binding *b = binding_of(queue, nsid);
    if (b->state == NVME_UNBOUND) {
        note_wish(queue, b);
        ask_next(queue);
    }
}

void nvme_bind_first(struct nvme_queue *queue, uint32_t nsid,
                     void (*on_answered)(struct nvme_queue *queue, enum connect_status status))
{
    queue->on_answered = on_answered;
    wish(queue, nsid);
}

void nvme_bind_all(struct nvme_queue *queue)
{
    for (uint32_t nsid = 1; nsid <= NVME_NAMESPACE_COUNT_MAX; nsid++) {
        struct nvme_binding *b = binding_of(queue, nsid);
        if (b->state == NVME_UNBOUND && nvme_namespace_find(queue->controller, nsid) != NULL) {
            note_wish(queue, b);
            nvme_unsettle(queue);
        }
    }
}

void nvme_connect_pending(struct nvme_target *target)
{
    struct list_link *next;
    for (struct list_link *l = target->queues.next; l != &target->queues; l = next) {
        next = l->next;
        ask_next(LIST_ENTRY(l, struct nvme_queue, link));
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

void nvme_bind(struct nvme_command *command, nvme_on_bound *on_bound, instant_ns now)
{
    struct nvme_queue *queue = command->queue;
    if (nvme_queue_is_bound(queue, command->nsid)) {
        nvme_bound_take(command);
        on_bound(command, NODE_OK, now);
        return;
    }
    command->on_bound = on_bound;
    command->stage = NVME_WAITING;
    list_push_tail(&queue->unbound, &command->wait_link);
    wish(queue, command->nsid);
}

// As the CTA would refuse them.
static enum node_completion completion_of(enum connect_status status)
{
    bool may_retry = status == CONNECT_NOT_READY || status == CONNECT_TOO_MANY;
    return may_retry ? NODE_RETRY : NODE_NO_VOLUME;
}

// What waits goes on, or has its refusal.
static void waiters_look(struct nvme_queue *queue, instant_ns now)
{
    struct list_link waiters;
    list_move_all(&waiters, &queue->unbound);
    for (struct list_link *l; (l = list_pop_head(&waiters)) != NULL;) {
        struct nvme_command *command = LIST_ENTRY(l, struct nvme_command, wait_link);
        const struct nvme_binding *b = binding_of(queue, command->nsid);
        if (queue->is_closed) {
            command->on_bound(command, NODE_NO_VOLUME, now);
        } else if (b->state == NVME_BOUND) {
            nvme_bound_take(command);
            command->on_bound(command, NODE_OK, now);
        } else if (b->state == NVME_REFUSED) {
            command->on_bound(command, completion_of(b->status), now);
        } else {
            list_push_tail(&queue->unbound, l);
        }
    }
}

/* ---- the end of a batch ---------------------------------------------------------------------- */

// Of a queue that is closed each ends by itself: its host may be back, and waits for no more than
// it must. Of another, a volume goes; another one may have the number by now, and commands wait for
// it.
static void leavers_end(struct nvme_queue *queue, instant_ns now)
{
    const struct nvme_target_parts *parts = &queue->target->parts;
    for (uint32_t nsid = 1; nsid <= NVME_NAMESPACE_COUNT_MAX; nsid++) {
        struct nvme_binding *b = binding_of(queue, nsid);
        bool leaves = b->state == NVME_LEAVING || (b->state == NVME_BOUND && queue->is_closed);
        if (leaves && queue->is_closed) {
            parts->cta->leave(parts->cta_ctx, b->connection, now);
        }
        bool is_over = leaves && b->under_way == 0;
        if (is_over) {
            nvme_binding_end(queue, nsid);
        }
        if (is_over && !queue->is_closed) {
            note_wish(queue, b);
        }
    }
}

static void refusals_forget(struct nvme_queue *queue)
{
    for (uint32_t nsid = 1; nsid <= NVME_NAMESPACE_COUNT_MAX; nsid++) {
        struct nvme_binding *b = binding_of(queue, nsid);
        b->state = b->state == NVME_REFUSED ? NVME_UNBOUND : b->state;
    }
}

static void settle(struct nvme_queue *queue, instant_ns now)
{
    leavers_end(queue, now);
    ask_next(queue);
    waiters_look(queue, now);
    refusals_forget(queue);
    if (queue->is_closed) {
        queue->parts.transport->wake(queue->parts.connection); // it may be over
    }
}

bool nvme_target_is_settled(const struct nvme_target *target)
{
    return list_is_empty(&target->unsettled);
}

void nvme_target_on_batch_end(struct nvme_target *target, instant_ns now)
{
    struct list_link queues;
    bool has_any = !list_is_empty(&target->unsettled);
    list_move_all(&queues, &target->unsettled);
    for (struct list_link *l; (l = list_pop_head(&queues)) != NULL;) {
        settle(LIST_ENTRY(l, struct nvme_queue, unsettled_link), now);
    }
    if (has_any) {
        nvme_connect_pending(target); // who waited for the end of a former session's
    }
}

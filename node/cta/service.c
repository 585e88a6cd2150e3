// The TTS interface manager of the CTA: service requests, their buffers, their transfers.

#include <string.h>

#include "base/check.h"
#include "base/time.h"
#include "node/cta/agent.h"
#include "node/interface/cta_rta.h"
#include "node/interface/request.h"

static const duration_ns deadline_tick_ns = 50 * NS_PER_MS;

// A request that never became a transaction; its route may be missing.
static void refuse(const struct tts_for_cta *tts, void *tts_ctx, struct service_request *request,
                   enum node_completion completion, instant_ns now)
{
    request->completion = completion;
    request->detail = 0;
    request->transaction = 0;
    tts->complete(tts_ctx, request, now);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static struct transaction *find(struct cta *cta, uint64_t number)
{
    struct transaction *t = &cta->transactions[frame_transaction_slot(number)];
    return t->state != TRANSACTION_FREE && t->number == number ? t : NULL;
}

static bool needs_buffer(const struct service_request *request)
{
    const struct node_operation_facts *facts = node_operation_facts(request->operation);
    return facts->moves_to_client || facts->moves_to_device;
}

static bool is_to_be_fetched(unsigned operation)
{
    return node_operation_facts(operation)->moves_to_device;
}

static uint32_t buffer_len_of(const struct service_request *request)
{
    return request->data_len + compare_room(request->operation, request->len);
}

static enum cta_size size_of(const struct cta *cta, const struct service_request *request)
{
    return needs_buffer(request) ? shares_size_of(cta, buffer_len_of(request)) : CTA_SMALL;
}

// Others have what it needs. Of its size `behind` get behind it; if it is small and all do,
// everybody does.
static void starve(struct cta *cta, const struct service_request *request, unsigned behind)
{
    cta->is_starved = true;
    cta->waits[size_of(cta, request)] |= behind;
}

static bool must_get_behind(const struct cta *cta, const struct cta_route *route,
                            const struct service_request *request)
{
    bool is_awaited = is_to_be_fetched(request->operation);
    enum cta_class its = shares_class_of(route, is_awaited);
    return cta->waits[CTA_SMALL] == CTA_ALL ||
           (needs_buffer(request) && (cta->waits[size_of(cta, request)] & its) != 0);
}

// False: a slot or a buffer is missing, or it would be too much for its share.
static bool begin(struct cta *cta, struct cta_route *route, struct service_request *request,
                  instant_ns now)
{
    struct cta_unit *unit = cta->units[route->route.unit];
    struct node_buffer buffer = {0};
    bool has_data = needs_buffer(request);
    bool is_awaited = is_to_be_fetched(request->operation);
    uint32_t len = buffer_len_of(request);
    if (!shares_allow(cta, route, len, is_awaited)) {
        return false;
    }
    unsigned behind = shares_behind(cta, route, len, is_awaited, request->submitted_at_ns, now);
    if (behind == 0 &&
        (list_is_empty(&cta->free) || (has_data && !shares_obtain(cta, unit, len, now, &buffer)))) {
        behind = CTA_ALL;
    }
    if (behind != 0) {
        starve(cta, request, behind);
        return false;
    }
    struct transaction *t = LIST_ENTRY(list_pop_head(&cta->free), struct transaction, link);
    *t = (struct transaction){.state = TRANSACTION_FETCHING,
                              .request = request,
                              .route = route,
                              .unit = unit,
                              .operation = request->operation,
                              .flags = request->flags,
                              .connection = request->connection,
                              .offset = request->offset,
                              .len = request->len,
                              .deadline = request->deadline,
                              .buffer = buffer};
    list_init(&t->hold_link);
    list_push_tail(&t->unit->elsewhere, &t->link);
    transaction_renumber(t);
    shares_take(cta, route, buffer.len, is_awaited);
    rates_take(route, request, now);
    memory_note(unit, now);
    return true;
}

// Has a slot, and a buffer if it needs one: fetches what is to be written, sends what can be read
// at once, or goes on to the unit.
static void proceed(struct cta *cta, struct service_request *request, instant_ns now)
{
    struct transaction *t = find(cta, request->transaction);
    if (is_to_be_fetched(t->operation)) {
        transaction_fetch(t, request->data_len, now);
    } else if (window_read(cta, t)) {
        t->state = TRANSACTION_TRANSFERRING;
        t->is_by_window = true;
        transaction_transfer(cta, t, t->buffer.len, 0, now);
    } else {
        units_submit(t);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_well_formed(const struct service_request *request)
{
    const struct node_operation_facts *facts = node_operation_facts(request->operation);
    if (facts == NULL || (request->flags & ~facts->flags) != 0) {
        return false;
    }
    if (!needs_buffer(request)) {
        return request->data_len == 0;
    }
    bool is_right = true;
    switch (request->operation) {
    case NODE_READ:
    case NODE_WRITE:
        is_right = request->data_len == request->len;
        break;
    case NODE_COMPARE:
    case NODE_OR_WRITE:
        is_right = request->data_len == request->len && request->len <= NODE_TRANSFER_MAX / 2;
        break;
    case NODE_COMPARE_AND_WRITE:
        is_right = request->data_len == 2 * request->len && request->len <= NODE_SWAP_MAX;
        break;
    }
    return is_right && request->data_len > 0 && request->data_len <= NODE_TRANSFER_MAX;
}

// Behind others of its own, or else among those who wait for room, or for the volume's rate.
static void wait(struct cta *cta, struct cta_route *route, struct service_request *request,
                 bool rate_allows, instant_ns now)
{
    struct cta_volume_counters *counters = &route->volume->counters;
    bool is_first = list_is_empty(&route->link);
    list_push_tail(&route->hungry, &request->link);
    if (!rate_allows) {
        counters->throttled++;
        if (is_first) {
            rates_wait(cta, route, now);
        }
        return;
    }
    counters->waits++;
    if (is_first) {
        list_push_tail(&cta->hungry, &route->link);
    }
}

// NODE_OK: it may come in.
static enum node_completion refusal_at_the_door(const struct cta_route *route,
                                                const struct service_request *request)
{
    if (route->has_failed) {
        return NODE_NO_VOLUME;
    }
    if (route->has_left) {
        return NODE_TRANSFER;
    }
    if (reservation_bars(route, request->operation, request->flags)) {
        return NODE_RESERVED;
    }
    return route->volume->stands_by ? NODE_STANDBY : NODE_OK;
}

void service_submit(void *ctx, struct service_request *request, instant_ns now)
{
    struct cta *cta = ctx;
    struct cta_route *route = routes_find(cta, request->connection);
    CHECK(route != NULL); // a TTS submits on connections that it was given
    request->submitted_at_ns = now;
    request->transaction = 0;
    list_init(&request->link);
    if (!is_well_formed(request)) {
        refuse(route->route.tts, route->route.tts_ctx, request, NODE_MALFORMED, now);
        return;
    }
    if (request->deadline != INSTANT_NEVER && cta->deadline_count++ == 0) {
        cta->tick_at_ns = instant_after(now, deadline_tick_ns);
    }
    enum node_completion refusal = refusal_at_the_door(route, request);
    if (refusal != NODE_OK) {
        request_complete(cta, route, request, refusal, 0, now);
        return;
    }
    bool may_go = rates_allow(route, now);
    if (may_go && list_is_empty(&route->hungry) && !must_get_behind(cta, route, request) &&
        begin(cta, route, request, now)) {
        proceed(cta, request, now);
        return;
    }
    wait(cta, route, request, may_go, now);
}

// The routes that have been passed by come first the next time, in their order.
static void hungry_restore(struct cta *cta, struct list_link *passed)
{
    struct list_link rest;
    list_move_all(&rest, &cta->hungry);
    list_move_all(&cta->hungry, passed);
    for (struct list_link *l; (l = list_pop_head(&rest)) != NULL;) {
        list_push_tail(&cta->hungry, l);
    }
}

// Routes in turn, one request each, as long as something goes. Who finds no room stays before all
// others of its size, and who may not hold more keeps nobody.
void service_feed(struct cta *cta, instant_ns now)
{
    struct list_link passed;
    list_init(&passed);
    cta->is_starved = false;
    memset(cta->waits, 0, sizeof cta->waits);
    while (!list_is_empty(&cta->hungry) && cta->waits[CTA_SMALL] != CTA_ALL) {
        struct cta_route *route = LIST_ENTRY(cta->hungry.next, struct cta_route, link);
        struct service_request *request =
            LIST_ENTRY(route->hungry.next, struct service_request, link);
        bool is_barred = reservation_bars(route, request->operation, request->flags);
        list_remove(&route->link);
        if (!is_barred && !rates_allow(route, now)) {
            rates_wait(cta, route, now);
            continue;
        }
        if (!is_barred &&
            (must_get_behind(cta, route, request) || !begin(cta, route, request, now))) {
            list_push_tail(&passed, &route->link);
            continue;
        }
        list_remove(&request->link);
        if (!list_is_empty(&route->hungry)) {
            list_push_tail(&cta->hungry, &route->link);
        }
        if (is_barred) {
            request_complete(cta, route, request, NODE_RESERVED, 0, now);
        } else {
            proceed(cta, request, now);
        }
    }
    hungry_restore(cta, &passed);
    cta->feed_at_ns = shares_feed_at(cta, now);
}

// The data of a request are here, for the device. Who may use the volume is looked at once more: it
// may have been reserved while they were on their way.
static void data_have_come(struct cta *cta, struct transaction *t, enum node_completion outcome,
                           instant_ns now)
{
    shares_note_come(cta, t->route, t->buffer.len);
    if (outcome == NODE_OK && t->stands_by) {
        outcome = NODE_STANDBY;
    } else if (outcome == NODE_OK &&
               (t->is_fenced || reservation_bars(t->route, t->operation, t->flags))) {
        outcome = NODE_RESERVED;
    }
    if (outcome == NODE_OK) {
        units_submit(t);
    } else {
        transaction_answer(cta, t, outcome, 0, now);
        transaction_end(cta, t);
    }
}

static void data_have_left(struct cta *cta, struct transaction *t, enum node_completion outcome,
                           instant_ns now)
{
    request_account(cta, t->route, t->request, outcome);
    t->request = NULL;
    if (t->is_by_window) {
        transaction_end(cta, t);
    } else {
        units_complete(t, outcome, now);
    }
}

void service_transferred(void *ctx, struct service_request *request, enum node_completion outcome,
                         instant_ns now)
{
    struct cta *cta = ctx;
    struct transaction *t = find(cta, request->transaction);
    CHECK(t != NULL && t->request == request);
    if (t->state == TRANSACTION_FETCHING) {
        data_have_come(cta, t, outcome, now);
    } else {
        CHECK(t->state == TRANSACTION_TRANSFERRING);
        data_have_left(cta, t, outcome, now);
    }
}

/* ---- what does not end by itself ------------------------------------------------------------- */

// Those who wait for room, or for the volume's rate.
static void hungry_end(struct cta *cta, struct cta_route *route, enum node_completion completion,
                       instant_ns now)
{
    list_remove(&route->link);
    for (struct list_link *l; (l = list_pop_head(&route->hungry)) != NULL;) {
        struct service_request *request = LIST_ENTRY(l, struct service_request, link);
        request_complete(cta, route, request, completion, 0, now);
    }
}

// Else they would have their turns before those of clients that are there, and keep the client's
// next connection waiting for their end.
void service_leave(void *ctx, uint32_t connection, instant_ns now)
{
    struct cta *cta = ctx;
    struct cta_route *route = routes_find(cta, connection);
    if (route != NULL) {
        route->has_left = true;
        hungry_end(cta, route, NODE_TRANSFER, now);
    }
}

void service_fail_route(void *ctx, uint32_t connection, instant_ns now)
{
    struct cta *cta = ctx;
    struct cta_route *route = routes_find(cta, connection);
    if (route == NULL) {
        return;
    }
    route->has_failed = true;
    hungry_end(cta, route, NODE_NO_VOLUME, now);
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        struct transaction *t = &cta->transactions[i];
        if (t->state == TRANSACTION_READY && t->route == route) {
            transaction_fail(cta, t, now);
        }
    }
}

static void stand_by(struct cta *cta, struct transaction *t, instant_ns now)
{
    if (t->state == TRANSACTION_FETCHING) {
        t->stands_by = true;
    } else if (t->state == TRANSACTION_READY && t->is_replay) {
        t->unit->replay_count--;
        t->is_replay = false;
        transaction_answer(cta, t, NODE_STANDBY, 0, now);
        units_complete(t, NODE_STANDBY, now);
    } else if (t->state == TRANSACTION_READY) {
        transaction_answer(cta, t, NODE_STANDBY, 0, now);
        transaction_end(cta, t);
    }
}

void service_stand_by(struct cta *cta, const struct cta_volume *volume, instant_ns now)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct cta_route *route = &cta->routes[i];
        if (route->route.connection == 0 || route->volume != volume) {
            continue;
        }
        hungry_end(cta, route, NODE_STANDBY, now);
    }
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        struct transaction *t = &cta->transactions[i];
        if (t->state != TRANSACTION_FREE && t->route != NULL && t->route->volume == volume) {
            stand_by(cta, t, now);
        }
    }
}

void service_fence(struct cta *cta, struct cta_route *route, instant_ns now)
{
    list_remove(&route->link);
    for (struct list_link *l; (l = list_pop_head(&route->hungry)) != NULL;) {
        request_complete(cta, route, LIST_ENTRY(l, struct service_request, link), NODE_RESERVED, 0,
                         now);
    }
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        struct transaction *t = &cta->transactions[i];
        bool is_its = t->state != TRANSACTION_FREE && t->route == route;
        if (is_its && t->state == TRANSACTION_READY && !t->is_replay) {
            transaction_answer(cta, t, NODE_RESERVED, 0, now);
            transaction_end(cta, t);
        } else if (is_its) {
            t->is_fenced = true;
        }
    }
}

static void expire_hungry(struct cta *cta, struct cta_route *route, instant_ns now)
{
    struct list_link *next;
    for (struct list_link *l = route->hungry.next; l != &route->hungry; l = next) {
        struct service_request *request = LIST_ENTRY(l, struct service_request, link);
        next = l->next;
        if (request->deadline <= now) {
            list_remove(l);
            request_complete(cta, route, request, NODE_TIMED_OUT, 0, now);
        }
    }
}

static void expire_waiting(struct cta *cta, struct list_link *routes, instant_ns now)
{
    struct list_link *next;
    for (struct list_link *l = routes->next; l != routes; l = next) {
        struct cta_route *route = LIST_ENTRY(l, struct cta_route, link);
        next = l->next;
        expire_hungry(cta, route, now);
        if (list_is_empty(&route->hungry)) {
            list_remove(&route->link);
        }
    }
}

void service_expire(struct cta *cta, instant_ns now)
{
    cta->tick_at_ns = instant_after(now, deadline_tick_ns);
    expire_waiting(cta, &cta->hungry, now);
    for (struct list_link *l = cta->paced.next; l != &cta->paced; l = l->next) {
        expire_waiting(cta, &LIST_ENTRY(l, struct cta_rate, link)->waiting, now);
    }
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        struct transaction *t = &cta->transactions[i];
        if (t->request == NULL || t->deadline > now) {
            continue;
        }
        if (t->state == TRANSACTION_READY && !t->is_replay) {
            transaction_answer(cta, t, NODE_TIMED_OUT, 0, now);
            transaction_end(cta, t);
        } else if (t->state == TRANSACTION_READY || t->state == TRANSACTION_AT_UNIT) {
            transaction_answer(cta, t, NODE_TIMED_OUT, 0, now); // its result will find nobody
        }
    }
}

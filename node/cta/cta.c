#include "node/cta/cta.h"

#include <stdlib.h>

#include "node/cta/agent.h"
#include "node/interface/request.h"

struct cta *cta_create(const struct cta_parts *parts)
{
    struct cta *cta = calloc(1, sizeof *cta);
    if (cta == NULL) {
        return NULL;
    }
    cta->parts = *parts;
    cta->trim_at_ns = cta->feed_at_ns = INSTANT_NEVER;
    list_init(&cta->hungry);
    list_init(&cta->paced);
    list_init(&cta->free);
    list_init(&cta->quarantine);
    list_init(&cta->reserving);
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        list_push_tail(&cta->free, &cta->transactions[i].link);
    }
    return cta;
}

void cta_destroy(struct cta *cta)
{
    for (unsigned i = 0; cta != NULL && i < cta->unit_end; i++) {
        cta_unit_destroy(cta->units[i]);
    }
    free(cta);
}

static struct node_pool pool(void *ctx)
{
    return ((struct cta *)ctx)->parts.pool;
}

const struct cta_for_tts cta_for_tts = {
    .pool = pool,
    .submit = service_submit,
    .transferred = service_transferred,
    .leave = service_leave,
    .reservation = reservation_look,
    .reserve = reservation_reserve,
    .claim = reservation_claim,
    .unclaim = reservation_unclaim,
};

const struct cta_for_uma cta_for_uma = {
    .unit_add = units_add,
    .unit_remove = units_remove,
    .unit_keep = units_keep,
    .unit_lost = units_lost,
    .unit_ready = units_ready,
    .route_add = routes_add,
    .route_remove = routes_remove,
    .volume_remove = routes_volume_remove,
    .window_set = window_set,
    .rate_set = rates_set,
    .standby_set = standby_set,
    .route_fail = service_fail_route,
};

/* ---- batches and time ------------------------------------------------------------------------ */

// Buffers or places come back with acknowledgements that nobody is in a hurry to send: ask for
// them.
static void hurry(struct cta_unit *unit)
{
    bool is_stuck = unit->depth >= CTA_UNIT_DEPTH && !list_is_empty(&unit->ready);
    if ((unit->cta->is_starved || is_stuck) && !unit->has_hurried && unit->is_ready &&
        !list_is_empty(&unit->completing)) {
        unit->has_hurried = true;
        residual_hurry(unit->residual);
    }
}

void cta_flush(struct cta *cta, instant_ns now)
{
    rates_release(cta, now);
    if (!list_is_empty(&cta->hungry)) {
        service_feed(cta, now);
    }
    if (!list_is_empty(&cta->reserving)) {
        reservation_feed(cta, now);
    }
    for (unsigned i = 0; i < cta->unit_end; i++) {
        struct cta_unit *unit = cta->units[i];
        if (unit != NULL && unit->is_ready) {
            units_pump(unit, now);
            hurry(unit);
            residual_flush(unit->residual);
        }
    }
}

instant_ns cta_next_deadline(const struct cta *cta)
{
    instant_ns at = cta->deadline_count > 0 ? cta->tick_at_ns : INSTANT_NEVER;
    at = instant_min(at, instant_min(cta->trim_at_ns, rates_next(cta)));
    at = instant_min(at, list_is_empty(&cta->hungry) ? INSTANT_NEVER : cta->feed_at_ns);
    for (unsigned i = 0; i < cta->unit_end; i++) {
        if (cta->units[i] != NULL && cta->units[i]->is_ready) {
            at = instant_min(at, residual_next_deadline(cta->units[i]->residual));
        }
    }
    return at;
}

void cta_on_deadline(struct cta *cta, instant_ns now)
{
    if (cta->deadline_count > 0 && now >= cta->tick_at_ns) {
        service_expire(cta, now);
    }
    if (now >= cta->trim_at_ns) {
        memory_trim(cta);
    }
    for (unsigned i = 0; i < cta->unit_end; i++) {
        struct cta_unit *unit = cta->units[i];
        if (unit != NULL && unit->is_ready) {
            cta_on_bus(cta, i, now);
            residual_on_deadline(unit->residual, now);
        }
    }
}

/* ---- counters -------------------------------------------------------------------------------- */

static uint64_t lent_len(const struct list_link *list)
{
    uint64_t len = 0;
    for (const struct list_link *l = list->next; l != list; l = l->next) {
        len += LIST_ENTRY(l, struct transaction, link)->buffer.len;
    }
    return len;
}

static uint64_t list_count(const struct list_link *list)
{
    uint64_t count = 0;
    for (const struct list_link *l = list->next; l != list; l = l->next) {
        count++;
    }
    return count;
}

bool cta_unit_counters(const struct cta *cta, uint32_t number, struct cta_unit_counters *ret)
{
    const struct cta_unit *unit = number < NODE_UNIT_COUNT_MAX ? cta->units[number] : NULL;
    if (unit == NULL) {
        return false;
    }
    *ret = unit->counters;
    ret->retransmissions = unit->residual->counters.resent;
    ret->duplicates = unit->residual->counters.duplicates;
    ret->in_flight = list_count(&unit->at_unit);
    ret->waiting = list_count(&unit->ready) + list_count(&unit->replay);
    ret->lent_len = lent_len(&unit->at_unit) + lent_len(&unit->completing);
    return true;
}

const struct cta_volume_counters *cta_volume_counters(const struct cta *cta, size_t index)
{
    bool is_there = index < NODE_VOLUME_COUNT_MAX && cta->volumes[index].counters.volume != 0;
    return is_there ? &cta->volumes[index].counters : NULL;
}

bool cta_connection_counters(const struct cta *cta, size_t index,
                             struct cta_connection_counters *ret)
{
    const struct cta_route *r = index < NODE_CONNECTION_COUNT_MAX ? &cta->routes[index] : NULL;
    if (r == NULL || r->route.connection == 0) {
        return false;
    }
    *ret = (struct cta_connection_counters){
        .client = &r->route.client,
        .connection = r->route.connection,
        .volume = r->route.volume,
        .requests = r->requests,
        .failed = r->failed,
        .octets_in =
            r->octets[NODE_WRITE] + r->octets[NODE_COMPARE_AND_WRITE] + r->octets[NODE_OR_WRITE],
        .octets_out = r->octets[NODE_READ],
        .in_flight = r->share.request_count,
    };
    return true;
}

uint64_t cta_pool_taken_len(const struct cta *cta)
{
    return shares_lent_len(cta);
}

bool cta_check(const struct cta *cta)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        const struct transaction *t = &cta->transactions[i];
        if (t->state == TRANSACTION_FREE) {
            continue;
        }
        bool has_route = t->route != NULL && t->route->route.connection != 0;
        bool is_settled = t->state == TRANSACTION_COMPLETING || t->state == TRANSACTION_QUARANTINED;
        if (has_route == is_settled || t->unit == NULL) {
            return false;
        }
        taken += t->buffer.len > 0 ? buffers_run_len(t->buffer.len) : 0;
    }
    uint64_t in_books = 0;
    for (unsigned i = 0; i < cta->unit_end; i++) {
        const struct cta_unit *unit = cta->units[i];
        if (unit != NULL && !buffers_check(unit->buffers)) {
            return false;
        }
        in_books += unit != NULL ? buffers_taken_len(unit->buffers) : 0;
    }
    return taken == cta_pool_taken_len(cta) && taken == in_books;
}

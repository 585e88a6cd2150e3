// What is asked of reservations, and answered when it holds; who else is told.

#include "node/interface/reservation.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "node/cta/agent.h"
#include "node/interface/request.h"
#include "node/reservation/book.h"

const struct reservation *reservation_look(void *ctx, uint32_t connection)
{
    const struct cta_route *route = routes_find(ctx, connection);
    return route != NULL ? route->route.reservation : NULL;
}

/* ---- the claim of a connection --------------------------------------------------------------- */

bool reservation_claim(void *ctx, uint32_t connection)
{
    struct reservation *r = routes_find(ctx, connection)->route.reservation;
    return r != NULL && book_claim(r, connection);
}

void reservation_unclaim(void *ctx, uint32_t connection, bool of_any)
{
    struct reservation *r = routes_find(ctx, connection)->route.reservation;
    if (r != NULL && (of_any || r->claimed_by == connection)) {
        r->claimed_by = 0;
    }
}

/* ---- who is told ----------------------------------------------------------------------------- */

// While a book changes it is only noted who is to be told.
struct note {
    struct cta *cta;
    const struct reservation *of;
};

static void note_news(void *ctx, const char *registrant, enum reservation_event event)
{
    const struct note *note = ctx;
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct cta_route *route = &note->cta->routes[i];
        bool is_its = route->route.connection != 0 && route->route.reservation == note->of &&
                      strcmp(route->route.client.registrant, registrant) == 0;
        route->news |= is_its ? 1U << event : 0;
    }
}

static void tell(struct cta *cta, struct cta_route *route, instant_ns now)
{
    for (unsigned event = 0; event < RESERVATION_EVENT_COUNT; event++) {
        bool is_news = (route->news & 1U << event) != 0;
        route->news &= ~(1U << event);
        if (is_news && event == RESERVATION_TASKS_ABORTED) {
            service_fence(cta, route, now);
        }
        if (is_news && !route->is_leaving && route->route.tts->on_reservation != NULL) {
            route->route.tts->on_reservation(route->route.tts_ctx, route->route.connection,
                                             (enum reservation_event)event, now);
        }
    }
}

static void tell_all(struct cta *cta, instant_ns now)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        if (cta->routes[i].news != 0) {
            tell(cta, &cta->routes[i], now);
        }
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

// Something of a client that was to have nothing under way is still at the device.
static bool is_being_fenced(const struct cta *cta, const struct cta_route *of)
{
    for (unsigned i = 0; i < NODE_TRANSACTION_COUNT_MAX; i++) {
        const struct transaction *t = &cta->transactions[i];
        bool is_sent = t->state == TRANSACTION_AT_UNIT || t->state == TRANSACTION_READY;
        if (is_sent && t->is_fenced && t->route->route.reservation == of->route.reservation) {
            return true;
        }
    }
    return false;
}

static bool answer_if_over(struct cta *cta, struct reservation_request *request, instant_ns now)
{
    struct cta_route *route = routes_find(cta, request->connection);
    CHECK(route != NULL); // its TTS waits for the answer
    if (request->ticket != 0 || (request->is_fence && is_being_fenced(cta, route))) {
        return false;
    }
    list_remove(&request->link);
    route->route.tts->on_reserved(route->route.tts_ctx, request, now);
    return true;
}

void reservation_reserve(void *ctx, struct reservation_request *request, instant_ns now)
{
    struct cta *cta = ctx;
    struct cta_route *route = routes_find(cta, request->connection);
    CHECK(route != NULL && route->route.client.registrant[0] != '\0');
    struct reservation *r = route->route.reservation;
    struct note note = {.cta = cta, .of = r};
    bool was_stored = r != NULL && r->persists;
    request->outcome = r == NULL
                           ? RESERVATION_NO_STORE
                           : book_act(r, route->route.client.registrant, request->connection,
                                      &request->wish, &(struct book_listener){&note, note_news});
    bool is_done = request->outcome == RESERVATION_DONE;
    request->is_fence = is_done && request->wish.action == RESERVATION_PREEMPT_AND_ABORT;
    request->ticket = is_done && (was_stored || r->persists)
                          ? cta->parts.reservations_store(cta->parts.reservations_ctx)
                          : 0;
    list_push_tail(&cta->reserving, &request->link);
    tell_all(cta, now);
    answer_if_over(cta, request, now);
}

void reservation_feed(struct cta *cta, instant_ns now)
{
    struct list_link *next;
    for (struct list_link *l = cta->reserving.next; l != &cta->reserving; l = next) {
        next = l->next;
        answer_if_over(cta, LIST_ENTRY(l, struct reservation_request, link), now);
    }
}

void cta_reservations_stored(struct cta *cta, uint64_t ticket, bool is_stored)
{
    for (struct list_link *l = cta->reserving.next; l != &cta->reserving; l = l->next) {
        struct reservation_request *request = LIST_ENTRY(l, struct reservation_request, link);
        if (request->ticket != 0 && request->ticket <= ticket) {
            request->ticket = 0;
            request->outcome = is_stored ? request->outcome : RESERVATION_NOT_STORED;
        }
    }
}

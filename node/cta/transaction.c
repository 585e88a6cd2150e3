// A transaction's ways out: how its request is answered, its data moved, its buffer and slot given
// back. The one who began it is above (service.c), and so is its unit (rta_interface.c).

#include "base/histogram.h"
#include "base/time.h"
#include "node/cta/agent.h"
#include "node/interface/cta_rta.h"
#include "node/interface/request.h"

/* ---- requests -------------------------------------------------------------------------------- */

// The request ends like this. Many begin and end in one turn of the loop, whose time stands still:
// the clock itself is asked. That comes last: nothing is to be kept over the call but the two.
void request_account(struct cta *cta, struct cta_route *route,
                     const struct service_request *request, enum node_completion completion)
{
    struct cta_volume_counters *counters = &route->volume->counters;
    const unsigned operation = request->operation;
    cta->deadline_count -= request->deadline != INSTANT_NEVER;
    counters->completions[completion]++;
    route->requests++;
    if (completion == NODE_OK) {
        const uint64_t len = request->len;
        counters->octets[operation] += len;
        route->octets[operation] += len;
    } else {
        route->failed++;
    }
    struct histogram *latency = &counters->latency[operation];
    const instant_ns submitted_at_ns = request->submitted_at_ns;
    histogram_add(latency, cta->parts.clock(cta->parts.ctx) - submitted_at_ns);
}

void request_complete(struct cta *cta, struct cta_route *route, struct service_request *request,
                      enum node_completion completion, uint32_t detail, instant_ns now)
{
    request_account(cta, route, request, completion);
    request->completion = completion;
    request->detail = detail;
    request->transaction = 0;
    route->route.tts->complete(route->route.tts_ctx, request, now);
}

void transaction_answer(struct cta *cta, struct transaction *t, enum node_completion completion,
                        uint32_t detail, instant_ns now)
{
    struct service_request *request = t->request;
    t->request = NULL;
    if (request != NULL) {
        request_complete(cta, t->route, request, completion, detail, now);
    }
}

/* ---- data ------------------------------------------------------------------------------------ */

static void expose_buffer(struct transaction *t, uint32_t len)
{
    t->request->buffer = (struct node_buffer){.offset = t->buffer.offset, .len = len};
    t->request->data = memory_of(t->unit, t->buffer);
}

static void transfer(struct transaction *t, instant_ns now)
{
    t->handed_at_ns = now;
    t->route->route.tts->transfer(t->route->route.tts_ctx, t->request, now);
}

void transaction_transfer(struct cta *cta, struct transaction *t, uint32_t answer_len,
                          uint32_t detail, instant_ns now)
{
    expose_buffer(t, answer_len);
    t->request->completion = NODE_OK;
    t->request->detail = detail;
    transfer(t, now);
}

void transaction_fetch(struct transaction *t, uint32_t len, instant_ns now)
{
    expose_buffer(t, len);
    transfer(t, now);
}

/* ---- slots ----------------------------------------------------------------------------------- */

void transaction_renumber(struct transaction *t)
{
    struct cta *cta = t->unit->cta;
    uint64_t slot = (uint64_t)(t - cta->transactions);
    t->number = (++cta->serial << NODE_TRANSACTION_SLOT_BITS) | slot;
    t->request->transaction = t->number;
}

void transaction_settle(struct cta *cta, struct transaction *t)
{
    struct cta_route *route = t->route;
    if (route != NULL) {
        hold_end(t);
        t->route = NULL;
        shares_give_back(cta, route, t->buffer.len);
        routes_settled(cta, route);
    }
}

void transaction_end(struct cta *cta, struct transaction *t)
{
    transaction_settle(cta, t);
    if (t->buffer.len > 0) {
        shares_release(t->unit, t->buffer);
    }
    t->state = TRANSACTION_FREE;
    t->request = NULL;
    list_remove(&t->link);
    list_push_head(&cta->free, &t->link);
}

// The process that it was sent to is gone; what its device does goes on, and the volume, whose next
// opening would tell of the end of that, is not opened again.
static void quarantine(struct cta *cta, struct transaction *t)
{
    transaction_settle(cta, t);
    t->state = TRANSACTION_QUARANTINED;
    list_remove(&t->link);
    list_push_tail(&cta->quarantine, &t->link);
}

void transaction_fail(struct cta *cta, struct transaction *t, instant_ns now)
{
    transaction_answer(cta, t, NODE_NO_VOLUME, 0, now);
    t->unit->replay_count -= t->is_replay;
    if (t->is_replay && t->buffer.len > 0) {
        quarantine(cta, t);
    } else {
        transaction_end(cta, t);
    }
}

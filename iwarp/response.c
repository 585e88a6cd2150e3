// Responses meet the requests that wait for them: they come in the order of the requests.
#include <string.h>

#include "base/check.h"
#include "base/port_place.h"
#include "base/span.h"
#include "ddp/coverage.h"
#include "iwarp/internal.h"
#include "mem/table.h"
#include "rdmap/refusal.h"
#include "wq/read_pace.h"
#include "wq/read_task.h"
#include "wq/status.h"

// The request is no longer out: nothing may be placed for it.
static void close_sink(struct qp *qp, const struct read_context *context)
{
    struct read_answer *answer = read_answer_of(context);
    if (answer->is_open) {
        mem_sink_close(qp->config.wq.mem, answer->sink);
        answer->is_open = false;
    }
}

void response_complete(struct qp *qp, struct read_context *context)
{
    const instant_ns issued_ns = context->issued_ns;
    const uint32_t len = context->arrived_len;
    read_answer_of(context)->has_early_end = false;
    close_sink(qp, context);
    wq_request_answered(&qp->wq, context);
    read_way_note(qp, issued_ns, len);
}

// Our own memory is at fault: the work request says so.
static void fail_locally(const struct read_context *context)
{
    wq_send_fail(context->task->cookie, WC_LOC_PROT_ERR);
}

static struct rdmap_expected_response expected_of(const struct qp *qp,
                                                  const struct read_context *context)
{
    const struct read_answer *answer = read_answer_of(context);
    return (struct rdmap_expected_response){
        .sink_stag = answer->is_open ? answer->sink : 0,
        .length = context->length,
        .arrived_len = context->arrived_len,
        .least_len = context->least_len,
    };
}

static uint64_t key_of(const struct read_context *context)
{
    const struct read_answer *answer = read_answer_of(context);
    return early_key(EARLY_RESPONSE, answer->is_open ? answer->sink : 0);
}

// May this segment be placed, with regard to those of its answer that came beyond a hole?
static bool is_free_of_early(const struct qp *qp, const struct read_context *context,
                             const struct rdmap_arrival *a)
{
    // An empty segment ends what has come, whatever its offset says.
    uint64_t from = a->payload.len > 0 ? a->to : context->arrived_len;
    uint64_t to = from + a->payload.len;
    const struct read_answer *answer = read_answer_of(context);
    if (answer->has_early_end && (a->is_last || to > answer->early_len)) {
        return false;
    }
    return qp->early == NULL ||
           early_is_free(qp, key_of(context), (uint32_t)from, (uint32_t)to, a->is_last);
}

static void note_first_octet(struct qp *qp, const struct read_context *context)
{
    bool has_early = qp->early != NULL && ddp_coverage_knows(&qp->early->coverage, key_of(context));
    if (context->arrived_len == 0 && !has_early) {
        read_pace_on_first_octet(&qp->wq.reads.pace, context->issued_ns, context->is_alone,
                                 qp->wq.now);
    }
}

enum rdmap_refusal response_place_read(struct qp *qp, const struct rdmap_arrival *a)
{
    struct read_context *context = response_awaited(qp);
    if (context == NULL || context->task->kind == READ_KIND_ATOMIC) {
        return RDMAP_REFUSED_RESPONSE_UNASKED;
    }
    if (!is_free_of_early(qp, context, a)) {
        return RDMAP_REFUSED_PLACED_APART;
    }
    struct rdmap_expected_response expected = expected_of(qp, context);
    enum rdmap_refusal refusal = rdmap_place_response(&qp->rdmap, a, &expected);
    if (refusal == RDMAP_ACCEPTED) {
        note_first_octet(qp, context);
        context->arrived_len += (uint32_t)a->payload.len;
    } else if (refusal == RDMAP_REFUSED_SINK_LOCAL) {
        fail_locally(context);
    }
    return refusal;
}

enum rdmap_refusal response_deliver_read(struct qp *qp, const struct rdmap_arrival *a)
{
    (void)a;
    response_complete(qp, response_awaited(qp));
    return RDMAP_ACCEPTED;
}

// The value before the operation, in the byte order of this machine, into the work request's list.
static enum rdmap_refusal place_original(struct qp *qp, const struct read_context *context,
                                         uint64_t original)
{
    struct span value = span_of(&original, sizeof original);
    return wq_answer_place(&qp->wq, context, 0, value) == SCATTER_OK ? RDMAP_ACCEPTED
                                                                     : RDMAP_REFUSED_SINK_LOCAL;
}

static enum rdmap_refusal deliver_original(struct qp *qp, struct read_context *context,
                                           uint64_t original)
{
    enum rdmap_refusal refusal = place_original(qp, context, original);
    if (refusal == RDMAP_ACCEPTED) {
        context->arrived_len = context->length;
        response_complete(qp, context);
    } else {
        fail_locally(context);
    }
    return refusal;
}

enum rdmap_refusal response_deliver_atomic(struct qp *qp, const struct rdmap_arrival *a)
{
    struct read_context *context = response_awaited(qp);
    if (context == NULL || context->task->kind != READ_KIND_ATOMIC) {
        return RDMAP_REFUSED_RESPONSE_UNASKED;
    }
    struct rdmap_atomic_response response = rdmap_atomic_response_of(a);
    if (response.request_id != read_answer_of(context)->request_number) {
        return RDMAP_REFUSED_RESPONSE_ID;
    }
    return deliver_original(qp, context, response.original);
}

/* ---- beyond a hole --------------------------------------------------------------------------- */

static struct read_context *find_read(const struct qp *qp, uint32_t sink_stag)
{
    for (struct list_link *l = qp->wq.requests.next; l != &qp->wq.requests; l = l->next) {
        struct read_context *context = LIST_ENTRY(l, struct read_context, link);
        const struct read_answer *answer = read_answer_of(context);
        if (answer->is_open && answer->sink == sink_stag) {
            return context;
        }
    }
    return NULL;
}

static struct read_context *find_atomic(const struct qp *qp, uint32_t request_number)
{
    for (struct list_link *l = qp->wq.requests.next; l != &qp->wq.requests; l = l->next) {
        struct read_context *context = LIST_ENTRY(l, struct read_context, link);
        if (context->task->kind == READ_KIND_ATOMIC &&
            read_answer_of(context)->request_number == request_number) {
            return context;
        }
    }
    return NULL;
}

static void note_end(struct read_context *context, uint64_t end, uint32_t len)
{
    struct read_answer *answer = read_answer_of(context);
    answer->has_early_end = true;
    answer->early_end = end;
    answer->early_len = len;
}

// An answer without octets names no window that could tell whose it is: it waits for its turn.
enum place_verdict response_place_read_early(struct qp *qp, const struct rdmap_arrival *a,
                                             uint64_t end)
{
    struct read_context *context = find_read(qp, a->stag);
    if (context == NULL || qp->early->coverage.count == DDP_COVERAGE_MAX ||
        !is_free_of_early(qp, context, a)) {
        return PLACE_BUFFER;
    }
    struct rdmap_expected_response expected = expected_of(qp, context);
    if (rdmap_place_response_early(&qp->rdmap, a, &expected) != RDMAP_ACCEPTED) {
        return PLACE_BUFFER;
    }
    uint32_t from = (uint32_t)a->to, to = from + (uint32_t)a->payload.len;
    note_first_octet(qp, context);
    bool is_noted = ddp_coverage_add(&qp->early->coverage, key_of(context), from, to);
    CHECK(is_noted);
    if (a->is_last) {
        note_end(context, end, to);
    }
    qp->counters.early_responses++;
    return PLACE_PLACED;
}

enum place_verdict response_place_atomic_early(struct qp *qp, const struct rdmap_arrival *a,
                                               uint64_t end)
{
    struct rdmap_atomic_response response = rdmap_atomic_response_of(a);
    struct read_context *context = find_atomic(qp, response.request_id);
    if (context == NULL || read_answer_of(context)->has_early_end) {
        return PLACE_BUFFER;
    }
    read_answer_of(context)->early_value = response.original;
    note_end(context, end, context->length);
    qp->counters.early_responses++;
    return PLACE_PLACED;
}

uint64_t response_next_end(const struct qp *qp, const struct release *release)
{
    (void)release;
    const struct read_context *context = response_awaited(qp);
    return context != NULL && read_answer_of(context)->has_early_end
               ? read_answer_of(context)->early_end
               : RELEASE_NEVER;
}

enum rdmap_refusal response_release(struct qp *qp, struct release *release)
{
    struct read_context *context = response_awaited(qp);
    uint32_t *done = release->done.n, from = context->arrived_len,
             to = read_answer_of(context)->early_len;
    qp->counters.released_responses++;
    if (context->task->kind == READ_KIND_ATOMIC) {
        done[RDMAP_HELD_ATOMIC_RESPONSES]++;
        return deliver_original(qp, context, read_answer_of(context)->early_value);
    }
    if (!ddp_coverage_holds(&qp->early->coverage, key_of(context), from, to)) {
        return RDMAP_REFUSED_PLACED_APART;
    }
    ddp_coverage_trim(&qp->early->coverage, key_of(context), to);
    done[RDMAP_HELD_READ_RESPONSES]++;
    done[RDMAP_HELD_RESPONSE_OCTETS] += to - from;
    context->arrived_len = to;
    response_complete(qp, context);
    return RDMAP_ACCEPTED;
}

bool response_release_rest(struct qp *qp, struct release *release)
{
    struct read_context *context = response_awaited(qp);
    uint32_t *done = &release->done.n[RDMAP_HELD_RESPONSE_OCTETS];
    uint32_t rest = release->held.n[RDMAP_HELD_RESPONSE_OCTETS] - *done;
    if (rest == 0) {
        return true;
    }
    if (context == NULL || rest > context->length - context->arrived_len) {
        return false;
    }
    uint32_t from = context->arrived_len, to = from + rest;
    if (!ddp_coverage_holds(&qp->early->coverage, key_of(context), from, to)) {
        return false;
    }
    ddp_coverage_trim(&qp->early->coverage, key_of(context), to);
    context->arrived_len = to;
    *done += rest;
    return true;
}

void response_forget_all(struct qp *qp)
{
    for (struct list_link *l = qp->wq.requests.next; l != &qp->wq.requests; l = l->next) {
        close_sink(qp, LIST_ENTRY(l, struct read_context, link));
    }
    wq_requests_forget(&qp->wq);
    pull_forget(qp);
    qp->ready_task.is_pending = false;
}

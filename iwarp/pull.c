// Reads past the stream: their octets are copied out of the memory of the peer's process, by who
// has the lock of this queue pair and lets it go meanwhile.
//
//     wq_next gives a request; it is *taken*: among those that are out, without a number or a sink
//         the sink begins a copy: so do those that follow it closely, in the same run
//             all are good: they are answered
//             one is not: it and those behind it are put
//         it begins none: the request is put
//         it wants to be asked again: the request stays taken
//
// Of our own nothing is put behind what is taken, so order is the stream's; the peer is answered.
//
// Reads go past the stream only when all before them has been answered. So one that goes on it for
// any reason would draw all behind it there, as long as there are always some out. Behind a few
// that follow each other so the next are kept back until those before them are answered.
#include "base/check.h"
#include "base/list.h"
#include "base/port_push.h"
#include "base/port_transport.h"
#include "base/port_ulpdu.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "iwarp/qp.h"
#include "rdmap/refusal.h"
#include "wire/rdmap.h"
#include "wq/read_context.h"
#include "wq/read_task.h"
#include "wq/wq.h"

enum {
    RUN_MAX = 4,     // Reads on the stream, one behind the other, before the next is kept back
    RETRY_RUN = -64, // so many go there at once behind one that the peer's memory refused
};

void pull_note_message(struct qp *qp, enum tx_source source)
{
    if (source == TX_REQUEST && qp->tx.opcode == RDMAP_READ_REQUEST) {
        qp->pull.run++;
    } else if (source == TX_WORK_REQUEST && qp->pull.run > 0) {
        qp->pull.run = 0;
    }
}

/* ---- taken ----------------------------------------------------------------------------------- */

void pull_look(struct qp *qp, const struct ulpdu_sink *sink)
{
    qp->pull.is_offered = sink->pull != NULL && qp->rdmap.extensions_agreed;
    qp->pull.is_possible = qp->pull.is_offered && read_way_is_past(qp);
    qp->wq.keeps_requests =
        qp->pull.is_possible && qp->pull.run >= RUN_MAX && qp->wq.request_count > 0;
}

// As for Writes, and all requests before it have been answered.
bool pull_takes(const struct qp *qp, const struct read_context *context)
{
    return qp->pull.is_possible && qp->wq.request_count == qp->pull.taken_count &&
           context->task->kind == READ_KIND_READ && context->length > 0;
}

void pull_take(struct qp *qp, struct read_context *context)
{
    wq_request_put(&qp->wq, context, qp->put_position);
    qp->pull.taken_count++;
}

static struct read_context *oldest_taken(const struct qp *qp)
{
    const struct list_link *l = &qp->wq.requests;
    for (uint32_t i = 0; i < qp->pull.taken_count; i++) {
        l = l->prev;
    }
    return LIST_ENTRY(l, struct read_context, link);
}

/* ---- copied ---------------------------------------------------------------------------------- */

// At a time: the window may be longer.
static uint32_t pull_len(const struct read_context *context)
{
    return context->length < PULL_LEN_MAX ? context->length : PULL_LEN_MAX;
}

static enum past_answer ask(struct qp *qp, struct ulpdu_sink *sink,
                            const struct read_context *context)
{
    struct mspan places[PULL_PIECES_MAX];
    struct pull pull = {
        .stag = context->remote_key,
        .to = context->remote_addr,
        .len = pull_len(context),
        .pieces = places,
    };
    pull.piece_count = wq_answer_places(&qp->wq, context, pull.len, places, PULL_PIECES_MAX);
    return pull.piece_count > 0 ? sink->pull(sink->ctx, &pull) : PAST_REFUSED;
}

// Those that follow the first, if they may leave now, are copied with it. One that does not join
// stays taken, and is the first of the next run.
static void gather(struct qp *qp, struct ulpdu_sink *sink)
{
    uint64_t len = pull_len(oldest_taken(qp));
    qp->wq.keeps_requests = false;
    while (qp->pull.out_count < PULL_RUN_MAX && len < PULL_RUN_LEN) {
        struct transport_work work;
        enum transport_next next = wq_next(&qp->wq, &work);
        if (next != TRANSPORT_REQUEST) {
            qp->pull.is_failed = next == TRANSPORT_FAILED;
            return;
        }
        bool may_join = pull_takes(qp, work.context);
        pull_take(qp, work.context);
        if (!may_join || ask(qp, sink, work.context) != PAST_BEGUN) {
            return;
        }
        qp->pull.out_count++;
        len += pull_len(work.context);
    }
}

static enum rdmap_refusal put_oldest(struct qp *qp)
{
    struct read_context *context = oldest_taken(qp);
    qp->pull.taken_count--;
    qp->pull.is_refused = false;
    return request_start_taken(qp, context);
}

// What has been taken before is asked for anew in each turn.
enum rdmap_refusal pull_start(struct qp *qp, struct ulpdu_sink *sink)
{
    const struct read_context *context = oldest_taken(qp);
    if (qp->pull.is_refused || !pull_takes(qp, context)) {
        return put_oldest(qp);
    }
    switch (ask(qp, sink, context)) {
    case PAST_BEGUN:
        qp->pull.run = 0;
        qp->pull.out_count = 1;
        qp->wq.written = context->task->cookie;
        if (qp->pull.taken_count == 1) {
            gather(qp, sink);
        }
        return RDMAP_ACCEPTED;
    case PAST_REFUSED:
        qp->pull.run = RETRY_RUN;
        break;
    case PAST_LATER:
        return RDMAP_ACCEPTED;
    case PAST_BEHIND:
        break;
    }
    return put_oldest(qp);
}

// The request was never put: the next one has its number.
static void take_answer(struct qp *qp)
{
    struct read_context *context = oldest_taken(qp);
    qp->pull.taken_count--;
    qp->counters.pulled_reads++;
    context->arrived_len = pull_len(context);
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u pulled %u octets", qp->config.wq.qp_num,
          context->arrived_len);
    response_complete(qp, context);
}

// The stream may have ended meanwhile, or a Terminate be on its way.
void qp_on_pulled(struct qp *qp, unsigned good_count, instant_ns now)
{
    CHECK(good_count <= qp->pull.out_count && qp->pull.out_count > 0);
    qp->wq.now = now;
    qp->pull.is_refused = good_count < qp->pull.out_count;
    qp->pull.out_count = 0;
    qp->wq.written = NULL;
    for (unsigned i = 0; i < good_count && qp_takes_input(qp); i++) {
        take_answer(qp);
    }
    wq_complete_sends(&qp->wq);
    qp_settle(qp);
}

// Reads past the stream: their octets are copied out of the memory of the peer's process, by who
// has the lock of this queue pair and lets it go meanwhile. The request stands as the message in
// progress until that is done, so nothing is put behind it; where it is not to be had it is put.
//
// Reads go past the stream only when all before them has been answered. So one that goes on it for
// any reason would draw all behind it there, as long as there are always some out. Behind a few
// that follow each other so the next are kept back until those before them are answered.
#include "base/check.h"
#include "base/port_push.h"
#include "base/port_ulpdu.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "iwarp/qp.h"
#include "rdmap/tx.h"
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
    bool is_read = source == TX_REQUEST && qp->tx.opcode == RDMAP_READ_REQUEST;
    qp->pull.is_refused = false;
    if (is_read) {
        qp->pull.run++;
    } else if (source == TX_WORK_REQUEST && qp->pull.run > 0) {
        qp->pull.run = 0;
    }
}

void pull_keep_requests(struct qp *qp, const struct ulpdu_sink *sink)
{
    qp->wq.keeps_requests =
        sink->pull != NULL && qp->pull.run >= RUN_MAX && qp->wq.request_count > 0;
}

// As for Writes, and all requests before it have been answered.
static bool may_pull(const struct qp *qp, const struct ulpdu_sink *sink)
{
    return sink->pull != NULL && qp->tx_source == TX_REQUEST &&
           qp->tx.opcode == RDMAP_READ_REQUEST && !qp->pull.is_refused &&
           qp->rdmap.extensions_agreed && qp->wq.request_count == 1;
}

enum pull_answer pull_message(struct qp *qp, struct ulpdu_sink *sink)
{
    struct mspan places[PULL_PIECES_MAX];
    if (!may_pull(qp, sink)) {
        return PULL_REFUSED;
    }
    const struct read_context *context = wq_request_oldest(&qp->wq);
    if (context->task->kind != READ_KIND_READ || context->length == 0) {
        return PULL_REFUSED;
    }
    const struct pull pull = {
        .stag = context->remote_key,
        .to = context->remote_addr,
        .len = context->length < PULL_LEN_MAX ? context->length : PULL_LEN_MAX,
    };
    unsigned count = wq_answer_places(&qp->wq, context, pull.len, places, PULL_PIECES_MAX);
    enum pull_answer answer =
        count > 0 ? sink->pull(sink->ctx, &pull, places, count) : PULL_REFUSED;
    if (answer == PULL_BEGUN) {
        qp->pull.is_out = true;
        qp->pull.len = (uint32_t)pull.len;
        qp->wq.written = context->task->cookie;
    } else if (answer == PULL_REFUSED || answer == PULL_BEHIND) {
        qp->pull.is_refused = true;
        qp->pull.run = answer == PULL_REFUSED ? RETRY_RUN : qp->pull.run;
    }
    return answer;
}

// The request was never put: the next one has its number.
static void take_answer(struct qp *qp)
{
    struct read_context *context = wq_request_oldest(&qp->wq);
    rdmap_tx_withdraw(&qp->tx, &qp->rdmap);
    qp->tx_source = TX_NONE;
    qp->pull.run = 0;
    qp->counters.pulled_reads++;
    context->arrived_len = qp->pull.len;
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u pulled %u octets", qp->config.wq.qp_num,
          qp->pull.len);
    response_complete(qp, context);
}

// A Terminate may have taken the place of the message meanwhile, or the stream has ended.
void qp_on_pulled(struct qp *qp, bool is_good, instant_ns now)
{
    CHECK(qp->pull.is_out);
    qp->wq.now = now;
    qp->pull.is_out = false;
    qp->wq.written = NULL;
    if (qp->tx_source == TX_REQUEST && qp_takes_input(qp)) {
        qp->pull.is_refused = !is_good;
        if (is_good) {
            take_answer(qp);
        }
    }
    wq_complete_sends(&qp->wq);
    qp_settle(qp);
}

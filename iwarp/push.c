// Writes past the stream: their octets are put into the memory of the peer's process, by who has
// the lock of this queue pair and lets it go meanwhile.
//
//     a Write is about to be put
//         the sink begins a push: it is in progress no more, and
//             is there: it is over, and no message was put
//             is not there: it starts anew, and is put
//         the sink wants to be asked again: it starts anew in the next turn
//         it begins none: the Write is put
//
// Of our own nothing is put behind one that has begun, so order is the stream's; the peer is
// answered.
#include "base/check.h"
#include "base/port_push.h"
#include "base/port_ulpdu.h"
#include "base/sge.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "iwarp/qp.h"
#include "wire/rdmap.h"
#include "wq/wq.h"
#include "wq/wqe.h"

// Writes alone: everything else is the peer's queue pair's to see. Until the peer's first octets
// have come it is not known whether both are weft.
static bool may_push(const struct qp *qp, const struct ulpdu_sink *sink)
{
    return sink->push != NULL && qp->tx_source == TX_WORK_REQUEST && qp->tx.opcode == RDMAP_WRITE &&
           qp->tx.ddp.offset == 0 && qp->tx.ddp.length > 0 && qp->rdmap.extensions_agreed &&
           !qp->push.is_refused;
}

static enum past_answer ask(struct qp *qp, struct ulpdu_sink *sink)
{
    const struct send_wqe *wqe = wq_send_at(&qp->wq, qp->tx_handle);
    struct span pieces[SGE_COUNT_MAX];
    struct push push = {
        .stag = wqe->rkey, .to = wqe->remote_addr, .len = (size_t)wqe->length, .pieces = pieces};
    push.piece_count = wq_message_octets(&qp->wq, qp->tx_handle, 0, push.len, pieces);
    return push.piece_count > 0 ? sink->push(sink->ctx, &push) : PAST_REFUSED;
}

bool push_start(struct qp *qp, struct ulpdu_sink *sink)
{
    if (!may_push(qp, sink)) {
        return false;
    }
    enum past_answer answer = ask(qp, sink);
    qp->push.is_out = answer == PAST_BEGUN;
    qp->push.is_left = answer == PAST_LATER;
    if (!qp->push.is_out && !qp->push.is_left) {
        return false;
    }
    qp->tx_source = TX_NONE;
    return true;
}

static void take_done(struct qp *qp)
{
    const struct send_wqe *wqe = wq_send_at(&qp->wq, qp->tx_handle);
    struct qp_message_counter *counter = &qp->counters.out[RDMAP_WRITE];
    counter->messages++;
    counter->octets += wqe->length;
    qp->counters.pushed_writes++;
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u pushed %llu octets", qp->config.wq.qp_num,
          (unsigned long long)wqe->length);
    requester_message_put(qp);
}

// The stream may have ended meanwhile, or a Terminate be on its way.
void qp_on_pushed(struct qp *qp, bool is_done, instant_ns now)
{
    CHECK(qp->push.is_out);
    qp->wq.now = now;
    qp->push.is_out = false;
    qp->push.is_refused = !is_done;
    if (is_done && qp_takes_input(qp)) {
        take_done(qp);
    }
    wq_complete_sends(&qp->wq);
    qp_settle(qp);
}

// The last thing in every call from outside: what follows from what happened in it.
#include "iwarp/internal.h"
#include "iwarp/state.h"

// CLOSING: has all that was posted before left, and is nothing owed to the peer?
static bool is_drained(const struct qp *qp)
{
    return wq_is_drained(&qp->wq) && qp->tx_source == TX_NONE && qp->peer_request_count == 0 &&
           !qp->is_rtr_due && !qp->pull.is_failed && qp_is_all_handed(qp);
}

static void flush(struct qp *qp)
{
    response_forget_all(qp);
    rnr_store_clear(&qp->store);
    wq_flush_sends(&qp->wq);
    if (qp->receive != NULL) {
        wq_flush_receive(&qp->wq, qp->receive);
        qp->receive = NULL;
    }
    struct recv_wqe *wqe;
    while ((wqe = receive_pop_early(qp)) != NULL) {
        if (qp->config.wq.srq != NULL) { // those of an own queue are among the claimed below
            wq_flush_receive(&qp->wq, wqe);
        }
    }
    wq_flush_receives(&qp->wq);
    if (qp->config.wq.srq != NULL && !qp->is_last_wqe_reported) {
        qp->is_last_wqe_reported = true;
        qp_raise(qp, QP_EVENT_LAST_WQE_REACHED);
    }
}

// A completion was lost, by what has happened or by flushing: that is told once.
static void follow_overrun(struct qp *qp)
{
    if (!qp->wq.has_overrun) {
        return;
    }
    if (!qp->is_overrun_reported) {
        qp->is_overrun_reported = true;
        qp_raise(qp, QP_EVENT_FATAL);
    }
    qp_stream_on(qp, QP_STREAM_ON_FAIL);
}

void qp_settle(struct qp *qp)
{
    follow_overrun(qp);
    if (qp->stream_state == QP_STREAM_TERMINATE && !qp->is_terminate_due &&
        qp->tx_source == TX_NONE && qp_is_all_handed(qp)) {
        qp_stream_on(qp, QP_STREAM_ON_TERMINATE_HANDED);
    }
    if (qp->stream_state == QP_STREAM_CLOSING && !qp->is_drained && is_drained(qp)) {
        qp->is_drained = true;
        qp_raise(qp, QP_EVENT_SQ_DRAINED);
    }
    if (qp->is_flush_due && !copy_is_in_the_way(qp) && (!qp->is_llp_open || qp_is_all_handed(qp))) {
        qp->is_flush_due = false;
        flush(qp);
        follow_overrun(qp);
    }
}

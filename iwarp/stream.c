// The stream's state, what the program sees of it, and the events that it hears.
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "iwarp/state.h"
#include "wq/oneshot.h"
#include "wq/read_sched.h"

void qp_raise(struct qp *qp, enum qp_event event)
{
    if (qp->wq.is_silent) {
        return;
    }
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u event: %s", qp->config.wq.qp_num,
          qp_event_name(event));
    if (qp->config.port.on_event != NULL) {
        qp->config.port.on_event(qp->config.port.ctx, event);
    }
}

// What the program sees of a stream that has left full operation.
static void follow_stream(struct qp *qp)
{
    switch (qp->stream_state) {
    case QP_STREAM_CLOSING:
        qp->state = QP_SQD;
        wq_close(&qp->wq);
        break;
    case QP_STREAM_TERMINATE:
        oneshot_detach_all(&qp->wq); // before anybody hears of it
        qp->state = QP_ERR;
        read_flow_stop(&qp->wq.reads, qp->wq.now); // others need what it cannot use any more
        qp->rnr_deadline = INSTANT_NEVER;
        break;
    case QP_STREAM_ERROR:
        oneshot_detach_all(&qp->wq);
        qp->state = QP_ERR;
        qp->rnr_deadline = INSTANT_NEVER;
        qp->tx_source = TX_NONE;
        qp->is_terminate_due = false;
        qp->terminate_deadline = INSTANT_NEVER;
        qp->is_flush_due = true;
        break;
    default:
        break;
    }
}

void qp_stream_on(struct qp *qp, enum qp_stream_event event)
{
    enum qp_stream_state from = qp->stream_state;
    qp->stream_state = qp_stream_next(from, event);
    if (qp->stream_state == from) {
        return;
    }
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u stream %s -> %s: %s", qp->config.wq.qp_num,
          qp_stream_state_name(from), qp_stream_state_name(qp->stream_state),
          qp_stream_event_name(event));
    follow_stream(qp);
}

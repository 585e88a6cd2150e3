// Every change of state, and what follows from it.
#include <errno.h>

#include "qp/internal.h"

void qp_raise(struct qp *qp, enum qp_event event)
{
    if (qp->is_silent) {
        return;
    }
    TRACE(qp->config.trace, TRACE_QP, "qp %u event: %s", qp->config.qp_num, qp_event_name(event));
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
        qp->sq_close_at = wqe_ring_posted(&qp->sq);
        break;
    case QP_STREAM_TERMINATE:
        oneshot_detach_all(qp); // before anybody hears of it
        qp->state = QP_ERR;
        read_flow_stop(&qp->reads, qp->now); // others need what it cannot use any more
        qp->rnr_deadline = INSTANT_NEVER;
        break;
    case QP_STREAM_ERROR:
        oneshot_detach_all(qp);
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
    TRACE(qp->config.trace, TRACE_QP, "qp %u stream %s -> %s: %s", qp->config.qp_num,
          qp_stream_state_name(from), qp_stream_state_name(qp->stream_state),
          qp_stream_event_name(event));
    follow_stream(qp);
}

// CLOSING: has all that was posted before left, and is nothing owed to the peer?
static bool is_drained(const struct qp *qp)
{
    return wqe_ring_head(&qp->sq) == qp->sq_close_at && qp->tx_source == TX_NONE &&
           qp->peer_request_count == 0 && !qp->is_rtr_due && qp_is_all_handed(qp);
}

void qp_settle(struct qp *qp)
{
    if (qp->has_overrun) {
        qp_stream_on(qp, QP_STREAM_ON_FAIL);
    }
    if (qp->stream_state == QP_STREAM_TERMINATE && !qp->is_terminate_due &&
        qp->tx_source == TX_NONE && qp_is_all_handed(qp)) {
        qp_stream_on(qp, QP_STREAM_ON_TERMINATE_HANDED);
    }
    if (qp->stream_state == QP_STREAM_CLOSING && !qp->is_drained && is_drained(qp)) {
        qp->is_drained = true;
        qp_raise(qp, QP_EVENT_SQ_DRAINED);
    }
    if (qp->is_flush_due && (!qp->is_llp_open || qp_is_all_handed(qp))) {
        qp->is_flush_due = false;
        complete_flush(qp);
    }
}

static uint32_t at_most(uint32_t value, uint32_t max)
{
    return value < max ? value : max;
}

void qp_on_established(struct qp *qp, const struct qp_stream *stream, instant_ns now)
{
    struct mem_asker asker = {
        .pd = qp->config.pd, .qp_num = qp->config.qp_num, .denied = qp->denied};
    CHECK(stream->mulpdu >= QP_MULPDU_MIN);
    qp->now = now;
    qp->is_llp_open = true;
    qp->put_position = 0;
    qp->handed_position = 0;
    qp->settled_position = 0;
    qp->stream = *stream;
    rdmap_stream_init(&qp->rdmap, qp->config.mem, asker, stream->mulpdu);
    early_begin(qp);
    qp_set_ord_max(qp, qp->ord_max);
    qp->ird = at_most(stream->ird, qp->config.ird_max);
    if (!stream->is_initiator && (stream->rtr & QP_RTR_READ) != 0 && qp->ird == 0) {
        qp->ird = 1; // for the ready-to-receive indication
    }
    qp->may_send = stream->may_send;
    qp->silence_deadline = stream->may_send || stream->silence_ns == 0
                               ? INSTANT_NEVER
                               : instant_after(now, stream->silence_ns);
    qp->is_first_arrival_due = true;
    qp->rdmap.extensions_may_come = stream->peer_is_weft;
    qp->rdmap.extensions_agreed = stream->peer_is_weft && stream->is_initiator;
    qp->is_extension_due = stream->is_initiator && stream->peer_is_weft;
    qp->is_rtr_due = stream->is_initiator && !stream->peer_is_weft && stream->rtr != 0;
    atomic_store_explicit(&qp->peer_is_foreign, !stream->peer_is_weft, memory_order_relaxed);
    if (stream->is_initiator || !stream->peer_is_weft) {
        oneshot_agree(qp, stream->peer_is_weft ? stream->choices.encoding : 0);
    }
    notice_begin(qp);
    qp_stream_on(qp, QP_STREAM_ON_ESTABLISHED);
    if (qp->stream_state == QP_STREAM_OPEN && qp->state < QP_RTR) {
        qp->state = QP_RTS; // in RTR the program asks for it
    }
    qp_settle(qp);
}

void qp_use_mulpdu(struct qp *qp, uint32_t mulpdu)
{
    CHECK(qp->put_position == 0);
    CHECK(mulpdu >= qp->rdmap.mulpdu);
    qp->rdmap.mulpdu = mulpdu;
}

void qp_on_handed(struct qp *qp, uint64_t stream_position, instant_ns now)
{
    qp->now = now;
    if (stream_position > qp->handed_position) {
        request_on_handed(qp, qp->handed_position, stream_position);
        qp_restart_terminate(qp);
        qp->handed_position = stream_position;
        if (!qp->stream.settles_apart) {
            qp->settled_position = stream_position;
            complete_sends(qp);
        }
    }
    qp_settle(qp);
}

void qp_on_settled(struct qp *qp, uint64_t stream_position, instant_ns now)
{
    CHECK(stream_position <= qp->handed_position);
    qp->now = now;
    if (stream_position > qp->settled_position) {
        qp->settled_position = stream_position;
        complete_sends(qp);
        qp_settle(qp);
    }
}

void qp_on_receive_posted(struct qp *qp, instant_ns now)
{
    qp->now = now;
    if (qp_takes_input(qp)) {
        receive_drain(qp);
    }
    qp_on_send_posted(qp, now);
}

void qp_on_send_posted(struct qp *qp, instant_ns now)
{
    qp->now = now;
    if (qp->stream_state == QP_STREAM_ERROR) {
        qp->is_flush_due = true;
    }
    qp_settle(qp);
}

bool qp_is_stalled(const struct qp *qp)
{
    return qp->is_stalled && qp_takes_input(qp);
}

bool qp_wants_receive(const struct qp *qp)
{
    return qp_takes_input(qp) && (qp->is_stalled || !rnr_store_is_empty(&qp->store));
}

const char *qp_close_reason_name(enum qp_close_reason reason)
{
    static const char *const names[QP_CLOSE_REASON_COUNT] = {
        [QP_CLOSE_PEER] = "the peer closed",
        [QP_CLOSE_RESET] = "the peer reset the stream",
        [QP_CLOSE_TIMEOUT] = "the peer is silent",
        [QP_CLOSE_LOCAL] = "closed here",
    };
    return names[reason];
}

void qp_on_llp_closed(struct qp *qp, enum qp_close_reason reason, instant_ns now)
{
    qp->now = now;
    TRACE(qp->config.trace, TRACE_QP, "qp %u stream is gone: %s", qp->config.qp_num,
          qp_close_reason_name(reason));
    qp->is_llp_open = false;
    qp_stream_on(qp, QP_STREAM_ON_LLP_CLOSED);
    qp_settle(qp);
}

void qp_silence(struct qp *qp)
{
    qp->is_silent = true;
}

void qp_set_rights(struct qp *qp, uint32_t rights)
{
    qp->denied = ~rights & MEM_ACCESS_ALL;
    qp->rdmap.asker.denied = qp->denied;
}

// Those outstanding already are counted against it.
void qp_set_ord_max(struct qp *qp, uint32_t ord_max)
{
    qp->ord_max = at_most(ord_max, qp->config.ord_max);
    qp->ord = at_most(qp->stream.ord, qp->ord_max);
    qp->reads.context_max = qp->ord;
}

void qp_serve_none(struct qp *qp)
{
    qp->serves_none = true;
}

void qp_on_no_peer(struct qp *qp, instant_ns now)
{
    qp->now = now;
    qp->has_no_peer = true;
    qp_stream_on(qp, QP_STREAM_ON_FAIL);
    qp_settle(qp);
}

// Back to the beginning, nothing is reported.
static void reset(struct qp *qp)
{
    response_forget_all(qp);
    receive_forget(qp);
    uint32_t posted = wqe_ring_posted(&qp->sq);
    oneshot_detach_all(qp);
    oneshot_disagree(qp);
    for (uint32_t i = wqe_ring_head(&qp->sq); i != posted; i++) {
        oneshot_wqe_ended(qp, sq_at(qp, i), sq_has_begun(qp, i));
    }
    qp->sq_next = posted;
    qp->is_sq_begun = false;
    qp->is_sq_blocked = false;
    wqe_ring_free_to(&qp->sq, posted);
    cq_detach(qp->config.recv_cq, qp->config.qp_num);
    if (qp->config.srq == NULL) {
        qp->rq_next = wqe_ring_posted(&qp->rq);
        wqe_ring_free_to(&qp->rq, qp->rq_next);
    }
    responder_forget(qp);
    qp->tx_source = TX_NONE;
    qp->is_extension_due = qp->is_rtr_due = qp->is_terminate_due = false;
    qp->is_drained = qp->is_flush_due = qp->is_last_wqe_reported = qp->has_overrun = false;
    qp->has_failed_send = qp->has_no_peer = false;
    qp->has_terminate_sent = qp->has_terminate_received = false;
    qp->terminate_deadline = qp->silence_deadline = INSTANT_NEVER;
    qp->may_send = false;
    qp_set_rights(qp, MEM_ACCESS_ALL);
    qp->ord_max = qp->config.ord_max;
    qp->serves_none = false;
}

int qp_modify(struct qp *qp, enum qp_state to, instant_ns now)
{
    qp->now = now;
    if (!qp_state_may_modify(qp->state, to)) {
        return -EINVAL;
    }
    if (to == QP_RESET) {
        qp_stream_on(qp, QP_STREAM_ON_RESET);
        reset(qp);
        qp->state = QP_RESET;
    } else if (to == QP_ERR) {
        qp->state = QP_ERR;
        qp_stream_on(qp, QP_STREAM_ON_FAIL);
    } else if (to == QP_SQD) {
        qp_stream_on(qp, QP_STREAM_ON_CLOSE);
    } else {
        qp->state = to;
    }
    qp_settle(qp);
    return 0;
}

bool qp_wants_close(const struct qp *qp, bool *ret_abort)
{
    *ret_abort = !qp_is_all_handed(qp);
    if (!qp->is_llp_open) {
        return false;
    }
    switch (qp->stream_state) {
    case QP_STREAM_IDLE: // reset under a stream
    case QP_STREAM_ERROR:
        return true;
    case QP_STREAM_CLOSING:
        return qp->is_drained;
    default:
        return false;
    }
}

instant_ns qp_next_deadline(const struct qp *qp)
{
    instant_ns deadline = instant_min(qp->terminate_deadline, qp->rnr_deadline);
    return instant_min(request_deadline(qp), instant_min(qp->silence_deadline, deadline));
}

void qp_on_deadline(struct qp *qp, instant_ns now)
{
    qp->now = now;
    if (now >= qp->terminate_deadline) {
        qp->terminate_deadline = INSTANT_NEVER;
        qp_stream_on(qp, QP_STREAM_ON_FAIL);
    }
    if (now >= qp->silence_deadline) {
        qp->silence_deadline = INSTANT_NEVER;
        qp->may_send = true;
    }
    if (now >= qp->rnr_deadline) {
        qp->rnr_deadline = INSTANT_NEVER;
        receive_give_up(qp);
    }
    if (now >= request_deadline(qp)) {
        request_on_deadline(qp);
    }
    qp_settle(qp);
}

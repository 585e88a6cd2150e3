// Every change of state that is asked for, and what the transport below has done.
#include <errno.h>

#include "base/key_mirror.h"
#include "base/port_ulpdu.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "iwarp/state.h"
#include "mem/table.h"

static uint32_t at_most(uint32_t value, uint32_t max)
{
    return value < max ? value : max;
}

void qp_on_established(struct qp *qp, const struct qp_stream *stream, instant_ns now)
{
    struct mem_asker asker = {
        .pd = qp->config.wq.pd, .qp_num = qp->config.wq.qp_num, .denied = qp->denied};
    CHECK(stream->mulpdu >= MULPDU_MIN);
    qp->wq.now = now;
    qp->is_llp_open = true;
    qp->put_position = 0;
    qp->pull.run = 0;
    read_way_begin(qp);
    wq_begin(&qp->wq);
    qp->stream = *stream;
    rdmap_stream_init(&qp->rdmap, qp->config.wq.mem, asker, stream->mulpdu);
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
    qp->is_extension_due = stream->is_initiator && stream->peer_is_weft && !stream->is_own_peer;
    qp->is_rtr_due = stream->is_initiator && !stream->peer_is_weft && stream->rtr != 0;
    atomic_store_explicit(&qp->peer_is_foreign, !stream->peer_is_weft, memory_order_relaxed);
    if (stream->is_initiator || !stream->peer_is_weft) {
        oneshot_agree(qp, stream->peer_is_weft ? stream->choices.encoding : 0);
    }
    notice_begin(qp);
    requester_tell_facts(qp);
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
    requester_tell_facts(qp);
}

void qp_on_handed(struct qp *qp, uint64_t stream_position, instant_ns now)
{
    qp->wq.now = now;
    uint64_t released = qp->wq.released_mark;
    if (stream_position > released) {
        qp_restart_terminate(qp);
        wq_on_released(&qp->wq, stream_position, stream_position - released);
        if (!qp->stream.settles_apart) {
            wq_on_settled(&qp->wq, stream_position);
        }
    }
    qp_settle(qp);
}

void qp_on_settled(struct qp *qp, uint64_t stream_position, instant_ns now)
{
    CHECK(stream_position <= qp->wq.released_mark);
    qp->wq.now = now;
    if (stream_position > qp->wq.settled_mark) {
        wq_on_settled(&qp->wq, stream_position);
        qp_settle(qp);
    }
}

void qp_on_receive_posted(struct qp *qp, instant_ns now)
{
    qp->wq.now = now;
    if (qp_takes_input(qp)) {
        receive_drain(qp);
    }
    qp_on_send_posted(qp, now);
}

void qp_on_send_posted(struct qp *qp, instant_ns now)
{
    qp->wq.now = now;
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
    qp->wq.now = now;
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u stream is gone: %s", qp->config.wq.qp_num,
          qp_close_reason_name(reason));
    qp->is_llp_open = false;
    qp_stream_on(qp, QP_STREAM_ON_LLP_CLOSED);
    qp_settle(qp);
}

void qp_on_stream_error(struct qp *qp, enum terminate_cause cause, instant_ns now)
{
    qp->wq.now = now;
    if (qp_terminate(qp, cause, NULL)) {
        qp_raise(qp, QP_EVENT_FATAL);
    }
    qp_settle(qp);
}

void qp_silence(struct qp *qp)
{
    qp->wq.is_silent = true;
}

void qp_set_rights(struct qp *qp, uint32_t rights)
{
    qp->denied = ~rights & MEM_ACCESS_ALL;
    qp->rdmap.asker.denied = qp->denied;
}

// A Read waits behind Sends that wait for receives.
unsigned qp_rights_past_stream(const struct qp *qp)
{
    bool writes = (qp->denied & MEM_ACCESS_REMOTE_WRITE) == 0;
    bool reads = (qp->denied & MEM_ACCESS_REMOTE_READ) == 0 && !qp->serves_none && qp->ird > 0 &&
                 !qp_wants_receive(qp);
    return qp_takes_input(qp) ? (writes ? KEY_MAY_WRITE : 0U) | (reads ? KEY_MAY_READ : 0U) : 0;
}

void qp_set_ord_max(struct qp *qp, uint32_t ord_max)
{
    qp->ord_max = at_most(ord_max, qp->config.wq.ord_max);
    wq_set_ord(&qp->wq, at_most(qp->stream.ord, qp->ord_max));
}

void qp_serve_none(struct qp *qp)
{
    qp->serves_none = true;
}

void qp_on_no_peer(struct qp *qp, instant_ns now)
{
    qp->wq.now = now;
    qp->wq.has_no_peer = true;
    qp_stream_on(qp, QP_STREAM_ON_FAIL);
    qp_settle(qp);
}

// Back to the beginning, nothing is reported.
static void reset(struct qp *qp)
{
    CHECK(!copy_is_in_the_way(qp));
    response_forget_all(qp);
    receive_forget(qp);
    wq_reset(&qp->wq);
    oneshot_disagree(qp);
    responder_forget(qp);
    qp->tx_source = TX_NONE;
    qp->is_extension_due = qp->is_rtr_due = qp->is_terminate_due = false;
    qp->is_drained = qp->is_flush_due = qp->is_last_wqe_reported = false;
    qp->is_overrun_reported = false;
    qp->has_terminate_sent = qp->has_terminate_received = false;
    qp->refused = qp->refused_by_peer = NULL;
    qp->terminate_deadline = qp->silence_deadline = INSTANT_NEVER;
    qp->may_send = false;
    qp_set_rights(qp, MEM_ACCESS_ALL);
    qp->ord_max = qp->config.wq.ord_max;
    qp->serves_none = false;
}

int qp_modify(struct qp *qp, enum qp_state to, instant_ns now)
{
    qp->wq.now = now;
    if (!qp_state_may_modify(qp->state, to)) {
        return -EINVAL;
    }
    if (to == QP_RESET) {
        qp_stream_on(qp, QP_STREAM_ON_RESET);
        reset(qp);
        qp->state = QP_RESET;
    } else if (to == QP_ERR) {
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
    return instant_min(wq_read_deadline(&qp->wq), instant_min(qp->silence_deadline, deadline));
}

// The oldest read fails, and with it the stream: its contexts are needed elsewhere.
static void on_read_timeout(struct qp *qp)
{
    if (qp->is_stalled) { // it is we who do not read on
        wq_read_wait_on(&qp->wq);
        return;
    }
    if (!wq_read_timeout(&qp->wq)) {
        qp_raise(qp, QP_EVENT_FATAL); // no completion will tell
    }
    qp_refuse(qp, RDMAP_REFUSED_RESPONSE_TIMEOUT, NULL);
}

void qp_on_deadline(struct qp *qp, instant_ns now)
{
    qp->wq.now = now;
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
    if (now >= wq_read_deadline(&qp->wq)) {
        on_read_timeout(qp);
    }
    qp_settle(qp);
}

// Which message leaves next, and its segments. Messages are never interleaved; at each boundary our
// own work and the peer's requests take turns. Of our own, requests go before the send queue: they
// are short, and what they ask for keeps the pipe full. A Terminate goes before everything, and may
// cut a message short.
#include "base/port_push.h"
#include "base/port_ulpdu.h"
#include "base/probe.h"
#include "base/sge.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "iwarp/state.h"
#include "rdmap/refusal.h"
#include "rdmap/terminate.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wq/read_sched.h"
#include "wq/status.h"

static bool start_control(struct qp *qp)
{
    if (qp->is_extension_due) {
        qp->is_extension_due = false;
        rdmap_tx_extension(&qp->tx, &qp->rdmap, &qp->stream.choices);
    } else if (qp->is_rtr_due) {
        if (!requester_start_rtr(qp)) {
            return false; // a read context is awaited
        }
        qp->is_rtr_due = false;
    } else {
        notice_start(qp);
    }
    qp->tx_source = TX_CONTROL;
    return true;
}

static bool start_terminate(struct qp *qp)
{
    if (!qp->is_terminate_due) {
        return false;
    }
    qp->is_terminate_due = false;
    qp->has_terminate_sent = true;
    rdmap_tx_terminate(&qp->tx, &qp->rdmap, &qp->terminate_sent);
    qp->tx_source = TX_CONTROL;
    return true;
}

static enum rdmap_refusal start_own_message(struct qp *qp, struct ulpdu_sink *sink)
{
    enum rdmap_refusal refusal = RDMAP_ACCEPTED;
    if (qp->pull.taken_count == 0) {
        refusal = qp->pull.is_failed ? RDMAP_REFUSED_WORK_REQUEST : requester_start(qp);
    }
    return qp->pull.taken_count > 0 ? pull_start(qp, sink) : refusal;
}

// A work request may be found at fault, and then nothing but a Terminate may follow.
static bool start_own(struct qp *qp, struct ulpdu_sink *sink)
{
    if (!qp_takes_input(qp) || copy_is_in_the_way(qp)) {
        return false;
    }
    enum rdmap_refusal refusal = start_own_message(qp, sink);
    if (refusal != RDMAP_ACCEPTED) {
        qp_refuse(qp, refusal, NULL);
    }
    return qp->tx_source != TX_NONE;
}

static bool start_response(struct qp *qp)
{
    return qp_takes_input(qp) && responder_start(qp);
}

static bool pick(struct qp *qp, struct ulpdu_sink *sink)
{
    if (qp->stream_state == QP_STREAM_TERMINATE) {
        return start_terminate(qp);
    }
    if (!qp_takes_input(qp) || !qp->may_send) {
        return false;
    }
    if (qp->is_extension_due || qp->is_rtr_due || notice_is_due(qp)) {
        return start_control(qp);
    }
    bool has_started = qp->is_response_next ? start_response(qp) || start_own(qp, sink)
                                            : start_own(qp, sink) || start_response(qp);
    if (has_started) {
        qp->is_response_next = qp->tx_source != TX_RESPONSE;
    }
    return has_started;
}

static void message_put(struct qp *qp)
{
    struct qp_message_counter *counter = &qp->counters.out[qp->tx.opcode];
    counter->messages++;
    counter->octets += qp->tx.ddp.length;
    PROBE4(message_sent, qp->config.wq.qp_num, qp->tx.opcode, rdmap_tx_msn(&qp->tx),
           qp->tx.ddp.length);
    TRACE(qp->config.wq.trace, TRACE_RDMAP, "qp %u out %s msn %u len %llu", qp->config.wq.qp_num,
          rdmap_opcode_facts((uint8_t)qp->tx.opcode)->name, rdmap_tx_msn(&qp->tx),
          (unsigned long long)qp->tx.ddp.length);
    enum tx_source source = qp->tx_source;
    qp->tx_source = TX_NONE;
    pull_note_message(qp, source);
    if (source == TX_WORK_REQUEST) {
        qp->push.is_refused = false;
        requester_message_put(qp);
    } else if (source == TX_RESPONSE) {
        responder_message_put(qp);
    }
}

// The payload of the next segment, at most `*len` octets: fewer where memory is in many pieces.
// 0: it cannot be had, and the stream ends over it.
static unsigned gather(struct qp *qp, size_t *len, struct span *pieces)
{
    unsigned count = 0;
    if (qp->tx_source == TX_WORK_REQUEST) {
        count = wq_message_octets(&qp->wq, qp->tx_handle, qp->tx.ddp.offset, *len, pieces);
        if (count == 0) {
            wq_fail(&qp->wq, WC_LOC_PROT_ERR);
            qp_refuse(qp, RDMAP_REFUSED_WORK_REQUEST, NULL);
        }
        return count;
    }
    enum rdmap_refusal refusal = responder_gather(qp, len, pieces, &count);
    if (refusal == RDMAP_ACCEPTED) {
        return count;
    }
    struct rdmap_offender offender = peer_request_oldest(qp)->offender;
    rdmap_offender_advance(&offender, peer_request_oldest(qp)->sent_len);
    qp_refuse(qp, refusal, &offender);
    return 0;
}

// Before it is made: making it moves the header on.
static void trace_segment(const struct qp *qp, size_t len)
{
    const struct rdmap_tx *tx = &qp->tx;
    bool is_last = tx->fixed_len > 0 || tx->ddp.offset + len == tx->ddp.length;
    char text[160];
    TRACE(qp->config.wq.trace, TRACE_DDP, "qp %u out %s, %zu octets%s", qp->config.wq.qp_num,
          ddp_header_format(&tx->ddp.header, text, sizeof text), tx->fixed_len + len,
          is_last ? ", last" : "");
}

// One segment of the message in progress. False: the sink has no room.
static bool put_segment(struct qp *qp, struct ulpdu_sink *sink)
{
    struct span pieces[SGE_COUNT_MAX];
    unsigned count = 0;
    size_t len = rdmap_tx_next_len(&qp->tx, qp->rdmap.mulpdu);
    if (len > 0) {
        count = gather(qp, &len, pieces);
        if (count == 0) {
            return true;
        }
    }
    if (!sink->has_room(sink->ctx, rdmap_tx_header_len(&qp->tx) + len, count)) {
        return false;
    }
    uint8_t header[RDMAP_TX_HEADER_MAX_LEN];
    trace_segment(qp, len);
    size_t header_len = rdmap_tx_emit(&qp->tx, len, header);
    bool is_response = qp->tx_source == TX_RESPONSE;
    qp->put_position = sink->put(sink->ctx, span_of(header, header_len), pieces, count,
                                 is_response || qp->config.tx_copy);
    if (is_response) {
        peer_request_oldest(qp)->sent_len += (uint32_t)len;
        qp->turn_len += (uint32_t)len;
    }
    if (rdmap_tx_is_done(&qp->tx)) {
        message_put(qp);
    }
    return true;
}

// Response generation takes turns: a peer that reads gigabytes does not hold up the others.
static bool is_turn_over(const struct qp *qp)
{
    uint32_t turn_len = qp->config.response_turn_len;
    return turn_len > 0 && qp->turn_len >= turn_len;
}

bool qp_output(struct qp *qp, struct ulpdu_sink *sink, instant_ns now)
{
    qp->wq.now = now;
    qp->turn_len = 0;
    qp->push.is_left = false;
    while (!is_turn_over(qp)) {
        pull_look(qp, sink);
        if ((qp->tx_source == TX_NONE && !pick(qp, sink)) ||
            (!push_start(qp, sink) && !put_segment(qp, sink)) || qp->push.is_left) {
            break;
        }
    }
    wq_complete_sends(&qp->wq); // those that end here, without a message
    qp_settle(qp);
    return is_turn_over(qp);
}

static bool may_put(const struct qp *qp)
{
    return qp_takes_input(qp) && qp->may_send;
}

// What is put whatever becomes of our own work requests.
static bool owes_others(const struct qp *qp)
{
    return qp->tx_source != TX_NONE || qp->is_terminate_due ||
           (may_put(qp) && qp->peer_request_count > 0);
}

static bool owes_own(const struct qp *qp)
{
    bool has_work = wq_has_entry(&qp->wq) || qp->pull.taken_count > 0 || qp->pull.is_failed;
    return may_put(qp) && has_work;
}

bool qp_owes_output(const struct qp *qp)
{
    return owes_others(qp) || owes_own(qp);
}

static bool wants_request(const struct qp *qp)
{
    bool is_kept = (qp->wq.keeps_requests && qp->wq.request_count > 0) || copy_is_in_the_way(qp);
    return !is_kept && read_flow_wants_take(&qp->wq.reads);
}

bool qp_has_output(const struct qp *qp)
{
    if (owes_others(qp) || (owes_own(qp) && !copy_is_in_the_way(qp))) {
        return true;
    }
    return may_put(qp) && (wants_request(qp) || qp->is_extension_due || notice_is_due(qp) ||
                           (qp->is_rtr_due && !qp->ready_task.is_pending));
}

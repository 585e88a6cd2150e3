// What ends a stream: refusing the peer, a Terminate of ours, a Terminate of the peer's.
#include <string.h>

#include "base/probe.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "iwarp/state.h"
#include "rdmap/refusal.h"
#include "rdmap/terminate.h"
#include "wire/terminate.h"
#include "wq/status.h"
#include "wq/wqe.h"

// A peer that takes nothing for so long does not get ours: the stream is reset.
enum { TERMINATE_TIMEOUT_MS = 10000 };

void qp_restart_terminate(struct qp *qp)
{
    if (qp->terminate_deadline != INSTANT_NEVER) {
        qp->terminate_deadline = instant_after(qp->wq.now, TERMINATE_TIMEOUT_MS * NS_PER_MS);
    }
}

static enum qp_event event_of_cause(enum terminate_cause cause)
{
    const struct terminate_cause_facts *facts = terminate_cause_facts(cause);
    bool is_protection = facts->layer != TERMINATE_LAYER_LLP && facts->etype == 1;
    bool is_operation = facts->layer != TERMINATE_LAYER_LLP && facts->etype == 2;
    return is_protection ? QP_EVENT_ACCESS_ERR : is_operation ? QP_EVENT_REQ_ERR : QP_EVENT_FATAL;
}

// The first error is the one that counts: later ones find the stream on its way out.
bool qp_terminate(struct qp *qp, enum terminate_cause cause, const struct rdmap_offender *offender)
{
    if (!qp_takes_input(qp)) {
        return false;
    }
    qp->counters.terminates_out[cause]++;
    qp->terminate_sent = rdmap_terminate_make(cause, offender);
    PROBE4(terminate_sent, qp->config.wq.qp_num, qp->terminate_sent.layer, qp->terminate_sent.etype,
           qp->terminate_sent.code);
    qp->is_terminate_due = true;
    qp->tx_source = TX_NONE;
    qp->terminate_deadline = instant_after(qp->wq.now, TERMINATE_TIMEOUT_MS * NS_PER_MS);
    qp_stream_on(qp, QP_STREAM_ON_REFUSE);
    return true;
}

// What a work request completes with when the peer's Terminate names it.
static enum wc_status status_of_terminate(const struct terminate *t, enum terminate_cause cause,
                                          const struct send_wqe *wqe)
{
    bool is_request = wqe->opcode == WQE_RDMA_READ || wqe->opcode == WQE_ATOMIC_CMP_AND_SWP ||
                      wqe->opcode == WQE_ATOMIC_FETCH_AND_ADD;
    if (is_request && cause == TERM_RDMAP_CATASTROPHIC_STREAM) { // not aligned, or one too many
        return WC_REM_INV_REQ_ERR;
    }
    if (cause == TERM_DDP_NO_BUFFER) {
        return WC_RNR_RETRY_EXC_ERR;
    }
    if (cause == TERM_RDMAP_VERSION || cause == TERM_RDMAP_OPCODE) {
        return WC_REM_INV_REQ_ERR;
    }
    static const enum wc_status statuses[3][3] = {
        [TERMINATE_LAYER_RDMAP] = {WC_REM_OP_ERR, WC_REM_ACCESS_ERR, WC_REM_OP_ERR},
        [TERMINATE_LAYER_DDP] = {WC_REM_OP_ERR, WC_REM_ACCESS_ERR, WC_REM_INV_REQ_ERR},
        [TERMINATE_LAYER_LLP] = {WC_RETRY_EXC_ERR, WC_RETRY_EXC_ERR, WC_RETRY_EXC_ERR},
    };
    return t->layer < 3 && t->etype < 3 ? statuses[t->layer][t->etype] : WC_REM_OP_ERR;
}

static bool is_of_request(const struct qp *qp, const struct send_wqe *wqe, uint32_t number)
{
    for (const struct list_link *l = qp->wq.requests.next; l != &qp->wq.requests; l = l->next) {
        const struct read_context *context = LIST_ENTRY(l, struct read_context, link);
        if (context->task->cookie == wqe && read_answer_of(context)->request_number == number) {
            return true;
        }
    }
    return false;
}

static bool is_culprit(const struct qp *qp, const struct send_wqe *wqe,
                       const struct rdmap_culprit *culprit)
{
    bool is_write = wqe->opcode == WQE_RDMA_WRITE || wqe->opcode == WQE_RDMA_WRITE_WITH_IMM;
    switch (culprit->kind) {
    case RDMAP_CULPRIT_WRITE:
        return is_write && wqe->rkey == culprit->stag &&
               culprit->to - wqe->remote_addr <= wqe->length;
    case RDMAP_CULPRIT_SEND:
        return wqe->progress.note == culprit->msn;
    case RDMAP_CULPRIT_REQUEST:
        return is_of_request(qp, wqe, culprit->msn);
    case RDMAP_CULPRIT_UNKNOWN:
        break;
    }
    return false;
}

// The work request that the peer's Terminate is about: the one that its headers name, or else the
// oldest that is not complete. NULL: all that left is complete already.
static struct send_wqe *find_culprit(struct qp *qp, const struct terminate *t)
{
    struct rdmap_culprit culprit = rdmap_terminate_culprit(t);
    struct send_wqe *first = NULL;
    uint32_t end = wq_begun_end(&qp->wq);
    for (uint32_t i = wq_send_head(&qp->wq); i != end; i++) {
        struct send_wqe *wqe = wq_send_at(&qp->wq, i);
        if (wq_is_due(&qp->wq, wqe)) {
            continue;
        }
        if (is_culprit(qp, wqe, &culprit)) {
            return wqe;
        }
        first = first == NULL ? wqe : first;
    }
    return first;
}

// The work request that a Terminate names completes with what it says, and the stream is over.
static void be_terminated(struct qp *qp, const struct terminate *t, enum terminate_cause cause)
{
    char text[160];
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u terminated by the peer: %s", qp->config.wq.qp_num,
          terminate_format(t, text, sizeof text));
    PROBE4(terminate_received, qp->config.wq.qp_num, t->layer, t->etype, t->code);
    qp->counters.terminates_in[cause]++;
    qp->terminate_received = *t;
    qp->has_terminate_received = true;
    qp->refused_by_peer = terminate_cause_facts(cause)->text;
    qp->wq.peer_fault = t->layer << 12 | t->etype << 8 | t->code;
    struct send_wqe *wqe = find_culprit(qp, t);
    if (wqe != NULL) {
        wq_send_fail(wqe, status_of_terminate(t, cause, wqe));
    }
    qp_stream_on(qp, QP_STREAM_ON_TERMINATED);
    if (wqe == NULL) { // no completion will tell
        qp_raise(qp, QP_EVENT_FATAL);
    }
}

// What is longer than any Terminate says nothing more.
enum rdmap_refusal qp_place_terminate(struct qp *qp, const struct rdmap_arrival *a)
{
    if (a->mo < TERMINATE_MAX_LEN && a->payload.len > 0) {
        size_t room = TERMINATE_MAX_LEN - a->mo;
        memcpy(qp->terminate_octets + a->mo, a->payload.ptr,
               a->payload.len < room ? a->payload.len : room);
    }
    return RDMAP_ACCEPTED;
}

enum rdmap_refusal qp_deliver_terminate(struct qp *qp, const struct rdmap_arrival *a)
{
    size_t room = a->mo < TERMINATE_MAX_LEN ? TERMINATE_MAX_LEN - a->mo : 0;
    bool is_whole = a->payload.len < room;
    struct span message =
        span_of(qp->terminate_octets, is_whole ? a->mo + a->payload.len : TERMINATE_MAX_LEN);
    struct rdmap_terminate_read read = rdmap_terminate_read(message, qp->stream.peer_is_siw);
    be_terminated(qp, read.is_siw ? &read.siw : &read.rfc, read.cause);
    return RDMAP_ACCEPTED;
}

// Who was refused is this queue pair itself: it hears of it at once, and nothing has to leave. What
// was at fault before it left has its completion already.
static void hear_own(struct qp *qp, enum terminate_cause cause, bool has_completion)
{
    if (has_completion) {
        qp_stream_on(qp, QP_STREAM_ON_FAIL);
    } else {
        be_terminated(qp, &qp->terminate_sent, cause);
    }
}

void qp_refuse(struct qp *qp, enum rdmap_refusal refusal, const struct rdmap_offender *offender)
{
    const struct rdmap_refusal_facts *facts = rdmap_refusal_facts(refusal);
    if (!qp_terminate(qp, facts->cause, offender)) {
        return;
    }
    qp->counters.refusals[refusal]++;
    qp->refused = facts->text;
    char text[160];
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u refuses: %s; Terminate %s", qp->config.wq.qp_num,
          facts->text, terminate_format(&qp->terminate_sent, text, sizeof text));
    bool has_completion =
        refusal == RDMAP_REFUSED_WORK_REQUEST || refusal == RDMAP_REFUSED_RESPONSE_TIMEOUT;
    if (!has_completion) {
        qp_raise(qp, event_of_cause(facts->cause));
    }
    if (qp->stream.is_own_peer) {
        hear_own(qp, facts->cause, has_completion);
    }
}

const struct terminate *qp_terminate_sent(const struct qp *qp)
{
    return qp->has_terminate_sent ? &qp->terminate_sent : NULL;
}

const struct terminate *qp_terminate_received(const struct qp *qp)
{
    return qp->has_terminate_received ? &qp->terminate_received : NULL;
}

// Completions: in posting order, each work request once. What was never carried out is flushed.
#include "base/probe.h"
#include "qp/internal.h"

static const uint32_t wc_opcode_of[WQE_OPCODE_COUNT] = {
    [WQE_RDMA_WRITE] = WC_RDMA_WRITE,
    [WQE_RDMA_WRITE_WITH_IMM] = WC_RDMA_WRITE,
    [WQE_SEND] = WC_SEND,
    [WQE_SEND_WITH_IMM] = WC_SEND,
    [WQE_RDMA_READ] = WC_RDMA_READ,
    [WQE_ATOMIC_CMP_AND_SWP] = WC_COMP_SWAP,
    [WQE_ATOMIC_FETCH_AND_ADD] = WC_FETCH_ADD,
    [WQE_LOCAL_INV] = WC_LOCAL_INV,
    [WQE_BIND_MW] = WC_BIND_MW,
    [WQE_SEND_WITH_INV] = WC_SEND,
};

// False: nobody will poll it.
static bool push(struct qp *qp, struct cq *cq, struct cqe *cqe)
{
    if (qp->is_silent) {
        return false;
    }
    cqe->qp_num = qp->config.qp_num;
    cqe->timestamp_ns = qp->now;
    PROBE4(completion, cqe->qp_num, cqe->wr_id, cqe->opcode, cqe->status);
    TRACE(qp->config.trace, TRACE_CQ, "qp %u completion of wr_id 0x%llx: opcode %u, status %u",
          cqe->qp_num, (unsigned long long)cqe->wr_id, cqe->opcode, cqe->status);
    if (!cq_push(cq, cqe)) {
        TRACE(qp->config.trace, TRACE_CQ, "qp %u: the completion queue is full", qp->config.qp_num);
        qp->counters.cq_overruns++;
        if (!qp->has_overrun) {
            qp->has_overrun = true;
            qp_raise(qp, QP_EVENT_FATAL);
        }
        return false;
    }
    return true;
}

// The entry at `index` is done with. Its slot is free before the completion is seen: who polls it
// may post again at once.
static void push_send(struct qp *qp, uint32_t index, uint32_t status)
{
    const struct send_wqe *wqe = sq_at(qp, index);
    struct cqe cqe = {
        .wr_id = wqe->wr_id,
        .status = status,
        .opcode = wc_opcode_of[wqe->opcode],
        .byte_len = status == WC_SUCCESS ? (uint32_t)wqe->length : 0,
    };
    qp->has_failed_send |= status != WC_SUCCESS;
    if (status != WC_SUCCESS && qp->has_terminate_received) {
        cqe.vendor_err = qp->terminate_received.layer << 12 | qp->terminate_received.etype << 8 |
                         qp->terminate_received.code;
    }
    wqe_ring_free_to(&qp->sq, index + 1);
    push(qp, qp->config.send_cq, &cqe);
}

static bool is_over_at(const struct send_wqe *wqe, uint64_t position)
{
    const struct send_progress *p = &wqe->progress;
    return p->phase == SEND_DONE ||
           (p->phase == SEND_SENT && !p->task.is_pending && p->end_position <= position);
}

// May its completion be reported, once all before it are?
bool complete_is_due(const struct qp *qp, const struct send_wqe *wqe)
{
    return is_over_at(wqe, qp->settled_position);
}

static bool is_put_by_reference(const struct send_wqe *wqe)
{
    switch (wqe->opcode) {
    case WQE_RDMA_WRITE:
    case WQE_RDMA_WRITE_WITH_IMM:
    case WQE_SEND:
    case WQE_SEND_WITH_IMM:
    case WQE_SEND_WITH_INV:
        return (wqe->flags & WQE_INLINE) == 0;
    default:
        return false;
    }
}

bool qp_reads_from(const struct qp *qp, uint32_t lkey)
{
    uint32_t end = qp->sq_next + (qp->is_sq_begun ? 1 : 0);
    for (uint32_t i = wqe_ring_head(&qp->sq); i != end && !qp->config.tx_copy; i++) {
        const struct send_wqe *wqe = sq_at(qp, i);
        if (is_over_at(wqe, qp->handed_position) || !is_put_by_reference(wqe)) {
            continue;
        }
        for (uint32_t k = 0; k < wqe->sge_count; k++) {
            if (wqe->sge[k].lkey == lkey && wqe->sge[k].length > 0) {
                return true;
            }
        }
    }
    return false;
}

static void complete_send(struct qp *qp, uint32_t index)
{
    const struct send_wqe *wqe = sq_at(qp, index);
    oneshot_wqe_ended(qp, wqe, true);
    uint32_t status = wqe->progress.phase == SEND_DONE ? wqe->progress.status : WC_SUCCESS;
    // Success says that all before it was successful: a Write that left behind a Read whose answer
    // never came is flushed with it.
    if (status == WC_SUCCESS && qp->has_failed_send) {
        status = WC_WR_FLUSH_ERR;
    }
    if (status == WC_SUCCESS) {
        qp->counters.send_completions++;
    } else if (status == WC_WR_FLUSH_ERR) {
        qp->counters.send_flushed++;
    } else {
        qp->counters.send_errors++;
    }
    if (status != WC_SUCCESS || qp->config.sq_sig_all || (wqe->flags & WQE_SIGNALED) != 0) {
        push_send(qp, index, status);
    }
}

void complete_sends(struct qp *qp)
{
    uint32_t head = wqe_ring_head(&qp->sq);
    while (head != qp->sq_next && complete_is_due(qp, sq_at(qp, head))) {
        complete_send(qp, head);
        head++;
    }
    wqe_ring_free_to(&qp->sq, head);
}

// The completion is polled: what the message said, and the receive is the program's again.
static void fetch_message(struct cqe_source *source, struct cqe *cqe)
{
    struct recv_message *message = (struct recv_message *)source;
    struct recv_wqe *wqe =
        (struct recv_wqe *)(void *)((uint8_t *)message - offsetof(struct recv_wqe, message));
    cqe->wr_id = wqe->wr_id;
    cqe->opcode = message->opcode;
    cqe->byte_len = message->byte_len;
    cqe->wc_flags = message->wc_flags;
    cqe->imm_data = message->imm_or_inv;
    cqe->reference = message->reference;
    rq_free(message->qp, wqe);
}

void complete_receive(struct qp *qp, struct recv_wqe *wqe, uint32_t status, bool is_solicited)
{
    struct cqe cqe = {
        .wr_id = wqe->wr_id,
        .status = status,
        .opcode = wqe->message.opcode,
        .solicited = is_solicited,
        .source = &wqe->message.source,
    };
    wqe->message.source.fetch = fetch_message;
    wqe->message.qp = qp;
    // The receive of a lost completion goes back to an SRQ, for others. In a queue of its own only
    // who polls frees receives, in order: this one is lost until the queue is reset.
    if (!push(qp, qp->config.recv_cq, &cqe) && qp->config.srq != NULL) {
        rq_free(qp, wqe);
    }
}

void complete_receive_without(struct qp *qp, struct recv_wqe *wqe, uint32_t status)
{
    wqe->message = (struct recv_message){.opcode = WC_RECV};
    complete_receive(qp, wqe, status, false);
}

static void fail_or_flush(struct qp *qp, uint32_t index)
{
    if (qp->has_no_peer) {
        qp->has_no_peer = false;
        qp->counters.send_errors++;
        push_send(qp, index, WC_RETRY_EXC_ERR);
    } else {
        qp->counters.send_flushed++;
        push_send(qp, index, WC_WR_FLUSH_ERR);
    }
}

static void flush_sends(struct qp *qp)
{
    uint32_t posted = wqe_ring_posted(&qp->sq);
    for (uint32_t head = wqe_ring_head(&qp->sq); head != posted; head++) {
        const struct send_wqe *wqe = sq_at(qp, head);
        bool has_begun = sq_has_begun(qp, head);
        if (has_begun && complete_is_due(qp, wqe)) {
            complete_send(qp, head);
        } else {
            oneshot_wqe_ended(qp, wqe, has_begun);
            fail_or_flush(qp, head);
        }
    }
    qp->sq_next = posted;
    qp->is_sq_begun = false;
    qp->is_sq_blocked = false;
    wqe_ring_free_to(&qp->sq, posted);
}

static void flush_receive(struct qp *qp, struct recv_wqe *wqe)
{
    qp->counters.recv_flushed++;
    complete_receive_without(qp, wqe, WC_WR_FLUSH_ERR);
}

void complete_flush(struct qp *qp)
{
    response_forget_all(qp);
    rnr_store_clear(&qp->store);
    flush_sends(qp);
    if (qp->receive != NULL) {
        flush_receive(qp, qp->receive);
        qp->receive = NULL;
    }
    struct recv_wqe *wqe;
    while ((wqe = receive_pop_early(qp)) != NULL) {
        if (qp->config.srq != NULL) { // those of an own queue are among the claimed below
            flush_receive(qp, wqe);
        }
    }
    if (qp->config.srq == NULL) {
        while ((wqe = rq_claim(qp)) != NULL) {
            flush_receive(qp, wqe);
        }
    } else if (!qp->is_last_wqe_reported) {
        qp->is_last_wqe_reported = true;
        qp_raise(qp, QP_EVENT_LAST_WQE_REACHED);
    }
}

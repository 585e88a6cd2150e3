// Completions: in posting order, each work request once. What was never carried out is flushed.
#include "base/check.h"
#include "base/guard.h"
#include "base/port_journal.h"
#include "base/probe.h"
#include "base/trace.h"
#include "cq/cq.h"
#include "wq/oneshot.h"
#include "wq/ring.h"
#include "wq/status.h"
#include "wq/wq.h"
#include "wq/wqe.h"

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

// What stands in its receive (cqe.source) the poller has not fetched yet.
static void journal_completion(struct wq *wq, const struct cqe *cqe)
{
    const struct recv_message *message = (const struct recv_message *)cqe->source;
    const bool has_source = message != NULL && wq->config->address_len > 0;
    struct journal_record record = {.kind = JOURNAL_COMPLETED,
                                    .qp_num = cqe->qp_num,
                                    .opcode = (uint8_t)cqe->opcode,
                                    .status = (uint8_t)cqe->status,
                                    .key = has_source ? message->src_qp : 0,
                                    .wr_id = cqe->wr_id,
                                    .len = message != NULL ? message->byte_len : cqe->byte_len};
    wq->config->journal->put(wq->config->journal, &record);
}

// False: nobody will poll it.
static bool push(struct wq *wq, struct cq *cq, struct cqe *cqe)
{
    if (wq->is_silent) {
        return false;
    }
    cqe->qp_num = wq->config->qp_num;
    cqe->timestamp_ns = wq->now;
    PROBE4(completion, cqe->qp_num, cqe->wr_id, cqe->opcode, cqe->status);
    TRACE(wq->config->trace, TRACE_CQ, "qp %u completion of wr_id 0x%llx: opcode %u, status %u",
          cqe->qp_num, (unsigned long long)cqe->wr_id, cqe->opcode, cqe->status);
    if (JOURNAL_IS_KEPT(wq->config->journal)) {
        journal_completion(wq, cqe);
    }
    if (!cq_push(cq, cqe)) {
        TRACE(wq->config->trace, TRACE_CQ, "qp %u: the completion queue is full",
              wq->config->qp_num);
        wq->counters->cq_overruns++;
        wq->has_overrun = true;
        return false;
    }
    return true;
}

// The entry at `index` is done with. Its slot is free before the completion is seen: who polls it
// may post again at once.
static void push_send(struct wq *wq, uint32_t index, uint32_t status)
{
    const struct send_wqe *wqe = wq_send_at(wq, index);
    struct cqe cqe = {
        .wr_id = wqe->wr_id,
        .status = status,
        .opcode = wc_opcode_of[wqe->opcode],
        .byte_len = status == WC_SUCCESS ? (uint32_t)wqe->length : 0,
    };
    wq->has_failed_send |= status != WC_SUCCESS;
    if (status != WC_SUCCESS) {
        cqe.vendor_err = wq->peer_fault;
    }
    wqe_ring_free_to(&wq->sq, index + 1);
    push(wq, wq->config->send_cq, &cqe);
}

static bool is_over_at(const struct send_wqe *wqe, uint64_t mark)
{
    const struct send_progress *p = &wqe->progress;
    return p->phase == SEND_DONE ||
           (p->phase == SEND_SENT && !p->task.is_pending && p->end_mark <= mark);
}

// May its completion be reported, once all before it are?
bool wq_is_due(const struct wq *wq, const struct send_wqe *wqe)
{
    return wqe != wq->written && is_over_at(wqe, wq->settled_mark);
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

static bool names(const struct send_wqe *wqe, uint32_t lkey)
{
    for (uint32_t k = 0; k < wqe->sge_count; k++) {
        if (wqe->sge[k].lkey == lkey && wqe->sge[k].length > 0) {
            return true;
        }
    }
    return false;
}

bool wq_reads_from(const struct wq *wq, uint32_t lkey)
{
    uint32_t end = wq_begun_end(wq);
    for (uint32_t i = wqe_ring_head(&wq->sq); i != end && !wq->facts.copies; i++) {
        const struct send_wqe *wqe = wq_send_at(wq, i);
        if (!is_over_at(wqe, wq->released_mark) && is_put_by_reference(wqe) && names(wqe, lkey)) {
            return true;
        }
    }
    return false;
}

bool wq_next_reads_from(const struct wq *wq, uint32_t lkey)
{
    const struct send_wqe *wqe = wq_send_at(wq, wq->sq_next);
    return wq->is_sq_begun && is_put_by_reference(wqe) && names(wqe, lkey);
}

bool wq_reads_into(const struct wq *wq, uint32_t lkey)
{
    uint32_t end = wq_begun_end(wq);
    for (uint32_t i = wqe_ring_head(&wq->sq); i != end; i++) {
        const struct send_wqe *wqe = wq_send_at(wq, i);
        if (wqe->opcode == WQE_RDMA_READ && names(wqe, lkey)) {
            return true;
        }
    }
    return false;
}

static void complete_send(struct wq *wq, uint32_t index)
{
    const struct send_wqe *wqe = wq_send_at(wq, index);
    oneshot_wqe_ended(wq, wqe, true);
    uint32_t status = wqe->progress.phase == SEND_DONE ? wqe->progress.status : WC_SUCCESS;
    // Success says that all before it was successful: a Write that left behind a Read whose answer
    // never came is flushed with it.
    if (status == WC_SUCCESS && wq->has_failed_send) {
        status = WC_WR_FLUSH_ERR;
    }
    if (status == WC_SUCCESS) {
        wq->counters->send_completions++;
        if (wqe->posted_at_ns != 0 && wq->config->on_sampled != NULL) {
            wq->config->on_sampled(wq->config->ctx, wqe->opcode, wqe->posted_at_ns);
        }
    } else if (status == WC_WR_FLUSH_ERR) {
        wq->counters->send_flushed++;
    } else {
        wq->counters->send_errors++;
    }
    if (status != WC_SUCCESS || wq->config->sq_sig_all || (wqe->flags & WQE_SIGNALED) != 0) {
        push_send(wq, index, status);
    }
}

void wq_complete_sends(struct wq *wq)
{
    uint32_t head = wqe_ring_head(&wq->sq);
    while (head != wq->sq_next && wq_is_due(wq, wq_send_at(wq, head))) {
        complete_send(wq, head);
        head++;
    }
    wqe_ring_free_to(&wq->sq, head);
}

void wq_on_settled(struct wq *wq, uint64_t mark)
{
    CHECK(guard_is_held(&wq->config->guard));
    wq->settled_mark = mark;
    wq_complete_sends(wq);
}

// The completion is polled: what the message said, and the receive is the program's again.
static void fetch_message(struct cqe_source *source, struct cqe *cqe)
{
    struct recv_message *message = (struct recv_message *)source;
    struct recv_wqe *wqe =
        (struct recv_wqe *)(void *)((uint8_t *)message - offsetof(struct recv_wqe, message));
    cqe->byte_len = message->byte_len;
    cqe->wc_flags = message->wc_flags;
    cqe->imm_data = message->imm_or_inv;
    cqe->reference = message->reference;
    wq_receive_free(message->wq, wqe);
}

void wq_complete_receive(struct wq *wq, struct recv_wqe *wqe, uint32_t status, bool is_solicited)
{
    CHECK(guard_is_held(&wq->config->guard));
    struct cqe cqe = {
        .wr_id = wqe->wr_id,
        .status = status,
        .opcode = wqe->message.opcode,
        .solicited = is_solicited,
        .source = &wqe->message.source,
    };
    wqe->message.source.fetch = fetch_message;
    wqe->message.wq = wq;
    // The receive of a lost completion goes back to an SRQ, for others. In a queue of its own only
    // who polls frees receives, in order: this one is lost until the queue is reset.
    if (!push(wq, wq->config->recv_cq, &cqe) && wq->config->srq != NULL) {
        wq_receive_free(wq, wqe);
    }
}

void wq_complete_receive_without(struct wq *wq, struct recv_wqe *wqe, uint32_t status)
{
    wqe->message = (struct recv_message){.opcode = WC_RECV};
    wq_complete_receive(wq, wqe, status, false);
}

static void fail_or_flush(struct wq *wq, uint32_t index)
{
    if (wq->has_no_peer) {
        wq->has_no_peer = false;
        wq->counters->send_errors++;
        push_send(wq, index, WC_RETRY_EXC_ERR);
    } else {
        wq->counters->send_flushed++;
        push_send(wq, index, WC_WR_FLUSH_ERR);
    }
}

void wq_flush_sends(struct wq *wq)
{
    CHECK(guard_is_held(&wq->config->guard));
    uint32_t posted = wqe_ring_posted(&wq->sq);
    for (uint32_t head = wqe_ring_head(&wq->sq); head != posted; head++) {
        const struct send_wqe *wqe = wq_send_at(wq, head);
        bool has_begun = (int32_t)(head - wq_begun_end(wq)) < 0;
        if (has_begun && wq_is_due(wq, wqe)) {
            complete_send(wq, head);
        } else {
            oneshot_wqe_ended(wq, wqe, has_begun);
            fail_or_flush(wq, head);
        }
    }
    wq->sq_next = posted;
    wq->is_sq_begun = false;
    wq->is_sq_blocked = false;
    wqe_ring_free_to(&wq->sq, posted);
}

void wq_flush_receive(struct wq *wq, struct recv_wqe *wqe)
{
    wq->counters->recv_flushed++;
    wq_complete_receive_without(wq, wqe, WC_WR_FLUSH_ERR);
}

void wq_flush_receives(struct wq *wq)
{
    struct recv_wqe *wqe;
    while (wq->config->srq == NULL && (wqe = wq_receive_claim(wq)) != NULL) {
        wq_flush_receive(wq, wqe);
    }
}

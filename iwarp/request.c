// From read context to request: Reads, atomics, flushes on their way.
#include "base/check.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "mem/table.h"
#include "rdmap/refusal.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wq/read_sched.h"
#include "wq/read_task.h"
#include "wq/status.h"
#include "wq/wqe.h"

// A request of no octets: nothing is looked up at either side, the answer alone counts.
static void emit_empty(struct qp *qp)
{
    struct rdmap_read_request request = {0};
    rdmap_tx_read_request(&qp->tx, &qp->rdmap, &request);
}

// Opens the sink for the context's window, and nothing else, to the answer.
static bool emit_read(struct qp *qp, struct read_context *context)
{
    const struct send_wqe *wqe = context->task->cookie;
    struct mem_asker asker = {.pd = qp->config.wq.pd, .qp_num = qp->config.wq.qp_num};
    struct read_answer *answer = read_answer_of(context);
    int result = mem_sink_open(qp->config.wq.mem, asker, wqe->sge, wqe->sge_count, context->offset,
                               context->length, 0, &answer->sink);
    if (result < 0) {
        return false;
    }
    answer->is_open = true;
    struct rdmap_read_request request = {
        .sink_stag = answer->sink,
        .rdmardsz = context->named_len,
        .src_stag = context->remote_key,
        .src_to = context->remote_addr,
    };
    rdmap_tx_read_request(&qp->tx, &qp->rdmap, &request);
    return true;
}

// Without masks (RFC 7306 section 5.2.1): one field of 64 bits to add to, all bits to compare.
static void emit_atomic(struct qp *qp, const struct read_context *context)
{
    const struct send_wqe *wqe = context->task->cookie;
    bool is_swap = wqe->opcode == WQE_ATOMIC_CMP_AND_SWP;
    struct rdmap_atomic_request request = {
        .opcode = is_swap ? RDMAP_ATOMIC_CMP_SWAP : RDMAP_ATOMIC_FETCH_ADD,
        .request_id = qp->rdmap.tx_msn[DDP_QN_READ_REQUEST],
        .stag = context->remote_key,
        .to = context->remote_addr,
        .add_swap = is_swap ? wqe->swap : wqe->compare_add,
        .add_swap_mask = is_swap ? UINT64_MAX : 0,
        .compare = is_swap ? wqe->compare_add : 0,
        .compare_mask = UINT64_MAX,
    };
    rdmap_tx_atomic_request(&qp->tx, &qp->rdmap, &request);
}

static bool emit(struct qp *qp, struct read_context *context)
{
    if (context->task->kind == READ_KIND_ATOMIC) {
        emit_atomic(qp, context);
    } else if (context->length == 0) {
        emit_empty(qp);
    } else {
        return emit_read(qp, context);
    }
    return true;
}

// Without a sink its list changed under it, or none is left.
static bool emit_or_fail(struct qp *qp, struct read_context *context)
{
    bool is_emitted = emit(qp, context);
    if (!is_emitted) {
        wq_request_fail(&qp->wq, context, WC_LOC_QP_OP_ERR);
    }
    return is_emitted;
}

static void begin_message(struct qp *qp, const struct read_context *context)
{
    read_answer_of(context)->request_number = rdmap_tx_msn(&qp->tx);
    bool is_atomic = context->task->kind == READ_KIND_ATOMIC;
    qp->tx_source = is_atomic ? TX_WORK_REQUEST : TX_REQUEST;
    qp->tx_handle = qp->wq.sq_next;
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u request %u: %u of %llu octets at %llu, done %llu",
          qp->config.wq.qp_num, read_answer_of(context)->request_number, context->length,
          (unsigned long long)context->task->initial_len, (unsigned long long)context->offset,
          (unsigned long long)context->task->completed_len);
}

enum rdmap_refusal request_start(struct qp *qp, struct read_context *context)
{
    if (!emit_or_fail(qp, context)) {
        return RDMAP_REFUSED_WORK_REQUEST;
    }
    wq_request_put(&qp->wq, context, qp->put_position);
    begin_message(qp, context);
    return RDMAP_ACCEPTED;
}

enum rdmap_refusal request_start_taken(struct qp *qp, struct read_context *context)
{
    wq_request_put_at_last(&qp->wq, context, qp->put_position);
    if (!emit_or_fail(qp, context)) {
        return RDMAP_REFUSED_WORK_REQUEST;
    }
    begin_message(qp, context);
    return RDMAP_ACCEPTED;
}

// What asks for no octets cannot fail.
bool request_start_ready(struct qp *qp)
{
    if (!qp->ready_task.is_pending) {
        qp->ready_task = (struct read_task){.kind = READ_KIND_READY};
        read_flow_post(&qp->wq.reads, &qp->ready_task);
    }
    struct transport_work work;
    return wq_next_request(&qp->wq, &work) && request_start(qp, work.context) == RDMAP_ACCEPTED;
}

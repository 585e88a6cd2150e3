// From read context to request. A Read, an atomic, or a Write that is to be flushed posts a task
// with the read scheduler; each context that the scheduler gives becomes one request to the peer. A
// Read has left the send queue then: what is behind does not wait for it, unless it is fenced. An
// atomic leaves it with its request.
#include "base/check.h"
#include "qp/internal.h"

void request_post(struct qp *qp, struct send_wqe *wqe, enum read_kind kind, uint64_t length)
{
    struct read_task *task = &wqe->progress.task;
    *task = (struct read_task){
        .kind = kind,
        .remote_key = wqe->rkey,
        .remote_addr = wqe->remote_addr,
        .initial_len = length,
        .cookie = wqe,
    };
    read_flow_post(&qp->reads, task);
}

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
    struct mem_asker asker = {.pd = qp->config.pd, .qp_num = qp->config.qp_num};
    int result = mem_sink_open(qp->config.mem, asker, wqe->sge, wqe->sge_count, context->offset,
                               context->length, 0, &context->local_key);
    if (result < 0) {
        return false;
    }
    context->is_open = true;
    struct rdmap_read_request request = {
        .sink_stag = context->local_key,
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

// The work request can have no sink: its list changed under it, or none is left.
static void fail(struct qp *qp, struct read_context *context)
{
    struct send_wqe *wqe = context->task->cookie;
    wqe->progress.phase = SEND_DONE;
    wqe->progress.status = WC_LOC_QP_OP_ERR;
    read_sched_abandon(&qp->reads, context, qp->now);
    qp_refuse(qp, RDMAP_REFUSED_WORK_REQUEST, NULL);
}

bool request_start(struct qp *qp)
{
    struct read_context *context;
    switch (read_sched_take(&qp->reads, qp->now, &context)) {
    case READ_TAKE_CONTEXT:
        break;
    case READ_TAKE_ORD:
        qp->counters.ord_waits++;
        return false;
    case READ_TAKE_WAIT:
        qp->counters.context_waits++;
        return false;
    default:
        return false;
    }
    if (!emit(qp, context)) {
        fail(qp, context);
        return false;
    }
    response_expect(qp, context);
    qp->tx_source = context->task->kind == READ_KIND_ATOMIC ? TX_WORK_REQUEST : TX_REQUEST;
    TRACE(qp->config.trace, TRACE_QP, "qp %u request %u: %u of %llu octets at %llu, done %llu",
          qp->config.qp_num, context->request_number, context->length,
          (unsigned long long)context->task->initial_len, (unsigned long long)context->offset,
          (unsigned long long)context->task->completed_len);
    return true;
}

bool request_start_ready(struct qp *qp)
{
    if (!qp->ready_task.is_pending) {
        qp->ready_task = (struct read_task){.kind = READ_KIND_READY};
        read_flow_post(&qp->reads, &qp->ready_task);
    }
    return request_start(qp);
}

/* ---- a peer that does not answer ------------------------------------------------------------- */

// What the transport takes counts as long as it stands before the oldest request.
void request_on_handed(struct qp *qp, uint64_t from, uint64_t to)
{
    uint64_t sent_at = UINT64_MAX;
    if (qp->request_count > 0) {
        sent_at = LIST_ENTRY(qp->requests.next, struct read_context, link)->sent_at;
    }
    if (from <= sent_at && sent_at < to) {
        read_patience_restart(&qp->reads.patience, qp->now);
    } else if (from <= sent_at) {
        read_patience_on_progress(&qp->reads.patience, to - from, qp->now);
    }
}

instant_ns request_deadline(const struct qp *qp)
{
    bool is_owed = qp->reads.context_count > 0 && qp->config.read_timeout_ns > 0;
    return is_owed ? instant_after(qp->reads.patience.since_ns, qp->config.read_timeout_ns)
                   : INSTANT_NEVER;
}

// The oldest read fails, and with it the stream: its contexts are needed elsewhere.
void request_on_deadline(struct qp *qp)
{
    if (qp->is_stalled) { // it is we who do not read on
        read_patience_restart(&qp->reads.patience, qp->now);
        return;
    }
    struct send_wqe *wqe = NULL;
    if (qp->request_count > 0) {
        wqe = LIST_ENTRY(qp->requests.next, struct read_context, link)->task->cookie;
    }
    if (wqe != NULL) {
        wqe->progress.phase = SEND_DONE;
        wqe->progress.status = WC_RETRY_EXC_ERR;
    } else {
        qp_raise(qp, QP_EVENT_FATAL); // no completion will tell
    }
    read_patience_restart(&qp->reads.patience, qp->now);
    qp_refuse(qp, RDMAP_REFUSED_RESPONSE_TIMEOUT, NULL);
}

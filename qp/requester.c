// What the send queue starts next: a work request becomes one message after another.
#include "base/check.h"
#include "qp/internal.h"

enum { ATOMIC_LEN = 8 };

enum start_answer {
    START_MESSAGE, // a message is in qp->tx
    START_DONE,    // nothing of the send queue leaves: look at the next work request
    START_WAITING, // nothing, until a read context makes its request
};

static bool is_signalled(const struct qp *qp, const struct send_wqe *wqe)
{
    return qp->config.sq_sig_all || (wqe->flags & WQE_SIGNALED) != 0;
}

static void next_wqe(struct qp *qp)
{
    qp->sq_next++;
    qp->is_sq_begun = false;
}

void requester_fail(struct qp *qp, enum wc_status status)
{
    struct send_wqe *wqe = sq_at(qp, qp->sq_next);
    wqe->progress.phase = SEND_DONE;
    wqe->progress.status = status;
    next_wqe(qp);
    qp_refuse(qp, RDMAP_REFUSED_WORK_REQUEST, NULL);
}

static enum start_answer fail(struct qp *qp, enum wc_status status)
{
    requester_fail(qp, status);
    return START_DONE;
}

static bool is_list_usable(const struct qp *qp, const struct send_wqe *wqe, bool write)
{
    struct mspan place;
    for (uint32_t i = 0; i < wqe->sge_count; i++) {
        if (mem_resolve_sge(qp->config.mem, qp->config.pd, &wqe->sge[i], write, &place) != MEM_OK) {
            return false;
        }
    }
    return true;
}

// Before anything of the message leaves. A message of one segment is checked when it is gathered.
static bool is_payload_usable(const struct qp *qp, const struct send_wqe *wqe)
{
    return (wqe->flags & WQE_INLINE) != 0 || wqe->length <= qp->rdmap.mulpdu - DDP_HEADER_MAX_LEN ||
           is_list_usable(qp, wqe, false);
}

static enum start_answer start_message(struct qp *qp)
{
    qp->gather = (struct gather_cursor){0};
    qp->tx_source = TX_WORK_REQUEST;
    return START_MESSAGE;
}

bool requester_start_rtr(struct qp *qp)
{
    struct rdmap_send send = {0};
    switch (qp->stream.rtr) {
    case QP_RTR_SEND:
        rdmap_tx_send(&qp->tx, &qp->rdmap, &send);
        return true;
    case QP_RTR_WRITE:
        rdmap_tx_write(&qp->tx, 0, 0, 0);
        return true;
    default:
        return request_start_ready(qp);
    }
}

static bool wants_flush(const struct qp *qp, const struct send_wqe *wqe)
{
    bool is_write = wqe->opcode == WQE_RDMA_WRITE || wqe->opcode == WQE_RDMA_WRITE_WITH_IMM;
    return is_write && qp->config.write_flush && qp->ord > 0 && is_signalled(qp, wqe);
}

static enum start_answer start_write(struct qp *qp, struct send_wqe *wqe)
{
    if (!is_payload_usable(qp, wqe)) {
        return fail(qp, WC_LOC_PROT_ERR);
    }
    rdmap_tx_write(&qp->tx, wqe->rkey, wqe->remote_addr, wqe->length);
    return start_message(qp);
}

// One-shot RDMA has its opcodes on this connection.
static bool is_rfc7306_displaced(const struct qp *qp)
{
    return (qp->rdmap.oneshot & EXTENSION_ONESHOT_OPCODE) != 0;
}

// RDMA Write, then Immediate Data: the same to the peer's program as InfiniBand's one operation
// (RFC 7306 section 6). The Write goes out even when it is empty, so that the peer never takes an
// earlier one for it.
static enum start_answer start_write_imm(struct qp *qp, struct send_wqe *wqe)
{
    if (is_rfc7306_displaced(qp)) {
        return fail(qp, WC_LOC_QP_OP_ERR);
    }
    if (wqe->progress.message_count == 0) {
        return start_write(qp, wqe);
    }
    rdmap_tx_immediate(&qp->tx, &qp->rdmap, wqe->imm_or_inv, (uint32_t)wqe->length,
                       (wqe->flags & WQE_SOLICITED) != 0);
    wqe->progress.first_msn = rdmap_tx_msn(&qp->tx);
    return start_message(qp);
}

static enum start_answer start_send(struct qp *qp, struct send_wqe *wqe)
{
    struct rdmap_send send = {
        .length = wqe->length,
        .solicited = (wqe->flags & WQE_SOLICITED) != 0,
        .invalidates = wqe->opcode == WQE_SEND_WITH_INV,
        .has_immediate = wqe->opcode == WQE_SEND_WITH_IMM,
        .stag_or_immediate = wqe->imm_or_inv,
    };
    if (send.has_immediate && !qp->rdmap.extensions_agreed) {
        return fail(qp, WC_LOC_QP_OP_ERR);
    }
    if (!is_payload_usable(qp, wqe)) {
        return fail(qp, WC_LOC_PROT_ERR);
    }
    oneshot_start(qp, wqe, &send);
    rdmap_tx_send(&qp->tx, &qp->rdmap, &send);
    wqe->progress.first_msn = rdmap_tx_msn(&qp->tx);
    return start_message(qp);
}

// A Read goes on by itself from here: what is behind it does not wait.
static enum start_answer start_read(struct qp *qp, struct send_wqe *wqe)
{
    if (qp->ord == 0) {
        return fail(qp, WC_LOC_QP_OP_ERR); // it would wait for ever
    }
    if (wqe->length > 0 && !is_list_usable(qp, wqe, true)) {
        return fail(qp, WC_LOC_PROT_ERR);
    }
    wqe->progress.phase = SEND_SENT;
    request_post(qp, wqe, READ_KIND_READ, wqe->length);
    next_wqe(qp);
    return START_DONE;
}

// An atomic changes the peer's memory: what is behind it leaves behind it.
static enum start_answer start_atomic(struct qp *qp, struct send_wqe *wqe)
{
    if (wqe->progress.task.is_pending) {
        return START_WAITING;
    }
    if (qp->ord == 0 || is_rfc7306_displaced(qp)) {
        return fail(qp, WC_LOC_QP_OP_ERR);
    }
    if (wqe->length < ATOMIC_LEN) {
        return fail(qp, WC_LOC_LEN_ERR);
    }
    if (!is_list_usable(qp, wqe, true)) {
        return fail(qp, WC_LOC_PROT_ERR);
    }
    wqe->progress.phase = SEND_STARTED;
    request_post(qp, wqe, READ_KIND_ATOMIC, ATOMIC_LEN);
    return START_WAITING;
}

static enum start_answer do_bind(struct qp *qp, struct send_wqe *wqe)
{
    struct mem_asker asker = {.pd = qp->config.pd, .qp_num = qp->config.qp_num};
    struct mem_binding binding = {
        .stag = wqe->bind.mw_rkey,
        .lkey = wqe->bind.lkey,
        .addr = wqe->bind.addr,
        .length = wqe->bind.length,
        .access = wqe->bind.access,
    };
    if (mem_window_bind(qp->config.mem, asker, &binding) != MEM_OK) {
        return fail(qp, WC_MW_BIND_ERR);
    }
    qp->counters.binds++;
    wqe->progress.phase = SEND_DONE;
    next_wqe(qp);
    return START_DONE;
}

static enum start_answer do_local_invalidate(struct qp *qp, struct send_wqe *wqe)
{
    struct mem_asker asker = {.pd = qp->config.pd, .qp_num = qp->config.qp_num};
    if (mem_invalidate(qp->config.mem, asker, wqe->imm_or_inv, false) != MEM_OK) {
        return fail(qp, WC_LOC_QP_OP_ERR);
    }
    qp->counters.local_invalidations++;
    wqe->progress.phase = SEND_DONE;
    next_wqe(qp);
    return START_DONE;
}

static const struct {
    enum start_answer (*start)(struct qp *qp, struct send_wqe *wqe);
} facts_of_opcode[WQE_OPCODE_COUNT] = {
    [WQE_RDMA_WRITE] = {start_write},
    [WQE_RDMA_WRITE_WITH_IMM] = {start_write_imm},
    [WQE_SEND] = {start_send},
    [WQE_SEND_WITH_IMM] = {start_send},
    [WQE_RDMA_READ] = {start_read},
    [WQE_ATOMIC_CMP_AND_SWP] = {start_atomic},
    [WQE_ATOMIC_FETCH_AND_ADD] = {start_atomic},
    [WQE_LOCAL_INV] = {do_local_invalidate},
    [WQE_BIND_MW] = {do_bind},
    [WQE_SEND_WITH_INV] = {start_send},
};

static bool is_atomic(const struct send_wqe *wqe)
{
    return wqe->opcode == WQE_ATOMIC_CMP_AND_SWP || wqe->opcode == WQE_ATOMIC_FETCH_AND_ADD;
}

void requester_message_put(struct qp *qp)
{
    struct send_wqe *wqe = sq_at(qp, qp->sq_next);
    wqe->progress.phase = SEND_STARTED;
    wqe->progress.message_count++;
    if (wqe->opcode == WQE_RDMA_WRITE_WITH_IMM && wqe->progress.message_count == 1) {
        return;
    }
    wqe->progress.phase = SEND_SENT;
    wqe->progress.end_position = is_atomic(wqe) ? 0 : qp->put_position; // the answer says more
    qp->is_sq_blocked = false;
    if (wants_flush(qp, wqe)) {
        qp->counters.write_flushes++;
        request_post(qp, wqe, READ_KIND_FLUSH, 0);
    }
    next_wqe(qp);
}

// Looks at a work request for the first time. False: it has to wait for those before it.
static bool begin(struct qp *qp, struct send_wqe *wqe)
{
    if ((wqe->flags & WQE_FENCE) != 0 && qp->reads.pending_count > 0) {
        qp->counters.fence_waits++;
        return false;
    }
    wqe->progress = (struct send_progress){.phase = SEND_QUEUED};
    qp->is_sq_begun = true;
    return true;
}

bool requester_start(struct qp *qp)
{
    while (qp_takes_input(qp) && qp->state != QP_RTR && qp->sq_next != sq_limit(qp)) {
        struct send_wqe *wqe = sq_at(qp, qp->sq_next);
        if (qp->is_sq_blocked || (!qp->is_sq_begun && !begin(qp, wqe))) {
            qp->is_sq_blocked = true;
            return false;
        }
        enum start_answer answer = START_DONE;
        if (wqe->length > QP_MESSAGE_MAX_LEN) {
            requester_fail(qp, WC_LOC_LEN_ERR);
        } else {
            answer = facts_of_opcode[wqe->opcode].start(qp, wqe);
        }
        // A request goes before what was posted behind it, if it can go now.
        if (answer == START_MESSAGE || request_start(qp)) {
            return true;
        }
        qp->is_sq_blocked = answer == START_WAITING;
    }
    return false;
}

static unsigned gather_inline(const struct qp *qp, const struct send_wqe *wqe, size_t len,
                              struct span *pieces, struct gather_cursor *ret_next)
{
    pieces[0] = span_of(wqe->inline_data + qp->gather.offset, len);
    *ret_next = (struct gather_cursor){.offset = qp->gather.offset + len};
    return 1;
}

unsigned requester_gather(const struct qp *qp, size_t len, struct span *pieces,
                          struct gather_cursor *ret_next)
{
    const struct send_wqe *wqe = sq_at(qp, qp->sq_next);
    if ((wqe->flags & WQE_INLINE) != 0) {
        return gather_inline(qp, wqe, len, pieces, ret_next);
    }
    struct gather_cursor cursor = qp->gather;
    unsigned count = 0;
    while (len > 0) {
        CHECK(cursor.index < wqe->sge_count);
        struct mspan place;
        const struct sge *sge = &wqe->sge[cursor.index];
        if (mem_resolve_sge(qp->config.mem, qp->config.pd, sge, false, &place) != MEM_OK) {
            return 0;
        }
        uint64_t left = sge->length - cursor.offset;
        size_t piece_len = len < left ? len : (size_t)left;
        if (piece_len > 0) {
            pieces[count++] = span_of(place.ptr + cursor.offset, piece_len);
        }
        len -= piece_len;
        cursor.offset += piece_len;
        if (cursor.offset == sge->length) {
            cursor = (struct gather_cursor){.index = cursor.index + 1};
        }
    }
    *ret_next = cursor;
    return count;
}

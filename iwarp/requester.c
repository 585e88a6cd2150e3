// From work request to message: what the work queues say is next becomes Sends, Writes, Immediate
// Data and requests.
#include <errno.h>

#include "base/port_transport.h"
#include "iwarp/internal.h"
#include "rdmap/refusal.h"
#include "wire/ddp.h"
#include "wq/wqe.h"

static void start_write(struct qp *qp, struct send_wqe *wqe)
{
    rdmap_tx_write(&qp->tx, wqe->rkey, wqe->remote_addr, wqe->length);
}

// RDMA Write, then Immediate Data: the same to the peer's program as InfiniBand's one operation
// (RFC 7306 section 6). The Write goes out even when it is empty, so that the peer never takes an
// earlier one for it.
static void start_write_imm(struct qp *qp, struct send_wqe *wqe)
{
    if (wqe->progress.message_count == 0) {
        start_write(qp, wqe);
        return;
    }
    rdmap_tx_immediate(&qp->tx, &qp->rdmap, wqe->imm_or_inv, (uint32_t)wqe->length,
                       (wqe->flags & WQE_SOLICITED) != 0);
    wqe->progress.note = rdmap_tx_msn(&qp->tx);
}

static void start_send(struct qp *qp, struct send_wqe *wqe)
{
    struct rdmap_send send = {
        .length = wqe->length,
        .solicited = (wqe->flags & WQE_SOLICITED) != 0,
        .invalidates = wqe->opcode == WQE_SEND_WITH_INV,
        .has_immediate = wqe->opcode == WQE_SEND_WITH_IMM,
        .stag_or_immediate = wqe->imm_or_inv,
    };
    oneshot_start(qp, wqe, &send);
    rdmap_tx_send(&qp->tx, &qp->rdmap, &send);
    wqe->progress.note = rdmap_tx_msn(&qp->tx);
}

static void (*const start_of_opcode[WQE_OPCODE_COUNT])(struct qp *qp, struct send_wqe *wqe) = {
    [WQE_RDMA_WRITE] = start_write,   [WQE_RDMA_WRITE_WITH_IMM] = start_write_imm,
    [WQE_SEND] = start_send,          [WQE_SEND_WITH_IMM] = start_send,
    [WQE_SEND_WITH_INV] = start_send,
};

enum rdmap_refusal requester_start(struct qp *qp)
{
    struct transport_work work;
    switch (wq_next(&qp->wq, &work)) {
    case TRANSPORT_MESSAGE:
        start_of_opcode[work.wqe->opcode](qp, work.wqe);
        qp->tx_handle = work.handle;
        qp->tx_source = TX_WORK_REQUEST;
        return RDMAP_ACCEPTED;
    case TRANSPORT_REQUEST:
        if (pull_takes(qp, work.context)) {
            pull_take(qp, work.context);
            return RDMAP_ACCEPTED;
        }
        return request_start(qp, work.context);
    case TRANSPORT_FAILED:
        return RDMAP_REFUSED_WORK_REQUEST;
    case TRANSPORT_NOTHING:
        break;
    }
    return RDMAP_ACCEPTED;
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

void requester_message_put(struct qp *qp)
{
    const struct send_wqe *wqe = wq_send_at(&qp->wq, qp->tx_handle);
    if (wqe->opcode == WQE_RDMA_WRITE_WITH_IMM && wqe->progress.message_count == 0) {
        wq_part_put(&qp->wq);
    } else {
        wq_message_put(&qp->wq, qp->put_position);
    }
}

// What the agreement with this peer leaves of the operations. One-shot RDMA may have the opcodes of
// RFC 7306; only between weft ends does a Send carry immediate data.
void requester_tell_facts(struct qp *qp)
{
    const uint32_t rfc7306 = 1U << WQE_RDMA_WRITE_WITH_IMM | 1U << WQE_ATOMIC_CMP_AND_SWP |
                             1U << WQE_ATOMIC_FETCH_AND_ADD;
    bool is_displaced = (qp->rdmap.oneshot & EXTENSION_ONESHOT_OPCODE) != 0;
    qp->wq.facts = (struct transport_facts){
        .refused = (is_displaced ? rfc7306 : 0) |
                   (qp->rdmap.extensions_agreed ? 0 : 1U << WQE_SEND_WITH_IMM),
        .whole_len = qp->rdmap.mulpdu - DDP_HEADER_MAX_LEN,
        .copies = qp->config.tx_copy,
    };
}

/* ---- what may be posted ---------------------------------------------------------------------- */

static bool is_of_rfc7306(enum wqe_opcode opcode)
{
    return opcode == WQE_RDMA_WRITE_WITH_IMM || opcode == WQE_ATOMIC_CMP_AND_SWP ||
           opcode == WQE_ATOMIC_FETCH_AND_ADD;
}

int qp_may_post(const struct qp *qp, enum wqe_opcode opcode)
{
    int oneshot = qp_oneshot_agreed(qp);
    if (oneshot > 0 && (oneshot & EXTENSION_ONESHOT_OPCODE) != 0 && is_of_rfc7306(opcode)) {
        return -EOPNOTSUPP;
    }
    if (opcode != WQE_SEND_WITH_IMM) {
        return 0;
    }
    return atomic_load_explicit(&qp->peer_is_foreign, memory_order_relaxed) ? -EOPNOTSUPP : 0;
}

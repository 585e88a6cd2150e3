// ibv_wr_*: work requests built call by call. wr_start takes the queue, each operation takes the
// next entry and fills it in place, wr_complete posts all of them or none.

#include <string.h>

#include "base/sge.h"
#include "verbs/front.h"

static struct front_qp *front_of(struct ibv_qp_ex *qp)
{
    return (struct front_qp *)qp;
}

// Keeps the first error; nothing is built behind it.
static void wr_refuse(struct front_qp *qp, int error)
{
    if (qp->wr_error == 0) {
        qp->wr_error = error;
    }
    qp->wr_current = NULL;
}

// The work request before is whole now.
static void wr_close(struct front_qp *qp)
{
    int error = qp->wr_current != NULL ? front_send_seal(qp, qp->wr_current) : 0;
    if (qp->wr_current != NULL && qp->qp.qp_type == IBV_QPT_UD && !qp->has_wr_address) {
        error = EINVAL;
    }
    if (error != 0) {
        wr_refuse(qp, error);
    }
}

// The next entry, or NULL behind an error.
static struct send_wqe *wr_open(struct ibv_qp_ex *ibv_qp, enum wqe_opcode opcode)
{
    struct front_qp *qp = front_of(ibv_qp);
    wr_close(qp);
    if (qp->wr_error != 0) {
        return NULL;
    }
    struct send_wqe *wqe = rnic_sq_slot(&qp->cursor);
    if (wqe == NULL) {
        wr_refuse(qp, ENOMEM);
        return NULL;
    }
    qp->wr_current = wqe;
    qp->has_wr_address = false;
    wqe->wr_id = ibv_qp->wr_id;
    wqe->opcode = opcode;
    wqe->flags = ibv_qp->wr_flags & ~(unsigned)IBV_SEND_INLINE; // the setter of the payload says it
    wqe->imm_or_inv = 0;
    wqe->rkey = 0;
    wqe->remote_addr = 0;
    wqe->sge_count = 0;
    wqe->length = 0;
    return wqe;
}

static struct send_wqe *wr_open_remote(struct ibv_qp_ex *qp, enum wqe_opcode opcode, uint32_t rkey,
                                       uint64_t remote_addr)
{
    struct send_wqe *wqe = wr_open(qp, opcode);
    if (wqe != NULL) {
        wqe->rkey = rkey;
        wqe->remote_addr = remote_addr;
    }
    return wqe;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    wr_open_remote(qp, WQE_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data)
{
    struct send_wqe *wqe = wr_open_remote(qp, WQE_RDMA_WRITE_WITH_IMM, rkey, remote_addr);
    if (wqe != NULL) {
        wqe->imm_or_inv = imm_data;
    }
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    wr_open_remote(qp, WQE_RDMA_READ, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap)
{
    struct send_wqe *wqe = wr_open_remote(qp, WQE_ATOMIC_CMP_AND_SWP, rkey, remote_addr);
    if (wqe != NULL) {
        wqe->compare_add = compare;
        wqe->swap = swap;
    }
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                uint64_t add)
{
    struct send_wqe *wqe = wr_open_remote(qp, WQE_ATOMIC_FETCH_AND_ADD, rkey, remote_addr);
    if (wqe != NULL) {
        wqe->compare_add = add;
        wqe->swap = 0;
    }
}

static void wr_send(struct ibv_qp_ex *qp)
{
    wr_open(qp, WQE_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
    struct send_wqe *wqe = wr_open(qp, WQE_SEND_WITH_IMM);
    if (wqe != NULL) {
        wqe->imm_or_inv = imm_data;
    }
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    struct send_wqe *wqe = wr_open(qp, WQE_SEND_WITH_INV);
    if (wqe != NULL) {
        wqe->imm_or_inv = invalidate_rkey;
    }
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    struct send_wqe *wqe = wr_open(qp, WQE_LOCAL_INV);
    if (wqe != NULL) {
        wqe->imm_or_inv = invalidate_rkey;
    }
}

// A program reads mw->rkey to tell its peers, or to bind once more: it changes when the bind is
// posted, and stays if the sequence is not.
static void binds_tell(struct front_qp *qp)
{
    for (unsigned i = 0; i < qp->cursor.filled_count; i++) {
        const struct send_wqe *wqe = rnic_sq_filled(&qp->cursor, i);
        if (wqe->opcode == WQE_BIND_MW) {
            ((struct ibv_mw *)wqe->window)->rkey = wqe->bind.mw_rkey;
        }
    }
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *bind_info)
{
    struct send_wqe *wqe = wr_open(qp, WQE_BIND_MW);
    if (wqe == NULL) {
        return;
    }
    int error = front_bind_fill(wqe, mw, rkey, bind_info, IBV_MW_TYPE_2);
    if (error != 0) {
        wr_refuse(front_of(qp), error);
        return;
    }
    wqe->window = mw;
    front_of(qp)->has_bind = true;
}

/* ---- to whom --------------------------------------------------------------------------------- */

static void wr_set_ud_addr(struct ibv_qp_ex *ibv_qp, struct ibv_ah *ah, uint32_t remote_qpn,
                           uint32_t remote_qkey)
{
    struct front_qp *qp = front_of(ibv_qp);
    if (qp->wr_current == NULL) {
        return;
    }
    const bool is_of_datagrams = qp->qp.qp_type == IBV_QPT_UD; // others have no room for it
    const int error = is_of_datagrams
                          ? front_address_fill(qp, qp->wr_current, ah, remote_qpn, remote_qkey)
                          : EINVAL;
    if (error != 0) {
        wr_refuse(qp, error);
    }
    qp->has_wr_address = true;
}

/* ---- payload --------------------------------------------------------------------------------- */

static void wr_set_sge_list(struct ibv_qp_ex *ibv_qp, size_t num_sge, const struct ibv_sge *sg_list)
{
    struct front_qp *qp = front_of(ibv_qp);
    struct send_wqe *wqe = qp->wr_current;
    if (wqe == NULL) {
        return;
    }
    if (num_sge > qp->cap.max_send_sge) {
        wr_refuse(qp, EINVAL);
        return;
    }
    wqe->flags &= ~(uint32_t)WQE_INLINE; // what may have been said before is no more
    wqe->sge_count = (uint32_t)num_sge;
    if (num_sge > 0) {
        memcpy(wqe->sge, sg_list, num_sge * sizeof *sg_list);
    }
    wqe->length = sge_total_len(wqe->sge, (unsigned)num_sge);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
    wr_set_sge_list(qp, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibv_qp, size_t num_buf,
                                    const struct ibv_data_buf *buf_list)
{
    struct front_qp *qp = front_of(ibv_qp);
    struct send_wqe *wqe = qp->wr_current;
    if (wqe == NULL) {
        return;
    }
    size_t length = 0;
    for (size_t i = 0; i < num_buf; i++) {
        const size_t room = qp->cap.max_inline_data - length;
        if (buf_list[i].length > room) {
            wr_refuse(qp, EINVAL);
            return;
        }
        if (buf_list[i].length > 0) {
            memcpy(wqe->inline_data + length, buf_list[i].addr, buf_list[i].length);
        }
        length += buf_list[i].length;
    }
    wqe->flags |= WQE_INLINE;
    wqe->sge_count = 0;
    wqe->length = length;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
    const struct ibv_data_buf buf = {.addr = addr, .length = length};
    wr_set_inline_data_list(qp, 1, &buf);
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *ibv_qp)
{
    struct front_qp *qp = front_of(ibv_qp);
    if (front_is_alive(qp->qp.context)) {
        rnic_sq_begin(&qp->cursor, qp->rnic_qp);
        qp->has_bind = false;
        qp->wr_error = 0;
    } else {
        qp->cursor = (struct rnic_sq_cursor){0};
        qp->wr_error = EIO;
    }
}

static int wr_complete(struct ibv_qp_ex *ibv_qp)
{
    struct front_qp *qp = front_of(ibv_qp);
    wr_close(qp);
    const int error = qp->wr_error;
    if (error == 0) {
        if (qp->has_bind) {
            binds_tell(qp);
        }
        rnic_sq_commit(&qp->cursor);
    }
    qp->wr_current = NULL;
    rnic_sq_end(&qp->cursor);
    return error != 0 ? front_fail(error) : 0;
}

// Entries that were not committed are free.
static void wr_abort(struct ibv_qp_ex *ibv_qp)
{
    struct front_qp *qp = front_of(ibv_qp);
    qp->wr_current = NULL;
    rnic_sq_end(&qp->cursor);
}

// IBV_QP_EX_WITH_*
static uint64_t operations_of(enum ibv_qp_type type)
{
    const uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    const uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    switch (type) {
    case IBV_QPT_UD:
        return sends;
    case IBV_QPT_UC:
        return sends | writes | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    default:
        return sends | writes | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
               IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
               IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
    }
}

int front_qp_ex_init(struct front_qp *qp, uint64_t send_ops_flags)
{
    if ((send_ops_flags & ~operations_of(qp->qp.qp_type)) != 0) {
        return EOPNOTSUPP;
    }
    struct ibv_qp_ex *ex = &qp->qp_ex;
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    return 0;
}

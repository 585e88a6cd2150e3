// Posting: work requests of the verbs become entries of the queues, filled in place.

#include <string.h>

#include "base/check.h"
#include "verbs/front.h"

// Opcodes, flags and scatter/gather elements are handed on as they are.
STATIC_CHECK((int)WQE_RDMA_WRITE == (int)IBV_WR_RDMA_WRITE);
STATIC_CHECK((int)WQE_RDMA_WRITE_WITH_IMM == (int)IBV_WR_RDMA_WRITE_WITH_IMM);
STATIC_CHECK((int)WQE_SEND == (int)IBV_WR_SEND);
STATIC_CHECK((int)WQE_SEND_WITH_IMM == (int)IBV_WR_SEND_WITH_IMM);
STATIC_CHECK((int)WQE_RDMA_READ == (int)IBV_WR_RDMA_READ);
STATIC_CHECK((int)WQE_ATOMIC_CMP_AND_SWP == (int)IBV_WR_ATOMIC_CMP_AND_SWP);
STATIC_CHECK((int)WQE_ATOMIC_FETCH_AND_ADD == (int)IBV_WR_ATOMIC_FETCH_AND_ADD);
STATIC_CHECK((int)WQE_LOCAL_INV == (int)IBV_WR_LOCAL_INV);
STATIC_CHECK((int)WQE_BIND_MW == (int)IBV_WR_BIND_MW);
STATIC_CHECK((int)WQE_SEND_WITH_INV == (int)IBV_WR_SEND_WITH_INV);
STATIC_CHECK((int)WQE_FENCE == (int)IBV_SEND_FENCE);
STATIC_CHECK((int)WQE_SIGNALED == (int)IBV_SEND_SIGNALED);
STATIC_CHECK((int)WQE_SOLICITED == (int)IBV_SEND_SOLICITED);
STATIC_CHECK((int)WQE_INLINE == (int)IBV_SEND_INLINE);
STATIC_CHECK(sizeof(struct sge) == sizeof(struct ibv_sge));
STATIC_CHECK(offsetof(struct sge, addr) == offsetof(struct ibv_sge, addr));
STATIC_CHECK(offsetof(struct sge, length) == offsetof(struct ibv_sge, length));
STATIC_CHECK(offsetof(struct sge, lkey) == offsetof(struct ibv_sge, lkey));

enum {
    FLAGS_KNOWN = WQE_FENCE | WQE_SIGNALED | WQE_SOLICITED | WQE_INLINE | WQE_MAY_PASS | WQE_CLOSE,
    ATOMIC_LEN = 8,
};

// What each work request carries.
static const struct {
    bool is_present, has_payload, may_inline, is_atomic;
} operations[WQE_OPCODE_COUNT] = {
    [WQE_RDMA_WRITE] = {.is_present = true, .has_payload = true, .may_inline = true},
    [WQE_RDMA_WRITE_WITH_IMM] = {.is_present = true, .has_payload = true, .may_inline = true},
    [WQE_SEND] = {.is_present = true, .has_payload = true, .may_inline = true},
    [WQE_SEND_WITH_IMM] = {.is_present = true, .has_payload = true, .may_inline = true},
    [WQE_SEND_WITH_INV] = {.is_present = true, .has_payload = true, .may_inline = true},
    [WQE_RDMA_READ] = {.is_present = true, .has_payload = true},
    [WQE_ATOMIC_CMP_AND_SWP] = {.is_present = true, .has_payload = true, .is_atomic = true},
    [WQE_ATOMIC_FETCH_AND_ADD] = {.is_present = true, .has_payload = true, .is_atomic = true},
    [WQE_LOCAL_INV] = {.is_present = true},
    [WQE_BIND_MW] = {.is_present = true},
};

// InfiniBand refuses work in RESET. A stream's RESET is the idle state of iWARP, which takes it.
static bool refuses_work(const struct front_qp *qp)
{
    return qp->qp.state == IBV_QPS_RESET && !front_identity_of(qp->qp.context)->has_streams;
}

int front_send_check(const struct front_qp *qp, const struct send_wqe *wqe)
{
    if (refuses_work(qp) || (unsigned)wqe->opcode >= WQE_OPCODE_COUNT ||
        !operations[wqe->opcode].is_present || (wqe->flags & ~(uint32_t)FLAGS_KNOWN) != 0 ||
        wqe->length > rnic_limits.max_msg_len ||
        ((wqe->flags & WQE_MAY_PASS) && wqe->opcode != WQE_RDMA_READ) ||
        ((wqe->flags & WQE_CLOSE) && wqe->opcode != WQE_SEND_WITH_INV) ||
        ((wqe->flags & WQE_INLINE) && !operations[wqe->opcode].may_inline) ||
        (operations[wqe->opcode].is_atomic && wqe->length < ATOMIC_LEN)) {
        return EINVAL;
    }
    return -rnic_qp_may_post(qp->rnic_qp, wqe->opcode);
}

// Streams know a Send that closes, by its header where that was agreed on; packets invalidate. An
// atomic brings back eight octets, into a place that may have room for more.
int front_send_seal(const struct front_qp *qp, struct send_wqe *wqe)
{
    int error = front_send_check(qp, wqe);
    if (error == 0 && operations[wqe->opcode].is_atomic) {
        wqe->length = ATOMIC_LEN;
    }
    if (error == 0 && (wqe->flags & WQE_CLOSE)) {
        const bool has_streams = front_identity_of(qp->qp.context)->has_streams;
        wqe->opcode = has_streams ? WQE_SEND : WQE_SEND_WITH_INV;
        wqe->flags &= has_streams ? UINT32_MAX : ~(uint32_t)WQE_CLOSE;
    }
    return error;
}

// A key is the window's own index, which stays, and an octet that the program chooses. Of a wanted
// key devices look at the octet alone: programs make the rest up, or take it from another window.
static uint32_t window_key(const struct ibv_mw *mw, uint32_t wanted)
{
    const uint32_t chosen = 0xff;
    return (((const struct front_mw *)mw)->stag & ~chosen) | (wanted & chosen);
}

int front_bind_fill(struct send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
                    const struct ibv_mw_bind_info *info, enum ibv_mw_type type)
{
    if (mw == NULL || mw->type != type || (info->mr == NULL && info->length != 0)) {
        return EINVAL;
    }
    if (info->mr != NULL && !front_pd_is_same(info->mr->pd, mw->pd)) {
        return EPERM;
    }
    wqe->opcode = WQE_BIND_MW;
    wqe->sge_count = 0;
    wqe->length = 0;
    wqe->bind = (struct wqe_bind){
        .mw_rkey = window_key(mw, rkey),
        .lkey = info->mr != NULL ? info->mr->lkey : 0,
        .addr = info->addr,
        .length = info->length,
        .access = info->mw_access_flags & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE,
    };
    return 0;
}

/* ---- sends ----------------------------------------------------------------------------------- */

static int inline_copy(const struct front_qp *qp, struct send_wqe *wqe,
                       const struct ibv_send_wr *wr)
{
    if (wqe->length > qp->cap.max_inline_data) {
        return EINVAL;
    }
    uint8_t *to = wqe->inline_data;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (sge->length > 0) {
            memcpy(to, (const void *)(uintptr_t)sge->addr, sge->length);
            to += sge->length;
        }
    }
    return 0;
}

static int payload_fill(const struct front_qp *qp, struct send_wqe *wqe,
                        const struct ibv_send_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge) {
        return EINVAL;
    }
    uint64_t length = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        length += wr->sg_list[i].length;
    }
    wqe->length = length;
    if (wr->send_flags & IBV_SEND_INLINE) {
        wqe->sge_count = 0;
        return inline_copy(qp, wqe, wr);
    }
    wqe->sge_count = (uint32_t)wr->num_sge;
    if (wr->num_sge > 0) {
        memcpy(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof *wr->sg_list);
    }
    return 0;
}

static int remote_fill(const struct front_qp *qp, struct send_wqe *wqe,
                       const struct ibv_send_wr *wr)
{
    if (qp->qp.qp_type == IBV_QPT_UD) {
        return front_address_fill(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
                                  wr->wr.ud.remote_qkey);
    }
    if (operations[wqe->opcode].is_atomic) {
        wqe->remote_addr = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->compare_add = wr->wr.atomic.compare_add;
        wqe->swap = wr->wr.atomic.swap;
    } else {
        wqe->remote_addr = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
    }
    return 0;
}

int front_send_fill(const struct front_qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
    int error = 0;
    if (wqe == NULL) {
        return ENOMEM;
    }
    if ((unsigned)wr->opcode >= WQE_OPCODE_COUNT) {
        return EINVAL;
    }
    wqe->wr_id = wr->wr_id;
    wqe->opcode = (enum wqe_opcode)wr->opcode;
    wqe->flags = wr->send_flags;
    wqe->imm_or_inv = wr->imm_data;
    wqe->sge_count = 0;
    wqe->length = 0;
    if (wqe->opcode == WQE_BIND_MW) {
        error = front_bind_fill(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info,
                                IBV_MW_TYPE_2);
    } else if (operations[wqe->opcode].has_payload) {
        error = remote_fill(qp, wqe, wr);
        error = error != 0 ? error : payload_fill(qp, wqe, wr);
    }
    error = error != 0 ? error : front_send_seal(qp, wqe);
    if (error == 0 && wqe->opcode == WQE_BIND_MW) {
        wr->bind_mw.mw->rkey = wqe->bind.mw_rkey;
    }
    return error;
}

int front_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    struct rnic_sq_cursor cursor;
    int error = 0;
    if (!front_is_alive(ibv_qp->context)) {
        *bad_wr = wr;
        return front_fail(EIO);
    }
    rnic_sq_begin(&cursor, qp->rnic_qp);
    for (; wr != NULL; wr = wr->next) {
        error = front_send_fill(qp, rnic_sq_slot(&cursor), wr);
        if (error != 0) {
            *bad_wr = wr;
            break;
        }
        rnic_sq_commit(&cursor);
    }
    rnic_sq_end(&cursor);
    return error != 0 ? front_fail(error) : 0;
}

/* ---- receives -------------------------------------------------------------------------------- */

static int recv_fill(struct recv_wqe *wqe, const struct ibv_recv_wr *wr, uint32_t max_sge)
{
    if (wqe == NULL) {
        return ENOMEM;
    }
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge) {
        return EINVAL;
    }
    wqe->wr_id = wr->wr_id;
    wqe->sge_count = (uint32_t)wr->num_sge;
    if (wr->num_sge > 0) {
        memcpy(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof *wr->sg_list);
    }
    return 0;
}

// Fills and posts the list, and gives the queue back.
static int recv_post(struct rnic_rq_cursor *cursor, uint32_t max_sge, struct ibv_recv_wr *wr,
                     struct ibv_recv_wr **bad_wr)
{
    int error = 0;
    for (; wr != NULL; wr = wr->next) {
        error = recv_fill(rnic_rq_slot(cursor), wr, max_sge);
        if (error != 0) {
            *bad_wr = wr;
            break;
        }
        rnic_rq_commit(cursor);
    }
    rnic_rq_end(cursor);
    return error != 0 ? front_fail(error) : 0;
}

int front_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    struct rnic_rq_cursor cursor;
    if (!front_is_alive(ibv_qp->context) || ibv_qp->srq != NULL) {
        *bad_wr = wr;
        return front_fail(ibv_qp->srq != NULL ? EINVAL : EIO);
    }
    if (refuses_work(qp)) {
        *bad_wr = wr;
        return front_fail(EINVAL);
    }
    rnic_rq_begin(&cursor, qp->rnic_qp);
    return recv_post(&cursor, qp->cap.max_recv_sge, wr, bad_wr);
}

int front_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr,
                        struct ibv_recv_wr **bad_wr)
{
    struct front_srq *srq = (struct front_srq *)ibv_srq;
    struct rnic_rq_cursor cursor;
    if (!front_is_alive(ibv_srq->context)) {
        *bad_wr = wr;
        return front_fail(EIO);
    }
    rnic_srq_begin(&cursor, srq->rnic_srq);
    return recv_post(&cursor, srq->max_sge, wr, bad_wr);
}

// Memory windows: allocation, and the one-call bind of type 1. Type 2 is bound by a work request.

#include <stdlib.h>

#include "verbs/front.h"

struct ibv_mw *front_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    if (!front_pd_is_known(pd)) {
        return front_null(ENOENT);
    }
    if (!front_is_alive(pd->context)) {
        return front_null(EIO);
    }
    struct front_mw *mw = calloc(1, sizeof *mw);
    if (mw == NULL) {
        return front_null(ENOMEM);
    }
    int error = rnic_window_alloc(front_context_of(pd->context)->rnic, pd->handle, type, &mw->stag);
    if (error != 0) {
        free(mw);
        return front_null(-error);
    }
    mw->mw = (struct ibv_mw){
        .context = pd->context,
        .pd = pd,
        .rkey = mw->stag,
        .handle = mw->stag,
        .type = type,
    };
    front_context_hold(pd->context);
    return &mw->mw;
}

int front_dealloc_mw(struct ibv_mw *mw)
{
    const uint32_t stag = ((const struct front_mw *)mw)->stag;
    int error = mw->handle == stag ? 0 : -ENOENT;
    if (error == 0 && front_is_alive(mw->context)) {
        error = rnic_window_dealloc(front_context_of(mw->context)->rnic, stag);
    }
    if (error != 0) {
        return front_fail(-error);
    }
    front_context_release(mw->context);
    free(mw);
    return 0;
}

// The header's inline function has checked the type, the domain, and that no range comes without a
// region.
int front_bind_mw(struct ibv_qp *ibv_qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    struct rnic_sq_cursor cursor;
    if (!front_is_alive(ibv_qp->context)) {
        return front_fail(EIO);
    }
    int error = ENOMEM;
    rnic_sq_begin(&cursor, qp->rnic_qp);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    if (wqe != NULL) {
        wqe->wr_id = bind->wr_id;
        wqe->flags = bind->send_flags;
        error = front_bind_fill(wqe, mw, ibv_inc_rkey(mw->rkey), &bind->bind_info, IBV_MW_TYPE_1);
        error = error != 0 ? error : front_send_check(qp, wqe);
    }
    if (error == 0) {
        mw->rkey = wqe->bind.mw_rkey;
        rnic_sq_commit(&cursor);
    }
    rnic_sq_end(&cursor);
    return error != 0 ? front_fail(error) : 0;
}

#include "rnic/post.h"

#include "base/check.h"
#include "rnic/rnic.h"
#include "wq/filling.h"
#include "wq/latency.h"
#include "wq/oneshot.h"
#include "wq/srq.h"

/* ---- sends ----------------------------------------------------------------------------------- */

void rnic_sq_begin(struct rnic_sq_cursor *cursor, struct rnic_qp *qp)
{
    pthread_mutex_lock(&qp->sq_lock);
    *cursor = (struct rnic_sq_cursor){.qp = qp}; // guarded by that lock, where several share one
}

struct send_wqe *rnic_sq_slot(struct rnic_sq_cursor *cursor)
{
    CHECK(cursor->qp != NULL);
    struct send_wqe *wqe = wq_send_slot(cursor->qp->wq, cursor->filled_count);
    if (wqe == NULL) {
        return NULL;
    }
    cursor->filled_count++;
    wqe->posted_at_ns = latency_sampler_next(&cursor->qp->sampler) ? rnic_now(cursor->qp->rnic) : 0;
    return wqe;
}

struct send_wqe *rnic_sq_filled(const struct rnic_sq_cursor *cursor, unsigned index)
{
    CHECK(index < cursor->filled_count);
    return wq_send_slot(cursor->qp->wq, index);
}

struct roce_address *rnic_sq_address(const struct rnic_qp *qp, struct send_wqe *wqe)
{
    CHECK(qp->transport->ops->address_len == sizeof(struct roce_address));
    return wq_send_address(qp->wq, wqe);
}

struct mem_known *rnic_sq_known(struct rnic_sq_cursor *cursor)
{
    CHECK(cursor->qp != NULL);
    return wq_oneshot_known(cursor->qp->wq, rnic_now(cursor->qp->rnic));
}

struct oneshot_command *rnic_sq_command(struct rnic_sq_cursor *cursor)
{
    CHECK(cursor->qp != NULL);
    return wq_oneshot_slot(cursor->qp->wq);
}

void rnic_sq_take_command(struct rnic_sq_cursor *cursor, struct send_wqe *wqe)
{
    CHECK(cursor->qp != NULL);
    wq_oneshot_commit(cursor->qp->wq, wqe);
}

void rnic_sq_commit(struct rnic_sq_cursor *cursor)
{
    cursor->committed_count = cursor->filled_count;
}

void rnic_sq_end(struct rnic_sq_cursor *cursor)
{
    struct rnic_qp *qp = cursor->qp;
    const unsigned count = cursor->committed_count;
    if (qp == NULL) {
        return;
    }
    if (count > 0) {
        wq_send_commit(qp->wq, count);
    }
    cursor->qp = NULL;
    pthread_mutex_unlock(&qp->sq_lock);
    if (count > 0) {
        rnic_qp_ring_sq(qp);
    }
}

/* ---- receives -------------------------------------------------------------------------------- */

void rnic_rq_begin(struct rnic_rq_cursor *cursor, struct rnic_qp *qp)
{
    pthread_mutex_lock(&qp->rq_lock);
    *cursor = (struct rnic_rq_cursor){.qp = qp};
}

void rnic_srq_begin(struct rnic_rq_cursor *cursor, struct rnic_srq *srq)
{
    pthread_mutex_lock(&srq->lock);
    *cursor = (struct rnic_rq_cursor){.srq = srq};
}

struct recv_wqe *rnic_rq_slot(struct rnic_rq_cursor *cursor)
{
    CHECK(cursor->qp != NULL || cursor->srq != NULL);
    struct recv_wqe *wqe = cursor->qp != NULL
                               ? wq_receive_slot(cursor->qp->wq, cursor->filled_count)
                               : srq_slot(cursor->srq->srq, cursor->filled_count);
    cursor->filled_count += wqe != NULL ? 1 : 0;
    return wqe;
}

void rnic_rq_commit(struct rnic_rq_cursor *cursor)
{
    cursor->committed_count = cursor->filled_count;
}

static void own_end(struct rnic_qp *qp, unsigned count)
{
    if (count > 0) {
        wq_receive_commit(qp->wq, count);
    }
    pthread_mutex_unlock(&qp->rq_lock);
    if (count > 0) {
        rnic_qp_ring_rq(qp);
    }
}

static void shared_end(struct rnic_srq *srq, unsigned count)
{
    if (count > 0) {
        srq_commit(srq->srq, count);
    }
    pthread_mutex_unlock(&srq->lock);
    if (count > 0) {
        rnic_srq_ring(srq);
    }
}

void rnic_rq_end(struct rnic_rq_cursor *cursor)
{
    struct rnic_qp *qp = cursor->qp;
    struct rnic_srq *srq = cursor->srq;
    cursor->qp = NULL;
    cursor->srq = NULL;
    if (qp != NULL) {
        own_end(qp, cursor->committed_count);
    } else if (srq != NULL) {
        shared_end(srq, cursor->committed_count);
    }
}

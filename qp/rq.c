#include "qp/internal.h"

struct recv_wqe *qp_rq_slot(struct qp *qp, unsigned ahead)
{
    return wqe_ring_slot(&qp->rq, ahead);
}

void qp_rq_commit(struct qp *qp, unsigned count)
{
    wqe_ring_commit(&qp->rq, count);
}

bool rq_has_posted(const struct qp *qp)
{
    return qp->config.srq != NULL ? srq_posted_count(qp->config.srq) > 0
                                  : qp->rq_next != wqe_ring_posted(&qp->rq);
}

struct recv_wqe *rq_claim(struct qp *qp)
{
    if (qp->config.srq != NULL) {
        return srq_claim(qp->config.srq);
    }
    if (qp->rq_next == wqe_ring_posted(&qp->rq)) {
        return NULL;
    }
    return wqe_ring_at(&qp->rq, qp->rq_next++);
}

// Messages of one queue end in the order in which they began, and are polled in that order, so
// receives are freed in order.
void rq_free(struct qp *qp, struct recv_wqe *wqe)
{
    if (qp->config.srq != NULL) {
        srq_free(qp->config.srq, wqe);
    } else {
        wqe_ring_free_to(&qp->rq, wqe_ring_head(&qp->rq) + 1);
    }
}

uint32_t rq_pd(const struct qp *qp)
{
    return qp->config.srq != NULL ? srq_pd(qp->config.srq) : qp->config.pd;
}

// Where receives come from: a ring of its own, or an SRQ.
#include "base/check.h"
#include "base/guard.h"
#include "base/port_journal.h"
#include "wq/journal.h"
#include "wq/ring.h"
#include "wq/scatter.h"
#include "wq/srq.h"
#include "wq/wq.h"

bool wq_receive_is_posted(const struct wq *wq)
{
    return wq_receive_count(wq) > 0;
}

struct recv_wqe *wq_receive_claim_shared(struct wq *wq)
{
    struct recv_wqe *wqe = srq_claim(wq->config->srq);
    if (wqe != NULL && JOURNAL_IS_KEPT(wq->config->journal)) {
        wq_journal_taken(wq, wqe);
    }
    return wqe;
}

struct recv_wqe *wq_receive_claim(struct wq *wq)
{
    CHECK(guard_is_held(&wq->config->guard));
    if (wq->config->srq != NULL) {
        return wq_receive_claim_shared(wq);
    }
    if (wq->rq_next == wqe_ring_posted(&wq->rq)) {
        return NULL;
    }
    return wqe_ring_at(&wq->rq, wq->rq_next++);
}

struct recv_wqe *wq_receive_peek(const struct wq *wq, uint32_t ahead)
{
    bool is_posted = ahead < wqe_ring_posted(&wq->rq) - wq->rq_next;
    return is_posted ? wqe_ring_at(&wq->rq, wq->rq_next + ahead) : NULL;
}

// Messages of one queue end in the order in which they began, and are polled in that order, so
// receives are freed in order.
void wq_receive_free(struct wq *wq, struct recv_wqe *wqe)
{
    if (wq->config->srq != NULL) {
        srq_free(wq->config->srq, wqe);
    } else {
        wqe_ring_free_to(&wq->rq, wqe_ring_head(&wq->rq) + 1);
    }
}

uint32_t wq_receive_pd(const struct wq *wq)
{
    return wq->config->srq != NULL ? srq_pd(wq->config->srq) : wq->config->pd;
}

enum scatter_verdict wq_receive_place(const struct wq *wq, struct scatter *scatter, uint64_t offset,
                                      struct span payload)
{
    return scatter_place(wq->config->mem, wq_receive_pd(wq), scatter, offset, payload);
}

// Shared receive queues of the fronts.

#include <errno.h>
#include <stdlib.h>

#include "rnic/ep/ep.h"
#include "rnic/internal.h"

static void on_limit_reached(void *ctx)
{
    struct rnic_srq *srq = ctx;
    if (srq->async.on_event != NULL) {
        srq->async.on_event(srq->async.ctx, RNIC_EVENT_SRQ_LIMIT_REACHED);
    }
}

int rnic_srq_create(struct rnic *rnic, uint32_t pd, uint32_t max_wr, uint32_t max_sge,
                    const struct rnic_async_port *async, struct rnic_srq **ret)
{
    struct rnic_srq *srq = calloc(1, sizeof *srq);
    if (srq == NULL) {
        return -ENOMEM;
    }
    srq->rnic = rnic;
    srq->async = *async;
    struct srq_config config = {
        .pd = pd,
        .max_wr = max_wr,
        .max_sge = max_sge,
        .port = {.on_limit_reached = on_limit_reached, .ctx = srq},
        .guard = shard_guard(&rnic->shard),
    };
    rnic_enter(rnic);
    int error = !rnic_is_alive(rnic)                     ? -EIO
                : rnic->srq_count >= rnic_limits.max_srq ? -ENOMEM
                                                         : mem_pd_hold(rnic->mem, pd);
    if (error == 0) {
        error = srq_create(&config, &srq->srq);
        if (error != 0) {
            mem_pd_release(rnic->mem, pd);
        }
    }
    if (error == 0) {
        rnic->srq_count++;
    }
    rnic_leave(rnic, 0);
    if (error != 0) {
        free(srq);
        return error;
    }
    pthread_mutex_init(&srq->lock, NULL);
    *ret = srq;
    return 0;
}

int rnic_srq_destroy(struct rnic_srq *srq)
{
    struct rnic *rnic = srq->rnic;
    if (atomic_load(&srq->users) > 0) {
        return -EBUSY;
    }
    rnic_enter(rnic);
    mem_pd_release(rnic->mem, srq_pd(srq->srq));
    rnic->srq_count--;
    rnic_leave(rnic, 0);
    srq_destroy(srq->srq);
    pthread_mutex_destroy(&srq->lock);
    free(srq);
    return 0;
}

uint32_t rnic_srq_max_wr(const struct rnic_srq *srq)
{
    return srq_max_wr(srq->srq);
}

int rnic_srq_set_limit(struct rnic_srq *srq, uint32_t limit)
{
    if (limit > srq_max_wr(srq->srq)) {
        return -EINVAL;
    }
    rnic_enter(srq->rnic);
    srq_set_limit(srq->srq, limit);
    return rnic_leave(srq->rnic, 0);
}

// Every QP that waits for a receive gets its turn; those on other queues find nothing.
static void serve_starved(struct rnic_srq *srq, instant_ns now)
{
    struct list_link todo, *l;
    bool is_wanted = false;
    list_move_all(&todo, &srq->rnic->shard.starved);
    while ((l = list_pop_head(&todo)) != NULL) {
        struct rnic_ep *ep = LIST_ENTRY(l, struct rnic_ep, starved_link);
        list_push_tail(&srq->rnic->shard.starved, l);
        if (ep->qp->srq != srq) {
            continue;
        }
        rnic_qp_on_doorbell(ep->qp, now);
        is_wanted |= ep->qp != NULL && ep->qp->transport->ops->wants_receive(ep->qp->transport);
    }
    // Only now, and only to false: who posts meanwhile rings, and waits for the lock.
    if (!is_wanted) {
        atomic_store_explicit(&srq->wants_receive, false, memory_order_release);
    }
}

void rnic_srq_ring(struct rnic_srq *srq)
{
    if (rnic_is_receive_wanted(&srq->wants_receive)) {
        rnic_enter(srq->rnic);
        serve_starved(srq, rnic_now(srq->rnic));
        rnic_leave(srq->rnic, 0);
    }
}

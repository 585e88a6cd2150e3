// Shared receive queues.

#include <stdlib.h>

#include "verbs/front.h"

static bool is_known(const struct ibv_srq *srq)
{
    return srq->handle == front_handle_of(srq);
}

static int srq_attr_check(const struct ibv_pd *pd, const struct ibv_srq_attr *attr)
{
    if (!front_pd_is_known(pd)) {
        return ENOENT;
    }
    if (!front_is_alive(pd->context)) {
        return EIO;
    }
    if (attr->max_wr == 0 || attr->max_wr > rnic_limits.max_srq_wr ||
        attr->max_sge > rnic_limits.max_sge) {
        return EINVAL;
    }
    return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init_attr)
{
    int error = srq_attr_check(pd, &init_attr->attr);
    if (error != 0) {
        return front_null(error);
    }
    struct front_srq *srq = calloc(1, sizeof *srq);
    if (srq == NULL) {
        return front_null(ENOMEM);
    }
    srq->srq.context = pd->context;
    srq->srq.srq_context = init_attr->srq_context;
    srq->srq.pd = pd;
    srq->srq.handle = front_handle_of(srq);
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    srq->max_wr = init_attr->attr.max_wr;
    srq->max_sge = init_attr->attr.max_sge;
    front_srq_events_init(srq);
    const struct rnic_async_port async = {.on_event = front_srq_on_event, .ctx = srq};
    error = rnic_srq_create(front_context_of(pd->context)->rnic, pd->handle, srq->max_wr,
                            srq->max_sge, &async, &srq->rnic_srq);
    if (error != 0) {
        free(srq);
        return front_null(-error);
    }
    srq->max_wr = rnic_srq_max_wr(srq->rnic_srq);
    init_attr->attr.max_wr = srq->max_wr;
    front_context_hold(pd->context);
    return &srq->srq;
}

int ibv_modify_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr, int mask)
{
    struct front_srq *srq = (struct front_srq *)ibv_srq;
    if (mask & IBV_SRQ_MAX_WR) { // the device does not say IBV_DEVICE_SRQ_RESIZE
        return front_fail(EOPNOTSUPP);
    }
    if ((mask & ~IBV_SRQ_LIMIT) != 0 || ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > srq->max_wr)) {
        return front_fail(EINVAL);
    }
    if (!is_known(ibv_srq)) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(ibv_srq->context)) {
        return front_fail(EIO);
    }
    if (mask & IBV_SRQ_LIMIT) {
        // First, since the event may come within the call, and sets it back to 0.
        atomic_store(&srq->limit, attr->srq_limit);
        int error = rnic_srq_set_limit(srq->rnic_srq, attr->srq_limit);
        if (error != 0) {
            return front_fail(-error);
        }
    }
    return 0;
}

int ibv_query_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr)
{
    struct front_srq *srq = (struct front_srq *)ibv_srq;
    if (!is_known(ibv_srq)) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(ibv_srq->context)) {
        return front_fail(EIO);
    }
    *attr = (struct ibv_srq_attr){
        .max_wr = srq->max_wr,
        .max_sge = srq->max_sge,
        .srq_limit = atomic_load(&srq->limit),
    };
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv_srq)
{
    struct front_srq *srq = (struct front_srq *)ibv_srq;
    if (!is_known(ibv_srq)) {
        return front_fail(ENOENT);
    }
    if (front_is_alive(ibv_srq->context)) {
        int error = rnic_srq_destroy(srq->rnic_srq);
        if (error != 0) {
            return front_fail(-error);
        }
        front_wait_acknowledged(&ibv_srq->mutex, &ibv_srq->cond, &ibv_srq->events_completed,
                                front_srq_events_withdraw(srq));
        pthread_mutex_destroy(&ibv_srq->mutex);
        pthread_cond_destroy(&ibv_srq->cond);
    }
    front_context_release(ibv_srq->context);
    free(srq);
    return 0;
}

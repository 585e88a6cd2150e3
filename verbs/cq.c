// Completion queues: create, poll, arm, resize, destroy.

#include <stdlib.h>

#include "base/check.h"
#include "verbs/front.h"

// An entry is handed on as it is.
STATIC_CHECK((int)WC_GRH == (int)IBV_WC_GRH);
STATIC_CHECK((int)CQE_STATUS_SUCCESS == (int)IBV_WC_SUCCESS);
STATIC_CHECK(sizeof(((struct cqe *)0)->status) == sizeof(enum ibv_wc_status));
STATIC_CHECK(sizeof(((struct cqe *)0)->opcode) == sizeof(enum ibv_wc_opcode));

enum { POLL_CHUNK_COUNT = 16 }; // entries taken under one hold of the lock: 1 KiB of stack

static bool is_known(const struct ibv_cq *cq)
{
    return cq->handle == front_handle_of(cq);
}

static int cq_attr_check(struct ibv_context *context, uint32_t cqe_count,
                         const struct ibv_comp_channel *channel, uint32_t comp_vector)
{
    if (!front_is_alive(context)) {
        return EIO;
    }
    if (cqe_count == 0 || cqe_count > rnic_limits.max_cqe ||
        comp_vector >= FRONT_COMP_VECTOR_COUNT ||
        (channel != NULL && channel->context != context)) {
        return EINVAL;
    }
    return 0;
}

struct front_cq *front_cq_make(struct ibv_context *context, uint32_t cqe_count, void *cq_context,
                               struct ibv_comp_channel *channel, uint32_t comp_vector)
{
    int error = cq_attr_check(context, cqe_count, channel, comp_vector);
    if (error != 0) {
        return front_null(error);
    }
    struct front_cq *cq = calloc(1, sizeof *cq);
    if (cq == NULL) {
        return front_null(ENOMEM);
    }
    cq->cq.context = context;
    cq->cq.channel = channel;
    cq->cq.cq_context = cq_context;
    cq->cq.handle = front_handle_of(cq);
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    event_source_init(&cq->completions, cq, 0);
    event_source_init(&cq->overrun, &cq->cq, IBV_EVENT_CQ_ERR);
    const struct cq_port port = {
        .on_event = front_cq_on_completion, .on_overrun = front_cq_on_overrun, .ctx = cq};
    error = rnic_cq_create(front_context_of(context)->rnic, cqe_count, &port, &cq->rnic_cq);
    if (error != 0) {
        free(cq);
        return front_null(-error);
    }
    cq->cq.cqe = (int)rnic_cq_capacity(cq->rnic_cq);
    if (channel != NULL) {
        pthread_mutex_lock(&context->mutex);
        channel->refcnt++;
        pthread_mutex_unlock(&context->mutex);
    }
    front_context_hold(context);
    return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    if (cqe < 0 || comp_vector < 0) {
        return front_null(EINVAL);
    }
    struct front_cq *cq =
        front_cq_make(context, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector);
    return cq != NULL ? &cq->cq : NULL;
}

static void cq_wait_acknowledged(struct front_cq *cq)
{
    struct front_channel *channel = (struct front_channel *)cq->cq.channel;
    struct front_context *context = front_context_of(cq->cq.context);
    unsigned taken_count = event_withdraw(&context->async, &cq->overrun);
    front_wait_acknowledged(&cq->cq.mutex, &cq->cq.cond, &cq->cq.async_events_completed,
                            taken_count);
    if (channel != NULL) {
        taken_count = event_withdraw(&channel->events, &cq->completions);
        front_wait_acknowledged(&cq->cq.mutex, &cq->cq.cond, &cq->cq.comp_events_completed,
                                taken_count);
    }
}

// The context's mutex held, or behind a fork.
static void cq_leave_channel(struct front_cq *cq)
{
    if (cq->cq.channel != NULL) {
        cq->cq.channel->refcnt--;
    }
}

static void cq_free(struct front_cq *cq)
{
    front_context_release(cq->cq.context);
    free(cq);
}

int ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
    struct front_cq *cq = (struct front_cq *)ibv_cq;
    if (!is_known(ibv_cq)) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(ibv_cq->context)) {
        cq_leave_channel(cq);
        cq_free(cq);
        return 0;
    }
    int error = rnic_cq_destroy(cq->rnic_cq);
    if (error != 0) {
        return front_fail(-error);
    }
    cq_wait_acknowledged(cq);
    pthread_mutex_lock(&ibv_cq->context->mutex);
    cq_leave_channel(cq);
    pthread_mutex_unlock(&ibv_cq->context->mutex);
    pthread_mutex_destroy(&ibv_cq->mutex);
    pthread_cond_destroy(&ibv_cq->cond);
    cq_free(cq);
    return 0;
}

int ibv_resize_cq(struct ibv_cq *ibv_cq, int cqe)
{
    struct front_cq *cq = (struct front_cq *)ibv_cq;
    if (!is_known(ibv_cq)) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(ibv_cq->context)) {
        return front_fail(EIO);
    }
    if (cqe <= 0 || (uint32_t)cqe > rnic_limits.max_cqe) {
        return front_fail(EINVAL);
    }
    int error = rnic_cq_resize(cq->rnic_cq, (uint32_t)cqe);
    if (error != 0) {
        return front_fail(-error);
    }
    ibv_cq->cqe = (int)rnic_cq_capacity(cq->rnic_cq);
    return 0;
}

/* ---- polling --------------------------------------------------------------------------------- */

void front_wc_fill(struct ibv_wc *wc, const struct cqe *cqe)
{
    *wc = (struct ibv_wc){
        .wr_id = cqe->wr_id,
        .status = (enum ibv_wc_status)cqe->status,
        .opcode = (enum ibv_wc_opcode)cqe->opcode,
        .vendor_err = cqe->vendor_err,
        .byte_len = cqe->byte_len,
        .imm_data = cqe->imm_data, // or the invalidated key: one union in both
        .qp_num = cqe->qp_num,
        .wc_flags = cqe->wc_flags,
    };
    if (cqe->wc_flags & WC_GRH) {
        wc->src_qp = cqe->src_qp;
        wc->sl = (uint8_t)cqe->sl;
    }
    if (cqe->wc_flags & WC_REFERENCE) {
        wc->vendor_err = (uint32_t)(cqe->reference >> 32);
        wc->src_qp = (uint32_t)cqe->reference;
    }
}

int front_poll_cq(struct ibv_cq *ibv_cq, int num_entries, struct ibv_wc *wc)
{
    struct front_cq *cq = (struct front_cq *)ibv_cq;
    if (!front_is_alive(ibv_cq->context)) {
        return -EIO;
    }
    int done = 0;
    while (done < num_entries) {
        struct cqe chunk[POLL_CHUNK_COUNT];
        int room = num_entries - done;
        int wanted = room < POLL_CHUNK_COUNT ? room : POLL_CHUNK_COUNT;
        int count = rnic_cq_poll(cq->rnic_cq, chunk, (unsigned)wanted);
        if (count < 0) {
            return done > 0 ? done : count;
        }
        for (int i = 0; i < count; i++) {
            front_wc_fill(&wc[done++], &chunk[i]);
        }
        if (count < wanted) {
            break;
        }
    }
    return done;
}

int front_req_notify_cq(struct ibv_cq *ibv_cq, int solicited_only)
{
    struct front_cq *cq = (struct front_cq *)ibv_cq;
    if (!front_is_alive(ibv_cq->context)) {
        return front_fail(EIO);
    }
    rnic_cq_arm(cq->rnic_cq, solicited_only != 0);
    return 0;
}

int front_modify_cq(struct ibv_cq *ibv_cq, struct ibv_modify_cq_attr *attr)
{
    struct front_cq *cq = (struct front_cq *)ibv_cq;
    if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE) {
        return front_fail(EOPNOTSUPP);
    }
    if (!is_known(ibv_cq)) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(ibv_cq->context)) {
        return front_fail(EIO);
    }
    if (attr->attr_mask & IBV_CQ_ATTR_MODERATE) {
        rnic_cq_moderate(cq->rnic_cq, attr->moderate.cq_count, attr->moderate.cq_period);
    }
    return 0;
}

// Completion channels and asynchronous events: who raises them, how a program gets and acknowledges
// them.

#include <stdlib.h>

#include "verbs/front.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    if (!front_is_alive(context)) {
        return front_null(EIO);
    }
    struct front_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL) {
        return front_null(ENOMEM);
    }
    int error = event_queue_init(&channel->events);
    if (error != 0) {
        free(channel);
        return front_null(error);
    }
    channel->channel.context = context;
    channel->channel.fd = channel->events.fd;
    front_context_hold(context);
    return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv_channel)
{
    struct front_channel *channel = (struct front_channel *)ibv_channel;
    struct ibv_context *context = ibv_channel->context;
    const bool is_alive = front_is_alive(context);
    if (is_alive) {
        pthread_mutex_lock(&context->mutex);
    }
    const bool is_used = ibv_channel->refcnt > 0;
    if (is_alive) {
        pthread_mutex_unlock(&context->mutex);
    }
    if (is_used) {
        return front_fail(EBUSY);
    }
    front_drive_forget(channel);
    event_queue_fini(&channel->events);
    front_context_release(context);
    free(channel);
    return 0;
}

/* ---- completion events ----------------------------------------------------------------------- */

// The CQ's port: once per arming, the shard's lock held.
void front_cq_on_completion(void *ctx)
{
    struct front_cq *cq = ctx;
    struct front_channel *channel = (struct front_channel *)cq->cq.channel;
    if (channel != NULL && front_drives(channel)) {
        event_tell(&channel->events, &cq->completions);
    } else if (channel != NULL) {
        event_queue_raise(&channel->events, &cq->completions);
    }
}

// The CQ's port: a completion was lost, the first of all that will be; the shard's lock held.
void front_cq_on_overrun(void *ctx)
{
    struct front_cq *cq = ctx;
    event_queue_raise(&front_context_of(cq->cq.context)->async, &cq->overrun);
}

// While the channel's lock is held the CQ cannot be withdrawn; afterwards it waits for the
// acknowledgement.
void front_completion_taken(struct event_source *source, void *ctx)
{
    struct front_cq_event *event = ctx;
    struct front_cq *cq = source->object;
    event->cq = &cq->cq;
    event->cq_context = cq->cq.cq_context;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv_channel, struct ibv_cq **cq, void **cq_context)
{
    struct front_channel *channel = (struct front_channel *)ibv_channel;
    struct front_cq_event event;
    if (!front_is_alive(ibv_channel->context)) {
        errno = EIO;
        return -1;
    }
    if (event_wait(&channel->events, front_completion_taken, &event) == NULL) {
        return -1;
    }
    *cq = event.cq;
    *cq_context = event.cq_context;
    return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
                        unsigned int count)
{
    pthread_mutex_lock(mutex);
    *completed += count;
    pthread_cond_signal(cond);
    pthread_mutex_unlock(mutex);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}

void front_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond,
                             const uint32_t *completed, unsigned taken_count)
{
    pthread_mutex_lock(mutex);
    while (*completed != taken_count) {
        pthread_cond_wait(cond, mutex);
    }
    pthread_mutex_unlock(mutex);
}

/* ---- asynchronous events --------------------------------------------------------------------- */

static const enum ibv_event_type event_types[] = {
    [RNIC_EVENT_CQ_ERR] = IBV_EVENT_CQ_ERR,
    [RNIC_EVENT_QP_FATAL] = IBV_EVENT_QP_FATAL,
    [RNIC_EVENT_QP_REQ_ERR] = IBV_EVENT_QP_REQ_ERR,
    [RNIC_EVENT_QP_ACCESS_ERR] = IBV_EVENT_QP_ACCESS_ERR,
    [RNIC_EVENT_COMM_EST] = IBV_EVENT_COMM_EST,
    [RNIC_EVENT_SQ_DRAINED] = IBV_EVENT_SQ_DRAINED,
    [RNIC_EVENT_QP_LAST_WQE_REACHED] = IBV_EVENT_QP_LAST_WQE_REACHED,
    [RNIC_EVENT_SRQ_ERR] = IBV_EVENT_SRQ_ERR,
    [RNIC_EVENT_SRQ_LIMIT_REACHED] = IBV_EVENT_SRQ_LIMIT_REACHED,
};

void front_qp_events_init(struct front_qp *qp)
{
    for (int i = 0; i < FRONT_QP_EVENT_COUNT; i++) {
        event_source_init(&qp->events[i], &qp->qp, (int)event_types[i]);
    }
}

void front_srq_events_init(struct front_srq *srq)
{
    event_source_init(&srq->error, &srq->srq, IBV_EVENT_SRQ_ERR);
    event_source_init(&srq->limit_reached, &srq->srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

unsigned front_qp_events_withdraw(struct front_qp *qp)
{
    struct event_queue *queue = &front_context_of(qp->qp.context)->async;
    unsigned taken_count = 0;
    for (int i = 0; i < FRONT_QP_EVENT_COUNT; i++) {
        taken_count += event_withdraw(queue, &qp->events[i]);
    }
    return taken_count;
}

unsigned front_srq_events_withdraw(struct front_srq *srq)
{
    struct event_queue *queue = &front_context_of(srq->srq.context)->async;
    return event_withdraw(queue, &srq->error) + event_withdraw(queue, &srq->limit_reached);
}

void front_qp_on_event(void *ctx, enum rnic_async_event event)
{
    struct front_qp *qp = ctx;
    event_raise_once(&front_context_of(qp->qp.context)->async, &qp->events[event]);
}

void front_srq_on_event(void *ctx, enum rnic_async_event event)
{
    struct front_srq *srq = ctx;
    struct event_queue *queue = &front_context_of(srq->srq.context)->async;
    if (event == RNIC_EVENT_SRQ_ERR) {
        event_raise_once(queue, &srq->error);
        return;
    }
    atomic_store(&srq->limit, 0); // told once per setting
    event_raise_once(queue, &srq->limit_reached);
}

// Who has not taken the last one reads the table behind this change too.
void front_port_on_change(void *ctx)
{
    struct front_context *front = ctx;
    event_raise_once(&front->async, &front->gid_change);
}

static void async_taken(struct event_source *source, void *ctx)
{
    struct ibv_async_event *event = ctx;
    event->event_type = (enum ibv_event_type)source->kind;
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        event->element.cq = source->object;
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        event->element.srq = source->object;
        break;
    case IBV_EVENT_GID_CHANGE:
        event->element.port_num = FRONT_PORT_NUM;
        break;
    default:
        event->element.qp = source->object;
        break;
    }
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    if (!front_is_alive(context)) {
        errno = EIO;
        return -1;
    }
    return event_wait(&front_context_of(context)->async, async_taken, event) != NULL ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_srq *srq = event->element.srq;
    struct ibv_qp *qp = event->element.qp;
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        acknowledge(&srq->mutex, &srq->cond, &srq->events_completed, 1);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
        break;
    default:
        break; // of the device or the port: nothing waits for that
    }
}

// Events, from the endpoints of the RNIC to the program and back. Those that need more than what
// the endpoint reported (addresses, a channel for a new id) are completed when the program takes
// them, in its own thread and without the RNIC's lock.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/cm.h"

static const enum rdma_cm_event_type program_types[] = {
    [RNIC_EP_CONNECT_REQUEST] = RDMA_CM_EVENT_CONNECT_REQUEST,
    [RNIC_EP_CONNECT_REPLY] = RDMA_CM_EVENT_CONNECT_RESPONSE,
    [RNIC_EP_ESTABLISHED] = RDMA_CM_EVENT_ESTABLISHED,
    [RNIC_EP_REJECTED] = RDMA_CM_EVENT_REJECTED,
    [RNIC_EP_UNREACHABLE] = RDMA_CM_EVENT_UNREACHABLE,
    [RNIC_EP_CONNECT_ERROR] = RDMA_CM_EVENT_CONNECT_ERROR,
    [RNIC_EP_DISCONNECTED] = RDMA_CM_EVENT_DISCONNECTED,
};

static struct cm_event *event_new(struct cm_id *owner, enum rdma_cm_event_type type, int status)
{
    struct cm_event *event = calloc(1, sizeof *event);
    if (event != NULL) {
        event->generation = owner->generation;
        event->owner = owner;
        event->event.id = &owner->id;
        event->event.event = type;
        event->event.status = status;
        list_init(&event->link);
    }
    return event;
}

/* ---- in -------------------------------------------------------------------------------------- */

static uint8_t at_most_255(uint16_t n)
{
    return n < UINT8_MAX ? (uint8_t)n : UINT8_MAX;
}

// The peer's IRD bounds what the program may ask for, its ORD what the program has to serve.
static void copy_params(struct cm_event *event, const struct rnic_ep_event *ep_event)
{
    struct rdma_conn_param *param = &event->event.param.conn;
    param->initiator_depth = at_most_255(ep_event->ird);
    param->responder_resources = at_most_255(ep_event->ord);
    param->private_data_len = at_most_255(ep_event->private_data_len);
    if (param->private_data_len > 0) {
        param->private_data = event->private_data;
        memcpy(event->private_data, ep_event->private_data, param->private_data_len);
    }
}

// cm_lock held. The id of a connection that asks; false: no memory, and the RNIC turns it away.
static bool take_request(struct cm_id *listener, struct cm_event *event,
                         const struct rnic_ep_event *ep_event)
{
    struct cm_id *c = cm_id_alloc(listener->id.channel, listener->id.context, listener->id.ps,
                                  listener->id.qp_type);
    if (c == NULL) {
        return false;
    }
    c->ep = ep_event->new_ep;
    c->state = CM_REQUESTED;
    c->listener = listener;
    c->options = listener->options;
    c->initiator_depth = event->event.param.conn.initiator_depth;
    c->responder_resources = event->event.param.conn.responder_resources;
    *ep_event->new_ep_port = (struct rnic_ep_port){.on_event = cm_event_from_ep, .ctx = c};
    cm_id_attach(c, cm_channel_of(listener->id.channel));
    event->event.id = &c->id;
    event->event.listen_id = &listener->id;
    return true;
}

// cm_lock held. False: the event is not for the program.
static bool post_from_ep(struct cm_id *c, struct cm_event *event,
                         const struct rnic_ep_event *ep_event)
{
    enum cm_state next = cm_state_after_event(c->state, event->event.event);
    if (next == CM_STATE_COUNT) {
        return false;
    }
    c->state = next;
    if (c->is_closing || c->id.channel == NULL) {
        return false;
    }
    if (ep_event->type == RNIC_EP_CONNECT_REQUEST && !take_request(c, event, ep_event)) {
        return false;
    }
    cm_channel_post(cm_channel_of(c->id.channel), event);
    return true;
}

void cm_event_from_ep(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *ep_event)
{
    struct cm_id *c = ctx;
    if (!cm_id_is_alive(c)) {
        return;
    }
    struct cm_event *event = event_new(c, program_types[ep_event->type], ep_event->status);
    if (event == NULL) {
        return;
    }
    copy_params(event, ep_event);
    pthread_mutex_lock(&cm_lock);
    bool is_posted = post_from_ep(c, event, ep_event);
    pthread_mutex_unlock(&cm_lock);
    if (!is_posted) {
        free(event);
    }
}

int cm_event_post(struct cm_id *c, enum rdma_cm_event_type type, int status)
{
    struct cm_event *event = event_new(c, type, status);
    if (event == NULL) {
        return cm_fail(ENOMEM);
    }
    pthread_mutex_lock(&cm_lock);
    bool has_channel = c->id.channel != NULL;
    if (has_channel) {
        cm_channel_post(cm_channel_of(c->id.channel), event);
    }
    pthread_mutex_unlock(&cm_lock);
    if (!has_channel) {
        free(event);
        return cm_fail(EBADF);
    }
    return 0;
}

/* ---- out ------------------------------------------------------------------------------------- */

// Takes the oldest event and pins its owner, or returns NULL: it was withdrawn meanwhile.
static struct cm_event *event_take(struct cm_channel *channel)
{
    struct cm_event *event = NULL;
    pthread_mutex_lock(&cm_lock);
    struct list_link *l = list_pop_head(&channel->events);
    if (l != NULL) {
        event = LIST_ENTRY(l, struct cm_event, link);
        event->owner->unacked_count++;
        event->owner->pin_count++;
        if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            cm_id_of(event->event.id)->listener = NULL;
        } else if (event->event.event == RDMA_CM_EVENT_DISCONNECTED) {
            event->owner->is_end_told = true;
        }
    }
    pthread_mutex_unlock(&cm_lock);
    return event;
}

static void owner_unpin(struct cm_id *owner)
{
    pthread_mutex_lock(&cm_lock);
    owner->pin_count--;
    cm_signal();
    pthread_mutex_unlock(&cm_lock);
}

// A new id as the program is to find it. -1: it cannot be had, and the program is not told of it.
static int prepare_request(struct cm_id *listener, struct cm_id *c)
{
    if (cm_id_use_device(c) != 0) {
        return -1;
    }
    cm_id_show_addresses(c);
    if (c->options.has_tos) {
        rnic_ep_set_tos(c->ep, c->options.tos);
    }
    return listener->is_sync ? rdma_migrate_id(&c->id, NULL) : 0;
}

static int prepare(struct cm_event *event)
{
    struct cm_id *c = event->owner;
    switch (event->event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return prepare_request(c, cm_id_of(event->event.id));
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
        cm_id_show_addresses(c);
        return 0;
    case RDMA_CM_EVENT_REJECTED:
        if (c->id.qp != NULL) {
            // What was posted before the connection comes back flushed.
            struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
            ibv_modify_qp(c->id.qp, &attr, IBV_QP_STATE);
        }
        return 0;
    default:
        return 0;
    }
}

// On a destroyed channel nothing comes any more. A cancellation point, as any wait here.
static void wait_for_ever_if_destroyed(const struct cm_channel *channel)
{
    while (atomic_load(&channel->is_destroyed)) {
        pause();
    }
}

int rdma_get_cm_event(struct rdma_event_channel *rdma_channel, struct rdma_cm_event **ret)
{
    if (ret == NULL) {
        return cm_fail(EINVAL);
    }
    struct cm_channel *channel = cm_channel_of(rdma_channel);
    wait_for_ever_if_destroyed(channel);
    if (!cm_channel_is_alive(channel)) {
        return cm_fail(EIO);
    }
    for (;;) {
        // The only place to wait, and a cancellation point: nothing is held here.
        uint64_t count;
        if (read(channel->channel.fd, &count, sizeof count) < 0) {
            int error = errno;
            wait_for_ever_if_destroyed(channel);
            return cm_fail(error);
        }
        struct cm_event *event = event_take(channel);
        if (event == NULL) {
            continue;
        }
        int error = prepare(event);
        owner_unpin(event->owner);
        if (error == 0) {
            *ret = &event->event;
            return 0;
        }
        rdma_destroy_id(event->event.id);
        rdma_ack_cm_event(&event->event);
    }
}

int rdma_ack_cm_event(struct rdma_cm_event *rdma_event)
{
    if (rdma_event == NULL) {
        return cm_fail(EINVAL);
    }
    struct cm_event *event = (struct cm_event *)rdma_event;
    if (event->generation == cm_generation()) {
        pthread_mutex_lock(&cm_lock);
        event->owner->unacked_count--;
        cm_signal();
        pthread_mutex_unlock(&cm_lock);
    }
    free(event);
    return 0;
}

int cm_event_complete(struct cm_id *c)
{
    if (!c->is_sync) {
        return 0;
    }
    if (c->id.event != NULL) {
        rdma_ack_cm_event(c->id.event);
        c->id.event = NULL;
    }
    if (rdma_get_cm_event(c->id.channel, &c->id.event) != 0) {
        return -1;
    }
    int status = c->id.event->status;
    if (status == 0) {
        return 0;
    }
    if (c->id.event->event == RDMA_CM_EVENT_REJECTED) {
        return cm_fail(ECONNREFUSED);
    }
    return cm_fail(abs(status));
}

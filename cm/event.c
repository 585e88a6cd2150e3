// Events, from the endpoints of the RNIC into the queues of channels, and given back when the
// program has acknowledged them.

#include <stdlib.h>
#include <string.h>

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
    cm_lock();
    bool is_posted = post_from_ep(c, event, ep_event);
    cm_unlock();
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
    cm_lock();
    bool has_channel = c->id.channel != NULL;
    if (has_channel) {
        cm_channel_post(cm_channel_of(c->id.channel), event);
    }
    cm_unlock();
    if (!has_channel) {
        free(event);
        return cm_fail(EBADF);
    }
    return 0;
}

/* ---- given back ------------------------------------------------------------------------------ */

int rdma_ack_cm_event(struct rdma_cm_event *rdma_event)
{
    if (rdma_event == NULL) {
        return cm_fail(EINVAL);
    }
    struct cm_event *event = (struct cm_event *)rdma_event;
    if (event->generation == cm_generation()) {
        cm_lock();
        event->owner->unacked_count--;
        cm_signal();
        cm_unlock();
    }
    free(event);
    return 0;
}

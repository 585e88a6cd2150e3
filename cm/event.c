// Events, from the endpoints of the RNIC into the queues of channels, and given back when the
// program has acknowledged them.

#include <stdlib.h>

#include "cm/cm.h"

struct cm_event *cm_event_new(struct cm_id *owner, enum rdma_cm_event_type type, int status)
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

// cm_lock held. The id of a connection that asks; false: no memory, and the RNIC turns it away.
static bool take_request(struct cm_id *listener, struct cm_event *event,
                         void (*adopt)(struct cm_id *c, const void *from), const void *from)
{
    struct cm_id *c = cm_id_alloc(listener->id.channel, listener->id.context, listener->id.ps,
                                  listener->id.qp_type);
    if (c == NULL) {
        return false;
    }
    c->state = CM_REQUESTED;
    c->listener = listener;
    c->options = listener->options;
    if (listener->id.qp_type != IBV_QPT_UD) {
        c->initiator_depth = event->event.param.conn.initiator_depth;
        c->responder_resources = event->event.param.conn.responder_resources;
    }
    adopt(c, from);
    cm_id_attach(c, cm_channel_of(listener->id.channel));
    event->event.id = &c->id;
    event->event.listen_id = &listener->id;
    return true;
}

// cm_lock held. False: the event is not for the program.
static bool post(struct cm_id *c, struct cm_event *event,
                 void (*adopt)(struct cm_id *c, const void *from), const void *from)
{
    enum cm_state next = cm_state_after_event(c->state, event->event.event);
    if (next == CM_STATE_COUNT) {
        return false;
    }
    c->state = next;
    if (c->is_closing || c->id.channel == NULL) {
        return false;
    }
    if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST &&
        !take_request(c, event, adopt, from)) {
        return false;
    }
    cm_channel_post(cm_channel_of(c->id.channel), event);
    return true;
}

void cm_event_tell(struct cm_id *c, struct cm_event *event,
                   void (*adopt)(struct cm_id *c, const void *from), const void *from)
{
    cm_lock();
    bool is_posted = post(c, event, adopt, from);
    cm_unlock();
    if (!is_posted) {
        free(event);
    }
}

int cm_event_put(struct cm_id *c, struct cm_event *event)
{
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

int cm_event_post(struct cm_id *c, enum rdma_cm_event_type type, int status)
{
    struct cm_event *event = cm_event_new(c, type, status);
    return event != NULL ? cm_event_put(c, event) : cm_fail(ENOMEM);
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

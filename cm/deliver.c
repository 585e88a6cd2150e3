// Events, out of the queues of channels to the program. Those that need more than what the
// endpoint reported (addresses, a channel for a new id) are completed when the program takes them,
// in its own thread and without the RNIC's lock.

#include <stdlib.h>
#include <unistd.h>

#include "cm/cm.h"

// Takes the oldest event and pins its owner, or returns NULL: it was withdrawn meanwhile.
static struct cm_event *event_take(struct cm_channel *channel)
{
    struct cm_event *event = NULL;
    cm_lock();
    struct list_link *l = list_pop_head(&channel->events);
    if (l != NULL) {
        event = LIST_ENTRY(l, struct cm_event, link);
        event->owner->unacked_count++;
        event->owner->pin_count++;
        if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            cm_id_of(event->event.id)->listener = NULL;
        } else if (event->event.event == RDMA_CM_EVENT_DISCONNECTED) {
            event->owner->is_end_told = true;
        } else if (event->group != NULL) {
            event->group->is_being_told = true;
        }
    }
    cm_unlock();
    return event;
}

static void owner_unpin(struct cm_id *owner)
{
    cm_lock();
    owner->pin_count--;
    cm_signal();
    cm_unlock();
}

// A new id as the program is to find it. -1: it cannot be had, and the program is not told of it.
static int prepare_request(struct cm_id *listener, struct cm_id *c)
{
    if (cm_device_of(c) == NULL) {
        return -1;
    }
    cm_id_show_addresses(c); // before its GID, which is that of its own address
    if (cm_id_use_device(c) != 0 || cm_id_show_path(c) != 0) {
        return -1;
    }
    if (c->options.has_tos) {
        c->device->way->set_tos(c, c->options.tos);
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
    case RDMA_CM_EVENT_DISCONNECTED:
        if (c->device->way->take_end != NULL) {
            c->device->way->take_end(c);
        }
        return 0;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
        if (event->group != NULL) {
            cm_group_tell(c, event);
        }
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

int cm_event_complete(struct cm_id *c, bool is_sync)
{
    if (!is_sync) {
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

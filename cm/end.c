// How ids and channels end, each taking what hangs on it along; and how an id leaves one channel
// for another.

#include <stdlib.h>

#include "cm/cm.h"

/* ---- the end of an id ------------------------------------------------------------------------ */

// cm_lock held. Moves the id's undelivered events from its channel into `ret`.
static void withdraw_events(struct cm_id *c, struct list_link *ret)
{
    struct cm_channel *channel = cm_channel_of(c->id.channel);
    struct list_link *next;
    for (struct list_link *l = channel->events.next; l != &channel->events; l = next) {
        struct cm_event *event = LIST_ENTRY(l, struct cm_event, link);
        next = l->next;
        if (event->owner == c) {
            cm_channel_withdraw(channel, event);
            list_push_tail(ret, &event->link);
        }
    }
}

// Ends the id's connection. Afterwards no event of it waits anywhere, and none comes. Connections
// that asked a listener and were not handed out yet go with it.
static void id_end(struct cm_id *c)
{
    cm_lock();
    c->is_closing = true;
    while (c->pin_count > 0) {
        cm_wait();
    }
    cm_unlock();
    if (c->device != NULL) {
        c->device->way->destroy(c);
    }
    if (c->beside != NULL) {
        c->beside->way->destroy(c);
    }
    struct list_link withdrawn;
    list_init(&withdrawn);
    cm_lock();
    if (c->id.channel != NULL) {
        withdraw_events(c, &withdrawn);
    }
    cm_unlock();
    struct list_link *l;
    while ((l = list_pop_head(&withdrawn)) != NULL) {
        struct cm_event *event = LIST_ENTRY(l, struct cm_event, link);
        if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            rdma_destroy_id(event->event.id);
        }
        free(event);
    }
}

static void id_free(struct cm_id *c)
{
    if (c->is_sync && c->id.channel != NULL) {
        rdma_destroy_event_channel(c->id.channel);
    }
    free(c->id.route.path_rec);
    free(c->qp_init_attr);
    rdma_freeaddrinfo(c->resolved);
    struct list_link *l;
    while ((l = list_pop_head(&c->groups)) != NULL) {
        free(LIST_ENTRY(l, struct cm_group, link));
    }
    free(c);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct cm_id *c = cm_id_of(id);
    if (id->event != NULL) {
        rdma_ack_cm_event(id->event);
    }
    if (cm_id_is_alive(c)) {
        id_end(c);
        cm_groups_detach(c);
        cm_lock();
        while (c->unacked_count > 0) {
            cm_wait();
        }
        list_remove(&c->channel_link);
        cm_unlock();
    }
    id_free(c);
    return 0;
}

/* ---- the end of a channel -------------------------------------------------------------------- */

// Ends the connection of an id whose channel goes away; the id itself stays the program's.
static void id_orphan(struct cm_id *c)
{
    id_end(c);
    cm_lock();
    list_remove(&c->channel_link);
    c->id.channel = NULL;
    cm_unlock();
}

static struct cm_id *first_id(struct cm_channel *channel)
{
    cm_lock();
    struct cm_id *c = NULL;
    if (!list_is_empty(&channel->ids)) {
        c = LIST_ENTRY(channel->ids.next, struct cm_id, channel_link);
    }
    cm_unlock();
    return c;
}

// Ids that are left have nowhere to report to any more, so their connections end with the channel.
void rdma_destroy_event_channel(struct rdma_event_channel *rdma_channel)
{
    struct cm_channel *channel = cm_channel_of(rdma_channel);
    if (cm_channel_is_alive(channel)) {
        struct cm_id *c;
        while ((c = first_id(channel)) != NULL) {
            id_orphan(c);
        }
    }
    cm_channel_bury(channel);
}

/* ---- migrating ------------------------------------------------------------------------------- */

// cm_lock held. The id's undelivered events go along, and those of connections that asked it and
// have not been handed out.
static void move_id(struct cm_id *c, struct cm_channel *to)
{
    struct cm_channel *from = cm_channel_of(c->id.channel);
    struct list_link *next;
    for (struct list_link *l = from->events.next; l != &from->events; l = next) {
        struct cm_event *event = LIST_ENTRY(l, struct cm_event, link);
        next = l->next;
        if (event->owner == c || event->owner->listener == c) {
            cm_channel_withdraw(from, event);
            cm_channel_post(to, event);
        }
    }
    for (struct list_link *l = from->ids.next; l != &from->ids; l = next) {
        struct cm_id *other = LIST_ENTRY(l, struct cm_id, channel_link);
        next = l->next;
        if (other->listener == c) {
            cm_id_attach(other, to);
        }
    }
    cm_id_attach(c, to);
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    struct cm_id *c = cm_id_of(id);
    if (!cm_id_is_alive(c) || (channel != NULL && !cm_channel_is_alive(cm_channel_of(channel)))) {
        return cm_fail(EIO);
    }
    if ((c->is_sync && channel == NULL) || id->channel == NULL) {
        return cm_fail(EINVAL);
    }
    bool to_sync = channel == NULL;
    if (to_sync) {
        channel = rdma_create_event_channel();
        if (channel == NULL) {
            return -1;
        }
    }
    // The channel of its own goes; unless it is told to stay there, and then it is the program's.
    struct rdma_event_channel *own = c->is_sync && id->channel != channel ? id->channel : NULL;
    cm_lock();
    if (id->channel != channel) {
        move_id(c, cm_channel_of(channel));
    }
    c->is_sync = to_sync;
    cm_unlock();
    if (id->event != NULL) {
        rdma_ack_cm_event(id->event);
        id->event = NULL;
    }
    if (own != NULL) {
        rdma_destroy_event_channel(own);
    }
    cm_lock();
    while (c->unacked_count > 0) {
        cm_wait();
    }
    cm_unlock();
    return 0;
}

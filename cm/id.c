// Ids: created, moved from one channel to another, destroyed.

#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

/* ---- creating -------------------------------------------------------------------------------- */

struct cm_id *cm_id_alloc(struct rdma_event_channel *channel, void *context,
                          enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
    struct cm_id *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->is_sync = channel == NULL;
    c->id.channel = channel != NULL ? channel : rdma_create_event_channel();
    if (c->id.channel == NULL) {
        free(c);
        return NULL;
    }
    c->generation = cm_generation();
    c->id.context = context;
    c->id.ps = ps;
    c->id.qp_type = qp_type;
    list_init(&c->channel_link);
    return c;
}

void cm_id_attach(struct cm_id *c, struct cm_channel *channel)
{
    list_remove(&c->channel_link);
    list_push_tail(&channel->ids, &c->channel_link);
    c->id.channel = &channel->channel;
}

static void id_free(struct cm_id *c)
{
    if (c->is_sync && c->id.channel != NULL) {
        rdma_destroy_event_channel(c->id.channel);
    }
    free(c->id.route.path_rec);
    free(c->qp_init_attr);
    free(c);
}

static bool is_port_space(enum rdma_port_space ps)
{
    return ps == RDMA_PS_TCP || ps == RDMA_PS_IB || ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
}

int cm_id_create(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
                 enum ibv_qp_type qp_type, struct rdma_cm_id **ret)
{
    if (!is_port_space(ps)) {
        return cm_fail(EINVAL);
    }
    if (channel != NULL && !cm_channel_is_alive(cm_channel_of(channel))) {
        return cm_fail(EIO);
    }
    struct cm_id *c = cm_id_alloc(channel, context, ps, qp_type);
    if (c == NULL) {
        return cm_fail(ENOMEM);
    }
    pthread_mutex_lock(&cm_lock);
    cm_id_attach(c, cm_channel_of(c->id.channel));
    pthread_mutex_unlock(&cm_lock);
    *ret = &c->id;
    return 0;
}

// Datagram port spaces exist here, so that a program meets its refusal where an iWARP device gives
// it: when it creates the QP.
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    bool is_datagram = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
    return cm_id_create(channel, context, ps, is_datagram ? IBV_QPT_UD : IBV_QPT_RC, id);
}

int cm_id_use_device(struct cm_id *c)
{
    const struct cm_device *device = cm_device_open();
    if (device == NULL) {
        return -1;
    }
    if (c->id.verbs == NULL) {
        c->id.verbs = device->verbs;
        c->id.pd = device->pd;
        c->id.port_num = 1;
        c->id.route.addr.addr.ibaddr.pkey = 0xffff; // the only one there is
        ibv_query_gid(device->verbs, 1, 0, &c->id.route.addr.addr.ibaddr.sgid);
    }
    return 0;
}

void cm_id_show_addresses(struct cm_id *c)
{
    struct sockaddr_storage addr;
    if (rnic_ep_local_addr(c->ep, &addr) == 0) {
        cm_addr_copy(&c->id.route.addr.src_storage, (const struct sockaddr *)&addr);
    }
    if (rnic_ep_peer_addr(c->ep, &addr) == 0) {
        cm_addr_copy(&c->id.route.addr.dst_storage, (const struct sockaddr *)&addr);
    }
}

/* ---- destroying ------------------------------------------------------------------------------ */

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
    pthread_mutex_lock(&cm_lock);
    c->is_closing = true;
    while (c->pin_count > 0) {
        cm_wait();
    }
    pthread_mutex_unlock(&cm_lock);
    if (c->ep != NULL) {
        rnic_ep_destroy(c->ep);
        c->ep = NULL;
    }
    struct list_link withdrawn;
    list_init(&withdrawn);
    pthread_mutex_lock(&cm_lock);
    if (c->id.channel != NULL) {
        withdraw_events(c, &withdrawn);
    }
    pthread_mutex_unlock(&cm_lock);
    struct list_link *l;
    while ((l = list_pop_head(&withdrawn)) != NULL) {
        struct cm_event *event = LIST_ENTRY(l, struct cm_event, link);
        if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            rdma_destroy_id(event->event.id);
        }
        free(event);
    }
}

void cm_id_orphan(struct cm_id *c)
{
    id_end(c);
    pthread_mutex_lock(&cm_lock);
    list_remove(&c->channel_link);
    c->id.channel = NULL;
    pthread_mutex_unlock(&cm_lock);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct cm_id *c = cm_id_of(id);
    if (id->event != NULL) {
        rdma_ack_cm_event(id->event);
        id->event = NULL;
    }
    if (cm_id_is_alive(c)) {
        id_end(c);
        pthread_mutex_lock(&cm_lock);
        while (c->unacked_count > 0) {
            cm_wait();
        }
        list_remove(&c->channel_link);
        pthread_mutex_unlock(&cm_lock);
    }
    id_free(c);
    return 0;
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
    struct rdma_event_channel *own = c->is_sync ? id->channel : NULL;
    pthread_mutex_lock(&cm_lock);
    if (id->channel != channel) {
        move_id(c, cm_channel_of(channel));
    }
    c->is_sync = to_sync;
    pthread_mutex_unlock(&cm_lock);
    if (own != NULL) {
        if (id->event != NULL) {
            rdma_ack_cm_event(id->event);
            id->event = NULL;
        }
        rdma_destroy_event_channel(own);
    }
    pthread_mutex_lock(&cm_lock);
    while (c->unacked_count > 0) {
        cm_wait();
    }
    pthread_mutex_unlock(&cm_lock);
    return 0;
}

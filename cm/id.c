// Ids: created, and put on a channel.

#include <stdlib.h>

#include "base/check.h"
#include "cm/cm.h"

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
    list_init(&c->groups);
    return c;
}

void cm_id_attach(struct cm_id *c, struct cm_channel *channel)
{
    CHECK(cm_lock_is_held());
    list_remove(&c->channel_link);
    list_push_tail(&channel->ids, &c->channel_link);
    c->id.channel = &channel->channel;
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
    cm_lock();
    cm_id_attach(c, cm_channel_of(c->id.channel));
    cm_unlock();
    *ret = &c->id;
    return 0;
}

// Datagram port spaces exist on any device, so that a program meets its refusal where an iWARP
// device gives it: when it creates the QP.
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    bool is_datagram = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
    return cm_id_create(channel, context, ps, is_datagram ? IBV_QPT_UD : IBV_QPT_RC, id);
}

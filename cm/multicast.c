// Multicast groups: joined where the device has datagrams, as Linux's rdma_cm does it for RoCE
// (cma_iboe_join_multicast in cma.c). Nobody is asked: the event that says to whom to send follows
// at once, and the system tells the network. iWARP runs over TCP and has no groups: arguments are
// checked as everywhere, then the call is refused with the errno of an iWARP device.

#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

enum { QP_NUM_GROUP = 0xffffff };

/* ---- joining --------------------------------------------------------------------------------- */

static bool may_join(const struct cm_id *c)
{
    return c->id.qp_type == IBV_QPT_UD &&
           (c->state == CM_BOUND || c->state == CM_ADDR_RESOLVED || c->state == CM_ROUTE_RESOLVED);
}

static int check(struct cm_id *c, const struct sockaddr *addr)
{
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    if (sockaddr_len(addr) == 0 || c->id.verbs == NULL) {
        return cm_fail(EINVAL);
    }
    if (!c->device->way->has_datagrams) {
        return cm_fail(ENOSYS);
    }
    return may_join(c) ? 0 : cm_fail(EINVAL);
}

// Who has no address yet, or that of no GID, sends from the first.
static uint8_t gid_index_of(const struct cm_id *c)
{
    const struct in6_addr local = sockaddr_octets(&c->id.route.addr.src_addr);
    const struct rnic_port port = rnic_port(c->device->rnic);
    const int index = rnic_port_find(&port, &local);
    return index > 0 ? (uint8_t)index : 0;
}

static struct cm_event *joined_event(struct cm_id *c, const struct cm_group *group, void *context)
{
    struct cm_event *event = cm_event_new(c, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    const struct in6_addr local = sockaddr_octets(&c->id.route.addr.src_addr);
    if (event != NULL) {
        event->event.param.ud = (struct rdma_ud_param){
            .private_data = context,
            .ah_attr = {.grh = {.dgid = group->gid,
                                .sgid_index = gid_index_of(c),
                                // All of the link's packets', as of Linux for groups of IPv4.
                                .hop_limit = rnic_hop_limit(c->device->rnic, &local),
                                .traffic_class = c->options.has_tos ? c->options.tos : 0},
                        .is_global = 1,
                        .port_num = c->id.port_num},
            .qp_num = QP_NUM_GROUP,
            .qkey = RDMA_UDP_QKEY,
        };
    }
    return event;
}

static int join(struct cm_id *c, const struct sockaddr *addr, bool receives, void *context)
{
    struct cm_group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        return cm_fail(ENOMEM);
    }
    const struct in6_addr octets = sockaddr_octets(addr);
    group->addr = sockaddr_unmapped(addr);
    group->receives = receives;
    memcpy(group->gid.raw, &octets, sizeof group->gid.raw);
    struct cm_event *event = joined_event(c, group, context);
    if (event == NULL) {
        free(group);
        return cm_fail(ENOMEM);
    }
    event->group = group;
    const bool is_sync = c->is_sync;
    cm_lock();
    list_push_tail(&c->groups, &group->link);
    cm_unlock();
    if (cm_event_put(c, event) != 0) {
        rdma_leave_multicast(&c->id, (struct sockaddr *)&group->addr);
        return cm_fail(EBADF);
    }
    return cm_event_complete(c, is_sync);
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    struct cm_id *c = cm_id_of(id);
    return check(c, addr) == 0 ? join(c, addr, true, context) : -1;
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                           void *context)
{
    struct cm_id *c = cm_id_of(id);
    if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) {
        return cm_fail(ENOTSUP);
    }
    const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    if ((attr->comp_mask & needed) != needed || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
        return cm_fail(EINVAL);
    }
    const bool receives = attr->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
    return check(c, attr->addr) == 0 ? join(c, attr->addr, receives, context) : -1;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static struct cm_group *find(struct cm_id *c, const struct sockaddr *addr)
{
    const struct sockaddr_storage wanted = sockaddr_unmapped(addr);
    for (struct list_link *l = c->groups.next; l != &c->groups; l = l->next) {
        struct cm_group *group = LIST_ENTRY(l, struct cm_group, link);
        if (memcmp(&group->addr, &wanted, sizeof wanted) == 0) {
            return group;
        }
    }
    return NULL;
}

// cm_lock held. Who leaves before he was told that he has joined is not told: the event, or NULL.
static struct cm_event *untold(struct cm_id *c, const struct cm_group *group)
{
    struct cm_channel *channel = cm_channel_of(c->id.channel);
    if (c->id.channel == NULL) {
        return NULL;
    }
    for (struct list_link *l = channel->events.next; l != &channel->events; l = l->next) {
        struct cm_event *event = LIST_ENTRY(l, struct cm_event, link);
        if (event->group == group) {
            cm_channel_withdraw(channel, event);
            return event;
        }
    }
    return NULL;
}

// Out of the id's, or NULL: it is none of them. What another thread is telling of it is waited for.
static struct cm_group *take(struct cm_id *c, const struct sockaddr *addr)
{
    struct cm_group *group;
    struct cm_event *event = NULL;
    cm_lock();
    while ((group = find(c, addr)) != NULL && group->is_being_told) {
        cm_wait();
    }
    if (group != NULL) {
        list_remove(&group->link);
        event = untold(c, group);
    }
    cm_unlock();
    free(event);
    return group;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    struct cm_id *c = cm_id_of(id);
    if (sockaddr_len(addr) == 0) {
        return cm_fail(EINVAL);
    }
    struct cm_group *group = take(c, addr);
    if (group == NULL) {
        return cm_fail(EADDRNOTAVAIL);
    }
    int error = cm_group_detach(c, group);
    free(group);
    return error == 0 ? 0 : cm_fail(error);
}

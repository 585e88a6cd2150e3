// Multicast: which queue pairs have a group, and that the link has it too.

#include "rnic/packet/group.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/port_datagram.h"
#include "base/transport.h"
#include "rnic/internal.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"

/* ---- the link -------------------------------------------------------------------------------- */

static bool is_same_family(const struct in6_addr *a, const struct in6_addr *b)
{
    return (IN6_IS_ADDR_V4MAPPED(a) != 0) == (IN6_IS_ADDR_V4MAPPED(b) != 0);
}

// Is it joined at this local address? It is at one of each interface, the first of its family:
// at two of them each packet would come twice.
static bool is_joined_at(const struct rnic *rnic, const struct in6_addr *group, unsigned index)
{
    const struct rnic_addr *at = &rnic->port.addrs[index];
    if (!rnic_addr_is_set(at)) {
        return false;
    }
    for (unsigned i = 0; i < index; i++) {
        const struct rnic_addr *before = &rnic->port.addrs[i];
        if (rnic_addr_is_set(before) && at->interface != 0 && before->interface == at->interface &&
            is_same_family(&before->addr, group)) {
            return false;
        }
    }
    return is_same_family(&at->addr, group);
}

// At the first `count` local addresses.
static void leave_some(struct rnic *rnic, const struct in6_addr *group, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct rnic_addr *at = &rnic->port.addrs[i];
        if (is_joined_at(rnic, group, i)) {
            datagram_leave(rnic->shard.packets.link, group, &at->addr, at->scope_id);
        }
    }
}

// At every interface, since any may be the one that it comes to; or at none.
static int join_all(struct rnic *rnic, const struct in6_addr *group)
{
    for (unsigned i = 0; i < rnic->port.addr_count; i++) {
        const struct rnic_addr *at = &rnic->port.addrs[i];
        int error = 0;
        if (is_joined_at(rnic, group, i)) {
            error = datagram_join(rnic->shard.packets.link, group, &at->addr, at->scope_id);
        }
        if (error != 0) {
            leave_some(rnic, group, i);
            return error;
        }
    }
    return 0;
}

// ... as far as it can be had.
static void join_some(struct rnic *rnic, const struct in6_addr *group)
{
    for (unsigned i = 0; i < rnic->port.addr_count; i++) {
        const struct rnic_addr *at = &rnic->port.addrs[i];
        if (is_joined_at(rnic, group, i)) {
            datagram_join(rnic->shard.packets.link, group, &at->addr, at->scope_id);
        }
    }
}

/* ---- memberships ----------------------------------------------------------------------------- */

static struct packet_membership *find(struct rnic_qp *qp, const struct in6_addr *group)
{
    struct list_link *all = &qp->rnic->shard.packets.members;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct packet_membership *m = LIST_ENTRY(l, struct packet_membership, link);
        if (m->qp == qp && IN6_ARE_ADDR_EQUAL(&m->group, group)) {
            return m;
        }
    }
    return NULL;
}

static int begin(struct rnic_qp *qp, const struct in6_addr *group)
{
    struct packet_membership *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return -ENOMEM;
    }
    int error = qp->transport->ops->attach(qp->transport, group);
    if (error == 0) {
        error = join_all(qp->rnic, group);
        if (error != 0) {
            qp->transport->ops->detach(qp->transport, group);
        }
    }
    if (error != 0) {
        free(m);
        return error;
    }
    *m = (struct packet_membership){.qp = qp, .group = *group};
    list_push_tail(&qp->rnic->shard.packets.members, &m->link);
    return 0;
}

static void end(struct packet_membership *m)
{
    list_remove(&m->link);
    m->qp->transport->ops->detach(m->qp->transport, &m->group);
    leave_some(m->qp->rnic, &m->group, m->qp->rnic->port.addr_count);
    free(m);
}

void packet_groups_leave(struct rnic *rnic)
{
    struct list_link *all = &rnic->shard.packets.members;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        leave_some(rnic, &LIST_ENTRY(l, struct packet_membership, link)->group,
                   rnic->port.addr_count);
    }
}

// A group that no address is left for stays without: whatever is sent to it does not come here.
void packet_groups_join(struct rnic *rnic)
{
    struct list_link *all = &rnic->shard.packets.members;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        join_some(rnic, &LIST_ENTRY(l, struct packet_membership, link)->group);
    }
}

int packet_group_attach(struct rnic_qp *qp, const struct in6_addr *group)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    return find(qp, group) != NULL ? -EALREADY : begin(qp, group);
}

int packet_group_detach(struct rnic_qp *qp, const struct in6_addr *group)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    struct packet_membership *m = find(qp, group);
    if (m == NULL) {
        return -EINVAL;
    }
    end(m);
    return 0;
}

void packet_group_forget(struct rnic_qp *qp)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    struct list_link *all = &qp->rnic->shard.packets.members;
    for (struct list_link *l = all->next; l != all;) {
        struct packet_membership *m = LIST_ENTRY(l, struct packet_membership, link);
        l = l->next;
        if (m->qp == qp) {
            end(m);
        }
    }
}

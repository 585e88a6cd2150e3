// What the fronts ask about multicast groups: the lock here, the work in group.c.

#include <errno.h>

#include "base/transport.h"
#include "rnic/internal.h"
#include "rnic/packet/group.h"

static int with_lock(struct rnic_qp *qp, const struct in6_addr *group,
                     int (*change)(struct rnic_qp *qp, const struct in6_addr *group))
{
    if (qp->transport->ops->attach == NULL) {
        return -EINVAL;
    }
    rnic_enter(qp->rnic);
    return rnic_leave(qp->rnic, rnic_is_alive(qp->rnic) ? change(qp, group) : -EIO);
}

int rnic_qp_attach(struct rnic_qp *qp, const struct in6_addr *group)
{
    return with_lock(qp, group, packet_group_attach);
}

int rnic_qp_detach(struct rnic_qp *qp, const struct in6_addr *group)
{
    return with_lock(qp, group, packet_group_detach);
}

// Multicast groups: what comes to one is for the queue pairs that are attached to it.

#include "verbs/front.h"

typedef int change_fn(struct rnic_qp *qp, const struct in6_addr *group);

// `lid` has no meaning on Ethernet.
static int group_change(struct ibv_qp *ibv_qp, const union ibv_gid *gid, change_fn *change)
{
    struct in6_addr group;
    if (front_identity_of(ibv_qp->context)->max_groups == 0) {
        return front_fail(EOPNOTSUPP);
    }
    if (!front_is_alive(ibv_qp->context)) {
        return front_fail(EIO);
    }
    if (ibv_qp->qp_type != IBV_QPT_UD || !front_gid_group(ibv_qp->context, gid, &group)) {
        return front_fail(EINVAL);
    }
    int error = change(((struct front_qp *)ibv_qp)->rnic_qp, &group);
    return error != 0 ? front_fail(-error) : 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return group_change(qp, gid, rnic_qp_attach);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return group_change(qp, gid, rnic_qp_detach);
}

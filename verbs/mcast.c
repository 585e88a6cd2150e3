// Multicast groups: what comes to one is for the queue pairs that are attached to it.

#include "verbs/front.h"

static struct front_qp *front_of(struct ibv_qp *qp)
{
    return (struct front_qp *)qp;
}

// 0 or a positive errno. (`lid` has no meaning on Ethernet.)
static int may_have_groups(struct ibv_qp *qp)
{
    if (front_identity_of(qp->context)->max_groups == 0) {
        return EOPNOTSUPP;
    }
    if (qp->handle != qp->qp_num) {
        return ENOENT;
    }
    if (!front_is_alive(qp->context)) {
        return EIO;
    }
    return qp->qp_type == IBV_QPT_UD ? 0 : EINVAL;
}

static int attach(struct ibv_qp *qp, const union ibv_gid *gid)
{
    struct in6_addr group;
    return front_gid_group(qp->context, gid, &group)
               ? -rnic_qp_attach(front_of(qp)->rnic_qp, &group)
               : EINVAL;
}

// It may be left also when no address of its family is there any more.
static int detach(struct ibv_qp *qp, const union ibv_gid *gid)
{
    struct in6_addr group;
    if (front_gid_as_group(gid, true, &group) &&
        rnic_qp_detach(front_of(qp)->rnic_qp, &group) == 0) {
        return 0;
    }
    return front_gid_as_group(gid, false, &group) ? -rnic_qp_detach(front_of(qp)->rnic_qp, &group)
                                                  : EINVAL;
}

// By one of the two; the queue pair has so many more groups behind it. One that it has already it
// has once, as the kernel keeps it: a copy of each message, until it is detached.
static int change(struct ibv_qp *qp, const union ibv_gid *gid,
                  int (*by)(struct ibv_qp *qp, const union ibv_gid *gid), int more)
{
    int error = may_have_groups(qp);
    error = error != 0 ? error : by(qp, gid);
    if (error == EALREADY) {
        return 0;
    }
    if (error != 0) {
        return front_fail(error);
    }
    atomic_fetch_add(&front_of(qp)->group_count, (unsigned)more);
    return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return change(qp, gid, attach, 1);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return change(qp, gid, detach, -1);
}

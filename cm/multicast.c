// Multicast groups: iWARP runs over TCP and has none. Arguments are checked as everywhere, then the
// call is refused with the errno of an iWARP device.

#include "cm/cm.h"

static int refuse(const struct rdma_cm_id *id, const struct sockaddr *addr)
{
    return cm_fail(cm_addr_len(addr) == 0 || id->verbs == NULL ? EINVAL : ENOSYS);
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    return refuse(id, addr);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                           void *context)
{
    if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) {
        return cm_fail(ENOTSUP);
    }
    const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    if ((attr->comp_mask & needed) != needed || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
        return cm_fail(EINVAL);
    }
    return refuse(id, attr->addr);
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    return cm_fail(cm_addr_len(addr) == 0 ? EINVAL : EADDRNOTAVAIL); // never joined
}

// Calls of rdma-core 60 and 61 that older headers do not have: declared here, as they have them.

#include "verbs/front.h"

enum {
    REG_MR_IOVA = 1 << 0, // which of the members below are filled in
    REG_MR_ADDR = 1 << 1,
};

struct mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
};

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct mr_init_attr *attr)
{
    if (attr->comp_mask & ~(uint64_t)(REG_MR_IOVA | REG_MR_ADDR)) {
        return front_null(EOPNOTSUPP);
    }
    if (!(attr->comp_mask & REG_MR_ADDR)) {
        return front_null(EINVAL);
    }
    const uint64_t iova =
        attr->comp_mask & REG_MR_IOVA ? attr->iova : (uint64_t)(uintptr_t)attr->addr;
    return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned)attr->access);
}

// What the port carries, in units of 100 Mb/s.
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
    if (port_num != FRONT_PORT_NUM) {
        return front_fail(EINVAL);
    }
    *port_speed = IDENTITY_PORT_SPEED;
    return 0;
}

// Enhanced connection establishment. Its options travel in InfiniBand's CM messages; MPA has no
// place for them, so the local ones go nowhere and the peer's are always none.

#include "cm/cm.h"

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    if (id == NULL || id->qp != NULL || ece == NULL || ece->vendor_id == 0 || ece->comp_mask != 0) {
        return cm_fail(EINVAL);
    }
    return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    if (id == NULL || id->qp != NULL || ece == NULL) {
        return cm_fail(EINVAL);
    }
    *ece = (struct ibv_ece){0};
    return 0;
}

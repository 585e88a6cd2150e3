// What no device here has: imported objects, DMA buffers, device memory, enhanced connection
// establishment, link-layer addresses of peers.

#include "verbs/front.h"

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
    return -front_fail(EOPNOTSUPP);
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
    return front_null(EOPNOTSUPP);
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
    return front_null(EOPNOTSUPP);
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
    return front_null(EOPNOTSUPP);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
    return front_null(EOPNOTSUPP);
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    return front_null(EOPNOTSUPP);
}

// Handles of DMA, and descriptors of device memory: since rdma-core 60.
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
    return front_null(EOPNOTSUPP);
}

int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
    return -front_fail(EOPNOTSUPP);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return front_fail(EOPNOTSUPP);
}

// Octets of one message are placed in ascending order only while the segments arrive so.
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    return 0;
}

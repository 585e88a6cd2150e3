// The ports of an id's addresses.

#include "cm/cm.h"

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return sockaddr_port(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return sockaddr_port(&id->route.addr.dst_addr);
}

#include "manager/limits.h"

#include <errno.h>
#include <stdlib.h>

enum { DESCRIPTOR_COUNT_DEFAULT_MAX = 256, SIGNAL_INTERVAL_DEFAULT_MAX = 64 };

// The longest message of the InfiniBand and RDMA verbs, whatever a port says.
static const uint64_t message_len_max = 1ULL << 31;

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// A limit of which 0 means that there is none.
static uint64_t limit_or_any(uint64_t limit)
{
    return limit != 0 ? limit : UINT64_MAX;
}

static uint32_t count_or_default(uint32_t count, uint32_t otherwise, uint32_t max)
{
    return (uint32_t)smaller(count != 0 ? count : otherwise, max);
}

static void transfer_limits_set(const struct weft_rdma_manager_attr *attr, uint64_t port_len,
                                struct weft_rdma_limits *limits)
{
    limits->device_len = smaller(limit_or_any(port_len), message_len_max);
    limits->connection_len = limit_or_any(attr->connection_max_len);
    limits->peer_len = limit_or_any(attr->peer_max_len);
    limits->max_transfer_len = limits->device_len;
    limits->limited_by = WEFT_RDMA_DEVICE;
    if (limits->connection_len < limits->max_transfer_len) {
        limits->max_transfer_len = limits->connection_len;
        limits->limited_by = WEFT_RDMA_CONNECTION;
    }
    if (limits->peer_len < limits->max_transfer_len) {
        limits->max_transfer_len = limits->peer_len;
        limits->limited_by = WEFT_RDMA_PEER;
    }
}

static void count_limits_set(const struct weft_rdma_manager_attr *attr,
                             const struct ibv_qp_cap *cap, uint32_t max_sge_rd,
                             struct weft_rdma_limits *limits)
{
    limits->write_segment_count =
        count_or_default(attr->segment_count, cap->max_send_sge, cap->max_send_sge);
    limits->read_segment_count =
        (uint32_t)smaller(limits->write_segment_count, max_sge_rd != 0 ? max_sge_rd : 1);
    limits->descriptor_count = count_or_default(
        attr->descriptor_count, (uint32_t)smaller(cap->max_send_wr, DESCRIPTOR_COUNT_DEFAULT_MAX),
        cap->max_send_wr);
    // At most every descriptor_count-th: one completion at least is always on its way.
    limits->signal_interval = count_or_default(
        attr->signal_interval,
        (uint32_t)smaller((limits->descriptor_count + 3) / 4, SIGNAL_INTERVAL_DEFAULT_MAX),
        limits->descriptor_count);
}

int limits_query(const struct weft_rdma_manager_attr *attr, struct weft_rdma_limits *ret_limits)
{
    struct ibv_qp_attr qp_attr = {0};
    struct ibv_qp_init_attr init_attr = {0};
    struct ibv_device_attr device_attr;
    struct ibv_port_attr port_attr;
    if (attr->qp == NULL || attr->qp->qp_type != IBV_QPT_RC) {
        return -EINVAL;
    }
    int error = ibv_query_qp(attr->qp, &qp_attr, IBV_QP_CAP | IBV_QP_PORT, &init_attr);
    if (error == 0) {
        error = ibv_query_device(attr->qp->context, &device_attr);
    }
    if (error == 0) {
        // iWARP devices may leave the port out: they have one.
        uint8_t port_num = qp_attr.port_num != 0 ? qp_attr.port_num : 1;
        error = ibv_query_port(attr->qp->context, port_num, &port_attr);
    }
    if (error != 0) {
        return -abs(error);
    }
    if (qp_attr.cap.max_send_wr == 0 || qp_attr.cap.max_send_sge == 0) {
        return -EINVAL;
    }
    transfer_limits_set(attr, port_attr.max_msg_sz, ret_limits);
    count_limits_set(attr, &qp_attr.cap, (uint32_t)device_attr.max_sge_rd, ret_limits);
    return 0;
}

struct transfer_limits limits_of_request(const struct weft_rdma_limits *limits,
                                         const struct weft_rdma_request *request)
{
    return (struct transfer_limits){
        .max_transfer_len =
            smaller(limits->max_transfer_len, limit_or_any(request->max_transfer_len)),
        .max_segment_count = request->opcode == IBV_WR_RDMA_READ ? limits->read_segment_count
                                                                 : limits->write_segment_count,
    };
}

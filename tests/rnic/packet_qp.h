// Queue pairs on packets, over loopback: made, and connected to a peer that is known by its number.
#pragma once

#include "tests/rnic/device.h"

// A second: on a busy host the peer may have no processor for as long.
enum { PACKET_QP_TIMEOUT = 18 };

static inline struct in6_addr loopback(void)
{
    return (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
}

static inline struct rnic_qp *packet_qp_open(struct device *d, enum rnic_qp_type type,
                                             unsigned depth)
{
    const struct rnic_qp_init init = {.type = type,
                                      .pd = d->pd,
                                      .send_cq = d->cq,
                                      .recv_cq = d->cq,
                                      .max_send_wr = depth,
                                      .max_recv_wr = depth,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(d->rnic, &init, &qp), 0);
    return qp;
}

static inline void packet_qp_connect(struct rnic_qp *qp, uint32_t peer, uint32_t path_mtu)
{
    const struct qp_change to_init = {.mask = QP_CHANGE_STATE | QP_CHANGE_RIGHTS,
                                      .state = QP_INIT,
                                      .rights = MEM_ACCESS_REMOTE_WRITE};
    const struct qp_change to_rtr = {.mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU |
                                             QP_CHANGE_DEST_QP_NUM | QP_CHANGE_RQ_PSN |
                                             QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
                                     .state = QP_RTR,
                                     .path = {.local = loopback(), .remote = loopback()},
                                     .path_mtu = path_mtu,
                                     .dest_qp_num = peer,
                                     .min_rnr_timer = 12};
    const struct qp_change to_rts = {.mask = QP_CHANGE_STATE | QP_CHANGE_TIMEOUT |
                                             QP_CHANGE_RETRY_COUNT | QP_CHANGE_RNR_RETRY_COUNT |
                                             QP_CHANGE_SQ_PSN | QP_CHANGE_MAX_RD_ATOMIC,
                                     .state = QP_RTS,
                                     .timeout = PACKET_QP_TIMEOUT,
                                     .retry_count = 7,
                                     .rnr_retry_count = 7};
    assert_int_equal(rnic_qp_change(qp, &to_init), 0);
    assert_int_equal(rnic_qp_change(qp, &to_rtr), 0);
    assert_int_equal(rnic_qp_change(qp, &to_rts), 0);
}

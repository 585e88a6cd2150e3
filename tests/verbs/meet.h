// Queue pairs connected by ibv_modify_qp, as programs for InfiniBand do it.
#pragma once

#include "tests/verbs/bench.h"

enum {
    MEET_MASK_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    MEET_MASK_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
    MEET_MASK_RTS = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
    MEET_EVERYTHING = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

// How many Reads and atomics a queue pair has outstanding, and serves.
struct meet_depths {
    uint8_t asked, served;
};

static inline struct ibv_qp_attr meet_rtr_to(const union ibv_gid *gid, uint32_t qp_num)
{
    return (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .dest_qp_num = qp_num,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}},
    };
}

static inline void meet_connect(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qp_num,
                                unsigned access, struct meet_depths depths)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
    struct ibv_qp_attr rtr = meet_rtr_to(gid, qp_num);
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .timeout = 14,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .max_rd_atomic = depths.asked};
    rtr.max_dest_rd_atomic = depths.served;
    assert_int_equal(ibv_modify_qp(qp, &init, MEET_MASK_INIT), 0);
    assert_int_equal(ibv_modify_qp(qp, &rtr, MEET_MASK_RTR), 0);
    assert_int_equal(ibv_modify_qp(qp, &rts, MEET_MASK_RTS), 0);
}

// The RoCE device with one of each object, and a queue pair of datagrams that is ready to send.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/own_port.h"
#include "tests/verbs/bench.h"

enum { ROCE_QKEY = 0x11111111, ROCE_GRH_LEN = 40 };

// Another user of this host may have the port for a while: a test of another room is one.
static inline struct ibv_context *roce_open_patiently(struct ibv_device *device)
{
    const int attempts_max = 200;
    struct ibv_context *context = ibv_open_device(device);
    for (int i = 0; context == NULL && errno == EADDRINUSE && i < attempts_max; i++) {
        usleep(50000);
        context = ibv_open_device(device);
    }
    return context;
}

// A port of the test's own, so that no other user has it.
static inline void roce_port_of_own(void)
{
    char port[8];
    snprintf(port, sizeof port, "%u", own_port());
    setenv("WEFT_ROCE_PORT", port, 1);
}

static inline struct ibv_context *roce_open(void)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(NULL);
    assert_non_null(list);
    for (struct ibv_device **at = list; *at != NULL && context == NULL; at++) {
        if ((*at)->transport_type == IBV_TRANSPORT_IB) {
            context = roce_open_patiently(*at);
        }
    }
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

static inline struct ibv_ah_attr roce_ah_attr(struct ibv_context *context)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
    assert_int_equal(ibv_query_gid(context, 1, 0, &attr.grh.dgid), 0);
    return attr;
}

static inline struct ibv_qp *roce_qp_create(struct bench *b, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = bench_qp_attr(b->cq);
    attr.qp_type = type;
    return ibv_create_qp(b->pd, &attr);
}

static inline void roce_init(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->context = roce_open();
    b->pd = ibv_alloc_pd(b->context);
    assert_non_null(b->pd);
    b->channel = ibv_create_comp_channel(b->context);
    assert_non_null(b->channel);
    b->cq = ibv_create_cq(b->context, 4 * BENCH_DEPTH, b, b->channel, 0);
    assert_non_null(b->cq);
    b->mr = bench_register(b);
    assert_non_null(b->mr);
}

static inline int roce_ud_modify(struct ibv_qp *qp, enum ibv_qp_state state)
{
    static const int masks[] = {[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
                                [IBV_QPS_RTR] = 0,
                                [IBV_QPS_RTS] = IBV_QP_SQ_PSN};
    struct ibv_qp_attr attr = {
        .qp_state = state, .port_num = 1, .qkey = ROCE_QKEY, .sq_psn = 0xfffffe};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | masks[state]);
}

static inline struct ibv_qp *roce_ud_ready(struct bench *b)
{
    struct ibv_qp *qp = roce_qp_create(b, IBV_QPT_UD);
    assert_non_null(qp);
    for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
        assert_int_equal(roce_ud_modify(qp, state), 0);
    }
    return qp;
}

static inline void roce_post_recv(struct bench *b, struct ibv_qp *qp, uint64_t wr_id,
                                  uint32_t offset, uint32_t length)
{
    struct ibv_sge sge = bench_sge(b, offset, length);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static inline int roce_ud_send(struct bench *b, struct ibv_qp *qp, struct ibv_ah *ah,
                               uint32_t remote_qpn, uint32_t remote_qkey, uint32_t length)
{
    struct ibv_sge sge = bench_sge(b, 0, length);
    struct ibv_send_wr wr = {.wr_id = 7,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {.ah = ah,
                                       .remote_qpn = remote_qpn,
                                       .remote_qkey = remote_qkey}},
                       *bad;
    return ibv_post_send(qp, &wr, &bad);
}

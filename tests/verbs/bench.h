// An open device with one of each object, for tests of the verbs as a program sees them.
#pragma once

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { BENCH_DEPTH = 16, BENCH_BUF_LEN = 4096 };

struct bench {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr; // of buf, all rights
    uint8_t buf[BENCH_BUF_LEN];
};

static inline struct ibv_context *bench_open(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    assert_non_null(list);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

static inline struct ibv_qp_init_attr bench_qp_attr(struct ibv_cq *cq)
{
    return (struct ibv_qp_init_attr){
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = BENCH_DEPTH,
                .max_recv_wr = BENCH_DEPTH,
                .max_send_sge = 2,
                .max_recv_sge = 2},
        .qp_type = IBV_QPT_RC,
    };
}

static inline struct ibv_mr *bench_register(struct bench *b)
{
    return ibv_reg_mr(b->pd, b->buf, sizeof b->buf,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
}

static inline void bench_init(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->context = bench_open();
    b->pd = ibv_alloc_pd(b->context);
    assert_non_null(b->pd);
    b->channel = ibv_create_comp_channel(b->context);
    assert_non_null(b->channel);
    b->cq = ibv_create_cq(b->context, 4 * BENCH_DEPTH, b, b->channel, 0);
    assert_non_null(b->cq);
    struct ibv_qp_init_attr attr = bench_qp_attr(b->cq);
    b->qp = ibv_create_qp(b->pd, &attr);
    assert_non_null(b->qp);
    b->mr = bench_register(b);
    assert_non_null(b->mr);
}

static inline void bench_destroy_objects(struct bench *b)
{
    if (b->qp != NULL) {
        assert_int_equal(ibv_destroy_qp(b->qp), 0);
    }
    assert_int_equal(ibv_destroy_cq(b->cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(b->channel), 0);
    assert_int_equal(ibv_dereg_mr(b->mr), 0);
    assert_int_equal(ibv_dealloc_pd(b->pd), 0);
}

static inline void bench_fini(struct bench *b)
{
    bench_destroy_objects(b);
    assert_int_equal(ibv_close_device(b->context), 0);
}

static inline struct ibv_sge bench_sge(const struct bench *b, uint32_t offset, uint32_t length)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)b->buf + offset, .length = length, .lkey = b->mr->lkey};
}

static inline int bench_modify(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};
    const int init_attrs = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? init_attrs : 0));
}

// A fresh queue pair into the error state: what is posted is flushed.
static inline void bench_fail(struct ibv_qp *qp)
{
    assert_int_equal(bench_modify(qp, IBV_QPS_INIT), 0);
    assert_int_equal(bench_modify(qp, IBV_QPS_ERR), 0);
}

// The next completion; polls until there is one.
static inline struct ibv_wc bench_poll(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int count;
    do {
        count = ibv_poll_cq(cq, 1, &wc);
        assert_true(count >= 0);
    } while (count == 0);
    return wc;
}

// Queue pairs that a program creates and moves itself: the id knows only their number.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

struct external {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
};

static inline void external_modify(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state to)
{
    struct ibv_qp_attr attr = {.qp_state = to};
    int mask;
    assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

static inline void external_open(struct external *e, struct rdma_cm_id *id)
{
    e->cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
    assert_non_null(e->cq);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = e->cq,
        .recv_cq = e->cq,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
    };
    e->qp = ibv_create_qp(id->pd, &attr);
    assert_non_null(e->qp);
    external_modify(id, e->qp, IBV_QPS_INIT);
}

static inline void external_close(struct external *e)
{
    assert_int_equal(ibv_destroy_qp(e->qp), 0);
    assert_int_equal(ibv_destroy_cq(e->cq), 0);
}

static inline void external_ready(struct rdma_cm_id *id, struct external *e)
{
    external_modify(id, e->qp, IBV_QPS_RTR);
    external_modify(id, e->qp, IBV_QPS_RTS);
}

static inline void external_complete(struct external *e, uint64_t wr_id)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(e->cq, 1, &wc) == 0) {
    }
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static inline void external_send(struct external *from, struct external *to)
{
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
    struct ibv_send_wr send = {.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    assert_int_equal(ibv_post_recv(to->qp, &recv, &bad_recv), 0);
    assert_int_equal(ibv_post_send(from->qp, &send, &bad_send), 0);
    external_complete(to, 1);
    external_complete(from, 2);
}

// The states of a queue pair as data: which attributes a change of state needs and takes, and what
// becomes of work that is posted in each. docs/verbs.md has the same for readers.
#include <errno.h>

#include "tests/verbs/bench.h"

enum {
    DESTINATION = IBV_QP_AV | IBV_QP_DEST_QPN,
    INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    RTR = DESTINATION | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
          IBV_QP_MIN_RNR_TIMER,
    RTS = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
          IBV_QP_MAX_QP_RD_ATOMIC,
    STATE_COUNT = IBV_QPS_ERR + 1,
};

static const struct row {
    enum ibv_qp_state from, to;
    int required, optional;
} table[] = {
    {IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RESET, IBV_QPS_INIT, INIT, 0},
    {IBV_QPS_INIT, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT},
    {IBV_QPS_INIT, IBV_QPS_RTR, RTR, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_INIT, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_RTR, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RTR, IBV_QPS_RTS, RTS, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTR, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_RTS, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_RTS, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_ERR, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
};

// Every attribute that some row takes.
static const int attributes[] = {
    IBV_QP_CUR_STATE,     IBV_QP_EN_SQD_ASYNC_NOTIFY,
    IBV_QP_ACCESS_FLAGS,  IBV_QP_PKEY_INDEX,
    IBV_QP_PORT,          IBV_QP_AV,
    IBV_QP_PATH_MTU,      IBV_QP_TIMEOUT,
    IBV_QP_RETRY_CNT,     IBV_QP_RNR_RETRY,
    IBV_QP_RQ_PSN,        IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QP_MIN_RNR_TIMER, IBV_QP_SQ_PSN,
    IBV_QP_DEST_QPN,      IBV_QP_MAX_DEST_RD_ATOMIC,
};
#define ATTRIBUTE_COUNT (sizeof attributes / sizeof attributes[0])

static struct bench bench;
static struct ibv_qp *peer;
static union ibv_gid gid;

static int setup(void **state)
{
    bench_init(&bench);
    struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
    peer = ibv_create_qp(bench.pd, &attr);
    assert_non_null(peer);
    assert_int_equal(ibv_query_gid(bench.context, 1, 0, &gid), 0);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(ibv_destroy_qp(peer), 0);
    bench_fini(&bench);
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.cur_qp_state, attr.qp_state);
    return attr.qp_state;
}

static int change(struct ibv_qp *qp, uint32_t peer_num, enum ibv_qp_state to, int mask)
{
    struct ibv_qp_attr attr = {
        .qp_state = to,
        .cur_qp_state = state_of(qp),
        .port_num = 1,
        .path_mtu = IBV_MTU_1024,
        .max_dest_rd_atomic = 1,
        .max_rd_atomic = 1,
        .timeout = 14,
        .dest_qp_num = peer_num,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}},
    };
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
}

static void lead(struct ibv_qp *qp, uint32_t peer_num, enum ibv_qp_state to)
{
    static const int path[] = {[IBV_QPS_INIT] = INIT, [IBV_QPS_RTR] = RTR, [IBV_QPS_RTS] = RTS};
    const enum ibv_qp_state last = to == IBV_QPS_ERR ? IBV_QPS_INIT : to;
    assert_int_equal(change(qp, peer_num, IBV_QPS_RESET, 0), 0);
    for (enum ibv_qp_state next = IBV_QPS_INIT; next <= last; next++) {
        assert_int_equal(change(qp, peer_num, next, path[next]), 0);
    }
    if (to == IBV_QPS_ERR) {
        assert_int_equal(change(qp, peer_num, IBV_QPS_ERR, 0), 0);
    }
    assert_int_equal(state_of(qp), to);
}

static void expect_change(enum ibv_qp_state from, enum ibv_qp_state to, int mask, int expected)
{
    lead(bench.qp, peer->qp_num, from);
    int error = change(bench.qp, peer->qp_num, to, mask);
    enum ibv_qp_state now = state_of(bench.qp);
    // Nobody is connected: the end that SQD asks for has come.
    enum ibv_qp_state wanted = error != 0 ? from : to == IBV_QPS_SQD ? IBV_QPS_ERR : to;
    if (error != expected || now != wanted) {
        fail_msg("%d to %d, mask 0x%x: %d, expected %d; then state %d, expected %d", from, to,
                 (unsigned)mask, error, expected, now, wanted);
    }
}

static void row_holds(const struct row *row)
{
    expect_change(row->from, row->to, row->required, 0);
    expect_change(row->from, row->to, row->required | row->optional, 0);
    for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
        const int bit = attributes[i];
        if (row->required & bit) {
            expect_change(row->from, row->to, row->required & ~bit, EINVAL);
        } else {
            expect_change(row->from, row->to, row->required | bit,
                          row->optional & bit ? 0 : EINVAL);
        }
    }
}

static const struct row *row_of(enum ibv_qp_state from, enum ibv_qp_state to)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].from == from && table[i].to == to) {
            return &table[i];
        }
    }
    return NULL;
}

static void changes_take_what_the_table_says(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        row_holds(&table[i]);
    }
}

// SQD does not last where nobody is connected.
static void other_changes_are_refused_whatever_comes_along(void **state)
{
    for (enum ibv_qp_state from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
        for (enum ibv_qp_state to = IBV_QPS_RESET; to <= (enum ibv_qp_state)STATE_COUNT; to++) {
            if (from != IBV_QPS_SQD && from != IBV_QPS_SQE && row_of(from, to) == NULL) {
                expect_change(from, to, 0, EINVAL);
                expect_change(from, to, INIT, EINVAL);
                expect_change(from, to, RTR, EINVAL);
                expect_change(from, to, RTS, EINVAL);
            }
        }
    }
}

static void present_state_that_is_another_is_refused(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};
    lead(bench.qp, peer->qp_num, IBV_QPS_RTS);
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
}

/* ---- work ------------------------------------------------------------------------------------ */

static void post_both(uint64_t wr_id)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_recv_wr recv = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad_recv;
    struct ibv_send_wr send = {.wr_id = wr_id,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .opcode = IBV_WR_RDMA_READ,
                               .send_flags = IBV_SEND_SIGNALED,
                               .wr.rdma = {.remote_addr = (uintptr_t)bench.buf + 64,
                                           .rkey = bench.mr->rkey}},
                       *bad_send;
    assert_int_equal(ibv_post_recv(bench.qp, &recv, &bad_recv), 0);
    assert_int_equal(ibv_post_send(bench.qp, &send, &bad_send), 0);
}

static void expect_idle(void)
{
    struct ibv_wc wc;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(ibv_poll_cq(bench.cq, 1, &wc), 0);
    }
}

// As most devices have it, posting looks at no state. In RTR an iWARP stream is open: perftest's
// ib_send_bw has a server that never asks for RTS, and writes its credits all the same.
static void work_posted_before_there_is_a_stream_waits_for_it(void **state)
{
    static const enum ibv_qp_state from[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        lead(bench.qp, peer->qp_num, IBV_QPS_RESET);
        lead(peer, bench.qp->qp_num, IBV_QPS_RESET);
        lead(bench.qp, peer->qp_num, from[i]);
        post_both(i);
        if (from[i] < IBV_QPS_INIT) {
            assert_int_equal(change(bench.qp, peer->qp_num, IBV_QPS_INIT, INIT), 0);
        }
        if (from[i] < IBV_QPS_RTR) {
            assert_int_equal(change(bench.qp, peer->qp_num, IBV_QPS_RTR, RTR), 0);
        }
        expect_idle();
        struct ibv_qp_attr rights = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
        lead(peer, bench.qp->qp_num, IBV_QPS_INIT);
        assert_int_equal(ibv_modify_qp(peer, &rights, IBV_QP_ACCESS_FLAGS), 0);
        assert_int_equal(change(peer, bench.qp->qp_num, IBV_QPS_RTR, RTR), 0);
        struct ibv_wc wc = bench_poll(bench.cq);
        assert_int_equal(state_of(bench.qp), IBV_QPS_RTR); // until it is asked for RTS
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
        assert_int_equal(wc.wr_id, i);
    }
}

static void reset_drops_what_is_posted(void **state)
{
    lead(bench.qp, peer->qp_num, IBV_QPS_RTS);
    post_both(1);
    assert_int_equal(change(bench.qp, peer->qp_num, IBV_QPS_RESET, 0), 0);
    expect_idle();
}

static void work_in_error_is_flushed(void **state)
{
    struct ibv_wc wc;
    lead(bench.qp, peer->qp_num, IBV_QPS_INIT);
    post_both(1);
    assert_int_equal(change(bench.qp, peer->qp_num, IBV_QPS_ERR, 0), 0);
    post_both(2);
    for (int i = 0; i < 4; i++) {
        wc = bench_poll(bench.cq);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.wr_id, 1 + i / 2);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(changes_take_what_the_table_says),
        CASE(other_changes_are_refused_whatever_comes_along),
        CASE(present_state_that_is_another_is_refused),
        CASE(work_posted_before_there_is_a_stream_waits_for_it),
        CASE(reset_drops_what_is_posted),
        CASE(work_in_error_is_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

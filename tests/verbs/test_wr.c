// ibv_wr_*: what is built between wr_start and wr_complete is posted as a whole or not at all.
#include <errno.h>

#include "tests/verbs/pair.h"

static struct pair pair;

static struct ibv_qp *create_extended(struct bench *b, uint64_t ops)
{
    struct ibv_qp_init_attr plain = bench_qp_attr(b->cq);
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = b->cq,
        .recv_cq = b->cq,
        .cap = plain.cap,
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = b->pd,
        .send_ops_flags = ops,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(b->context, &attr);
    struct ibv_qp_attr made;
    struct ibv_qp_init_attr init;
    if (qp != NULL) { // what was made stands there
        assert_int_equal(ibv_query_qp(qp, &made, IBV_QP_CAP, &init), 0);
        assert_memory_equal(&attr.cap, &init.cap, sizeof attr.cap);
    }
    return qp;
}

static int setup(void **state)
{
    const uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                         IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
                         IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                         IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                         IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    pair_init(&pair);
    assert_int_equal(ibv_destroy_qp(pair.a.qp), 0);
    pair.a.qp = create_extended(&pair.a, ops);
    assert_non_null(pair.a.qp);
    pair_connect(&pair);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_fini(*state);
    return 0;
}

static struct ibv_qp_ex *start(struct pair *p, uint64_t wr_id)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p->a.qp);
    assert_non_null(qp);
    ibv_wr_start(qp);
    qp->wr_id = wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

static void several_requests_are_posted_together(void **state)
{
    struct pair *p = *state;
    memcpy(p->a.buf, "0123456789abcdef", 16);
    pair_post_recv(&p->b, 1, 64, 64);
    struct ibv_qp_ex *qp = start(p, 10);
    ibv_wr_rdma_write(qp, p->b.mr->rkey, (uintptr_t)p->b.buf);
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf, 16);
    qp->wr_id = 11;
    ibv_wr_send_imm(qp, htonl(77));
    struct ibv_data_buf bufs[2] = {{"inline", 6}, {" data", 6}};
    ibv_wr_set_inline_data_list(qp, 2, bufs);
    assert_int_equal(ibv_wr_complete(qp), 0);
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ntohl(wc.imm_data), 77);
    assert_string_equal((char *)p->b.buf + 64, "inline data");
    assert_memory_equal(p->b.buf, "0123456789abcdef", 16);
    assert_int_equal(bench_poll(p->a.cq).wr_id, 10);
    assert_int_equal(bench_poll(p->a.cq).wr_id, 11);
}

static void payload_that_is_said_last_is_sent(void **state)
{
    struct pair *p = *state;
    memcpy(p->a.buf, "0123456789abcdef", 16);
    pair_post_recv(&p->b, 1, 0, 64);
    pair_post_recv(&p->b, 2, 64, 64);
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, (void *)"inline", 7);
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf, 16);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf, 16);
    ibv_wr_set_inline_data(qp, (void *)"inline", 7);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(bench_poll(p->b.cq).byte_len, 16);
    assert_int_equal(bench_poll(p->b.cq).byte_len, 7);
    assert_memory_equal(p->b.buf, "0123456789abcdef", 16);
    assert_string_equal((char *)p->b.buf + 64, "inline");
    bench_poll(p->a.cq);
    bench_poll(p->a.cq);
}

static void request_without_payload_has_none(void **state)
{
    struct pair *p = *state;
    pair_post_recv(&p->b, 1, 0, 64);
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_send(qp);
    assert_int_equal(ibv_wr_complete(qp), 0);
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 0);
    bench_poll(p->a.cq);
}

static void read_and_atomic_bring_results(void **state)
{
    struct pair *p = *state;
    memset(p->b.buf, 0x5a, 64);
    struct ibv_qp_ex *qp = start(p, 1);
    struct ibv_sge halves[2] = {bench_sge(&p->a, 0, 32), bench_sge(&p->a, 128, 32)};
    ibv_wr_rdma_read(qp, p->b.mr->rkey, (uintptr_t)p->b.buf);
    ibv_wr_set_sge_list(qp, 2, halves);
    ibv_wr_atomic_fetch_add(qp, p->b.mr->rkey, (uintptr_t)p->b.buf, 1);
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf + 256, 8);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(bench_poll(p->a.cq).opcode, IBV_WC_RDMA_READ);
    assert_int_equal(bench_poll(p->a.cq).opcode, IBV_WC_FETCH_ADD);
    assert_memory_equal(p->a.buf + 128, p->b.buf + 32, 32);
    assert_memory_equal(p->a.buf + 256, "ZZZZZZZZ", 8);
}

static void window_is_bound_and_invalidated(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->a.pd, IBV_MW_TYPE_2);
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    struct ibv_mw_bind_info info = {.mr = p->a.mr,
                                    .addr = (uintptr_t)p->a.buf,
                                    .length = 64,
                                    .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_bind_mw(qp, mw, rkey, &info);
    ibv_wr_local_inv(qp, rkey);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(bench_poll(p->a.cq).opcode, IBV_WC_BIND_MW);
    struct ibv_wc wc = bench_poll(p->a.cq);
    assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void write_with_immediate_is_told_and_placed(void **state)
{
    struct pair *p = *state;
    memcpy(p->a.buf, "0123456789abcdef", 16);
    pair_post_recv(&p->b, 5, 64, 64);
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_rdma_write_imm(qp, p->b.mr->rkey, (uintptr_t)p->b.buf, htonl(99));
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf, 16);
    assert_int_equal(ibv_wr_complete(qp), 0);
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.wr_id, 5);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 99);
    assert_memory_equal(p->b.buf, "0123456789abcdef", 16);
    assert_int_equal(bench_poll(p->a.cq).opcode, IBV_WC_RDMA_WRITE);
}

static void compare_and_swap_changes_what_is_equal(void **state)
{
    struct pair *p = *state;
    uint64_t word = 0x0102030405060708;
    memcpy(p->b.buf, &word, 8);
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_atomic_cmp_swp(qp, p->b.mr->rkey, (uintptr_t)p->b.buf, word + 1, 1);
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf, 8);
    ibv_wr_atomic_cmp_swp(qp, p->b.mr->rkey, (uintptr_t)p->b.buf, word, 7);
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf + 8, 8);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(bench_poll(p->a.cq).opcode, IBV_WC_COMP_SWAP);
    assert_int_equal(bench_poll(p->a.cq).opcode, IBV_WC_COMP_SWAP);
    assert_memory_equal(p->a.buf, &word, 8);
    assert_memory_equal(p->a.buf + 8, &word, 8);
    word = 7;
    assert_memory_equal(p->b.buf, &word, 8);
}

static void send_invalidates_a_window_of_the_peer(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_2);
    struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW};
    bind.bind_mw.mw = mw;
    bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    bind.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = p->b.mr,
                                                       .addr = (uintptr_t)p->b.buf,
                                                       .length = 64,
                                                       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    pair_post_send(&p->b, bind, (struct ibv_sge){0});
    pair_post_recv(&p->b, 5, 64, 64);
    struct ibv_qp_ex *qp = start(p, 1);
    qp->wr_flags |= IBV_SEND_INLINE; // the payload's setter says whether it is
    ibv_wr_send_inv(qp, bind.bind_mw.rkey);
    ibv_wr_set_inline_data(qp, (void *)"gone", 5);
    assert_int_equal(ibv_wr_complete(qp), 0);
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_true(wc.wc_flags & IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, bind.bind_mw.rkey);
    assert_int_equal(wc.byte_len, 5);
    assert_string_equal((char *)p->b.buf + 64, "gone");
    assert_int_equal(bench_poll(p->a.cq).wr_id, 1);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void plain_queue_pair_is_no_extended_one(void **state)
{
    struct pair *p = *state;
    assert_null(ibv_qp_to_qp_ex(p->b.qp));
    assert_null(create_extended(&p->a, 1ULL << 40));
    assert_int_equal(errno, EOPNOTSUPP);
}

static void window_of_a_region_of_another_domain_is_refused(void **state)
{
    struct pair *p = *state;
    struct ibv_pd *other = ibv_alloc_pd(p->a.context);
    struct ibv_mw *mw = ibv_alloc_mw(other, IBV_MW_TYPE_2);
    const struct ibv_mw_bind_info info = {.mr = p->a.mr, .addr = (uintptr_t)p->a.buf, .length = 8};
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_bind_mw(qp, mw, mw->rkey, &info);
    assert_int_equal(ibv_wr_complete(qp), EPERM);
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {mw, mw->rkey, info}};
    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), EPERM);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

// Behind `qp`: nothing was posted, and the next sequence is posted as if nothing had been.
static void expect_nothing_posted(struct pair *p)
{
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(p->a.cq, 1, &wc), 0);
    pair_post_recv(&p->b, 1, 0, 64);
    struct ibv_qp_ex *qp = start(p, 99);
    ibv_wr_send(qp);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(bench_poll(p->a.cq).wr_id, 99);
    assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
}

static void aborted_sequence_posts_nothing(void **state)
{
    struct pair *p = *state;
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    expect_nothing_posted(p);
}

// A sequence of binds of all windows, of which none is posted yet.
static struct ibv_qp_ex *start_binds(struct pair *p, struct ibv_mw **mw, unsigned count)
{
    const struct ibv_mw_bind_info info = {.mr = p->a.mr,
                                          .addr = (uintptr_t)p->a.buf,
                                          .length = 64,
                                          .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    struct ibv_qp_ex *qp = start(p, 1);
    for (unsigned i = 0; i < count; i++) {
        ibv_wr_bind_mw(qp, mw[i], ibv_inc_rkey(mw[i]->rkey), &info);
    }
    return qp;
}

static void window_has_its_key_once_the_bind_is_posted(void **state)
{
    enum { COUNT = BENCH_DEPTH };
    struct pair *p = *state;
    struct ibv_mw *mw[COUNT];
    uint32_t before[COUNT];
    for (int i = 0; i < COUNT; i++) {
        mw[i] = ibv_alloc_mw(p->a.pd, IBV_MW_TYPE_2);
        before[i] = mw[i]->rkey;
    }
    struct ibv_qp_ex *qp = start_binds(p, mw, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(mw[i]->rkey, before[i]);
    }
    assert_int_equal(ibv_wr_complete(qp), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(mw[i]->rkey, ibv_inc_rkey(before[i]));
        assert_int_equal(bench_poll(p->a.cq).status, IBV_WC_SUCCESS);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(ibv_dealloc_mw(mw[i]), 0);
    }
}

static void bind_that_is_not_posted_leaves_the_key(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->a.pd, IBV_MW_TYPE_2);
    const uint32_t before = mw->rkey;
    ibv_wr_abort(start_binds(p, &mw, 1));
    assert_int_equal(mw->rkey, before);
    struct ibv_qp_ex *qp = start_binds(p, &mw, 1);
    ibv_wr_atomic_fetch_add(qp, p->b.mr->rkey, (uintptr_t)p->b.buf, 1); // without its 8 octets
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_int_equal(mw->rkey, before);
    expect_nothing_posted(p);
    assert_int_equal(mw->rkey, before);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void one_wrong_request_refuses_all(void **state)
{
    struct pair *p = *state;
    struct ibv_sge three[3] = {bench_sge(&p->a, 0, 8), bench_sge(&p->a, 0, 8),
                               bench_sge(&p->a, 0, 8)};
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_send(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, 3, three);
    ibv_wr_send(qp);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    expect_nothing_posted(p);
}

static void too_much_inline_data_is_refused(void **state)
{
    struct pair *p = *state;
    static char big[1 << 16];
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, big, sizeof big);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    expect_nothing_posted(p);
}

static void atomic_of_another_length_is_refused(void **state)
{
    struct pair *p = *state;
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_atomic_fetch_add(qp, p->b.mr->rkey, (uintptr_t)p->b.buf, 1);
    ibv_wr_set_sge(qp, p->a.mr->lkey, (uintptr_t)p->a.buf, 4);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    expect_nothing_posted(p);
}

static void sequence_longer_than_the_queue_is_refused(void **state)
{
    struct pair *p = *state;
    struct ibv_qp_ex *qp = start(p, 1);
    for (int i = 0; i < 1 << 10; i++) {
        ibv_wr_send(qp);
    }
    assert_int_equal(ibv_wr_complete(qp), ENOMEM);
    expect_nothing_posted(p);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(several_requests_are_posted_together),
        CASE(payload_that_is_said_last_is_sent),
        CASE(request_without_payload_has_none),
        CASE(read_and_atomic_bring_results),
        CASE(window_is_bound_and_invalidated),
        CASE(write_with_immediate_is_told_and_placed),
        CASE(compare_and_swap_changes_what_is_equal),
        CASE(send_invalidates_a_window_of_the_peer),
        CASE(plain_queue_pair_is_no_extended_one),
        CASE(window_of_a_region_of_another_domain_is_refused),
        CASE(aborted_sequence_posts_nothing),
        CASE(window_has_its_key_once_the_bind_is_posted),
        CASE(bind_that_is_not_posted_leaves_the_key),
        CASE(one_wrong_request_refuses_all),
        CASE(too_much_inline_data_is_refused),
        CASE(atomic_of_another_length_is_refused),
        CASE(sequence_longer_than_the_queue_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

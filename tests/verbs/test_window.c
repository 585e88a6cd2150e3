// Memory windows as programs for cards use them: which window a bind means, and by which key.
#include <errno.h>

#include "tests/verbs/pair.h"

enum { LEN = 64, KEY = 0xff };

static struct pair pair;

static int setup(void **state)
{
    pair_init(&pair);
    pair_connect(&pair);
    memset(pair.a.buf, 0x5a, LEN);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_fini(*state);
    return 0;
}

static struct ibv_mw *window_of(struct bench *b)
{
    struct ibv_mw *mw = ibv_alloc_mw(b->pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    return mw;
}

static struct ibv_send_wr bind_of(struct bench *b, struct ibv_mw *mw, uint32_t rkey)
{
    struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = b->mr,
                                                     .addr = (uintptr_t)b->buf,
                                                     .length = LEN,
                                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return wr;
}

static enum ibv_wc_status status_of(struct bench *b, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad;
    wr.send_flags |= IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(b->qp, &wr, &bad), 0);
    return bench_poll(b->cq).status;
}

static enum ibv_wc_status bind_to_key(struct bench *b, struct ibv_mw *mw, uint32_t rkey)
{
    return status_of(b, bind_of(b, mw, rkey));
}

static enum ibv_wc_status invalidate(struct bench *b, uint32_t rkey)
{
    return status_of(b, (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey});
}

static enum ibv_wc_status write_by(struct pair *p, uint32_t rkey)
{
    struct ibv_sge sge = bench_sge(&p->a, 0, LEN);
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
    wr.wr.rdma.remote_addr = (uintptr_t)p->b.buf;
    wr.wr.rdma.rkey = rkey;
    return status_of(&p->a, wr);
}

// The writer's completion does not say that the octets have arrived.
static void write_through(struct pair *p, uint32_t rkey)
{
    struct ibv_wc wc;
    volatile uint8_t *last = p->b.buf + LEN - 1;
    *last = 0;
    assert_int_equal(write_by(p, rkey), IBV_WC_SUCCESS);
    while (*last != p->a.buf[LEN - 1]) {
        assert_int_equal(ibv_poll_cq(p->b.cq, 1, &wc), 0);
    }
}

static void request_names_the_window_and_its_key_an_octet(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = window_of(&p->b), *other = window_of(&p->b);
    const uint32_t before = mw->rkey, others = other->rkey;
    assert_int_equal(bind_to_key(&p->b, mw, (others & ~KEY) | 0x42), IBV_WC_SUCCESS);
    assert_int_equal(mw->rkey, (before & ~KEY) | 0x42);
    assert_int_equal(other->rkey, others);
    write_through(p, mw->rkey);
    assert_int_equal(bind_to_key(&p->b, other, 0x42), IBV_WC_SUCCESS); // an octet and nothing else
    assert_int_equal(other->rkey, (others & ~KEY) | 0x42);
    write_through(p, other->rkey);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dealloc_mw(other), 0);
}

static void window_that_is_not_bound_takes_any_key_its_own_too(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = window_of(&p->b);
    const uint32_t rkey = mw->rkey;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bind_to_key(&p->b, mw, rkey), IBV_WC_SUCCESS);
        assert_int_equal(mw->rkey, rkey);
        write_through(p, rkey);
        assert_int_equal(invalidate(&p->b, rkey), IBV_WC_SUCCESS);
    }
    for (uint32_t key = 0; key <= KEY; key++) {
        assert_int_equal(bind_to_key(&p->b, mw, key), IBV_WC_SUCCESS);
        assert_int_equal(invalidate(&p->b, mw->rkey), IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void bound_window_of_type_2_is_not_bound_again(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = window_of(&p->b);
    assert_int_equal(bind_to_key(&p->b, mw, 1), IBV_WC_SUCCESS);
    assert_int_equal(bind_to_key(&p->b, mw, 2), IBV_WC_MW_BIND_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void key_before_is_dead_once_another_is_bound(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = window_of(&p->b);
    assert_int_equal(bind_to_key(&p->b, mw, 1), IBV_WC_SUCCESS);
    const uint32_t before = mw->rkey;
    assert_int_equal(invalidate(&p->b, before), IBV_WC_SUCCESS);
    assert_int_equal(bind_to_key(&p->b, mw, 2), IBV_WC_SUCCESS);
    write_through(p, mw->rkey);
    assert_int_equal(write_by(p, before), IBV_WC_SUCCESS); // handed on; the Terminate comes later
    assert_int_equal(bench_modify(p->b.qp, IBV_QPS_ERR), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

// As of regions, such flags are hints: who does not know one lets it be.
static void optional_access_is_no_reason_to_refuse(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = window_of(&p->b);
    struct ibv_send_wr wr = bind_of(&p->b, mw, 1), *bad;
    wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_OPTIONAL_RANGE;
    assert_int_equal(ibv_post_send(p->b.qp, &wr, &bad), 0);
    assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
    write_through(p, mw->rkey);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void refused_request_leaves_the_key_told(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = window_of(&p->b);
    const uint32_t rkey = mw->rkey;
    struct ibv_send_wr wr = bind_of(&p->b, mw, 0x42), *bad;
    wr.bind_mw.bind_info.mr = NULL;
    assert_int_equal(ibv_post_send(p->b.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(mw->rkey, rkey);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

// The memory of a request that is all zeros but for the operation, as of a queue pair of datagrams.
static void request_without_a_window_is_refused(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = window_of(&p->b);
    struct ibv_send_wr wr = bind_of(&p->b, mw, 0x42), *bad;
    wr.bind_mw.mw = NULL;
    assert_int_equal(ibv_post_send(p->b.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(bind_to_key(&p->b, mw, 1), IBV_WC_SUCCESS); // the queue goes on
    write_through(p, mw->rkey);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void window_of_type_1_moves_while_it_is_bound(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_1);
    const uint32_t index = mw->rkey & ~KEY;
    for (int i = 0; i < 300; i++) { // around the octet
        struct ibv_mw_bind wanted = {.send_flags = IBV_SEND_SIGNALED,
                                     .bind_info = bind_of(&p->b, mw, 0).bind_mw.bind_info};
        assert_int_equal(ibv_bind_mw(p->b.qp, mw, &wanted), 0);
        assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
        assert_int_equal(mw->rkey & ~KEY, index);
    }
    write_through(p, mw->rkey);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void refused_bind_of_type_1_leaves_the_key_told(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_1);
    const uint32_t rkey = mw->rkey;
    struct ibv_mw_bind wanted = {.send_flags = 1 << 20, // no such flag
                                 .bind_info = bind_of(&p->b, mw, 0).bind_mw.bind_info};
    assert_int_equal(ibv_bind_mw(p->b.qp, mw, &wanted), EINVAL);
    assert_int_equal(mw->rkey, rkey);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(request_names_the_window_and_its_key_an_octet),
        CASE(window_that_is_not_bound_takes_any_key_its_own_too),
        CASE(bound_window_of_type_2_is_not_bound_again),
        CASE(key_before_is_dead_once_another_is_bound),
        CASE(optional_access_is_no_reason_to_refuse),
        CASE(refused_request_leaves_the_key_told),
        CASE(request_without_a_window_is_refused),
        CASE(window_of_type_1_moves_while_it_is_bound),
        CASE(refused_bind_of_type_1_leaves_the_key_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

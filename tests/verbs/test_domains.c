// Thread domains and parent domains: second names of a protection domain.
#include "tests/verbs/meet.h"
#include "tests/verbs/roce.h"

static struct bench bench;
static struct ibv_td *td;
static struct ibv_pd *parent;

static struct ibv_pd *parent_make(struct ibv_pd *pd, struct ibv_td *of)
{
    struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = of};
    return ibv_alloc_parent_domain(bench.context, &attr);
}

static int setup(void **state)
{
    struct ibv_td_init_attr attr = {0};
    bench_init(&bench);
    td = ibv_alloc_td(bench.context, &attr);
    assert_non_null(td);
    parent = parent_make(bench.pd, td);
    assert_non_null(parent);
    assert_ptr_equal(parent->context, bench.context);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    bench_fini(&bench);
    return 0;
}

/* ---- one domain ------------------------------------------------------------------------------ */

static void queue_pair_of_the_parent_reaches_memory_of_both(void **state)
{
    union ibv_gid gid;
    uint8_t octets[64];
    struct ibv_mr *mr =
        ibv_reg_mr(parent, octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
    struct ibv_qp *qp = ibv_create_qp(parent, &attr);
    struct ibv_sge sge = bench_sge(&bench, 0, sizeof octets);
    assert_non_null(mr);
    assert_non_null(qp);
    assert_int_equal(ibv_query_gid(bench.context, 1, 0, &gid), 0);
    meet_connect(qp, &gid, qp->qp_num, MEET_EVERYTHING, (struct meet_depths){4, 4});
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = (uintptr_t)octets, .rkey = mr->rkey}},
                       *bad;
    memset(bench.buf, 0x5a, sizeof octets);
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    assert_memory_equal(octets, bench.buf, sizeof octets);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void window_of_the_parent_binds_a_region_of_the_domain(void **state)
{
    struct ibv_mw *mw = ibv_alloc_mw(parent, IBV_MW_TYPE_2);
    assert_non_null(mw);
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
                             .bind_mw = {.mw = mw,
                                         .rkey = mw->rkey,
                                         .bind_info = {.mr = bench.mr,
                                                       .addr = (uintptr_t)bench.buf,
                                                       .length = 8}}},
                       *bad;
    assert_int_equal(ibv_post_send(bench.qp, &wr, &bad), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void datagram_goes_by_a_handle_of_the_parent(void **state)
{
    struct bench roce;
    roce_init(&roce);
    struct ibv_parent_domain_init_attr attr = {.pd = roce.pd};
    struct ibv_pd *domain = ibv_alloc_parent_domain(roce.context, &attr);
    struct ibv_ah_attr way = roce_ah_attr(roce.context);
    struct ibv_ah *ah = ibv_create_ah(domain, &way);
    struct ibv_qp *qp = roce_ud_ready(&roce);
    assert_non_null(ah);
    assert_int_equal(roce_ud_send(&roce, qp, ah, qp->qp_num, ROCE_QKEY, 8), 0);
    assert_int_equal(bench_poll(roce.cq).status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_dealloc_pd(domain), 0);
    bench_fini(&roce);
}

static void completion_queue_takes_a_parent(void **state)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(bench.context, &attr);
    assert_non_null(cq);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    attr.parent_domain = NULL;
    assert_null(ibv_create_cq_ex(bench.context, &attr));
    assert_int_equal(errno, EINVAL);
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void domains_outlive_the_parents_that_name_them(void **state)
{
    struct ibv_td_init_attr attr = {0};
    struct ibv_pd *pd = ibv_alloc_pd(bench.context);
    struct ibv_td *own = ibv_alloc_td(bench.context, &attr);
    struct ibv_pd *first = parent_make(pd, own), *second = parent_make(first, NULL);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dealloc_td(own), EBUSY);
    assert_int_equal(ibv_dealloc_pd(first), EBUSY);
    assert_int_equal(ibv_dealloc_pd(second), 0);
    assert_int_equal(ibv_dealloc_pd(first), 0);
    assert_int_equal(ibv_dealloc_td(own), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void parent_without_a_domain_of_the_device_is_refused(void **state)
{
    struct ibv_context *other = bench_open();
    struct ibv_pd *foreign = ibv_alloc_pd(other);
    assert_null(parent_make(NULL, td));
    assert_int_equal(errno, EINVAL);
    assert_null(parent_make(foreign, NULL));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(foreign), 0);
    assert_int_equal(ibv_close_device(other), 0);
}

static void attributes_that_are_not_there_are_refused(void **state)
{
    struct ibv_td_init_attr unknown = {.comp_mask = 1};
    struct ibv_parent_domain_init_attr attr = {.pd = bench.pd,
                                               .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS};
    assert_null(ibv_alloc_td(bench.context, &unknown));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_alloc_parent_domain(bench.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    struct ibv_pd *named = ibv_alloc_parent_domain(bench.context, &attr);
    assert_non_null(named);
    assert_int_equal(ibv_dealloc_pd(named), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(queue_pair_of_the_parent_reaches_memory_of_both),
        CASE(window_of_the_parent_binds_a_region_of_the_domain),
        CASE(datagram_goes_by_a_handle_of_the_parent),
        CASE(completion_queue_takes_a_parent),
        CASE(domains_outlive_the_parents_that_name_them),
        CASE(parent_without_a_domain_of_the_device_is_refused),
        CASE(attributes_that_are_not_there_are_refused),
    };
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What ibv_modify_qp takes, attribute by attribute, on streams and on packets: values that the
// device cannot have are refused and change nothing, those of attributes that are not named are not
// looked at, and what was taken is told again. And address handles, made and counted.
#include "tests/verbs/meet.h"
#include "tests/verbs/roce.h"

enum { UNKNOWN_BIT = 1 << 25 };

// Nothing of this is right.
static struct ibv_qp_attr wrong(void)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0xff, sizeof attr);
    return attr;
}

struct value {
    int mask;
    struct ibv_qp_attr attr; // of which one field counts
    int error;
};

static const struct value values[] = {
    {IBV_QP_PORT, {.port_num = 1}, 0},
    {IBV_QP_PORT, {.port_num = 0}, EINVAL},
    {IBV_QP_PORT, {.port_num = 2}, EINVAL},
    {IBV_QP_PKEY_INDEX, {.pkey_index = 0}, 0},
    {IBV_QP_PKEY_INDEX, {.pkey_index = 1}, EINVAL},
    {IBV_QP_ACCESS_FLAGS, {.qp_access_flags = 0}, 0},
    {IBV_QP_ACCESS_FLAGS, {.qp_access_flags = IBV_ACCESS_ZERO_BASED}, 0}, // a region's, as others
    {IBV_QP_ACCESS_FLAGS, {.qp_access_flags = 0xf | IBV_ACCESS_RELAXED_ORDERING}, 0},
    {IBV_QP_ACCESS_FLAGS, {.qp_access_flags = UINT32_MAX}, 0},
    {IBV_QP_PATH_MTU, {.path_mtu = IBV_MTU_256}, 0},
    {IBV_QP_PATH_MTU, {.path_mtu = IBV_MTU_4096}, 0},
    {IBV_QP_PATH_MTU, {.path_mtu = 0}, EINVAL},
    {IBV_QP_PATH_MTU, {.path_mtu = IBV_MTU_4096 + 1}, EINVAL},
    {IBV_QP_MAX_QP_RD_ATOMIC, {.max_rd_atomic = 128}, 0},
    {IBV_QP_MAX_QP_RD_ATOMIC, {.max_rd_atomic = 129}, EINVAL},
    {IBV_QP_MAX_DEST_RD_ATOMIC, {.max_dest_rd_atomic = 128}, 0},
    {IBV_QP_MAX_DEST_RD_ATOMIC, {.max_dest_rd_atomic = 129}, EINVAL},
};
enum { VALUE_COUNT = sizeof values / sizeof values[0] };

// The one field of a row, in place of a wrong one.
static void put(struct ibv_qp_attr *into, const struct value *v)
{
    into->port_num = v->mask & IBV_QP_PORT ? v->attr.port_num : into->port_num;
    into->pkey_index = v->mask & IBV_QP_PKEY_INDEX ? v->attr.pkey_index : into->pkey_index;
    into->qp_access_flags =
        v->mask & IBV_QP_ACCESS_FLAGS ? v->attr.qp_access_flags : into->qp_access_flags;
    into->path_mtu = v->mask & IBV_QP_PATH_MTU ? v->attr.path_mtu : into->path_mtu;
    into->max_rd_atomic =
        v->mask & IBV_QP_MAX_QP_RD_ATOMIC ? v->attr.max_rd_atomic : into->max_rd_atomic;
    into->max_dest_rd_atomic =
        v->mask & IBV_QP_MAX_DEST_RD_ATOMIC ? v->attr.max_dest_rd_atomic : into->max_dest_rd_atomic;
}

static struct ibv_qp_attr told(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr;
}

static void expect_told(struct ibv_qp *qp, const struct value *v)
{
    struct ibv_qp_attr before = told(qp), now = before;
    put(&now, v);
    assert_int_equal(now.port_num, before.port_num);
    assert_int_equal(now.pkey_index, before.pkey_index);
    assert_int_equal(now.qp_access_flags, before.qp_access_flags);
    assert_int_equal(now.path_mtu, before.path_mtu);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void streams_keep_values_that_there_are(void **state)
{
    struct bench b;
    bench_init(&b);
    assert_int_equal(bench_modify(b.qp, IBV_QPS_INIT), 0);
    for (unsigned i = 0; i < VALUE_COUNT; i++) {
        struct ibv_qp_attr attr = wrong();
        put(&attr, &values[i]);
        assert_int_equal(ibv_modify_qp(b.qp, &attr, values[i].mask), values[i].error);
        assert_int_equal(told(b.qp).qp_state, IBV_QPS_INIT);
        if (values[i].error == 0) {
            expect_told(b.qp, &values[i]);
        }
    }
    bench_fini(&b);
}

static void streams_take_a_destination_with_a_state_alone(void **state)
{
    static const struct {
        int mask, error;
    } rows[] = {
        {IBV_QP_AV, EINVAL},
        {IBV_QP_DEST_QPN, EINVAL},
        {IBV_QP_QKEY, EINVAL},
        {IBV_QP_ALT_PATH, EOPNOTSUPP},
        {IBV_QP_PATH_MIG_STATE, 0}, // there is no other path, so none is migrated to
        {IBV_QP_CAP, EOPNOTSUPP},
        {UNKNOWN_BIT, EOPNOTSUPP},
        {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER, 0},
        {0, 0},
    };
    struct bench b;
    bench_init(&b);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ibv_qp_attr attr = {
            .timeout = 14, .retry_cnt = 3, .rnr_retry = 5, .min_rnr_timer = 9};
        assert_int_equal(ibv_modify_qp(b.qp, &attr, rows[i].mask), rows[i].error);
    }
    assert_int_equal(told(b.qp).timeout, 14);
    assert_int_equal(told(b.qp).retry_cnt, 3);
    assert_int_equal(told(b.qp).rnr_retry, 5);
    assert_int_equal(told(b.qp).min_rnr_timer, 9);
    bench_fini(&b);
}

/* ---- packets --------------------------------------------------------------------------------- */

static struct ibv_qp_attr init_attr(void)
{
    return (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
}

// To itself, which is as good as any.
static struct ibv_qp_attr rtr_attr(struct bench *b, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .ah_attr = roce_ah_attr(b->context),
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = qp->qp_num,
                               .rq_psn = 0xabcdef,
                               .max_dest_rd_atomic = 3,
                               .min_rnr_timer = 12};
    return attr;
}

static struct ibv_qp_attr rts_attr(void)
{
    return (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = 14,
                                .retry_cnt = 6,
                                .rnr_retry = 5,
                                .sq_psn = 0x123456,
                                .max_rd_atomic = 4};
}

// With each wrong value in turn, which leaves it where it is, then with the right ones.
static void go(struct ibv_qp *qp, struct ibv_qp_attr right, int mask)
{
    const enum ibv_qp_state from = told(qp).qp_state;
    for (unsigned i = 0; i < VALUE_COUNT; i++) {
        if (values[i].error != 0 && (values[i].mask & mask) != 0) {
            struct ibv_qp_attr attr = right;
            put(&attr, &values[i]);
            assert_int_equal(ibv_modify_qp(qp, &attr, mask), values[i].error);
            assert_int_equal(told(qp).qp_state, from);
        }
    }
    struct ibv_qp_attr attr = right;
    attr.cur_qp_state = from == IBV_QPS_RTS ? IBV_QPS_INIT : IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, mask | IBV_QP_CUR_STATE), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, mask | UNKNOWN_BIT), EOPNOTSUPP);
    assert_int_equal(told(qp).qp_state, from);
    assert_int_equal(qp->state, from);
    assert_int_equal(ibv_modify_qp(qp, &right, mask), 0);
    assert_int_equal(told(qp).qp_state, right.qp_state);
    assert_int_equal(qp->state, right.qp_state);
}

static void packets_take_each_attribute_and_tell_it(void **state)
{
    struct bench b;
    roce_init(&b);
    struct ibv_qp *qp = roce_qp_create(&b, IBV_QPT_RC);
    assert_non_null(qp);
    go(qp, init_attr(), MEET_MASK_INIT);
    struct ibv_qp_attr rtr = rtr_attr(&b, qp), attr = rtr;
    attr.dest_qp_num = 1 << 24;
    assert_int_equal(ibv_modify_qp(qp, &attr, MEET_MASK_RTR), EINVAL);
    attr = rtr;
    attr.ah_attr.grh.sgid_index = 255;
    assert_int_equal(ibv_modify_qp(qp, &attr, MEET_MASK_RTR), EINVAL);
    attr = rtr;
    attr.ah_attr.is_global = 0;
    assert_int_equal(ibv_modify_qp(qp, &attr, MEET_MASK_RTR), EINVAL);
    go(qp, rtr, MEET_MASK_RTR);
    go(qp, rts_attr(), MEET_MASK_RTS);
    attr = told(qp);
    assert_int_equal(attr.path_mtu, IBV_MTU_1024);
    assert_int_equal(attr.dest_qp_num, qp->qp_num);
    assert_int_equal(attr.rq_psn, 0xabcdef);
    assert_int_equal(attr.sq_psn, 0x123456);
    assert_int_equal(attr.max_dest_rd_atomic, 3);
    assert_int_equal(attr.max_rd_atomic, 4);
    assert_int_equal(attr.min_rnr_timer, 12);
    assert_int_equal(attr.timeout, 14);
    assert_int_equal(attr.retry_cnt, 6);
    assert_int_equal(attr.rnr_retry, 5);
    assert_memory_equal(attr.ah_attr.grh.dgid.raw, rtr.ah_attr.grh.dgid.raw, 16);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    bench_fini(&b);
}

// Programs draw 31 bits for a PSN, and ask for twelve retries: Linux's rxe and cards take it.
static void packets_take_of_a_value_what_they_have_bits_for(void **state)
{
    struct bench b;
    roce_init(&b);
    struct ibv_qp *qp = roce_qp_create(&b, IBV_QPT_RC);
    assert_non_null(qp);
    struct ibv_qp_attr init = init_attr(), rtr = rtr_attr(&b, qp), rts = rts_attr();
    rtr.rq_psn = rts.sq_psn = 0x7f000009;
    rtr.min_rnr_timer = 32 + 12;
    rts.retry_cnt = rts.rnr_retry = 12;
    rts.path_mig_state = IBV_MIG_REARM;
    assert_int_equal(ibv_modify_qp(qp, &init, MEET_MASK_INIT), 0);
    assert_int_equal(ibv_modify_qp(qp, &rtr, MEET_MASK_RTR), 0);
    assert_int_equal(ibv_modify_qp(qp, &rts, MEET_MASK_RTS | IBV_QP_PATH_MIG_STATE), 0);
    assert_int_equal(told(qp).path_mig_state, IBV_MIG_REARM);
    assert_int_equal(told(qp).rq_psn, 9);
    assert_int_equal(told(qp).sq_psn, 9);
    roce_post_recv(&b, qp, 1, 0, 8);
    struct ibv_sge sge = bench_sge(&b, 8, 8);
    struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                       *bad;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    struct ibv_wc wc = bench_poll(b.cq);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    bench_fini(&b);
}

/* ---- address handles ------------------------------------------------------------------------- */

static void address_handles_are_made_of_addresses_that_there_are(void **state)
{
    struct bench b;
    roce_init(&b);
    const struct ibv_ah_attr right = roce_ah_attr(b.context);
    struct ibv_ah_attr rows[] = {right, right, right};
    rows[0].is_global = 0;
    rows[1].grh.sgid_index = 255;
    rows[2].port_num = 2;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        errno = 0;
        assert_null(ibv_create_ah(b.pd, &rows[i]));
        assert_int_equal(errno, EINVAL);
    }
    struct ibv_ah_attr attr = right;
    struct ibv_ah *ah = ibv_create_ah(b.pd, &attr);
    assert_non_null(ah);
    assert_ptr_equal(ah->pd, b.pd);
    assert_ptr_equal(ah->context, b.context);
    assert_int_equal(ibv_dealloc_pd(b.pd), EBUSY); // it is of the domain
    assert_int_equal(ibv_destroy_ah(ah), 0);
    bench_fini(&b);
}

static void address_handles_are_not_made_in_a_domain_whose_handle_was_changed(void **state)
{
    struct bench b;
    roce_init(&b);
    struct ibv_pd *pd = ibv_alloc_pd(b.context);
    struct ibv_ah_attr attr = roce_ah_attr(b.context);
    const uint32_t handle = pd->handle;
    pd->handle = b.pd->handle;
    errno = 0;
    assert_null(ibv_create_ah(pd, &attr));
    assert_int_equal(errno, ENOENT);
    pd->handle = handle;
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    bench_fini(&b);
}

// As many as the device says at a time, and one that went makes room.
static void address_handles_are_counted(void **state)
{
    struct bench b;
    struct ibv_device_attr device;
    roce_init(&b);
    struct ibv_ah_attr attr = roce_ah_attr(b.context);
    assert_int_equal(ibv_query_device(b.context, &device), 0);
    struct ibv_ah **all = calloc((size_t)device.max_ah, sizeof *all);
    assert_non_null(all);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (int i = 0; i < device.max_ah; i++) {
            all[i] = ibv_create_ah(b.pd, &attr);
            assert_non_null(all[i]);
        }
        errno = 0;
        assert_null(ibv_create_ah(b.pd, &attr));
        assert_int_equal(errno, ENOMEM);
        for (int i = 0; i < device.max_ah; i++) {
            assert_int_equal(ibv_destroy_ah(all[i]), 0);
        }
    }
    free(all);
    bench_fini(&b);
}

static void who_sent_is_known_by_a_grh(void **state)
{
    struct bench b;
    struct ibv_wc wc = {0};
    struct ibv_grh grh = {0};
    struct ibv_ah_attr attr;
    roce_init(&b);
    errno = 0;
    assert_int_equal(ibv_init_ah_from_wc(b.context, 1, &wc, &grh, &attr), -1); // there is none
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_ah_from_wc(b.pd, &wc, &grh, 1));
    bench_fini(&b);
    bench_init(&b);
    errno = 0;
    assert_int_equal(ibv_init_ah_from_wc(b.context, 1, &wc, &grh, &attr), -1); // no datagrams
    assert_int_equal(errno, EOPNOTSUPP);
    bench_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_keep_values_that_there_are),
        cmocka_unit_test(streams_take_a_destination_with_a_state_alone),
        cmocka_unit_test(packets_take_each_attribute_and_tell_it),
        cmocka_unit_test(packets_take_of_a_value_what_they_have_bits_for),
        cmocka_unit_test(address_handles_are_made_of_addresses_that_there_are),
        cmocka_unit_test(address_handles_are_not_made_in_a_domain_whose_handle_was_changed),
        cmocka_unit_test(address_handles_are_counted),
        cmocka_unit_test(who_sent_is_known_by_a_grh),
    };
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Wrong calls, and the errno that rdma-core and the kernel answer them with.
#include <errno.h>
#include <sys/mman.h>

#include <weft/oneshot.h>
#include <weft/reads.h>

#include "tests/verbs/bench.h"

static struct bench bench;

static int setup(void **state)
{
    bench_init(&bench);
    *state = &bench;
    return 0;
}

static int teardown(void **state)
{
    bench_fini(*state);
    return 0;
}

static int max_cqe(const struct bench *b)
{
    struct ibv_device_attr attr;
    assert_int_equal(ibv_query_device(b->context, &attr), 0);
    return attr.max_cqe;
}

#define assert_refused(call, error)     \
    do {                                \
        errno = 0;                      \
        assert_null(call);              \
        assert_int_equal(errno, error); \
    } while (0)

/* ---- memory ---------------------------------------------------------------------------------- */

static void regions(void **state)
{
    struct bench *b = *state;
    void *readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_refused(ibv_reg_mr(b->pd, b->buf, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    assert_refused(ibv_reg_mr(b->pd, b->buf, 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
    assert_refused(ibv_reg_mr(b->pd, b->buf, 0, IBV_ACCESS_LOCAL_WRITE), EINVAL);
    assert_refused(ibv_reg_mr(b->pd, b->buf, 64, 1 << 15), EINVAL);
    assert_refused(ibv_reg_mr(b->pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    assert_refused(ibv_reg_mr(b->pd, readonly, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    assert_refused(ibv_reg_mr(b->pd, (void *)16, 64, 0), EFAULT);
    assert_refused(ibv_reg_dmabuf_mr(b->pd, 0, 64, 0, 0, 0), EOPNOTSUPP);
    // To flush into persistent memory, globally or at all: later headers name them.
    assert_refused(ibv_reg_mr(b->pd, b->buf, 64, 1 << 8), EOPNOTSUPP);
    assert_refused(ibv_reg_mr(b->pd, b->buf, 64, 1 << 9), EOPNOTSUPP);
    assert_int_equal(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 8),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EOPNOTSUPP);
    munmap(readonly, 4096);
}

static void optional_access_is_masked(void **state)
{
    struct bench *b = *state;
    unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB;
    struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buf, 64, access);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void reregistration(void **state)
{
    struct bench *b = *state;
    const int input = IBV_REREG_MR_ERR_INPUT;
    assert_int_equal(ibv_rereg_mr(b->mr, 0, NULL, NULL, 0, 0), input);
    assert_int_equal(ibv_rereg_mr(b->mr, 8, NULL, NULL, 0, 0), input);
    assert_int_equal(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0),
                     input);
    assert_int_equal(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b->buf, 0, 0),
                     input);
    assert_int_equal(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), input);
    assert_int_equal(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_PD, b->pd, NULL, 0, 1), input);
    assert_int_equal(
        ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
        input);
    assert_int_equal(errno, EINVAL);
}

static void reregistration_moves_the_region(void **state)
{
    struct bench *b = *state;
    int flags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
    assert_int_equal(ibv_rereg_mr(b->mr, flags, NULL, b->buf + 64, 128, IBV_ACCESS_LOCAL_WRITE), 0);
    assert_ptr_equal(b->mr->addr, b->buf + 64);
    assert_int_equal(b->mr->length, 128);
    assert_int_equal(b->mr->lkey, b->mr->rkey);
}

static void domain_in_use_stays(void **state)
{
    struct bench *b = *state;
    assert_int_equal(ibv_dealloc_pd(b->pd), EBUSY);
}

static void windows(void **state)
{
    struct bench *b = *state;
    assert_refused(ibv_alloc_mw(b->pd, (enum ibv_mw_type)3), EINVAL);
    struct ibv_mw *mw = ibv_alloc_mw(b->pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    struct ibv_mw_bind bind = {.bind_info = {.mr = b->mr, .addr = 0, .length = 1}};
    assert_int_equal(ibv_bind_mw(b->qp, mw, &bind), EINVAL); // type 2 is bound by a work request
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad;
    wr.bind_mw.mw = mw;
    wr.bind_mw.bind_info.length = 1; // of no region
    assert_int_equal(ibv_post_send(b->qp, &wr, &bad), EINVAL);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- completion queues ----------------------------------------------------------------------- */

static void completion_queues(void **state)
{
    struct bench *b = *state;
    const int vectors = b->context->num_comp_vectors;
    assert_refused(ibv_create_cq(b->context, 0, NULL, NULL, 0), EINVAL);
    assert_refused(ibv_create_cq(b->context, -1, NULL, NULL, 0), EINVAL);
    assert_refused(ibv_create_cq(b->context, max_cqe(b) + 1, NULL, NULL, 0), EINVAL);
    assert_refused(ibv_create_cq(b->context, 1, NULL, NULL, vectors), EINVAL);
    assert_refused(ibv_create_cq(b->context, 1, NULL, NULL, -1), EINVAL);
    assert_int_equal(ibv_resize_cq(b->cq, 0), EINVAL);
    assert_int_equal(ibv_resize_cq(b->cq, max_cqe(b) + 1), EINVAL);
    assert_int_equal(ibv_resize_cq(b->cq, 7), 0);
    assert_true(b->cq->cqe >= 7);
    assert_int_equal(ibv_destroy_cq(b->cq), EBUSY);
    assert_int_equal(ibv_destroy_comp_channel(b->channel), EBUSY);
}

static void extended_completion_queues(void **state)
{
    struct bench *b = *state;
    struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};
    assert_refused(ibv_create_cq_ex(b->context, &attr), EOPNOTSUPP);
    attr.wc_flags = 1ULL << 40;
    assert_refused(ibv_create_cq_ex(b->context, &attr), EOPNOTSUPP);
    attr = (struct ibv_cq_init_attr_ex){.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS};
    attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    assert_refused(ibv_create_cq_ex(b->context, &attr), EOPNOTSUPP);
    attr = (struct ibv_cq_init_attr_ex){.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
    assert_refused(ibv_create_cq_ex(b->context, &attr), EINVAL);
    attr = (struct ibv_cq_init_attr_ex){.cqe = 0};
    assert_refused(ibv_create_cq_ex(b->context, &attr), EINVAL);
    attr = (struct ibv_cq_init_attr_ex){.cqe = 4, .comp_vector = 99};
    assert_refused(ibv_create_cq_ex(b->context, &attr), EINVAL);
    struct ibv_modify_cq_attr modify = {.attr_mask = IBV_CQ_ATTR_RESERVED};
    assert_int_equal(ibv_modify_cq(b->cq, &modify), EOPNOTSUPP);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static void queue_pair_types(void **state)
{
    struct bench *b = *state;
    static const enum ibv_qp_type absent[] = {IBV_QPT_UC,         IBV_QPT_UD,
                                              IBV_QPT_XRC_SEND,   IBV_QPT_XRC_RECV,
                                              IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        struct ibv_qp_init_attr attr = bench_qp_attr(b->cq);
        attr.qp_type = absent[i];
        assert_refused(ibv_create_qp(b->pd, &attr), EOPNOTSUPP);
    }
}

static void queue_pair_capabilities(void **state)
{
    struct bench *b = *state;
    struct ibv_qp_init_attr attr = bench_qp_attr(b->cq);
    attr.send_cq = NULL;
    assert_refused(ibv_create_qp(b->pd, &attr), EINVAL);
    uint32_t *const caps[] = {&attr.cap.max_send_wr, &attr.cap.max_recv_wr, &attr.cap.max_send_sge,
                              &attr.cap.max_recv_sge, &attr.cap.max_inline_data};
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        attr = bench_qp_attr(b->cq);
        *caps[i] = 1U << 30;
        assert_refused(ibv_create_qp(b->pd, &attr), EINVAL);
    }
}

static void extended_queue_pairs(void **state)
{
    struct bench *b = *state;
    struct ibv_qp_init_attr plain = bench_qp_attr(b->cq);
    struct ibv_qp_init_attr_ex attr = {.send_cq = b->cq,
                                       .recv_cq = b->cq,
                                       .cap = plain.cap,
                                       .qp_type = IBV_QPT_RC,
                                       .comp_mask =
                                           IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = b->pd};
    attr.send_ops_flags = IBV_QP_EX_WITH_TSO;
    assert_refused(ibv_create_qp_ex(b->context, &attr), EOPNOTSUPP);
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    attr.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE;
    assert_refused(ibv_create_qp_ex(b->context, &attr), EOPNOTSUPP);
    attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    assert_refused(ibv_create_qp_ex(b->context, &attr), EINVAL);
    assert_null(ibv_qp_to_qp_ex(b->qp));
}

static void fresh_queue_pair_tells_reset(void **state)
{
    struct bench *b = *state;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(b->qp->state, IBV_QPS_RESET);
    assert_int_equal(ibv_query_qp(b->qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RESET);
    assert_true(init.cap.max_send_wr >= BENCH_DEPTH && attr.cap.max_send_sge >= 2);
    assert_ptr_equal(init.send_cq, b->cq);
    assert_int_equal(b->qp->state, IBV_QPS_RESET);
}

struct modification {
    int mask;
    struct ibv_qp_attr attr;
    int expected;
};

static void queue_pair_modifications(void **state)
{
    struct bench *b = *state;
    static const struct modification table[] = {
        {0, {0}, 0},
        {IBV_QP_STATE, {.qp_state = IBV_QPS_SQE}, EINVAL},
        {IBV_QP_STATE, {.qp_state = (enum ibv_qp_state)7}, EINVAL},
        {IBV_QP_STATE, {.qp_state = (enum ibv_qp_state) - 1}, EINVAL},
        {IBV_QP_STATE | IBV_QP_CUR_STATE,
         {.qp_state = IBV_QPS_ERR, .cur_qp_state = IBV_QPS_RTS},
         EINVAL},
        {IBV_QP_STATE | IBV_QP_PORT, {.qp_state = IBV_QPS_INIT, .port_num = 2}, EINVAL},
        {IBV_QP_STATE | IBV_QP_PKEY_INDEX, {.qp_state = IBV_QPS_INIT, .pkey_index = 1}, EINVAL},
        {IBV_QP_STATE | IBV_QP_SQ_PSN, {.qp_state = IBV_QPS_INIT}, EINVAL},
        {IBV_QP_ALT_PATH, {0}, EOPNOTSUPP},
        {IBV_QP_CAP, {0}, EOPNOTSUPP},
        {IBV_QP_RATE_LIMIT, {0}, EOPNOTSUPP},
        {IBV_QP_QKEY, {0}, EINVAL},
        {IBV_QP_MAX_QP_RD_ATOMIC, {.max_rd_atomic = 255}, EINVAL},
        {IBV_QP_MAX_QP_RD_ATOMIC, {.max_rd_atomic = 129}, EINVAL},
        {IBV_QP_MAX_QP_RD_ATOMIC, {.max_rd_atomic = 128}, 0},
        {IBV_QP_MAX_DEST_RD_ATOMIC, {.max_dest_rd_atomic = 129}, EINVAL},
        {IBV_QP_MAX_DEST_RD_ATOMIC, {.max_dest_rd_atomic = 128}, 0},
        {IBV_QP_PATH_MTU, {.path_mtu = (enum ibv_mtu)9}, EINVAL},
        {IBV_QP_PATH_MTU, {.path_mtu = (enum ibv_mtu)0}, EINVAL},
        {IBV_QP_PATH_MTU, {.path_mtu = IBV_MTU_256}, 0},
        {IBV_QP_PATH_MTU, {.path_mtu = IBV_MTU_4096}, 0},
        {IBV_QP_PORT, {.port_num = 2}, EINVAL},
        {IBV_QP_PKEY_INDEX, {.pkey_index = 1}, EINVAL},
        {IBV_QP_AV, {0}, EINVAL},
        {IBV_QP_DEST_QPN, {0}, EINVAL},
        {1 << 30, {0}, EOPNOTSUPP},
        {IBV_QP_STATE, {.qp_state = IBV_QPS_SQD}, EINVAL},
        {IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS,
         {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
         0},
        {IBV_QP_ACCESS_FLAGS, {.qp_access_flags = 0x300}, 0}, // to flush: later headers name them
        {IBV_QP_ACCESS_FLAGS, {.qp_access_flags = 1U << 20}, 0}, // relaxed ordering, a region's
        {IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT, {.min_rnr_timer = 12, .timeout = 14}, 0},
        {IBV_QP_STATE, {.qp_state = IBV_QPS_ERR}, 0},
        {IBV_QP_STATE, {.qp_state = IBV_QPS_RTS}, EINVAL},
        {IBV_QP_STATE, {.qp_state = IBV_QPS_RESET}, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct ibv_qp_attr attr = table[i].attr;
        int error = ibv_modify_qp(b->qp, &attr, table[i].mask);
        if (error != table[i].expected) {
            fail_msg("modification %zu: %d, expected %d", i, error, table[i].expected);
        }
    }
}

static void modified_attributes_are_told_again(void **state)
{
    struct bench *b = *state;
    struct ibv_qp_attr attr = {.timeout = 14,
                               .rnr_retry = 7,
                               .retry_cnt = 6,
                               .min_rnr_timer = 12,
                               .rq_psn = 1001,
                               .sq_psn = 1002,
                               .max_rd_atomic = 5,
                               .max_dest_rd_atomic = 9,
                               .path_mtu = IBV_MTU_1024,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ,
                               .en_sqd_async_notify = 1};
    struct ibv_qp_init_attr init;
    const int mask = IBV_QP_TIMEOUT | IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT | IBV_QP_MIN_RNR_TIMER |
                     IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MTU | IBV_QP_ACCESS_FLAGS |
                     IBV_QP_EN_SQD_ASYNC_NOTIFY;
    assert_int_equal(ibv_modify_qp(b->qp, &attr, mask), 0);
    memset(&attr, 0, sizeof attr);
    assert_int_equal(ibv_query_qp(b->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
    assert_int_equal(attr.timeout, 14);
    assert_int_equal(attr.rnr_retry, 7);
    assert_int_equal(attr.retry_cnt, 6);
    assert_int_equal(attr.min_rnr_timer, 12);
    assert_int_equal(attr.rq_psn, 1001);
    assert_int_equal(attr.sq_psn, 1002);
    assert_int_equal(attr.max_rd_atomic, 5);
    assert_int_equal(attr.max_dest_rd_atomic, 9);
    assert_int_equal(attr.path_mtu, IBV_MTU_1024);
    assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
    assert_int_equal(attr.en_sqd_async_notify, 1);
    attr.timeout = 3; // not in the mask: not taken
    assert_int_equal(ibv_modify_qp(b->qp, &attr, IBV_QP_RETRY_CNT), 0);
    assert_int_equal(ibv_query_qp(b->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
    assert_int_equal(attr.timeout, 14);
}

/* ---- posting --------------------------------------------------------------------------------- */

static void wrong_work_requests(void **state)
{
    struct bench *b = *state;
    struct ibv_sge sge[3] = {bench_sge(b, 0, 8), bench_sge(b, 8, 8), bench_sge(b, 16, 8)};
    struct ibv_sge huge[2] = {bench_sge(b, 0, UINT32_MAX), bench_sge(b, 0, UINT32_MAX)};
    struct ibv_sge small = bench_sge(b, 0, 7);
    const struct ibv_send_wr table[] = {
        {.opcode = IBV_WR_TSO},
        {.opcode = (enum ibv_wr_opcode)99},
        {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 3},
        {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = -1},
        {.opcode = IBV_WR_SEND, .sg_list = huge, .num_sge = 2},
        {.opcode = IBV_WR_SEND, .send_flags = 1U << 10},
        {.opcode = IBV_WR_SEND, .send_flags = WEFT_READ_MAY_PASS},
        {.opcode = IBV_WR_SEND, .send_flags = WEFT_ONESHOT_CLOSES},
        {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = huge, .num_sge = 1},
        {.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_INLINE, .sg_list = sge, .num_sge = 1},
        {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &small, .num_sge = 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct ibv_send_wr wr = table[i], *bad = NULL;
        int error = ibv_post_send(b->qp, &wr, &bad);
        if (error != EINVAL || bad != &wr) {
            fail_msg("work request %zu: %d", i, error);
        }
    }
}

static void full_queues_name_the_first_that_did_not_fit(void **state)
{
    struct bench *b = *state;
    struct ibv_recv_wr recv[1 << 8], *bad_recv = NULL;
    struct ibv_send_wr send[1 << 8], *bad_send = NULL;
    const int count = sizeof recv / sizeof recv[0];
    memset(recv, 0, sizeof recv);
    memset(send, 0, sizeof send);
    for (int i = 0; i < count; i++) {
        recv[i].next = i + 1 < count ? &recv[i + 1] : NULL;
        send[i].next = i + 1 < count ? &send[i + 1] : NULL;
        send[i].opcode = IBV_WR_SEND;
    }
    assert_int_equal(ibv_post_recv(b->qp, recv, &bad_recv), ENOMEM);
    assert_true(bad_recv >= &recv[BENCH_DEPTH]);
    assert_int_equal(ibv_post_send(b->qp, send, &bad_send), ENOMEM);
    assert_true(bad_send >= &send[BENCH_DEPTH]);
}

static void wrong_receives(void **state)
{
    struct bench *b = *state;
    struct ibv_recv_wr first = {.wr_id = 1}, second = {.num_sge = 3}, *bad = NULL;
    first.next = &second;
    assert_int_equal(ibv_post_recv(b->qp, &first, &bad), EINVAL);
    assert_ptr_equal(bad, &second);
}

/* ---- shared receive queues ------------------------------------------------------------------- */

static void shared_receive_queues(void **state)
{
    struct bench *b = *state;
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 0, .max_sge = 1}};
    assert_refused(ibv_create_srq(b->pd, &attr), EINVAL);
    attr.attr.max_wr = 1U << 30;
    assert_refused(ibv_create_srq(b->pd, &attr), EINVAL);
    attr.attr = (struct ibv_srq_attr){.max_wr = 8, .max_sge = 1U << 10};
    assert_refused(ibv_create_srq(b->pd, &attr), EINVAL);
    attr.attr = (struct ibv_srq_attr){.max_wr = 8, .max_sge = 1};
    struct ibv_srq *srq = ibv_create_srq(b->pd, &attr);
    assert_non_null(srq);
    struct ibv_srq_attr change = {.srq_limit = 9, .max_wr = 16};
    assert_int_equal(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), EINVAL);
    assert_int_equal(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EOPNOTSUPP);
    struct ibv_qp_init_attr qp_attr = bench_qp_attr(b->cq);
    qp_attr.srq = srq;
    struct ibv_qp *qp = ibv_create_qp(b->pd, &qp_attr);
    assert_non_null(qp);
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* ---- handles --------------------------------------------------------------------------------- */

// The kernel finds nothing by them, and leaves everything as it is.
static void objects_whose_handle_was_changed_are_not_there(void **state)
{
    struct bench *b = *state;
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq_attr limit = {.srq_limit = 1};
    struct ibv_qp_init_attr attr = bench_qp_attr(b->cq), with_cq = attr, with_srq = attr, init;
    struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE};
    struct ibv_srq *srq = ibv_create_srq(b->pd, &srq_attr);
    struct ibv_cq *cq = ibv_create_cq(b->context, 4, NULL, NULL, 0);
    struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buf, 64, 0);
    struct ibv_mw *mw = ibv_alloc_mw(b->pd, IBV_MW_TYPE_2);
    struct ibv_qp *qp = ibv_create_qp(b->pd, &attr);
    uint32_t *handles[] = {&srq->handle, &cq->handle, &mr->handle, &mw->handle, &qp->handle};
    with_cq.recv_cq = cq;
    with_srq.srq = srq;
    for (unsigned i = 0; i < 5; i++) {
        *handles[i] ^= 0x55;
    }
    assert_refused(ibv_create_qp(b->pd, &with_cq), ENOENT);
    assert_refused(ibv_create_qp(b->pd, &with_srq), ENOENT);
    assert_int_equal(ibv_modify_qp(qp, &qp_attr, IBV_QP_STATE), ENOENT);
    assert_int_equal(ibv_query_qp(qp, &qp_attr, IBV_QP_STATE, &init), ENOENT);
    assert_int_equal(ibv_destroy_qp(qp), ENOENT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(ibv_dereg_mr(mr), ENOENT);
    assert_int_equal(ibv_dealloc_mw(mw), ENOENT);
    assert_int_equal(ibv_resize_cq(cq, 8), ENOENT);
    assert_int_equal(ibv_modify_cq(cq, &moderate), ENOENT);
    assert_int_equal(ibv_destroy_cq(cq), ENOENT);
    assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), ENOENT);
    assert_int_equal(ibv_query_srq(srq, &limit), ENOENT);
    assert_int_equal(ibv_destroy_srq(srq), ENOENT);
    for (unsigned i = 0; i < 5; i++) {
        *handles[i] ^= 0x55;
    }
    assert_int_equal(ibv_query_qp(qp, &qp_attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(qp_attr.qp_state, IBV_QPS_RESET);
    assert_int_equal(ibv_query_srq(srq, &limit), 0);
    assert_int_equal(limit.srq_limit, 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void nothing_is_made_in_a_domain_whose_handle_was_changed(void **state)
{
    struct bench *b = *state;
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_qp_init_attr attr = bench_qp_attr(b->cq);
    struct ibv_pd *pd = ibv_alloc_pd(b->context);
    struct ibv_parent_domain_init_attr parent = {.pd = pd};
    struct ibv_sge sge = {(uintptr_t)b->buf, 64, b->mr->lkey};
    const uint32_t handle = pd->handle;
    pd->handle = b->pd->handle; // of a domain that there is
    assert_refused(ibv_reg_mr(pd, b->buf, 64, 0), ENOENT);
    assert_refused(ibv_alloc_mw(pd, IBV_MW_TYPE_1), ENOENT);
    assert_refused(ibv_create_srq(pd, &srq_attr), ENOENT);
    assert_refused(ibv_create_qp(pd, &attr), ENOENT);
    assert_refused(ibv_alloc_parent_domain(b->context, &parent), ENOENT);
    assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
    assert_int_equal(ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(ibv_dealloc_pd(pd), ENOENT);
    pd->handle = handle;
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void domain_of_another_context_is_not_there(void **state)
{
    struct bench *b = *state;
    struct ibv_context *other = bench_open();
    b->pd->context = other;
    assert_int_equal(ibv_dealloc_pd(b->pd), ENOENT);
    b->pd->context = b->context;
    assert_int_equal(ibv_dealloc_pd(b->pd), EBUSY);
    assert_int_equal(ibv_close_device(other), 0);
}

/* ---- what is not there ----------------------------------------------------------------------- */

static void absent_objects(void **state)
{
    struct bench *b = *state;
    struct ibv_ah_attr ah = {.port_num = 1};
    union ibv_gid gid = {.raw = {0xff}};
    struct ibv_alloc_dm_attr dm = {.length = 64};
    struct ibv_xrcd_init_attr xrcd = {.fd = -1};
    struct ibv_ece ece = {.vendor_id = 1};
    struct ibv_flow_attr flow = {.size = sizeof flow};
    assert_refused(ibv_create_ah(b->pd, &ah), EOPNOTSUPP);
    assert_refused(ibv_import_device(b->context->cmd_fd), EOPNOTSUPP);
    assert_refused(ibv_import_pd(b->context, b->pd->handle), EOPNOTSUPP);
    assert_refused(ibv_import_mr(b->pd, b->mr->handle), EOPNOTSUPP);
    assert_refused(ibv_import_dm(b->context, 0), EOPNOTSUPP);
    assert_refused(ibv_alloc_dm(b->context, &dm), EOPNOTSUPP);
    assert_refused(ibv_alloc_null_mr(b->pd), EOPNOTSUPP);
    assert_refused(ibv_open_xrcd(b->context, &xrcd), EOPNOTSUPP);
    assert_refused(ibv_create_flow(b->qp, &flow), EOPNOTSUPP);
    assert_int_equal(ibv_attach_mcast(b->qp, &gid, 0), EOPNOTSUPP);
    assert_int_equal(ibv_detach_mcast(b->qp, &gid, 0), EOPNOTSUPP);
    assert_int_equal(ibv_query_ece(b->qp, &ece), EOPNOTSUPP);
    assert_int_equal(ibv_set_ece(b->qp, &ece), EOPNOTSUPP);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(regions),
        CASE(optional_access_is_masked),
        CASE(reregistration),
        CASE(reregistration_moves_the_region),
        CASE(domain_in_use_stays),
        CASE(windows),
        CASE(completion_queues),
        CASE(extended_completion_queues),
        CASE(queue_pair_types),
        CASE(queue_pair_capabilities),
        CASE(extended_queue_pairs),
        CASE(fresh_queue_pair_tells_reset),
        CASE(queue_pair_modifications),
        CASE(modified_attributes_are_told_again),
        CASE(wrong_work_requests),
        CASE(full_queues_name_the_first_that_did_not_fit),
        CASE(wrong_receives),
        CASE(shared_receive_queues),
        CASE(objects_whose_handle_was_changed_are_not_there),
        CASE(nothing_is_made_in_a_domain_whose_handle_was_changed),
        CASE(domain_of_another_context_is_not_there),
        CASE(absent_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

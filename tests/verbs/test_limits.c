// What queues say they hold is what they hold, and what the device says it has is what it gives.
#include <errno.h>
#include <stdlib.h>

#include "tests/verbs/bench.h"

static struct bench bench;

static int setup(void **state)
{
    bench_init(&bench);
    return 0;
}

static int teardown(void **state)
{
    bench_fini(&bench);
    return 0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

// Asked for, and of some other size than the rings behind.
static const uint32_t sizes[] = {1, 3, 5, 17, 100, 1000};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

static uint32_t receives_taken(struct ibv_qp *qp)
{
    struct ibv_recv_wr wr = {0}, *bad;
    uint32_t count = 0;
    int error;
    while ((error = ibv_post_recv(qp, &wr, &bad)) == 0) {
        count++;
    }
    assert_int_equal(error, ENOMEM);
    return count;
}

static uint32_t sends_taken(struct ibv_qp *qp)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    uint32_t count = 0;
    int error;
    while ((error = ibv_post_send(qp, &wr, &bad)) == 0) {
        count++;
    }
    assert_int_equal(error, ENOMEM);
    return count;
}

static void queue_pair_holds_what_it_says(void **state)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq), init;
        struct ibv_qp_attr told;
        attr.cap.max_send_wr = attr.cap.max_recv_wr = sizes[i];
        struct ibv_qp *qp = ibv_create_qp(bench.pd, &attr);
        assert_non_null(qp);
        assert_true(attr.cap.max_send_wr >= sizes[i] && attr.cap.max_recv_wr >= sizes[i]);
        assert_int_equal(ibv_query_qp(qp, &told, IBV_QP_CAP, &init), 0);
        assert_memory_equal(&told.cap, &attr.cap, sizeof attr.cap);
        assert_memory_equal(&init.cap, &attr.cap, sizeof attr.cap);
        assert_int_equal(receives_taken(qp), attr.cap.max_recv_wr);
        assert_int_equal(sends_taken(qp), attr.cap.max_send_wr);
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
}

static void shared_receive_queue_holds_what_it_says(void **state)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        struct ibv_srq_init_attr attr = {.attr = {.max_wr = sizes[i], .max_sge = 1}};
        struct ibv_srq_attr told;
        struct ibv_recv_wr wr = {0}, *bad;
        uint32_t count = 0;
        struct ibv_srq *srq = ibv_create_srq(bench.pd, &attr);
        assert_non_null(srq);
        assert_true(attr.attr.max_wr >= sizes[i]);
        assert_int_equal(ibv_query_srq(srq, &told), 0);
        assert_int_equal(told.max_wr, attr.attr.max_wr);
        while (ibv_post_srq_recv(srq, &wr, &bad) == 0) {
            count++;
        }
        assert_int_equal(count, attr.attr.max_wr);
        assert_int_equal(ibv_destroy_srq(srq), 0);
    }
}

// Fills it from a queue pair in error, to the last place and one further.
static void expect_capacity(struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = bench_qp_attr(cq);
    struct ibv_recv_wr wr = {0}, *bad;
    struct ibv_wc wc;
    struct ibv_async_event event;
    attr.cap.max_recv_wr = (uint32_t)cq->cqe + 1;
    struct ibv_qp *qp = ibv_create_qp(bench.pd, &attr);
    bench_fail(qp);
    for (int i = 0; i < cq->cqe; i++) {
        assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    }
    for (int i = 0; i < cq->cqe; i++) {
        bench_poll(cq); // the device may be a moment behind
    }
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
    for (int i = 0; i <= cq->cqe; i++) {
        assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    }
    assert_int_equal(ibv_get_async_event(bench.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void completion_queue_holds_what_it_says(void **state)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        struct ibv_cq *cq = ibv_create_cq(bench.context, (int)sizes[i], NULL, NULL, 0);
        assert_non_null(cq);
        assert_true(cq->cqe >= (int)sizes[i]);
        expect_capacity(cq);
        assert_int_equal(ibv_destroy_cq(cq), 0);
    }
}

static void resized_completion_queue_holds_what_it_says(void **state)
{
    struct ibv_cq *cq = ibv_create_cq(bench.context, 1, NULL, NULL, 0);
    assert_int_equal(ibv_resize_cq(cq, 33), 0);
    assert_true(cq->cqe >= 33);
    expect_capacity(cq);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void queues_are_never_larger_than_the_device_says(void **state)
{
    struct ibv_device_attr device;
    assert_int_equal(ibv_query_device(bench.context, &device), 0);
    struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
    attr.cap.max_send_wr = attr.cap.max_recv_wr = (uint32_t)device.max_qp_wr;
    struct ibv_qp *qp = ibv_create_qp(bench.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(attr.cap.max_send_wr, device.max_qp_wr);
    assert_int_equal(attr.cap.max_recv_wr, device.max_qp_wr);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = (uint32_t)device.max_srq_wr}};
    struct ibv_srq *srq = ibv_create_srq(bench.pd, &srq_attr);
    assert_non_null(srq);
    assert_int_equal(srq_attr.attr.max_wr, device.max_srq_wr);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    struct ibv_cq *cq = ibv_create_cq(bench.context, device.max_cqe, NULL, NULL, 0);
    assert_non_null(cq);
    assert_int_equal(cq->cqe, device.max_cqe);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

// Beside it there is no own receive queue: what a program leaves in its place says nothing.
static void receives_beside_a_shared_queue_may_be_any_number(void **state)
{
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(bench.pd, &shared);
    assert_non_null(srq);
    struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
    attr.srq = srq;
    attr.cap.max_recv_wr = attr.cap.max_recv_sge = UINT32_MAX;
    struct ibv_qp *qp = ibv_create_qp(bench.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(attr.cap.max_recv_wr, 0);
    assert_int_equal(attr.cap.max_recv_sge, 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    attr.cap.max_send_wr = UINT32_MAX;
    errno = 0;
    assert_null(ibv_create_qp(bench.pd, &attr));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* ---- the device ------------------------------------------------------------------------------ */

static void *window_create(void)
{
    return ibv_alloc_mw(bench.pd, IBV_MW_TYPE_2);
}

static int window_destroy(void *mw)
{
    return ibv_dealloc_mw(mw);
}

static void *shared_queue_create(void)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1}};
    return ibv_create_srq(bench.pd, &attr);
}

static int shared_queue_destroy(void *srq)
{
    return ibv_destroy_srq(srq);
}

static void *domain_create(void)
{
    return ibv_alloc_pd(bench.context);
}

static int domain_destroy(void *pd)
{
    return ibv_dealloc_pd(pd);
}

// There is one of `present` already. One that goes makes room for another.
static void expect_limit(int limit, int present, void *(*create)(void), int (*destroy)(void *))
{
    void **all = calloc((size_t)limit, sizeof *all);
    int count = 0;
    assert_non_null(all);
    for (; count < limit - present; count++) {
        all[count] = create();
        assert_non_null(all[count]);
    }
    for (int i = 0; i < 2; i++) {
        errno = 0;
        assert_null(create());
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(destroy(all[0]), 0);
        all[0] = create();
        assert_non_null(all[0]);
    }
    while (count > 0) {
        assert_int_equal(destroy(all[--count]), 0);
    }
    free(all);
}

static void device_has_as_many_objects_as_it_says(void **state)
{
    struct ibv_device_attr device;
    assert_int_equal(ibv_query_device(bench.context, &device), 0);
    expect_limit(device.max_mw, 0, window_create, window_destroy);
    expect_limit(device.max_srq, 0, shared_queue_create, shared_queue_destroy);
    expect_limit(device.max_pd, 1, domain_create, domain_destroy);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(queue_pair_holds_what_it_says),
        CASE(shared_receive_queue_holds_what_it_says),
        CASE(completion_queue_holds_what_it_says),
        CASE(resized_completion_queue_holds_what_it_says),
        CASE(queues_are_never_larger_than_the_device_says),
        CASE(receives_beside_a_shared_queue_may_be_any_number),
        CASE(device_has_as_many_objects_as_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

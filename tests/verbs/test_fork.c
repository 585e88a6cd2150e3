// A child of a fork: objects from before answer EIO, may be destroyed, and new ones work.
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/verbs/bench.h"

static struct bench bench;

// Runs `check` in a child; it reports by its exit status, since the asserts belong to the parent.
static void in_child(int (*check)(struct bench *b))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(check(&bench));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

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

// Each check answers 0, or the number of what did not hold.
#define HOLD(number, condition) \
    if (!(condition)) {         \
        return number;          \
    }

static int old_objects_answer_eio(struct bench *b)
{
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
    struct ibv_recv_wr recv = {0}, *bad_recv;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init = bench_qp_attr(b->cq);
    struct ibv_wc wc;
    struct ibv_cq *cq;
    void *context;
    HOLD(1, ibv_post_send(b->qp, &send, &bad_send) == EIO && bad_send == &send)
    HOLD(2, ibv_post_recv(b->qp, &recv, &bad_recv) == EIO && bad_recv == &recv)
    HOLD(3, ibv_poll_cq(b->cq, 1, &wc) == -EIO)
    HOLD(4, ibv_req_notify_cq(b->cq, 0) == EIO)
    HOLD(5, ibv_modify_qp(b->qp, &attr, IBV_QP_STATE) == EIO)
    HOLD(6, ibv_query_qp(b->qp, &attr, IBV_QP_STATE, &init) == EIO)
    HOLD(7, ibv_create_qp(b->pd, &init) == NULL && errno == EIO)
    HOLD(8, ibv_alloc_pd(b->context) == NULL && errno == EIO)
    HOLD(9, ibv_create_cq(b->context, 1, NULL, NULL, 0) == NULL && errno == EIO)
    HOLD(10, ibv_reg_mr(b->pd, b->buf, 8, 0) == NULL && errno == EIO)
    HOLD(11, ibv_get_cq_event(b->channel, &cq, &context) == -1 && errno == EIO)
    return 0;
}

static struct ibv_srq *shared; // of the parent
static struct ibv_mw *window;

static int other_old_objects_answer_eio(struct bench *b)
{
    struct ibv_recv_wr recv = {0}, *bad_recv;
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 1}};
    struct ibv_srq_attr srq_attr = {.srq_limit = 1};
    struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};
    struct ibv_cq_init_attr_ex cq_init = {.cqe = 1};
    struct ibv_mw_bind bind = {.bind_info = {.mr = b->mr}};
    struct ibv_async_event event;
    struct ibv_sge sge = bench_sge(b, 0, 8);
    HOLD(1, ibv_post_srq_recv(shared, &recv, &bad_recv) == EIO && bad_recv == &recv)
    HOLD(2, ibv_modify_srq(shared, &srq_attr, IBV_SRQ_LIMIT) == EIO)
    HOLD(3, ibv_query_srq(shared, &srq_attr) == EIO)
    HOLD(4, ibv_create_srq(b->pd, &srq_init) == NULL && errno == EIO)
    HOLD(5, ibv_resize_cq(b->cq, 5) == EIO)
    HOLD(6, ibv_modify_cq(b->cq, &moderation) == EIO)
    HOLD(7, ibv_create_comp_channel(b->context) == NULL && errno == EIO)
    HOLD(8, ibv_create_cq_ex(b->context, &cq_init) == NULL && errno == EIO)
    HOLD(9, ibv_alloc_mw(b->pd, IBV_MW_TYPE_1) == NULL && errno == EIO)
    HOLD(10, ibv_bind_mw(b->qp, window, &bind) == EIO)
    HOLD(11, ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ==
                     IBV_REREG_MR_ERR_INPUT &&
                 errno == EIO)
    HOLD(12, ibv_advise_mr(b->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == EIO)
    HOLD(13, ibv_get_async_event(b->context, &event) == -1 && errno == EIO)
    HOLD(14, ibv_dealloc_mw(window) == 0)
    HOLD(15, ibv_destroy_srq(shared) == 0)
    return 0;
}

// Another thread of the parent may hold a queue's lock when the fork happens.
static int old_extended_queue_pair_answers_eio(struct bench *b)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(b->qp);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    HOLD(1, ibv_wr_complete(qp) == EIO)
    return 0;
}

static int old_objects_are_destroyed(struct bench *b)
{
    HOLD(1, ibv_destroy_qp(b->qp) == 0)
    HOLD(2, ibv_destroy_cq(b->cq) == 0)
    HOLD(3, ibv_destroy_comp_channel(b->channel) == 0)
    HOLD(4, ibv_dereg_mr(b->mr) == 0)
    HOLD(5, ibv_dealloc_pd(b->pd) == 0)
    HOLD(6, ibv_close_device(b->context) == 0)
    return 0;
}

static int new_objects_work(struct bench *b)
{
    static struct bench fresh;
    struct ibv_recv_wr wr = {.wr_id = 5}, *bad;
    struct ibv_wc wc;
    bench_init(&fresh);
    HOLD(1, ibv_post_recv(fresh.qp, &wr, &bad) == 0)
    bench_fail(fresh.qp);
    HOLD(2, ibv_poll_cq(fresh.cq, 1, &wc) == 1 && wc.wr_id == 5)
    bench_fini(&fresh);
    return 0;
}

static void objects_of_the_parent_answer_eio(void **state)
{
    in_child(old_objects_answer_eio);
}

static void further_objects_of_the_parent_answer_eio(void **state)
{
    struct bench *b = *state;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 1}};
    shared = ibv_create_srq(b->pd, &init);
    window = ibv_alloc_mw(b->pd, IBV_MW_TYPE_1);
    assert_true(shared != NULL && window != NULL);
    in_child(other_old_objects_answer_eio);
    assert_int_equal(ibv_dealloc_mw(window), 0);
    assert_int_equal(ibv_destroy_srq(shared), 0);
}

static void objects_of_the_parent_are_destroyed_in_the_child(void **state)
{
    in_child(old_objects_are_destroyed);
}

static void lock_that_the_fork_caught_does_not_matter(void **state)
{
    struct bench *b = *state;
    struct ibv_qp_init_attr plain = bench_qp_attr(b->cq);
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = b->cq,
        .recv_cq = b->cq,
        .cap = plain.cap,
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = b->pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND,
    };
    assert_int_equal(ibv_destroy_qp(b->qp), 0);
    b->qp = ibv_create_qp_ex(b->context, &attr);
    ibv_wr_start(ibv_qp_to_qp_ex(b->qp));
    in_child(old_extended_queue_pair_answers_eio);
    ibv_wr_abort(ibv_qp_to_qp_ex(b->qp));
}

static atomic_bool is_polling;

static void *poll_on(void *ctx)
{
    struct bench *b = ctx;
    struct ibv_wc wc;
    while (atomic_load(&is_polling)) {
        ibv_poll_cq(b->cq, 1, &wc);
    }
    return NULL;
}

// In the child nobody will ever let go of what the poller held.
static void thread_that_polls_does_not_hold_the_child_up(void **state)
{
    pthread_t thread;
    atomic_store(&is_polling, true);
    assert_int_equal(pthread_create(&thread, NULL, poll_on, &bench), 0);
    for (int i = 0; i < 5; i++) {
        in_child(old_objects_are_destroyed);
    }
    atomic_store(&is_polling, false);
    pthread_join(thread, NULL);
}

static void child_has_a_device_of_its_own(void **state)
{
    in_child(new_objects_work);
}

static void parent_goes_on(void **state)
{
    struct bench *b = *state;
    in_child(new_objects_work);
    struct ibv_recv_wr wr = {.wr_id = 6}, *bad;
    assert_int_equal(ibv_post_recv(b->qp, &wr, &bad), 0);
    bench_fail(b->qp);
    assert_int_equal(bench_poll(b->cq).wr_id, 6);
}

static void nothing_has_to_be_kept_from_a_child(void **state)
{
    assert_int_equal(ibv_fork_init(), 0);
    assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(objects_of_the_parent_answer_eio),
        CASE(further_objects_of_the_parent_answer_eio),
        CASE(objects_of_the_parent_are_destroyed_in_the_child),
        CASE(lock_that_the_fork_caught_does_not_matter),
        CASE(thread_that_polls_does_not_hold_the_child_up),
        CASE(child_has_a_device_of_its_own),
        CASE(parent_goes_on),
        CASE(nothing_has_to_be_kept_from_a_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

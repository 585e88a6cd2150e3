// Completions and their events, without a peer: a queue pair in error flushes what is posted.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

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

static void post_recv(struct ibv_qp *qp, uint64_t wr_id)
{
    struct ibv_recv_wr wr = {.wr_id = wr_id}, *bad;
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

// To a queue pair that has failed. The flush is the device's thread's where that has the lock: who
// resizes a queue finds done what was posted before.
static void post_flushed(struct bench *b, uint64_t wr_id)
{
    post_recv(b->qp, wr_id);
    assert_int_equal(ibv_resize_cq(b->cq, b->cq->cqe), 0);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void posted_work_is_flushed_in_order(void **state)
{
    struct bench *b = *state;
    for (uint64_t i = 0; i < 5; i++) {
        post_recv(b->qp, 100 + i);
    }
    bench_fail(b->qp);
    for (uint64_t i = 0; i < 5; i++) {
        struct ibv_wc wc = bench_poll(b->cq);
        assert_int_equal(wc.wr_id, 100 + i);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.qp_num, b->qp->qp_num);
    }
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(b->cq, 1, &wc), 0);
}

// More than the front takes under one hold of the lock.
static void many_are_polled_at_once(void **state)
{
    struct bench *b = *state;
    struct ibv_wc wc[4 * BENCH_DEPTH];
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad;
    for (uint64_t i = 0; i < BENCH_DEPTH; i++) {
        post_recv(b->qp, i);
        send.wr_id = i;
        assert_int_equal(ibv_post_send(b->qp, &send, &bad), 0);
    }
    bench_fail(b->qp);
    assert_int_equal(ibv_poll_cq(b->cq, 4 * BENCH_DEPTH, wc), 2 * BENCH_DEPTH);
}

static void destroying_the_queue_pair_takes_its_completions_away(void **state)
{
    struct bench *b = *state;
    struct ibv_wc wc;
    post_recv(b->qp, 1);
    bench_fail(b->qp);
    assert_int_equal(ibv_destroy_qp(b->qp), 0);
    b->qp = NULL;
    assert_int_equal(ibv_poll_cq(b->cq, 1, &wc), 0);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void armed_queue_raises_one_event(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *cq;
    void *context;
    post_recv(b->qp, 1);
    post_recv(b->qp, 2);
    assert_int_equal(ibv_req_notify_cq(b->cq, 0), 0);
    assert_false(is_readable(b->channel->fd));
    bench_fail(b->qp);
    assert_true(is_readable(b->channel->fd));
    assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), 0);
    assert_ptr_equal(cq, b->cq);
    assert_ptr_equal(context, b);
    assert_false(is_readable(b->channel->fd));
    ibv_ack_cq_events(cq, 1);
}

static void queue_that_is_not_armed_raises_none(void **state)
{
    struct bench *b = *state;
    post_recv(b->qp, 1);
    bench_fail(b->qp);
    assert_false(is_readable(b->channel->fd));
}

static void event_take(struct bench *b)
{
    struct ibv_cq *cq;
    void *context;
    assert_true(is_readable(b->channel->fd));
    assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
}

// Whoever sleeps takes an event, arms, and polls until nothing is left: who polls less than all may
// wait for ever (perftest's ib_send_bw -e -Q 1, which takes 16).
static void event_tells_of_what_completes_after_the_arming_alone(void **state)
{
    struct bench *b = *state;
    struct ibv_wc wc[2];
    bench_fail(b->qp);
    post_flushed(b, 1);
    assert_int_equal(ibv_req_notify_cq(b->cq, 0), 0);
    assert_false(is_readable(b->channel->fd));
    post_flushed(b, 2);
    event_take(b);
    assert_int_equal(ibv_poll_cq(b->cq, 2, wc), 2);
    post_flushed(b, 3);
    assert_false(is_readable(b->channel->fd));
    assert_int_equal(ibv_req_notify_cq(b->cq, 0), 0);
    assert_false(is_readable(b->channel->fd));
    assert_int_equal(ibv_poll_cq(b->cq, 2, wc), 1);
    post_flushed(b, 4);
    event_take(b);
}

static void event_that_is_not_taken_does_not_hold_back_the_next(void **state)
{
    struct bench *b = *state;
    bench_fail(b->qp);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(ibv_req_notify_cq(b->cq, 0), 0);
        post_flushed(b, i);
    }
    event_take(b);
    event_take(b);
    assert_false(is_readable(b->channel->fd));
}

static void nonblocking_channel_answers_eagain(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(fcntl(b->channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
}

static void destroying_the_queue_withdraws_its_event(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *cq = ibv_create_cq(b->context, 4, NULL, b->channel, 0);
    struct ibv_qp_init_attr attr = bench_qp_attr(cq);
    struct ibv_qp *qp = ibv_create_qp(b->pd, &attr);
    post_recv(qp, 1);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    bench_fail(qp);
    assert_true(is_readable(b->channel->fd));
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_false(is_readable(b->channel->fd));
}

static void *acknowledge_late(void *ctx)
{
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    nanosleep(&pause, NULL);
    ibv_ack_cq_events(ctx, 1);
    return NULL;
}

static void destroying_the_queue_waits_for_the_acknowledgement(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *cq = ibv_create_cq(b->context, 4, NULL, b->channel, 0), *which;
    struct ibv_qp_init_attr attr = bench_qp_attr(cq);
    struct ibv_qp *qp = ibv_create_qp(b->pd, &attr);
    void *context;
    pthread_t thread;
    post_recv(qp, 1);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    bench_fail(qp);
    assert_int_equal(ibv_get_cq_event(b->channel, &which, &context), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(pthread_create(&thread, NULL, acknowledge_late, cq), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0); // or the thread writes into freed memory
    pthread_join(thread, NULL);
}

static void context_without_events_answers_eagain(void **state)
{
    struct bench *b = *state;
    struct ibv_async_event event;
    assert_int_equal(fcntl(b->context->async_fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(ibv_get_async_event(b->context, &event), -1);
    assert_int_equal(errno, EAGAIN);
}

static void queue_below_its_limit_raises_an_asynchronous_event(void **state)
{
    struct bench *b = *state;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq_attr attr = {.srq_limit = 4};
    struct ibv_async_event event;
    struct ibv_srq *srq = ibv_create_srq(b->pd, &init);
    assert_non_null(srq);
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0); // empty: at once
    assert_int_equal(ibv_get_async_event(b->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, srq);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 0);
    assert_int_equal(ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 1}, IBV_SRQ_LIMIT), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_false(is_readable(b->context->async_fd));
}

/* ---- overruns -------------------------------------------------------------------------------- */

// Completes more than `cq` holds. Nothing has been polled yet.
static struct ibv_qp *overrun(struct bench *b, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = bench_qp_attr(cq);
    struct ibv_qp *qp = ibv_create_qp(b->pd, &attr);
    assert_true(cq->cqe < BENCH_DEPTH);
    for (uint64_t i = 0; i < BENCH_DEPTH; i++) {
        post_recv(qp, i);
    }
    bench_fail(qp);
    return qp;
}

static void expect_async(struct bench *b, enum ibv_event_type type, void *element)
{
    struct ibv_async_event event;
    assert_true(is_readable(b->context->async_fd));
    assert_int_equal(ibv_get_async_event(b->context, &event), 0);
    assert_int_equal(event.event_type, type);
    assert_ptr_equal((void *)event.element.cq, element); // of a union of pointers
    ibv_ack_async_event(&event);
}

// A program that waits for events learns it without polling.
static void overrun_is_told_at_once(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *cq = ibv_create_cq(b->context, 4, NULL, NULL, 0);
    struct ibv_qp *qp = overrun(b, cq);
    expect_async(b, IBV_EVENT_CQ_ERR, cq);
    expect_async(b, IBV_EVENT_QP_FATAL, qp);
    assert_false(is_readable(b->context->async_fd));
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void overrun_queue_keeps_what_it_holds_and_then_fails(void **state)
{
    struct bench *b = *state;
    struct ibv_wc wc;
    struct ibv_cq *cq = ibv_create_cq(b->context, 4, NULL, NULL, 0);
    struct ibv_qp *qp = overrun(b, cq);
    for (uint64_t i = 0; i < (uint64_t)cq->cqe; i++) {
        assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
        assert_int_equal(wc.wr_id, i);
    }
    assert_true(ibv_poll_cq(cq, 1, &wc) < 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void overrun_extended_queue_tells_it_and_then_fails(void **state)
{
    struct bench *b = *state;
    struct ibv_cq_init_attr_ex attr = {.cqe = 4};
    struct ibv_poll_cq_attr poll_attr = {0};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(b->context, &attr);
    struct ibv_qp *qp = overrun(b, ibv_cq_ex_to_cq(cq));
    expect_async(b, IBV_EVENT_CQ_ERR, cq);
    expect_async(b, IBV_EVENT_QP_FATAL, qp);
    assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
    for (int i = 1; i < cq->cqe; i++) {
        assert_int_equal(ibv_next_poll(cq), 0);
    }
    assert_int_equal(ibv_next_poll(cq), EIO);
    ibv_end_poll(cq);
    assert_int_equal(ibv_start_poll(cq, &poll_attr), EIO);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void every_queue_pair_that_loses_completions_is_told(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *cq = ibv_create_cq(b->context, 4, NULL, NULL, 0);
    struct ibv_qp *qp = overrun(b, cq);
    struct ibv_qp_init_attr attr = bench_qp_attr(cq);
    struct ibv_qp *other = ibv_create_qp(b->pd, &attr);
    expect_async(b, IBV_EVENT_CQ_ERR, cq);
    expect_async(b, IBV_EVENT_QP_FATAL, qp);
    post_recv(other, 1);
    bench_fail(other);
    expect_async(b, IBV_EVENT_QP_FATAL, other);
    assert_false(is_readable(b->context->async_fd)); // the queue itself is told of once
    assert_int_equal(ibv_destroy_qp(other), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- moderation ------------------------------------------------------------------------------ */

static void moderated_queue_still_raises_its_event(void **state)
{
    struct bench *b = *state;
    struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                                      .moderate = {.cq_count = 3, .cq_period = UINT16_MAX}};
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(ibv_modify_cq(b->cq, &attr), 0);
    assert_int_equal(ibv_req_notify_cq(b->cq, 0), 0);
    for (uint64_t i = 0; i < 3; i++) {
        post_recv(b->qp, i);
    }
    bench_fail(b->qp);
    assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(ibv_poll_cq(b->cq, 3, (struct ibv_wc[3]){0}), 3);
}

/* ---- extended queues ------------------------------------------------------------------------- */

static void extended_queue_is_read_in_place(void **state)
{
    struct bench *b = *state;
    struct ibv_cq_init_attr_ex cq_attr = {
        .cqe = BENCH_DEPTH,
        .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
    struct ibv_poll_cq_attr poll_attr = {0};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(b->context, &cq_attr);
    assert_non_null(cq);
    struct ibv_qp_init_attr attr = bench_qp_attr(ibv_cq_ex_to_cq(cq));
    struct ibv_qp *qp = ibv_create_qp(b->pd, &attr);
    assert_int_equal(ibv_start_poll(cq, &poll_attr), ENOENT);
    post_recv(qp, 7);
    post_recv(qp, 8);
    bench_fail(qp);
    assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
    assert_int_equal(cq->wr_id, 7);
    assert_int_equal(cq->status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_wc_read_qp_num(cq), qp->qp_num);
    assert_int_equal(ibv_wc_read_src_qp(cq), 0);
    uint64_t ts = ibv_wc_read_completion_ts(cq);
    time_t wallclock_s = (time_t)(ibv_wc_read_completion_wallclock_ns(cq) / 1000000000);
    assert_true(ts > 0);
    assert_in_range(wallclock_s, time(NULL) - 60, time(NULL) + 60);
    assert_int_equal(ibv_next_poll(cq), 0);
    assert_int_equal(cq->wr_id, 8);
    assert_int_equal(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    assert_int_equal(ibv_start_poll(cq, &poll_attr), ENOENT);
    poll_attr.comp_mask = 1;
    assert_int_equal(ibv_start_poll(cq, &poll_attr), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void wallclock_of_extended_queue_does_not_go_backwards(void **state)
{
    struct bench *b = *state;
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = BENCH_DEPTH,
                                          .wc_flags =
                                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
    struct ibv_poll_cq_attr poll_attr = {0};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(b->context, &cq_attr);
    struct ibv_qp_init_attr attr = bench_qp_attr(ibv_cq_ex_to_cq(cq));
    struct ibv_qp *qp = ibv_create_qp(b->pd, &attr);
    uint64_t last_ns = 0, last_ts = 0;
    bench_fail(qp);
    for (int i = 0; i < 2000; i++) {
        post_recv(qp, 1); // flushed
        post_recv(qp, 2);
        int result;
        while ((result = ibv_start_poll(cq, &poll_attr)) == ENOENT) {
        }
        for (; result == 0; result = ibv_next_poll(cq)) {
            uint64_t ts = ibv_wc_read_completion_ts(cq);
            uint64_t ns = ibv_wc_read_completion_wallclock_ns(cq);
            assert_true(ns >= last_ns && ts >= last_ts);
            assert_true(i == 0 || ns - last_ns == ts - last_ts);
            last_ns = ns;
            last_ts = ts;
        }
        ibv_end_poll(cq);
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// end_poll consumes the entry that was being read, and no other.
static void end_of_polling_consumes_the_current_entry(void **state)
{
    struct bench *b = *state;
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = 4};
    struct ibv_poll_cq_attr poll_attr = {0};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(b->context, &cq_attr);
    struct ibv_qp_init_attr attr = bench_qp_attr(ibv_cq_ex_to_cq(cq));
    struct ibv_qp *qp = ibv_create_qp(b->pd, &attr);
    post_recv(qp, 1);
    post_recv(qp, 2);
    bench_fail(qp);
    assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
    ibv_end_poll(cq);
    assert_int_equal(bench_poll(ibv_cq_ex_to_cq(cq)).wr_id, 2);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* ---- who polls in vain gives the processor away ---------------------------------------------- */

static atomic_uint yield_count;

// In the place of libc's.
int sched_yield(void)
{
    atomic_fetch_add(&yield_count, 1);
    return 0;
}

enum { PATIENCE_US = 250, QUEUE_COUNT = 16 };

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void poll_in_vain(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

static void who_finds_in_one_queue_is_not_in_vain_at_another(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *idle = ibv_create_cq(b->context, 1, NULL, NULL, 0);
    for (unsigned i = 0; i < BENCH_DEPTH; i++) {
        post_recv(b->qp, i);
    }
    bench_fail(b->qp);
    bench_poll(b->cq);
    atomic_store(&yield_count, 0);
    for (unsigned i = 1; i < BENCH_DEPTH; i++) {
        poll_in_vain(idle);
        usleep(2 * PATIENCE_US);
        assert_int_equal(bench_poll(b->cq).wr_id, i);
    }
    assert_int_equal(atomic_load(&yield_count), 0);
    assert_int_equal(ibv_destroy_cq(idle), 0);
}

static void who_polls_many_queues_has_one_processor_to_give(void **state)
{
    struct bench *b = *state;
    struct ibv_cq *idle[QUEUE_COUNT];
    for (unsigned i = 0; i < QUEUE_COUNT; i++) {
        idle[i] = ibv_create_cq(b->context, 1, NULL, NULL, 0);
        poll_in_vain(idle[i]);
    }
    const uint64_t begin_us = now_us();
    atomic_store(&yield_count, 0);
    for (unsigned i = 0; i < 2 * QUEUE_COUNT; i++) {
        if (i % QUEUE_COUNT == 0) {
            usleep(2 * PATIENCE_US);
        }
        poll_in_vain(idle[i % QUEUE_COUNT]);
    }
    assert_in_range(atomic_load(&yield_count), 1, (now_us() - begin_us) / PATIENCE_US + 1);
    for (unsigned i = 0; i < QUEUE_COUNT; i++) {
        assert_int_equal(ibv_destroy_cq(idle[i]), 0);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(posted_work_is_flushed_in_order),
        CASE(many_are_polled_at_once),
        CASE(destroying_the_queue_pair_takes_its_completions_away),
        CASE(armed_queue_raises_one_event),
        CASE(queue_that_is_not_armed_raises_none),
        CASE(event_tells_of_what_completes_after_the_arming_alone),
        CASE(event_that_is_not_taken_does_not_hold_back_the_next),
        CASE(nonblocking_channel_answers_eagain),
        CASE(destroying_the_queue_withdraws_its_event),
        CASE(destroying_the_queue_waits_for_the_acknowledgement),
        CASE(context_without_events_answers_eagain),
        CASE(queue_below_its_limit_raises_an_asynchronous_event),
        CASE(overrun_is_told_at_once),
        CASE(overrun_queue_keeps_what_it_holds_and_then_fails),
        CASE(overrun_extended_queue_tells_it_and_then_fails),
        CASE(every_queue_pair_that_loses_completions_is_told),
        CASE(moderated_queue_still_raises_its_event),
        CASE(extended_queue_is_read_in_place),
        CASE(wallclock_of_extended_queue_does_not_go_backwards),
        CASE(end_of_polling_consumes_the_current_entry),
        CASE(who_finds_in_one_queue_is_not_in_vain_at_another),
        CASE(who_polls_many_queues_has_one_processor_to_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Requests that do not end well: refused, cancelled, failed; and queues that others fill.
#include <errno.h>

#include "tests/manager/bench.h"

static void refuse(struct call *call, enum weft_rdma_refusal refusal)
{
    struct bench *bench = call->bench;
    uint64_t before = counters(bench).refusal_counts[refusal];
    assert_int_equal(weft_rdma_request_submit(bench->manager, &call->request, 0), refusal);
    assert_int_equal(counters(bench).refusal_counts[refusal], before + 1);
    assert_int_equal(bench->fake.posted, 0);
    assert_int_equal(call->count, 0);
}

// The manager takes nothing more.
static void refuse_broken(struct bench *bench)
{
    struct call call;
    call_write(&call, bench, 0, 0, 100);
    assert_int_equal(weft_rdma_request_submit(bench->manager, &call.request, 0), WEFT_RDMA_BROKEN);
}

static void a_refused_request_may_be_mended(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    call_add(&call, 0, 0, 10);
    call_add(&call, 100, 100, 0);
    refuse(&call, WEFT_RDMA_ZERO_LENGTH);
    assert_ptr_equal(call.request.result.failed_element, &call.chain.elements[1]);
    assert_int_equal(call.request.result.failed_element_index, 1);
    assert_int_equal(query(&call).phase, WEFT_RDMA_IDLE);
    call.chain.buffers[1].len = 10;
    submit(&call, 0);
    run_all(bench);
    expect_success(&call, 20);
}

static void a_refused_request_forgets_what_it_did_before(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 100);
    submit(&call, 0);
    run_all(bench);
    call.request.elements = NULL;
    assert_int_equal(weft_rdma_request_submit(bench->manager, &call.request, 0),
                     WEFT_RDMA_NO_ELEMENTS);
    assert_int_equal(query(&call).phase, WEFT_RDMA_IDLE);
    assert_int_equal(query(&call).total_len, 0);
    assert_int_equal(call.request.result.outcome, WEFT_RDMA_PENDING);
}

static void a_submitted_request_is_busy(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 10);
    submit(&call, WEFT_RDMA_MORE);
    refuse(&call, WEFT_RDMA_BUSY);
    assert_int_equal(weft_rdma_manager_destroy(bench->manager), -EBUSY);
    weft_rdma_manager_post(bench->manager);
    run_all(bench);
    expect_success(&call, 10);
}

static void an_unknown_flag_of_a_submission_is_refused(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 10);
    assert_int_equal(weft_rdma_request_submit(bench->manager, &call.request, 2),
                     WEFT_RDMA_BAD_FLAGS);
}

static void a_trailer_of_too_many_segments_is_refused(void **state)
{
    struct bench *bench = *state;
    struct ibv_send_wr trailer = {.opcode = IBV_WR_SEND, .num_sge = 5};
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 10);
    call.request.trailer = &trailer;
    refuse(&call, WEFT_RDMA_BAD_TRAILER);
    trailer.num_sge = -1;
    refuse(&call, WEFT_RDMA_BAD_TRAILER);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static void a_cancelled_request_with_nothing_posted_ends_at_once(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 1000);
    submit(&call, WEFT_RDMA_MORE);
    assert_true(weft_rdma_request_cancel(&call.request));
    assert_int_equal(call.count, 1);
    assert_int_equal(call.request.result.outcome, WEFT_RDMA_CANCELLED);
    assert_int_equal(call.request.result.done_len, 0);
    assert_int_equal(bench->fake.posted, 0);
    assert_int_equal(counters(bench).cancel_count, 1);
}

static void a_cancelled_request_ends_with_what_was_posted(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 3});
    call_write(&call, bench, 0, 0, 10 * 1024);
    submit(&call, 0);
    assert_true(weft_rdma_request_cancel(&call.request));
    assert_int_equal(query(&call).phase, WEFT_RDMA_ENDING);
    assert_int_equal(call.count, 0);
    assert_false(weft_rdma_request_cancel(&call.request));
    run_all(bench);
    assert_int_equal(call.count, 1);
    assert_int_equal(call.request.result.outcome, WEFT_RDMA_CANCELLED);
    assert_int_equal(call.request.result.done_len, 3 * 1024);
    assert_int_equal(bench->fake.posted, 3);
    expect_moved(bench, 0, 0, 3 * 1024);
}

static void it_is_too_late_to_cancel_what_is_posted(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 1000);
    assert_false(weft_rdma_request_cancel(&call.request));
    submit(&call, 0);
    assert_false(weft_rdma_request_cancel(&call.request));
    run_all(bench);
    expect_success(&call, 1000);
    assert_false(weft_rdma_request_cancel(&call.request));
}

static void others_go_on_when_one_is_cancelled(void **state)
{
    struct bench *bench = *state;
    struct call first, second;
    bench_create_with(bench,
                      (struct weft_rdma_manager_attr){.descriptor_count = 2, .quantum_len = 1024});
    call_write(&first, bench, 0, 0, 10 * 1024);
    call_write(&second, bench, 16 * 1024, 16 * 1024, 10 * 1024);
    submit(&first, WEFT_RDMA_MORE);
    submit(&second, 0);
    assert_true(weft_rdma_request_cancel(&first.request));
    run_all(bench);
    assert_int_equal(first.request.result.done_len, 1024);
    expect_success(&second, 10 * 1024);
}

/* ---- failing --------------------------------------------------------------------------------- */

// Elements of 700 octets, not contiguous: one descriptor each.
static void call_add_elements(struct call *call, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        call_add(call, 1000 * i, 1000 * i, 700);
    }
}

static void a_failure_names_the_element_and_the_octets_done(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    call_add_elements(&call, 5);
    submit(&call, 0);
    fake_execute(&bench->fake, 3);
    fake_fail(&bench->fake, IBV_WC_REM_ACCESS_ERR);
    poll_all(bench);
    assert_int_equal(call.count, 1);
    const struct weft_rdma_result *result = &call.request.result;
    assert_int_equal(result->outcome, WEFT_RDMA_FAILED);
    assert_int_equal(result->status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(result->vendor_err, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(result->done_len, 3 * 700);
    assert_ptr_equal(result->failed_element, &call.chain.elements[3]);
    assert_int_equal(result->failed_element_index, 3);
    assert_int_equal(query(&call).completed_transfer_count, 3);
    assert_int_equal(query(&call).total_transfer_count, 5);
}

static void a_failure_takes_all_others_along(void **state)
{
    struct bench *bench = *state;
    struct call posted, half, waiting;
    bench_create_with(bench,
                      (struct weft_rdma_manager_attr){.descriptor_count = 4, .quantum_len = 1});
    call_write(&posted, bench, 0, 0, 100);
    call_write(&half, bench, 16 * 1024, 16 * 1024, 10 * 1024);
    call_write(&waiting, bench, 32 * 1024, 32 * 1024, 100);
    submit(&posted, WEFT_RDMA_MORE);
    submit(&half, 0);
    submit(&waiting, 0);
    fake_fail(&bench->fake, IBV_WC_RETRY_EXC_ERR);
    poll_all(bench);
    assert_int_equal(posted.request.result.status, IBV_WC_RETRY_EXC_ERR);
    const struct call *flushed[] = {&half, &waiting};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(flushed[i]->count, 1);
        assert_int_equal(flushed[i]->request.result.outcome, WEFT_RDMA_FAILED);
        assert_int_equal(flushed[i]->request.result.status, IBV_WC_WR_FLUSH_ERR);
        assert_null(flushed[i]->request.result.failed_element);
    }
    refuse_broken(bench);
    assert_int_equal(counters(bench).failure_count, 3);
}

// The memory is the device's until the last of them has completed.
static void a_failed_request_waits_for_all_that_is_posted(void **state)
{
    struct bench *bench = *state;
    struct call call;
    struct ibv_wc wc[1];
    bench_create(bench);
    call_write(&call, bench, 0, 0, 3 * 1024);
    submit(&call, 0);
    fake_fail(&bench->fake, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(weft_rdma_manager_poll(bench->manager, wc, 1), 0);
    assert_int_equal(query(&call).phase, WEFT_RDMA_ENDING);
    assert_int_equal(call.count, 0);
    poll_all(bench);
    assert_int_equal(call.count, 1);
    assert_int_equal(call.request.result.status, IBV_WC_LOC_PROT_ERR);
}

// A device may leave out completions that it was not asked for, behind a failure too.
static void behind_a_failure_no_completion_speaks_of_success(void **state)
{
    struct bench *bench = *state;
    struct call calls[3];
    bench_create(bench);
    for (unsigned i = 0; i < 3; i++) {
        call_write(&calls[i], bench, 1000 * i, 1000 * i, 100);
        submit(&calls[i], 0);
    }
    fake_fail(&bench->fake, IBV_WC_REM_ACCESS_ERR);
    weft_rdma_manager_on_wc(bench->manager, &bench->fake.cqes[0]);
    weft_rdma_manager_on_wc(bench->manager, &bench->fake.cqes[2]);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(calls[i].count, 1);
        assert_int_equal(calls[i].request.result.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(calls[i].request.result.done_len, 0);
    }
}

static void a_shared_descriptor_fails_for_each_request_in_it(void **state)
{
    struct bench *bench = *state;
    struct call calls[3];
    bench_create(bench);
    for (unsigned i = 0; i < 3; i++) {
        call_write(&calls[i], bench, 100 * i, 1000 * i, 100);
        calls[i].request.flags = WEFT_RDMA_MAY_COALESCE;
        submit(&calls[i], WEFT_RDMA_MORE);
    }
    weft_rdma_manager_post(bench->manager);
    fake_fail(&bench->fake, IBV_WC_REM_INV_REQ_ERR);
    poll_all(bench);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(calls[i].request.result.status, IBV_WC_REM_INV_REQ_ERR);
        assert_ptr_equal(calls[i].request.result.failed_element, calls[i].chain.elements);
    }
}

static void a_trailer_that_fails_is_of_no_element(void **state)
{
    struct bench *bench = *state;
    struct ibv_send_wr trailer = {.opcode = IBV_WR_SEND};
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 100);
    call.request.trailer = &trailer;
    submit(&call, 0);
    fake_execute(&bench->fake, 1);
    fake_fail(&bench->fake, IBV_WC_RNR_RETRY_EXC_ERR);
    poll_all(bench);
    assert_int_equal(call.request.result.outcome, WEFT_RDMA_FAILED);
    assert_int_equal(call.request.result.status, IBV_WC_RNR_RETRY_EXC_ERR);
    assert_int_equal(call.request.result.done_len, 100);
    assert_null(call.request.result.failed_element);
}

static void a_post_that_is_refused_fails_its_request_only(void **state)
{
    struct bench *bench = *state;
    struct call call, other;
    bench_create(bench);
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    call_add_elements(&call, 5);
    call_write(&other, bench, 20000, 20000, 100);
    bench->fake.post_error = EINVAL;
    bench->fake.post_error_at = 2;
    bench->fake.post_error_times = 1;
    submit(&call, WEFT_RDMA_MORE);
    submit(&other, 0);
    assert_int_equal(call.count, 0); // two of its descriptors are with the device
    run_all(bench);
    const struct weft_rdma_result *result = &call.request.result;
    assert_int_equal(call.count, 1);
    assert_int_equal(result->outcome, WEFT_RDMA_FAILED);
    assert_int_equal(result->status, IBV_WC_GENERAL_ERR);
    assert_int_equal(result->post_error, EINVAL);
    assert_int_equal(result->done_len, 2 * 700);
    assert_int_equal(result->failed_element_index, 2);
    expect_success(&other, 100);
    assert_int_equal(fake_wr(&bench->fake, 2)->wr.num_sge, 0);
}

static void a_refused_request_gets_no_further_descriptors(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 2});
    call_write(&call, bench, 0, 0, 10 * 1024);
    bench->fake.post_error = EINVAL;
    bench->fake.post_error_times = 1;
    submit(&call, 0);
    run_all(bench);
    assert_int_equal(call.count, 1);
    assert_int_equal(call.request.result.done_len, 0);
    assert_int_equal(bench->fake.posted, 2);
}

static void a_queue_pair_that_takes_nothing_ends_everything(void **state)
{
    struct bench *bench = *state;
    struct call call, other;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 3 * 1024);
    call_write(&other, bench, 4096, 4096, 10);
    bench->fake.post_error = EINVAL;
    bench->fake.post_error_at = 1;
    bench->fake.post_error_times = 2;
    submit(&call, WEFT_RDMA_MORE);
    submit(&other, 0);
    assert_int_equal(call.count, 1);
    assert_int_equal(other.count, 1);
    assert_int_equal(call.request.result.outcome, WEFT_RDMA_FAILED);
    assert_int_equal(other.request.result.status, IBV_WC_WR_FLUSH_ERR);
    refuse_broken(bench);
}

static void flush_ends_everything_without_completions(void **state)
{
    struct bench *bench = *state;
    struct call posted, waiting;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 2});
    call_write(&posted, bench, 0, 0, 2 * 1024);
    call_write(&waiting, bench, 4096, 4096, 10);
    submit(&posted, 0);
    submit(&waiting, 0);
    weft_rdma_manager_flush(bench->manager);
    assert_int_equal(posted.count, 1);
    assert_int_equal(waiting.count, 1);
    assert_int_equal(posted.request.result.status, IBV_WC_WR_FLUSH_ERR);
    refuse_broken(bench);
}

/* ---- sharing queues with the program --------------------------------------------------------- */

static void completions_of_others_are_left_to_them(void **state)
{
    struct bench *bench = *state;
    struct call call;
    struct ibv_wc wc[8];
    bench_create(bench);
    call_write(&call, bench, 0, 0, 100);
    submit(&call, 0);
    fake_complete_foreign(&bench->fake, 1);
    fake_execute_all(&bench->fake);
    fake_complete_foreign(&bench->fake, (uintptr_t)&call);
    assert_int_equal(weft_rdma_manager_poll(bench->manager, wc, 8), 2);
    assert_int_equal(wc[0].wr_id, 1);
    assert_int_equal(wc[1].wr_id, (uintptr_t)&call);
    expect_success(&call, 100);
    assert_false(weft_rdma_manager_on_wc(bench->manager, &wc[0]));
    assert_int_equal(counters(bench).wc_count, 1);
}

static void a_completion_shown_twice_is_ignored(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 100);
    submit(&call, 0);
    const struct ibv_wc wc = {.wr_id = fake_wr(&bench->fake, 0)->wr.wr_id};
    assert_true(weft_rdma_manager_on_wc(bench->manager, &wc));
    assert_true(weft_rdma_manager_on_wc(bench->manager, &wc));
    assert_int_equal(call.count, 1);
    assert_int_equal(counters(bench).strange_wc_count, 1);
}

static void two_managers_take_their_own_completions(void **state)
{
    struct bench *bench = *state;
    struct weft_rdma_manager *other;
    const struct weft_rdma_manager_attr attr = {.qp = &bench->fake.qp};
    struct call first, second;
    struct ibv_wc wc[8];
    bench_create(bench);
    assert_int_equal(weft_rdma_manager_create(&attr, &other), 0);
    call_write(&first, bench, 0, 0, 100);
    call_write(&second, bench, 200, 200, 100);
    submit(&first, 0);
    assert_int_equal(weft_rdma_request_submit(other, &second.request, 0), WEFT_RDMA_ACCEPTED);
    fake_execute_all(&bench->fake);
    assert_int_equal(weft_rdma_manager_poll(bench->manager, wc, 8), 1);
    expect_success(&first, 100);
    assert_int_equal(second.count, 0);
    assert_true(weft_rdma_manager_on_wc(other, &wc[0]));
    expect_success(&second, 100);
    assert_int_equal(weft_rdma_manager_destroy(other), 0);
}

static void a_full_queue_is_tried_again_with_the_managers_completions(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench->fake.foreign_count = 10;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 30 * 1024);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 6);
    assert_int_equal(counters(bench).queue_full_count, 1);
    fake_execute_all(&bench->fake);
    poll_all(bench);
    assert_in_range(bench->fake.posted, 7, 12);
    bench->fake.foreign_count = 0;
    run_all(bench);
    expect_success(&call, 30 * 1024);
    expect_moved(bench, 0, 0, 30 * 1024);
}

static void a_full_queue_is_tried_again_with_the_programs_completions(void **state)
{
    struct bench *bench = *state;
    struct call call;
    struct ibv_wc wc[8];
    bench->fake.foreign_count = 16;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 3 * 1024);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 0);
    bench->fake.foreign_count = 15;
    fake_complete_foreign(&bench->fake, 5);
    assert_int_equal(weft_rdma_manager_poll(bench->manager, wc, 8), 1);
    assert_int_equal(bench->fake.posted, 1);
    bench->fake.foreign_count = 0;
    const struct ibv_wc foreign = {.wr_id = 5};
    assert_false(weft_rdma_manager_on_wc(bench->manager, &foreign));
    assert_int_equal(bench->fake.posted, 3);
    run_all(bench);
    expect_success(&call, 3 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_refused_request_may_be_mended),
        BENCH_TEST(a_refused_request_forgets_what_it_did_before),
        BENCH_TEST(a_submitted_request_is_busy),
        BENCH_TEST(an_unknown_flag_of_a_submission_is_refused),
        BENCH_TEST(a_trailer_of_too_many_segments_is_refused),
        BENCH_TEST(a_cancelled_request_with_nothing_posted_ends_at_once),
        BENCH_TEST(a_cancelled_request_ends_with_what_was_posted),
        BENCH_TEST(it_is_too_late_to_cancel_what_is_posted),
        BENCH_TEST(others_go_on_when_one_is_cancelled),
        BENCH_TEST(a_failure_names_the_element_and_the_octets_done),
        BENCH_TEST(a_failure_takes_all_others_along),
        BENCH_TEST(a_failed_request_waits_for_all_that_is_posted),
        BENCH_TEST(behind_a_failure_no_completion_speaks_of_success),
        BENCH_TEST(a_shared_descriptor_fails_for_each_request_in_it),
        BENCH_TEST(a_trailer_that_fails_is_of_no_element),
        BENCH_TEST(a_post_that_is_refused_fails_its_request_only),
        BENCH_TEST(a_refused_request_gets_no_further_descriptors),
        BENCH_TEST(a_queue_pair_that_takes_nothing_ends_everything),
        BENCH_TEST(flush_ends_everything_without_completions),
        BENCH_TEST(completions_of_others_are_left_to_them),
        BENCH_TEST(a_completion_shown_twice_is_ignored),
        BENCH_TEST(two_managers_take_their_own_completions),
        BENCH_TEST(a_full_queue_is_tried_again_with_the_managers_completions),
        BENCH_TEST(a_full_queue_is_tried_again_with_the_programs_completions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

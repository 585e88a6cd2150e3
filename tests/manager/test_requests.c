// A request's life on one manager: what is posted when, what the program hears, what it can ask.
#include <errno.h>

#include "tests/manager/bench.h"

static void a_write_completes_once_with_all_its_octets(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    memset(bench->local, 0x5a, 3000);
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    call_add(&call, 100, 0, 3000);
    call_add(&call, 3100, 8000, 500);
    submit(&call, 0);
    run_all(bench);
    assert_int_equal(bench->remote[100], 0x5a);
    expect_success(&call, 3500);
    expect_moved(bench, 100, 0, 3000);
    expect_moved(bench, 3100, 8000, 500);
    assert_int_equal(bench->fake.posted, 4);
}

static void a_read_brings_the_remote_octets(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    memset(bench->remote, 0xa5, 3000);
    call_init(&call, bench, IBV_WR_RDMA_READ);
    call_add(&call, 0, 5000, 3000);
    submit(&call, 0);
    run_all(bench);
    expect_success(&call, 3000);
    expect_moved(bench, 0, 5000, 3000);
    assert_int_equal(fake_wr(&bench->fake, 0)->wr.opcode, IBV_WR_RDMA_READ);
}

static void the_total_is_known_before_the_first_post(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 50 * 1024 + 1);
    submit(&call, WEFT_RDMA_MORE);
    assert_int_equal(bench->fake.posted, 0);
    assert_int_equal(query(&call).total_transfer_count, 51);
    assert_int_equal(query(&call).total_len, 50 * 1024 + 1);
    weft_rdma_manager_post(bench->manager);
    run_all(bench);
    expect_success(&call, 50 * 1024 + 1);
    assert_int_equal(bench->fake.posted, 51);
}

static void formatting_stops_without_descriptors_and_goes_on_with_completions(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 2});
    call_write(&call, bench, 0, 0, 5 * 1024);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 2);
    assert_int_equal(query(&call).phase, WEFT_RDMA_QUEUED);
    assert_ptr_equal(query(&call).current.element, &call.chain.elements[0]);
    assert_int_equal(query(&call).current.offset, 2 * 1024);
    assert_int_equal(counters(bench).no_descriptor_count, 1);

    fake_execute(&bench->fake, 2);
    poll_all(bench);
    assert_int_equal(bench->fake.posted, 4);
    assert_int_equal(query(&call).remaining_len, 3 * 1024);
    assert_int_equal(query(&call).completed_transfer_count, 2);
    assert_int_equal(call.count, 0);
    run_all(bench);
    expect_success(&call, 5 * 1024);
}

static void all_octets_formatted_is_not_complete(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 3 * 1024);
    submit(&call, 0);
    fake_execute(&bench->fake, 2);
    poll_all(bench);
    assert_int_equal(query(&call).phase, WEFT_RDMA_FORMATTED);
    assert_int_equal(query(&call).formatted_transfer_count, 3);
    assert_int_equal(call.count, 0);
    run_all(bench);
    expect_success(&call, 3 * 1024);
}

static void descriptors_leave_in_one_chain(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 10 * 1024);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 10);
    assert_int_equal(bench->fake.chain_count, 1);
    run_all(bench);
}

static void one_descriptor_of_an_interval_is_signalled_and_the_last(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.signal_interval = 4});
    call_write(&call, bench, 0, 0, 10 * 1024);
    submit(&call, 0);
    for (unsigned i = 0; i < 10; i++) {
        bool is_signalled = (fake_wr(&bench->fake, i)->wr.send_flags & IBV_SEND_SIGNALED) != 0;
        assert_int_equal(is_signalled, i == 3 || i == 7 || i == 9);
    }
    assert_int_equal(counters(bench).signalled_count, 3);
    run_all(bench);
    expect_success(&call, 10 * 1024);
}

static void a_queue_pair_that_signals_everything_will_do(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench->fake.sq_sig_all = true;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 40 * 1024);
    submit(&call, 0);
    run_all(bench);
    expect_success(&call, 40 * 1024);
    assert_int_equal(counters(bench).wc_count, 40);
}

static void a_request_without_callback_is_handed_out_once(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 10);
    call.request.on_complete = NULL;
    submit(&call, 0);
    assert_null(weft_rdma_manager_next_done(bench->manager));
    run_all(bench);
    assert_int_equal(weft_rdma_request_submit(bench->manager, &call.request, 0), WEFT_RDMA_BUSY);
    assert_int_equal(weft_rdma_manager_destroy(bench->manager), -EBUSY);
    assert_ptr_equal(weft_rdma_manager_next_done(bench->manager), &call.request);
    assert_null(weft_rdma_manager_next_done(bench->manager));
    submit(&call, 0);
    run_all(bench);
    assert_ptr_equal(weft_rdma_manager_next_done(bench->manager), &call.request);
}

static void submit_again(struct weft_rdma_request *request)
{
    struct call *call = request->context;
    if (++call->count < 5) {
        submit(call, 0);
    }
}

static void a_request_may_be_submitted_again_in_its_own_callback(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 2000);
    call.request.on_complete = submit_again;
    submit(&call, 0);
    run_all(bench);
    assert_int_equal(call.count, 5);
    assert_int_equal(counters(bench).success_count, 5);
}

// Callbacks of one poll submit; what they submit is posted once.
static void what_callbacks_submit_leaves_in_one_chain(void **state)
{
    struct bench *bench = *state;
    struct call calls[3];
    bench_create(bench);
    for (unsigned i = 0; i < 3; i++) {
        call_write(&calls[i], bench, 2000 * i, 2000 * i, 1000);
        calls[i].request.on_complete = submit_again;
        calls[i].count = 3;
        submit(&calls[i], WEFT_RDMA_MORE);
    }
    weft_rdma_manager_post(bench->manager);
    fake_execute_all(&bench->fake);
    poll_all(bench);
    assert_int_equal(bench->fake.chain_count, 2);
    assert_int_equal(bench->fake.posted, 6);
    run_all(bench);
}

static void a_trailer_follows_the_last_descriptor_and_completes_the_request(void **state)
{
    struct bench *bench = *state;
    struct call call;
    struct ibv_sge sge = {.addr = (uintptr_t)bench->local, .length = 64, .lkey = LKEY};
    struct ibv_send_wr trailer = {.wr_id = 7,
                                  .opcode = IBV_WR_SEND_WITH_INV,
                                  .send_flags = IBV_SEND_SOLICITED,
                                  .sg_list = &sge,
                                  .num_sge = 1,
                                  .invalidate_rkey = 99};
    bench_create(bench);
    call_write(&call, bench, 0, 0, 2 * 1024);
    call.request.trailer = &trailer;
    submit(&call, 0);
    assert_int_equal(query(&call).total_transfer_count, 3);
    assert_int_equal(bench->fake.posted, 3);
    assert_int_equal(bench->fake.chain_count, 1);
    const struct fake_wr *last = fake_wr(&bench->fake, 2);
    assert_int_equal(last->wr.opcode, IBV_WR_SEND_WITH_INV);
    assert_int_equal(last->wr.invalidate_rkey, 99);
    assert_int_equal(last->wr.send_flags, IBV_SEND_SOLICITED | IBV_SEND_SIGNALED);
    assert_int_equal(last->segments[0].length, 64);
    fake_execute(&bench->fake, 2);
    poll_all(bench);
    assert_int_equal(call.count, 0);
    run_all(bench);
    expect_success(&call, 2 * 1024);
    assert_int_equal(counters(bench).trailer_count, 1);
}

// Though no descriptor is left for it, its turn is over, and another request waits.
static void nothing_comes_between_a_request_and_its_trailer(void **state)
{
    struct bench *bench = *state;
    struct ibv_send_wr trailer = {.opcode = IBV_WR_SEND};
    struct call first, second;
    bench_create_with(bench,
                      (struct weft_rdma_manager_attr){.descriptor_count = 3, .quantum_len = 100});
    call_write(&first, bench, 0, 0, 2 * 1024);
    first.request.trailer = &trailer;
    call_write(&second, bench, 4096, 4096, 10 * 1024);
    submit(&first, WEFT_RDMA_MORE);
    submit(&second, 0);
    run_all(bench);
    unsigned at = 0;
    while (fake_wr(&bench->fake, at)->wr.opcode != IBV_WR_SEND) {
        at++;
    }
    assert_int_equal(at, 3); // first, second, first, and it
    assert_int_equal(fake_wr(&bench->fake, 2)->wr.wr.rdma.remote_addr,
                     (uintptr_t)&bench->remote[1024]);
    expect_success(&first, 2 * 1024);
    expect_success(&second, 10 * 1024);
}

static void six_gibibytes_in_one_request(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench->fake.moves_no_data = true;
    bench->fake.max_msg_sz = 1U << 31;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 2});
    call_write(&call, bench, 0, 0, 6ULL << 30);
    submit(&call, 0);
    assert_int_equal(query(&call).total_transfer_count, 3);
    run_all(bench);
    expect_success(&call, 6ULL << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_write_completes_once_with_all_its_octets),
        BENCH_TEST(a_read_brings_the_remote_octets),
        BENCH_TEST(the_total_is_known_before_the_first_post),
        BENCH_TEST(formatting_stops_without_descriptors_and_goes_on_with_completions),
        BENCH_TEST(all_octets_formatted_is_not_complete),
        BENCH_TEST(descriptors_leave_in_one_chain),
        BENCH_TEST(one_descriptor_of_an_interval_is_signalled_and_the_last),
        BENCH_TEST(a_queue_pair_that_signals_everything_will_do),
        BENCH_TEST(a_request_without_callback_is_handed_out_once),
        BENCH_TEST(a_request_may_be_submitted_again_in_its_own_callback),
        BENCH_TEST(what_callbacks_submit_leaves_in_one_chain),
        BENCH_TEST(a_trailer_follows_the_last_descriptor_and_completes_the_request),
        BENCH_TEST(nothing_comes_between_a_request_and_its_trailer),
        BENCH_TEST(six_gibibytes_in_one_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

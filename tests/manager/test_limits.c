// Who limits a transfer, and how many descriptors and segments there are: each can be the smallest.
#include <errno.h>

#include "tests/manager/bench.h"

static struct weft_rdma_limits limits(const struct bench *bench)
{
    struct weft_rdma_limits limits;
    weft_rdma_manager_limits(bench->manager, &limits);
    return limits;
}

static uint64_t longest_posted(struct bench *bench, uint64_t caller_len)
{
    struct call call;
    uint64_t longest = 0;
    call_write(&call, bench, 0, 0, 4096);
    call.request.max_transfer_len = caller_len;
    submit(&call, 0);
    run_all(bench);
    expect_success(&call, 4096);
    for (unsigned i = 0; i < bench->fake.posted; i++) {
        uint64_t len = fake_wr(&bench->fake, i)->len;
        longest = len > longest ? len : longest;
    }
    return longest;
}

static void the_device_may_be_the_smallest(void **state)
{
    struct bench *bench = *state;
    bench_create_with(
        bench, (struct weft_rdma_manager_attr){.connection_max_len = 1025, .peer_max_len = 1025});
    assert_int_equal(limits(bench).limited_by, WEFT_RDMA_DEVICE);
    assert_int_equal(longest_posted(bench, 1025), 1024);
}

static void the_connection_may_be_the_smallest(void **state)
{
    struct bench *bench = *state;
    bench_create_with(
        bench, (struct weft_rdma_manager_attr){.connection_max_len = 1000, .peer_max_len = 1001});
    assert_int_equal(limits(bench).limited_by, WEFT_RDMA_CONNECTION);
    assert_int_equal(longest_posted(bench, 1001), 1000);
}

static void the_peer_may_be_the_smallest(void **state)
{
    struct bench *bench = *state;
    bench_create_with(
        bench, (struct weft_rdma_manager_attr){.connection_max_len = 901, .peer_max_len = 900});
    assert_int_equal(limits(bench).limited_by, WEFT_RDMA_PEER);
    assert_int_equal(longest_posted(bench, 901), 900);
}

static void the_caller_may_be_the_smallest(void **state)
{
    struct bench *bench = *state;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.peer_max_len = 801});
    assert_int_equal(longest_posted(bench, 800), 800);
}

static void no_transfer_is_longer_than_a_message_of_verbs(void **state)
{
    struct bench *bench = *state;
    bench->fake.max_msg_sz = UINT32_MAX;
    bench_create(bench);
    assert_int_equal(limits(bench).max_transfer_len, 1ULL << 31);
}

// As on iWARP: an RDMA Read has one data sink.
static void reads_may_have_fewer_segments(void **state)
{
    struct bench *bench = *state;
    struct call write, read;
    bench->fake.max_sge_rd = 1;
    bench_create(bench);
    call_init(&write, bench, IBV_WR_RDMA_WRITE);
    call_init(&read, bench, IBV_WR_RDMA_READ);
    for (unsigned i = 0; i < 4; i++) {
        call_add(&write, 10 * i, 100 * i, 10);
        call_add(&read, 10 * i, 100 * i, 10);
    }
    submit(&write, 0);
    assert_int_equal(bench->fake.posted, 1);
    submit(&read, 0);
    assert_int_equal(bench->fake.posted, 1 + 4);
    run_all(bench);
    expect_success(&read, 40);
}

static void a_device_that_does_not_say_has_one_segment_for_reads(void **state)
{
    struct bench *bench = *state;
    bench->fake.max_sge_rd = 0;
    bench_create(bench);
    assert_int_equal(limits(bench).read_segment_count, 1);
}

static void the_caller_may_leave_part_of_the_queue_to_others(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create_with(bench,
                      (struct weft_rdma_manager_attr){.descriptor_count = 5, .segment_count = 2});
    assert_int_equal(limits(bench).write_segment_count, 2);
    assert_int_equal(limits(bench).signal_interval, 2);
    call_write(&call, bench, 0, 0, 20 * 1024);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 5);
    run_all(bench);
}

static void no_more_than_the_queue_pair_has(void **state)
{
    struct bench *bench = *state;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 17,
                                                             .segment_count = 5,
                                                             .signal_interval = 99});
    assert_int_equal(limits(bench).descriptor_count, 16);
    assert_int_equal(limits(bench).write_segment_count, 4);
    assert_int_equal(limits(bench).signal_interval, 16);
}

static void one_descriptor_is_enough(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 1});
    call_write(&call, bench, 0, 0, 20 * 1024);
    submit(&call, 0);
    run_all(bench);
    expect_success(&call, 20 * 1024);
    expect_moved(bench, 0, 0, 20 * 1024);
}

static int create(struct bench *bench)
{
    const struct weft_rdma_manager_attr attr = {.qp = &bench->fake.qp};
    struct weft_rdma_manager *manager = NULL;
    int error = weft_rdma_manager_create(&attr, &manager);
    assert_null(manager);
    return error;
}

static void what_is_no_reliable_queue_pair_is_refused(void **state)
{
    struct bench *bench = *state;
    bench->fake.qp.qp_type = IBV_QPT_UD;
    assert_int_equal(create(bench), -EINVAL);
    bench->fake.qp.qp_type = IBV_QPT_RC;
    bench->fake.cap.max_send_wr = 0;
    assert_int_equal(create(bench), -EINVAL);
    bench->fake.cap = (struct ibv_qp_cap){.max_send_wr = 1};
    assert_int_equal(create(bench), -EINVAL);
}

static void what_a_query_answers_is_handed_on(void **state)
{
    struct bench *bench = *state;
    bench->fake.query_error = EIO;
    assert_int_equal(create(bench), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(the_device_may_be_the_smallest),
        BENCH_TEST(the_connection_may_be_the_smallest),
        BENCH_TEST(the_peer_may_be_the_smallest),
        BENCH_TEST(the_caller_may_be_the_smallest),
        BENCH_TEST(no_transfer_is_longer_than_a_message_of_verbs),
        BENCH_TEST(reads_may_have_fewer_segments),
        BENCH_TEST(a_device_that_does_not_say_has_one_segment_for_reads),
        BENCH_TEST(the_caller_may_leave_part_of_the_queue_to_others),
        BENCH_TEST(no_more_than_the_queue_pair_has),
        BENCH_TEST(one_descriptor_is_enough),
        BENCH_TEST(what_is_no_reliable_queue_pair_is_refused),
        BENCH_TEST(what_a_query_answers_is_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What leaves for what was submitted: how many work requests, with how many segments, and what the
// manager says that it has done. Here enters what a program hands over; tests/manager/test_format.c
// has the forming itself.
#include "tests/manager/bench.h"

enum { TRANSFER_LEN = 1024, SEGMENTS = 4 }; // of the fake

static const struct ibv_send_wr *posted(const struct bench *bench, unsigned index)
{
    return &fake_wr(&bench->fake, index)->wr;
}

static void elements_that_touch_at_the_peer_leave_as_one_work_request(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    call_add(&call, 100, 0, 300);
    call_add(&call, 400, 1000, 200); // the octets are elsewhere here, but not there
    call_add(&call, 600, 2000, 100);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 1);
    assert_int_equal(posted(bench, 0)->num_sge, 3);
    run_all(bench);
    expect_success(&call, 600);
    expect_moved(bench, 100, 0, 300);
    expect_moved(bench, 400, 1000, 200);
    expect_moved(bench, 600, 2000, 100);
    assert_int_equal(counters(bench).descriptor_count, 1);
    assert_int_equal(counters(bench).segment_count, 3);
    assert_int_equal(counters(bench).coalesced_element_count, 2);
    assert_int_equal(counters(bench).shared_segment_count, 0);
    assert_int_equal(counters(bench).divided_count, 0);
}

static void elements_apart_at_the_peer_leave_apart(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    call_add(&call, 100, 0, 300);
    call_add(&call, 401, 300, 200); // an octet between them
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 2);
    assert_int_equal(counters(bench).coalesced_element_count, 0);
    assert_int_equal(counters(bench).divided_count, 0); // each left whole
    run_all(bench);
    expect_success(&call, 500);
}

static void buffers_that_touch_here_share_a_segment(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_init(&call, bench, IBV_WR_RDMA_READ);
    for (size_t i = 0; i < 2 * SEGMENTS; i++) { // more than there are segments
        call_add(&call, 100 * i, 3000 + 100 * i, 100);
    }
    memset(bench->remote, 0x3c, 100 * 2 * SEGMENTS);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 1);
    assert_int_equal(posted(bench, 0)->num_sge, 1);
    run_all(bench);
    expect_success(&call, 100 * 2 * SEGMENTS);
    expect_moved(bench, 0, 3000, 100 * 2 * SEGMENTS);
    assert_int_equal(counters(bench).segment_count, 1);
    assert_int_equal(counters(bench).shared_segment_count, 2 * SEGMENTS - 1);
}

static void what_is_longer_than_a_transfer_is_divided(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_write(&call, bench, 0, 0, 2 * TRANSFER_LEN + 1);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(posted(bench, i)->sg_list[0].length, i < 2 ? TRANSFER_LEN : 1);
    }
    run_all(bench);
    expect_success(&call, 2 * TRANSFER_LEN + 1);
    assert_int_equal(counters(bench).divided_count, 2);
}

static void what_has_more_segments_than_a_work_request_is_divided(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create(bench);
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    for (size_t i = 0; i <= SEGMENTS; i++) {
        call_add(&call, 10 * i, 100 * i, 10);
    }
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 2);
    assert_int_equal(posted(bench, 0)->num_sge, SEGMENTS);
    assert_int_equal(posted(bench, 1)->num_sge, 1);
    run_all(bench);
    expect_success(&call, 10 * (SEGMENTS + 1));
}

static void requests_share_a_work_request_only_if_they_may(void **state)
{
    struct bench *bench = *state;
    struct call calls[2];
    bench_create(bench);
    for (unsigned may = 0; may < 2; may++) {
        unsigned before = bench->fake.posted;
        for (unsigned i = 0; i < 2; i++) {
            call_write(&calls[i], bench, 100 * i, 100 * i, 100);
            calls[i].request.flags = may ? WEFT_RDMA_MAY_COALESCE : 0;
            submit(&calls[i], i == 0 ? WEFT_RDMA_MORE : 0);
        }
        assert_int_equal(bench->fake.posted - before, may ? 1 : 2);
        assert_int_equal(counters(bench).coalesced_request_count, may);
        run_all(bench);
        expect_success(&calls[0], 100);
        expect_success(&calls[1], 100);
    }
}

static void what_is_accepted_is_counted_in_full_at_once(void **state)
{
    struct bench *bench = *state;
    struct call call, refused;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 1});
    call_init(&call, bench, IBV_WR_RDMA_WRITE);
    call_add(&call, 0, 0, 3 * TRANSFER_LEN);
    call_add(&call, 8000, 8000, 50);
    submit(&call, 0);
    call_init(&refused, bench, IBV_WR_RDMA_WRITE);
    call_add(&refused, 0, 0, 0);
    assert_int_equal(weft_rdma_request_submit(bench->manager, &refused.request, 0),
                     WEFT_RDMA_ZERO_LENGTH);
    assert_int_equal(counters(bench).request_count, 1);
    assert_int_equal(counters(bench).element_count, 2);
    assert_int_equal(counters(bench).len, 3 * TRANSFER_LEN + 50);
    assert_int_equal(counters(bench).descriptor_count, 1);
    run_all(bench);
    assert_int_equal(counters(bench).descriptor_count, 4);
    assert_int_equal(counters(bench).len, 3 * TRANSFER_LEN + 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(elements_that_touch_at_the_peer_leave_as_one_work_request),
        BENCH_TEST(elements_apart_at_the_peer_leave_apart),
        BENCH_TEST(buffers_that_touch_here_share_a_segment),
        BENCH_TEST(what_is_longer_than_a_transfer_is_divided),
        BENCH_TEST(what_has_more_segments_than_a_work_request_is_divided),
        BENCH_TEST(requests_share_a_work_request_only_if_they_may),
        BENCH_TEST(what_is_accepted_is_counted_in_full_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

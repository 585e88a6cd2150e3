// Several requests on one manager: turns, and descriptors that they share.
#include "tests/manager/bench.h"

/* ---- turns ----------------------------------------------------------------------------------- */

static void a_short_request_does_not_wait_for_a_long_one(void **state)
{
    struct bench *bench = *state;
    struct call elephant, mouse;
    bench_create_with(bench,
                      (struct weft_rdma_manager_attr){.descriptor_count = 4, .quantum_len = 2048});
    call_write(&elephant, bench, 0, 0, 60 * 1024);
    call_write(&mouse, bench, 62 * 1024, 62 * 1024, 100);
    submit(&elephant, 0);
    submit(&mouse, 0);
    // At most what is posted, a turn of the other, and the descriptor itself.
    while (mouse.count == 0) {
        fake_execute(&bench->fake, 1);
        poll_all(bench);
    }
    assert_in_range(bench->fake.executed, 1, 4 + 2 + 1);
    run_all(bench);
    expect_success(&elephant, 60 * 1024);
    expect_success(&mouse, 100);
}

// One has long descriptors, the other short ones (one segment of 64 octets each).
static void turns_are_counted_in_octets(void **state)
{
    struct bench *bench = *state;
    struct call by_long, by_short;
    uint64_t long_len = 0, short_len = 0;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.quantum_len = 1024});
    call_write(&by_long, bench, 0, 0, 20 * 1024);
    call_write(&by_short, bench, 32 * 1024, 32 * 1024, 20 * 1024);
    by_short.request.max_transfer_len = 64;
    submit(&by_long, WEFT_RDMA_MORE);
    submit(&by_short, 0);
    run_all(bench);
    // Over any stretch in which both have octets the difference is a turn and a descriptor.
    for (unsigned i = 0; long_len < 20 * 1024 && short_len < 20 * 1024; i++) {
        uint64_t len = fake_wr(&bench->fake, i)->len;
        *(len == 64 ? &short_len : &long_len) += len;
        int64_t lead_len = (int64_t)(long_len - short_len);
        assert_in_range(lead_len + 2048, 0, 4096);
    }
    expect_success(&by_long, 20 * 1024);
    expect_success(&by_short, 20 * 1024);
}

// A long descriptor beyond the turn is paid for in later turns.
static void a_turn_that_was_exceeded_is_paid_for(void **state)
{
    struct bench *bench = *state;
    struct call by_long, by_short;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.quantum_len = 256});
    call_write(&by_long, bench, 0, 0, 4 * 1024);
    call_write(&by_short, bench, 32 * 1024, 32 * 1024, 4 * 1024);
    by_short.request.max_transfer_len = 256;
    submit(&by_long, WEFT_RDMA_MORE);
    submit(&by_short, 0);
    run_all(bench);
    // After 1 KiB of one come 1 KiB of the other.
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(fake_wr(&bench->fake, i)->len, i % 5 == 0 ? 1024 : 256);
    }
}

static void a_request_alone_is_never_held_up(void **state)
{
    struct bench *bench = *state;
    struct call call;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.quantum_len = 1});
    call_write(&call, bench, 0, 0, 16 * 1024);
    submit(&call, 0);
    assert_int_equal(bench->fake.posted, 16);
    run_all(bench);
}

/* ---- sharing --------------------------------------------------------------------------------- */

enum { CROWD = 8 };

// Requests of 100 octets, remote ranges side by side, local ones apart.
static void crowd_submit(struct bench *bench, struct call *calls, unsigned flags)
{
    for (unsigned i = 0; i < CROWD; i++) {
        call_write(&calls[i], bench, 100 * i, 1000 * i, 100);
        calls[i].request.flags = flags;
        submit(&calls[i], WEFT_RDMA_MORE);
    }
    weft_rdma_manager_post(bench->manager);
}

static void crowd_finish(struct bench *bench, const struct call *calls)
{
    run_all(bench);
    for (unsigned i = 0; i < CROWD; i++) {
        expect_success(&calls[i], 100);
        expect_moved(bench, 100 * i, 1000 * i, 100);
    }
}

static void neighbours_share_descriptors_where_the_caller_allows_it(void **state)
{
    struct bench *bench = *state;
    struct call calls[CROWD];
    bench_create(bench);
    crowd_submit(bench, calls, WEFT_RDMA_MAY_COALESCE);
    assert_int_equal(bench->fake.posted, 2); // of four segments each
    assert_int_equal(counters(bench).coalesced_request_count, 6);
    crowd_finish(bench, calls);
}

static void neighbours_do_not_share_unasked(void **state)
{
    struct bench *bench = *state;
    struct call calls[CROWD];
    bench_create(bench);
    crowd_submit(bench, calls, 0);
    assert_int_equal(bench->fake.posted, CROWD);
    crowd_finish(bench, calls);
}

// Two writes to one remote range, the second behind the first, and both may share descriptors.
static void neighbours_init(struct bench *bench, struct call *first, size_t first_len,
                            struct call *second, size_t second_len)
{
    call_write(first, bench, 0, 0, first_len);
    call_write(second, bench, first_len, 8000, second_len);
    first->request.flags = second->request.flags = WEFT_RDMA_MAY_COALESCE;
}

static void neighbours_submit(struct call *first, struct call *second)
{
    submit(first, WEFT_RDMA_MORE);
    submit(second, 0);
}

static void both_neighbours_must_allow_it(void **state)
{
    struct bench *bench = *state;
    struct call first, second;
    bench_create(bench);
    neighbours_init(bench, &first, 100, &second, 100);
    second.request.flags = 0;
    neighbours_submit(&first, &second);
    assert_int_equal(bench->fake.posted, 2);
    run_all(bench);
}

static void a_read_and_a_write_share_nothing(void **state)
{
    struct bench *bench = *state;
    struct call first, second;
    bench_create(bench);
    neighbours_init(bench, &first, 100, &second, 100);
    second.request.opcode = IBV_WR_RDMA_READ;
    neighbours_submit(&first, &second);
    assert_int_equal(bench->fake.posted, 2);
    run_all(bench);
}

// Any number of requests in one segment.
static void a_thousand_neighbours_make_one_descriptor(void **state)
{
    enum { COUNT = 1000 };
    struct bench *bench = *state;
    struct call *calls = test_calloc(COUNT, sizeof *calls);
    bench->fake.max_msg_sz = 1 << 20;
    bench_create(bench);
    for (unsigned i = 0; i < COUNT; i++) {
        call_write(&calls[i], bench, 64 * i, 64 * i, 64);
        calls[i].request.flags = WEFT_RDMA_MAY_COALESCE;
        submit(&calls[i], WEFT_RDMA_MORE);
    }
    weft_rdma_manager_post(bench->manager);
    assert_int_equal(bench->fake.posted, 1);
    run_all(bench);
    for (unsigned i = 0; i < COUNT; i++) {
        expect_success(&calls[i], 64);
    }
    expect_moved(bench, 0, 0, 64 * COUNT);
    test_free(calls);
}

// The second begins with 24 octets in the descriptor of the first: its division shifts.
static void a_request_that_begins_in_another_descriptor_is_counted_anew(void **state)
{
    struct bench *bench = *state;
    struct call first, second;
    bench_create_with(bench, (struct weft_rdma_manager_attr){.descriptor_count = 2});
    neighbours_init(bench, &first, 1000, &second, 2048 + 10);
    submit(&first, WEFT_RDMA_MORE);
    submit(&second, WEFT_RDMA_MORE);
    assert_int_equal(query(&second).total_transfer_count, 3);
    weft_rdma_manager_post(bench->manager);
    assert_int_equal(query(&second).total_transfer_count, 3);
    assert_int_equal(query(&second).current.offset, 24 + 1024);
    run_all(bench);
    assert_int_equal(bench->fake.posted, 3);
    expect_success(&first, 1000);
    expect_success(&second, 2048 + 10);
    expect_moved(bench, 1000, 8000, 2048 + 10);
}

static void a_shared_descriptor_obeys_the_limits_of_both(void **state)
{
    struct bench *bench = *state;
    struct call first, second;
    bench_create(bench);
    neighbours_init(bench, &first, 100, &second, 300);
    second.request.max_transfer_len = 150;
    neighbours_submit(&first, &second);
    run_all(bench);
    assert_int_equal(fake_wr(&bench->fake, 0)->len, 150);
    assert_int_equal(bench->fake.posted, 3);
    expect_success(&second, 300);
}

static void a_descriptor_too_long_for_the_next_request_is_not_shared(void **state)
{
    struct bench *bench = *state;
    struct call first, second;
    bench_create(bench);
    neighbours_init(bench, &first, 100, &second, 90);
    second.request.max_transfer_len = 100;
    neighbours_submit(&first, &second);
    assert_int_equal(bench->fake.posted, 2);
    run_all(bench);
    expect_success(&second, 90);
}

static void a_trailer_ends_the_sharing(void **state)
{
    struct bench *bench = *state;
    struct ibv_send_wr trailer = {.opcode = IBV_WR_SEND};
    struct call calls[3];
    bench_create(bench);
    for (unsigned i = 0; i < 3; i++) {
        call_write(&calls[i], bench, 100 * i, 1000 * i, 100);
        calls[i].request.flags = WEFT_RDMA_MAY_COALESCE;
        calls[i].request.trailer = i == 1 ? &trailer : NULL;
        submit(&calls[i], WEFT_RDMA_MORE);
    }
    weft_rdma_manager_post(bench->manager);
    assert_int_equal(bench->fake.posted, 3);
    assert_int_equal(fake_wr(&bench->fake, 0)->len, 200);
    assert_int_equal(fake_wr(&bench->fake, 1)->wr.opcode, IBV_WR_SEND);
    run_all(bench);
    for (unsigned i = 0; i < 3; i++) {
        expect_success(&calls[i], 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_short_request_does_not_wait_for_a_long_one),
        BENCH_TEST(turns_are_counted_in_octets),
        BENCH_TEST(a_turn_that_was_exceeded_is_paid_for),
        BENCH_TEST(a_request_alone_is_never_held_up),
        BENCH_TEST(neighbours_share_descriptors_where_the_caller_allows_it),
        BENCH_TEST(neighbours_do_not_share_unasked),
        BENCH_TEST(both_neighbours_must_allow_it),
        BENCH_TEST(a_read_and_a_write_share_nothing),
        BENCH_TEST(a_thousand_neighbours_make_one_descriptor),
        BENCH_TEST(a_request_that_begins_in_another_descriptor_is_counted_anew),
        BENCH_TEST(a_shared_descriptor_obeys_the_limits_of_both),
        BENCH_TEST(a_descriptor_too_long_for_the_next_request_is_not_shared),
        BENCH_TEST(a_trailer_ends_the_sharing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

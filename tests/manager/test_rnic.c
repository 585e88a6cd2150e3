// The manager on a device: on weft in this build, of the wire that the first argument names, and
// the same program in a virtual machine on devices that are not ours (test_foreign.py). What is
// compared is memory.
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "tests/manager/pair.h"
#include "tests/verbs/roce.h"

static int setup(void **state)
{
    static struct pair pair;
    pair_open(&pair, (struct weft_rdma_manager_attr){0});
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_close(*state);
    return 0;
}

#define PAIR_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

// Where it runs, for the reader of the output; at least one of each is what the manager asks for.
static void the_device_says_what_it_takes(void **state)
{
    struct pair *pair = *state;
    struct weft_rdma_limits limits;
    weft_rdma_manager_limits(pair->manager, &limits);
    printf("# %s: transfers of %llu octets, %u segments in a write, %u in a read\n",
           ibv_get_device_name(pair->qp->context->device),
           (unsigned long long)limits.max_transfer_len, limits.write_segment_count,
           limits.read_segment_count);
    assert_in_range(limits.write_segment_count, 1, PAIR_SEGMENTS_MAX);
    assert_in_range(limits.read_segment_count, 1, limits.write_segment_count);
}

/* ---- every shape ----------------------------------------------------------------------------- */

enum { SHAPES = 8, SHAPE_ELEMENTS_MAX = 20 };

// Elements and buffers that touch and that do not, of 1 to 3,000 octets; and what memory is to be.
static void job_draw(struct job *job, struct prng *prng, uint8_t *expected_sink)
{
    const struct pair *pair = job->pair;
    bool is_read = job->request.opcode == IBV_WR_RDMA_READ;
    size_t remote_at = 0, local_at = 0;
    memcpy(expected_sink, is_read ? pair->local : pair->remote, PAIR_MEMORY_LEN);
    for (unsigned elements = 1 + prng_below(prng, SHAPE_ELEMENTS_MAX); elements > 0; elements--) {
        remote_at += prng_below(prng, 2) == 0 ? 1 + prng_below(prng, 500) : 0;
        job_element(job, remote_at);
        for (unsigned buffers = 1 + prng_below(prng, 3); buffers > 0; buffers--) {
            unsigned len = 1 + prng_below(prng, 3000);
            local_at += prng_below(prng, 2) == 0 ? 1 + prng_below(prng, 500) : 0;
            job_buffer(job, local_at, len);
            memcpy(&expected_sink[is_read ? local_at : remote_at],
                   is_read ? &pair->remote[remote_at] : &pair->local[local_at], len);
            local_at += len;
            remote_at += len;
        }
    }
}

static void every_shape(struct pair *pair, enum ibv_wr_opcode opcode)
{
    const uint8_t *sink = opcode == IBV_WR_RDMA_READ ? pair->local : pair->remote;
    uint8_t *expected = test_malloc(PAIR_MEMORY_LEN);
    for (uint64_t seed = 1; seed <= SHAPES; seed++) {
        struct prng prng;
        struct job job;
        prng_init(&prng, seed);
        job_init(&job, pair, opcode);
        job_draw(&job, &prng, expected);
        job.request.max_transfer_len = 100 + prng_below(&prng, 20000);
        job_submit(&job, 0);
        job_wait(&job, NULL);
        job_expect_success(&job);
        pair_settle(pair);
        assert_memory_equal(sink, expected, PAIR_MEMORY_LEN);
    }
    test_free(expected);
}

static void writes_of_every_shape(void **state)
{
    every_shape(*state, IBV_WR_RDMA_WRITE);
}

static void reads_of_every_shape(void **state)
{
    every_shape(*state, IBV_WR_RDMA_READ);
}

/* ---- long, and many -------------------------------------------------------------------------- */

// More transfers than the send queue has room for, several times over.
static void a_long_request_goes_on_as_descriptors_come_free(void **state)
{
    struct pair *pair = *state;
    struct weft_rdma_counters counters;
    struct job job;
    job_init(&job, pair, IBV_WR_RDMA_WRITE);
    job.request.max_transfer_len = PAIR_MEMORY_LEN / 200;
    job_element(&job, 0);
    job_buffer(&job, 0, PAIR_MEMORY_LEN);
    job_submit(&job, 0);
    job_wait(&job, NULL);
    job_expect_success(&job);
    pair_settle(pair);
    assert_memory_equal(pair->remote, pair->local, PAIR_MEMORY_LEN);
    weft_rdma_manager_counters(pair->manager, &counters);
    assert_in_range(counters.descriptor_count, 200, 202);
    assert_true(counters.no_descriptor_count > 0);
    assert_true(counters.signalled_count < counters.descriptor_count / 2);
}

// Posts what was submitted with more to come, and waits until all of it is where it belongs.
static void jobs_run(struct pair *pair, struct job *jobs, unsigned count)
{
    weft_rdma_manager_post(pair->manager);
    for (unsigned i = 0; i < count; i++) {
        job_wait(&jobs[i], NULL);
        job_expect_success(&jobs[i]);
    }
    pair_settle(pair);
}

static void requests_of_both_kinds_at_once(void **state)
{
    enum { JOBS = 12, LEN = 20000 };
    struct pair *pair = *state;
    struct job *jobs = test_calloc(JOBS, sizeof *jobs);
    for (unsigned i = 0; i < JOBS; i++) {
        job_init(&jobs[i], pair, i % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ);
        jobs[i].request.max_transfer_len = 1000 + 500 * i;
        job_element(&jobs[i], i * LEN);
        job_buffer(&jobs[i], i * LEN, LEN);
        job_submit(&jobs[i], WEFT_RDMA_MORE);
    }
    jobs_run(pair, jobs, JOBS);
    assert_memory_equal(pair->remote, pair->local, JOBS * LEN);
    test_free(jobs);
}

static void neighbours_share_descriptors(void **state)
{
    enum { JOBS = 200, LEN = 64 };
    struct pair *pair = *state;
    struct weft_rdma_counters counters;
    struct job *jobs = test_calloc(JOBS, sizeof *jobs);
    for (unsigned i = 0; i < JOBS; i++) {
        job_init(&jobs[i], pair, IBV_WR_RDMA_WRITE);
        jobs[i].request.flags = WEFT_RDMA_MAY_COALESCE;
        job_element(&jobs[i], i * LEN);
        job_buffer(&jobs[i], i * LEN, LEN);
        job_submit(&jobs[i], WEFT_RDMA_MORE);
    }
    jobs_run(pair, jobs, JOBS);
    assert_memory_equal(pair->remote, pair->local, JOBS * LEN);
    weft_rdma_manager_counters(pair->manager, &counters);
    assert_int_equal(counters.descriptor_count, 1);
    test_free(jobs);
}

/* ---- beside the program's own work requests -------------------------------------------------- */

static void a_trailer_tells_the_peer_of_octets_that_are_there(void **state)
{
    struct pair *pair = *state;
    struct ibv_send_wr trailer = {.opcode = IBV_WR_SEND};
    struct job job;
    pair_post_receive(pair);
    job_init(&job, pair, IBV_WR_RDMA_WRITE);
    job.request.trailer = &trailer;
    job.request.max_transfer_len = 10000;
    job_element(&job, 0);
    job_buffer(&job, 0, 100000);
    job_submit(&job, 0);
    pair_await_receive(pair);
    assert_memory_equal(pair->remote, pair->local, 100000);
    job_wait(&job, NULL);
    job_expect_success(&job);
}

static unsigned foreign_count;

static void on_own_send(struct pair *pair, const struct ibv_wc *wc)
{
    (void)pair;
    assert_int_equal(wc->status, IBV_WC_SUCCESS);
    assert_int_equal(wc->wr_id, PAIR_SEND);
    foreign_count++;
}

static void the_program_posts_and_polls_beside_the_manager(void **state)
{
    struct pair *pair = *state;
    struct job job;
    foreign_count = 0;
    pair_post_receive(pair);
    pair_post_send(pair);
    job_init(&job, pair, IBV_WR_RDMA_WRITE);
    job_element(&job, 0);
    job_buffer(&job, 0, 1000);
    job_submit(&job, 0);
    job_wait(&job, on_own_send);
    job_expect_success(&job);
    assert_int_equal(foreign_count, 1);
    pair_await_receive(pair);
}

/* ---- failing --------------------------------------------------------------------------------- */

static void a_bad_rkey_ends_the_request_where_it_stands(void **state)
{
    struct pair *pair = *state;
    struct job job, later;
    job_init(&job, pair, IBV_WR_RDMA_READ);
    for (unsigned i = 0; i < 4; i++) {
        job_element(&job, 1000 * i);
        job_buffer(&job, 1000 * i, 500);
    }
    job.chain.elements[2].rkey ^= 0x5a5a5a00;
    job_submit(&job, 0);
    job_wait(&job, NULL);
    const struct weft_rdma_result *result = &job.request.result;
    assert_int_equal(result->outcome, WEFT_RDMA_FAILED);
    assert_int_not_equal(result->status, IBV_WC_SUCCESS);
    // A peer may break the connection before its answers to earlier reads are out.
    assert_in_range(result->done_len, 0, 1000);
    if (result->status != IBV_WC_WR_FLUSH_ERR) {
        assert_ptr_equal(result->failed_element, &job.chain.elements[result->done_len / 500]);
    }
    job_init(&later, pair, IBV_WR_RDMA_WRITE);
    job_element(&later, 0);
    job_buffer(&later, 0, 10);
    assert_int_equal(weft_rdma_request_submit(pair->manager, &later.request, 0), WEFT_RDMA_BROKEN);
}

// What the manager posts in the place of a work request that was refused: it must do no harm.
static void a_write_of_no_octets_leaves_the_connection_alone(void **state)
{
    struct pair *pair = *state;
    struct ibv_send_wr wr = {
        .wr_id = PAIR_SEND, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct job job;
    assert_int_equal(ibv_post_send(pair->qp, &wr, &bad), 0);
    job_init(&job, pair, IBV_WR_RDMA_WRITE);
    job_element(&job, 0);
    job_buffer(&job, 0, 1000);
    job_submit(&job, 0);
    foreign_count = 0;
    job_wait(&job, on_own_send);
    job_expect_success(&job);
    assert_int_equal(foreign_count, 1);
    pair_settle(pair);
    assert_memory_equal(pair->remote, pair->local, 1000);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_WIRE", argv[1], 1);
        roce_port_of_own();
    }
    const struct CMUnitTest tests[] = {
        PAIR_TEST(the_device_says_what_it_takes),
        PAIR_TEST(writes_of_every_shape),
        PAIR_TEST(reads_of_every_shape),
        PAIR_TEST(a_long_request_goes_on_as_descriptors_come_free),
        PAIR_TEST(requests_of_both_kinds_at_once),
        PAIR_TEST(neighbours_share_descriptors),
        PAIR_TEST(a_trailer_tells_the_peer_of_octets_that_are_there),
        PAIR_TEST(the_program_posts_and_polls_beside_the_manager),
        PAIR_TEST(a_write_of_no_octets_leaves_the_connection_alone),
        PAIR_TEST(a_bad_rkey_ends_the_request_where_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

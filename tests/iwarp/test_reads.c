// Reads that run as several requests, between two queue pairs: what is asked for when, what passes
// between, how they end.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

enum { ALLOTMENT = 1000, LEN = 5500, PARTS = 6 };

static struct pair *open_divided(uint32_t contexts)
{
    return pair_open(&(struct pair_options){
        .mulpdu = 400,
        .read_contexts = contexts,
        .allotment = {ALLOTMENT, ALLOTMENT},
        .config.wq = {.read_timeout_ns = NS_PER_S},
    });
}

static uint64_t out_count(const struct end *e, enum rdmap_opcode opcode)
{
    return qp_counters(e->qp)->out[opcode].messages;
}

// One answer goes from b to a; what a asks for next is in its batch.
static void answer_one(struct pair *p)
{
    uint64_t answered = qp_counters(p->a.qp)->in[RDMAP_READ_RESPONSE].messages;
    p->now++;
    while (qp_counters(p->a.qp)->in[RDMAP_READ_RESPONSE].messages == answered) {
        pair_output(p, &p->a);
        while (pair_hand(p, &p->a)) {
        }
        while (pair_deliver(p, &p->a)) {
        }
        pair_output(p, &p->b);
        while (pair_hand(p, &p->b)) {
        }
        assert_true(pair_deliver(p, &p->b));
    }
    pair_output(p, &p->a);
}

static void a_long_read_is_asked_for_in_parts(void **state)
{
    struct pair *p = open_divided(0);
    pair_fill(&p->b, 300, LEN, 3);
    struct send_wqe *wqe = pair_send_slot(&p->a, 8, WQE_RDMA_READ, WQE_SIGNALED);
    for (uint32_t at = 0; at < LEN; at += 500) { // the parts do not end where elements do
        pair_set_sge(&p->a, wqe, 64 + at, 500);
    }
    pair_set_remote(p, &p->a, wqe, 300);
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect_filled(&p->a, 64, LEN, 3);
    struct cqe cqe = pair_poll(p->a.send_cq);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.byte_len, LEN);
    pair_expect_none(p->a.send_cq);
    assert_int_equal(out_count(&p->a, RDMAP_READ_REQUEST), PARTS);
    assert_int_equal(out_count(&p->b, RDMAP_READ_RESPONSE), PARTS);
    pair_close(p);
}

static void two_parts_are_out_at_a_time(void **state)
{
    struct pair *p = open_divided(0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_output(p, &p->a);
    assert_int_equal(qp_query(p->a.qp).reads_outstanding, 2);
    assert_false(qp_has_output(p->a.qp));
    answer_one(p);
    assert_int_equal(qp_query(p->a.qp).reads_outstanding, 2);
    pair_run(p);
    pair_close(p);
}

static void a_sink_is_open_for_its_part_only(void **state)
{
    struct pair *p = open_divided(0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_output(p, &p->a);
    struct read_context *first = LIST_ENTRY(p->a.qp->wq.requests.next, struct read_context, link);
    uint32_t key = read_answer_of(first)->sink;
    struct mem_asker asker = {.pd = p->a.pd, .qp_num = qp_num(p->a.qp)};
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    assert_int_equal(
        mem_resolve_sink(p->a.mem, asker, key, 0, ALLOTMENT, pieces, SGE_COUNT_MAX, &count),
        MEM_OK);
    assert_int_equal(
        mem_resolve_sink(p->a.mem, asker, key, 0, ALLOTMENT + 1, pieces, SGE_COUNT_MAX, &count),
        MEM_BOUNDS);
    answer_one(p); // the sink is gone with its answer
    assert_int_equal(
        mem_resolve_sink(p->a.mem, asker, key, 0, ALLOTMENT, pieces, SGE_COUNT_MAX, &count),
        MEM_INVALID_STAG);
    pair_run(p);
    pair_close(p);
}

static void an_unfenced_send_leaves_between_subsidiaries(void **state)
{
    struct pair *p = open_divided(0);
    pair_post_receive(p, &p->b, 70, 200000, 64);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    answer_one(p);
    pair_expect(p->b.recv_cq, 70, WC_SUCCESS); // long before the Read is done
    assert_true(out_count(&p->a, RDMAP_READ_REQUEST) < PARTS);
    pair_expect_none(p->a.send_cq); // but completions come in order
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_close(p);
}

static void a_fenced_send_waits_for_the_whole_read(void **state)
{
    struct pair *p = open_divided(0);
    pair_post_receive(p, &p->b, 70, 200000, 64);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED | WQE_FENCE, 0, 64, 0);
    for (unsigned i = 0; i < PARTS; i++) {
        assert_int_equal(out_count(&p->a, RDMAP_SEND), 0);
        answer_one(p);
    }
    assert_int_equal(out_count(&p->a, RDMAP_SEND), 1);
    pair_run(p);
    assert_int_equal(pair_poll_count(p->a.send_cq), 2);
    pair_close(p);
}

static void an_atomic_acts_before_what_is_posted_behind_it(void **state)
{
    struct pair *p = open_divided(0);
    uint64_t *word = (uint64_t *)(void *)(p->b.memory + 64);
    uint64_t *result = (uint64_t *)(void *)(p->a.memory + 100000);
    *word = 40;
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    struct send_wqe *wqe = pair_send_slot(&p->a, 2, WQE_ATOMIC_FETCH_AND_ADD, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 100000, 8);
    pair_set_remote(p, &p->a, wqe, 64);
    wqe->compare_add = 2;
    pair_post(p, &p->a);
    memset(p->a.memory + 200000, 0, 8);
    pair_post_op(p, &p->a, 3, WQE_RDMA_WRITE, WQE_SIGNALED, 200000, 8, 64);
    pair_run(p);
    assert_int_equal(*word, 0);
    assert_int_equal(*result, 40);
    for (unsigned i = 1; i <= 3; i++) {
        pair_expect(p->a.send_cq, i, WC_SUCCESS);
    }
    pair_close(p);
}

static void a_read_goes_on_with_a_single_context(void **state)
{
    struct pair *p = open_divided(1);
    pair_fill(&p->b, 0, LEN, 5);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_READ, WQE_SIGNALED, 100000, LEN, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_expect_filled(&p->a, 100000, LEN, 5);
    pair_close(p);
}

static void an_allotment_below_one_segment_is_many_requests(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.allotment = {1, 1}});
    pair_fill(&p->b, 0, 50, 5);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 50, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect_filled(&p->a, 0, 50, 5);
    assert_int_equal(out_count(&p->a, RDMAP_READ_REQUEST), 50);
    pair_close(p);
}

static void a_source_taken_back_between_two_requests_fails_the_read_once(void **state)
{
    struct pair *p = open_divided(0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    pair_post_receive(p, &p->b, 3, 0, 64);
    answer_one(p);
    assert_int_equal(mem_region_deregister(p->b.mem, p->b.stag), 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_REM_ACCESS_ERR);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
    pair_expect_none(p->a.send_cq);
    assert_int_equal(qp_counters(p->b.qp)->refusals[RDMAP_REFUSED_REMOTE_INVALID_STAG], 1);
    pair_close(p);
}

static void a_sink_taken_back_between_two_requests_fails_the_read_once(void **state)
{
    struct pair *p = open_divided(0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    answer_one(p);
    assert_int_equal(mem_region_deregister(p->a.mem, p->a.stag), 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_LOC_PROT_ERR);
    pair_expect_none(p->a.send_cq);
    pair_close(p);
}

static void a_peer_gone_in_the_middle_flushes_the_read_once(void **state)
{
    struct pair *p = open_divided(2);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    answer_one(p);
    pair_drop_batch(&p->a);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_RESET, p->now);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_expect_none(p->a.send_cq);
    assert_int_equal(read_sched_in_use(p->a.read_sched), 0);
    pair_close(p);
}

static void a_silent_peer_does_not_keep_a_context(void **state)
{
    struct pair *p = open_divided(2);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    answer_one(p);
    while (pair_hand(p, &p->a)) {
    }
    assert_int_equal(qp_next_deadline(p->a.qp), p->now + NS_PER_S);
    p->now += NS_PER_S;
    qp_on_deadline(p->a.qp, p->now);
    assert_int_equal(qp_counters(p->a.qp)->refusals[RDMAP_REFUSED_RESPONSE_TIMEOUT], 1);
    pair_expect_terminate(p, &p->a, TERM_RDMAP_CATASTROPHIC_STREAM);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_RETRY_EXC_ERR);
    assert_int_equal(read_sched_in_use(p->a.read_sched), 0);
    pair_close(p);
}

// The two ends, b owing the answer to a's Read.
static struct pair *open_owing(void)
{
    struct pair *p = open_divided(2);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a)) {
    }
    assert_int_equal(qp_next_deadline(p->a.qp), p->now + NS_PER_S);
    return p;
}

static void inject(struct pair *p, const struct craft *c)
{
    assert_int_equal(pair_inject(p, &p->a, c->octets, c->len), ULPDU_TAKEN);
}

static void expect_timed_out(struct pair *p)
{
    p->now = qp_next_deadline(p->a.qp);
    qp_on_deadline(p->a.qp, p->now);
    assert_int_equal(qp_counters(p->a.qp)->refusals[RDMAP_REFUSED_RESPONSE_TIMEOUT], 1);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_RETRY_EXC_ERR);
    assert_int_equal(read_sched_in_use(p->a.read_sched), 0);
    pair_close(p);
}

static void a_peer_that_sends_something_else_does_not_keep_a_context(void **state)
{
    struct pair *p = open_owing();
    instant_ns deadline = qp_next_deadline(p->a.qp);
    for (unsigned i = 0; i < 9; i++) {
        p->now += NS_PER_S / 10;
        struct craft write =
            craft_tagged(RDMAP_WRITE, p->a.stag, (uintptr_t)p->a.memory, i % 2 == 0, NULL, 100);
        inject(p, &write);
    }
    assert_int_equal(qp_next_deadline(p->a.qp), deadline);
    expect_timed_out(p);
}

static void an_answer_that_drips_does_not_keep_a_context(void **state)
{
    struct pair *p = open_owing();
    instant_ns deadline = qp_next_deadline(p->a.qp);
    uint32_t key =
        read_answer_of(LIST_ENTRY(p->a.qp->wq.requests.next, struct read_context, link))->sink;
    for (unsigned i = 0; i < 9; i++) {
        p->now += NS_PER_S / 10;
        struct craft answer = craft_tagged(RDMAP_READ_RESPONSE, key, i, false, NULL, 1);
        inject(p, &answer);
    }
    assert_int_equal(qp_next_deadline(p->a.qp), deadline);
    expect_timed_out(p);
}

// Messages are not interleaved: one that has begun is sent to its end, however long that takes.
static void a_long_message_may_stand_before_the_answer(void **state)
{
    struct pair *p = open_owing();
    struct craft write =
        craft_tagged(RDMAP_WRITE, p->a.stag, (uintptr_t)p->a.memory, false, NULL, 2048);
    for (unsigned i = 0; i < 10 * READ_PROGRESS_LEN / 2048; i++) {
        p->now += NS_PER_S / 20; // 32 KiB in 800 ms
        assert_true(p->now < qp_next_deadline(p->a.qp));
        inject(p, &write);
    }
    assert_int_equal(qp_next_deadline(p->a.qp), p->now + NS_PER_S);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void not_every_long_message_may_stand_before_the_answer(void **state)
{
    struct pair *p = open_owing();
    for (unsigned i = 0; i <= READ_OVERTAKING_MAX; i++) {
        p->now += NS_PER_S / 10;
        for (unsigned k = 1; k <= READ_PROGRESS_LEN / 2048; k++) {
            struct craft write = craft_tagged(RDMAP_WRITE, p->a.stag, (uintptr_t)p->a.memory,
                                              k == READ_PROGRESS_LEN / 2048, NULL, 2048);
            inject(p, &write);
        }
    }
    assert_int_equal(qp_next_deadline(p->a.qp), p->now - NS_PER_S / 10 + NS_PER_S);
    expect_timed_out(p);
}

// A program that sends on does not hide that its peer owes an answer.
static void what_is_sent_behind_the_request_does_not_count(void **state)
{
    struct pair *p = open_owing();
    instant_ns deadline = qp_next_deadline(p->a.qp);
    p->now += NS_PER_S / 2;
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 40000, 0);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a)) {
    }
    assert_int_equal(qp_next_deadline(p->a.qp), deadline);
    pair_run(p);
    pair_close(p);
}

static void without_reads_there_is_no_deadline(void **state)
{
    struct pair *p = open_divided(0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_run(p);
    assert_int_equal(qp_next_deadline(p->a.qp), INSTANT_NEVER);
    pair_close(p);
}

// An RFC peer's large read is answered whole and in order; the others have their turns in between.
static void a_long_response_gives_way_after_its_turn(void **state)
{
    struct pair *p = pair_open(
        &(struct pair_options){.mulpdu = 400, .config = {.response_turn_len = ALLOTMENT}});
    pair_fill(&p->b, 300, LEN, 3);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 64, LEN, 300);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a) && pair_deliver(p, &p->a)) {
    }
    unsigned turns = 1;
    while (qp_output(p->b.qp, &p->b.sink, p->now)) {
        assert_true(qp_has_output(p->b.qp));
        turns++;
    }
    assert_int_equal(turns, LEN / (3 * (400 - DDP_TAGGED_HEADER_LEN)) + 1); // whole segments
    assert_int_equal(out_count(&p->b, RDMAP_READ_RESPONSE), 1);
    pair_run(p);
    pair_expect_filled(&p->a, 64, LEN, 3);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void a_send_waits_for_no_more_than_the_answer_under_way(void **state)
{
    struct pair *p = pair_open(
        &(struct pair_options){.mulpdu = 400, .weft = true, .allotment = {ALLOTMENT, ALLOTMENT}});
    pair_run(p);
    pair_post_receive(p, &p->a, 70, 200000, 64);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a) && pair_deliver(p, &p->a)) {
    }
    p->b.room = 1;
    pair_output(p, &p->b); // the first segment of the first answer
    pair_post_op(p, &p->b, 9, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    p->b.room = PAIR_UNIT_MAX;
    pair_output(p, &p->b);
    while (pair_hand(p, &p->b)) {
    }
    uint64_t octets = 0;
    while (qp_counters(p->a.qp)->in[RDMAP_SEND].messages == 0) {
        assert_true(pair_deliver(p, &p->b));
        octets = qp_counters(p->a.qp)->in[RDMAP_READ_RESPONSE].octets;
    }
    assert_int_equal(octets, ALLOTMENT);
    pair_run(p);
    assert_int_equal(qp_counters(p->b.qp)->cut_responses, PARTS - 1);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_read_is_asked_for_in_parts),
        cmocka_unit_test(two_parts_are_out_at_a_time),
        cmocka_unit_test(a_sink_is_open_for_its_part_only),
        cmocka_unit_test(an_unfenced_send_leaves_between_subsidiaries),
        cmocka_unit_test(a_fenced_send_waits_for_the_whole_read),
        cmocka_unit_test(an_atomic_acts_before_what_is_posted_behind_it),
        cmocka_unit_test(a_read_goes_on_with_a_single_context),
        cmocka_unit_test(an_allotment_below_one_segment_is_many_requests),
        cmocka_unit_test(a_source_taken_back_between_two_requests_fails_the_read_once),
        cmocka_unit_test(a_sink_taken_back_between_two_requests_fails_the_read_once),
        cmocka_unit_test(a_peer_gone_in_the_middle_flushes_the_read_once),
        cmocka_unit_test(a_silent_peer_does_not_keep_a_context),
        cmocka_unit_test(a_peer_that_sends_something_else_does_not_keep_a_context),
        cmocka_unit_test(an_answer_that_drips_does_not_keep_a_context),
        cmocka_unit_test(a_long_message_may_stand_before_the_answer),
        cmocka_unit_test(not_every_long_message_may_stand_before_the_answer),
        cmocka_unit_test(what_is_sent_behind_the_request_does_not_count),
        cmocka_unit_test(a_long_response_gives_way_after_its_turn),
        cmocka_unit_test(a_send_waits_for_no_more_than_the_answer_under_way),
        cmocka_unit_test(without_reads_there_is_no_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

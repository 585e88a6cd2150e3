// Sends and their receives: segments, the store for those that come too early, shared queues.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

enum { LEN = 3000 };

static void post_sends(struct pair *p, unsigned count, uint32_t len)
{
    for (unsigned i = 0; i < count; i++) {
        pair_fill(&p->a, i * len, len, (uint8_t)i);
        pair_post_op(p, &p->a, i, WQE_SEND, WQE_SIGNALED, i * len, len, 0);
    }
}

static void sends_without_a_receive_are_stored_and_reading_goes_on(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 1000});
    post_sends(p, 3, LEN);
    pair_fill(&p->a, 50000, 64, 99);
    pair_post_op(p, &p->a, 9, WQE_RDMA_WRITE, WQE_SIGNALED, 50000, 64, 60000);
    pair_run(p);
    pair_expect_filled(&p->b, 60000, 64, 99); // the Write behind them has landed
    pair_expect_none(p->b.recv_cq);
    assert_int_equal(qp_counters(p->b.qp)->rnr_stored, 3);
    assert_true(qp_wants_receive(p->b.qp));
    assert_false(qp_is_stalled(p->b.qp));
    for (unsigned i = 0; i < 3; i++) {
        pair_post_receive(p, &p->b, 70 + i, 100000 + i * LEN, LEN);
        pair_expect_filled(&p->b, 100000 + i * LEN, LEN, (uint8_t)i);
        struct cqe cqe = pair_poll(p->b.recv_cq);
        assert_int_equal(cqe.wr_id, 70 + i);
        assert_int_equal(cqe.byte_len, LEN);
    }
    assert_false(qp_wants_receive(p->b.qp));
    pair_close(p);
}

static void a_message_that_is_half_here_is_finished_in_its_receive(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 1000});
    post_sends(p, 1, LEN);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a)) {
    }
    pair_deliver(p, &p->a);
    pair_deliver(p, &p->a); // two of four segments
    pair_post_receive(p, &p->b, 70, 100000, LEN);
    pair_expect_none(p->b.recv_cq);
    assert_false(qp_wants_receive(p->b.qp));
    pair_run(p);
    pair_expect_filled(&p->b, 100000, LEN, 0);
    pair_expect(p->b.recv_cq, 70, WC_SUCCESS);
    pair_close(p);
}

static void a_full_store_stalls_and_goes_on(void **state)
{
    struct pair_options options = {.mulpdu = 1000, .config = {.rnr_store_len = 4000}};
    struct pair *p = pair_open(&options);
    post_sends(p, 10, 900);
    pair_run(p);
    assert_true(qp_is_stalled(p->b.qp));
    assert_true(p->a.stream.count > 0);
    assert_int_equal(qp_counters(p->b.qp)->rnr_stalls, 1);
    for (unsigned i = 0; i < 10; i++) {
        pair_post_receive(p, &p->b, 70 + i, 100000 + i * 900, 900);
        assert_false(qp_is_stalled(p->b.qp));
        pair_run(p);
    }
    for (unsigned i = 0; i < 10; i++) {
        pair_expect(p->b.recv_cq, 70 + i, WC_SUCCESS);
        pair_expect_filled(&p->b, 100000 + i * 900, 900, (uint8_t)i);
    }
    assert_int_equal(p->a.stream.count, 0);
    pair_close(p);
}

static void a_segment_larger_than_the_store_stalls_at_once(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config = {.rnr_store_len = 1000}});
    post_sends(p, 1, LEN);
    pair_run(p);
    assert_true(qp_is_stalled(p->b.qp));
    assert_int_equal(qp_counters(p->b.qp)->rnr_stored, 0);
    instant_ns deadline = qp_next_deadline(p->b.qp);
    p->now++;
    qp_on_receive_posted(p->b.qp, p->now); // a doorbell without a receive changes nothing
    assert_true(qp_is_stalled(p->b.qp));
    assert_int_equal(qp_next_deadline(p->b.qp), deadline);
    pair_post_receive(p, &p->b, 70, 100000, LEN);
    pair_run(p);
    pair_expect(p->b.recv_cq, 70, WC_SUCCESS);
    pair_close(p);
}

static void without_a_receive_for_too_long_the_stream_ends(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config = {.rnr_timeout_ns = 5000}});
    assert_int_equal(qp_next_deadline(p->b.qp), INSTANT_NEVER);
    post_sends(p, 1, LEN);
    pair_run(p);
    instant_ns deadline = qp_next_deadline(p->b.qp);
    assert_true(deadline > p->now && deadline <= p->now + 5000);
    qp_on_deadline(p->b.qp, deadline - 1);
    assert_int_equal(qp_state_of(p->b.qp), QP_RTS);
    qp_on_deadline(p->b.qp, deadline);
    assert_int_equal(qp_state_of(p->b.qp), QP_ERR);
    assert_int_equal(qp_counters(p->b.qp)->refusals[RDMAP_REFUSED_NO_RECEIVE], 1);
    struct terminate t = pair_terminate_of(p, &p->b);
    assert_int_equal(terminate_cause_find(t.layer, t.etype, t.code), TERM_DDP_NO_BUFFER);
    assert_true(t.has_ddp);
    assert_int_equal(t.ddp_segment_len, LEN + DDP_UNTAGGED_HEADER_LEN);
    qp_on_deadline(p->b.qp, deadline + 1);
    assert_int_equal(qp_counters(p->b.qp)->rnr_timeouts, 1);
    pair_close(p);
}

// It stands in the transport still: there is no header that could be shown.
static void what_was_never_stored_ends_the_stream_without_its_header(void **state)
{
    struct pair *p = pair_open(
        &(struct pair_options){.config = {.rnr_store_len = 1000, .rnr_timeout_ns = 5000}});
    post_sends(p, 1, LEN);
    pair_run(p);
    assert_int_equal(qp_counters(p->b.qp)->rnr_stored, 0);
    qp_on_deadline(p->b.qp, qp_next_deadline(p->b.qp));
    struct terminate t = pair_terminate_of(p, &p->b);
    assert_int_equal(terminate_cause_find(t.layer, t.etype, t.code), TERM_DDP_NO_BUFFER);
    assert_false(t.has_ddp);
    pair_close(p);
}

static void a_receive_in_time_ends_the_wait(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config = {.rnr_timeout_ns = 5000}});
    post_sends(p, 1, LEN);
    pair_run(p);
    pair_post_receive(p, &p->b, 70, 100000, LEN);
    assert_int_equal(qp_next_deadline(p->b.qp), INSTANT_NEVER);
    pair_close(p);
}

// What a Send with Invalidate does to memory does not wait for a receive.
static void a_stored_invalidation_has_taken_effect(void **state)
{
    struct pair *p = pair_open(NULL);
    uint32_t window;
    assert_int_equal(mem_window_alloc(p->b.mem, MEM_WINDOW_TYPE_2, p->b.pd, &window), 0);
    struct mem_asker asker = {p->b.pd, qp_num(p->b.qp)};
    struct mem_binding binding = {window ^ 1, p->b.stag, (uintptr_t)p->b.memory, 64,
                                  MEM_ACCESS_REMOTE_WRITE};
    assert_int_equal(mem_window_bind(p->b.mem, asker, &binding), MEM_OK);
    struct ddp_header h = {.last = true, .rsvdulp = 0x44, .msn = 1, .rsvdulp_stag = window ^ 1};
    struct craft c = craft_of(&h, NULL, 0);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_TAKEN);
    assert_int_equal(qp_counters(p->b.qp)->invalidations, 1);
    pair_post_receive(p, &p->b, 70, 0, 64);
    struct cqe cqe = pair_poll(p->b.recv_cq);
    assert_int_equal(cqe.wc_flags, WC_WITH_INV);
    assert_int_equal(cqe.inv_rkey, window ^ 1);
    assert_int_equal(qp_counters(p->b.qp)->invalidations, 1);
    pair_close(p);
}

static void a_stored_immediate_remembers_its_write(void **state)
{
    struct pair *p = pair_open(NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct send_wqe *wqe = pair_send_slot(&p->a, i, WQE_RDMA_WRITE_WITH_IMM, 0);
        pair_set_sge(&p->a, wqe, 0, 100 + i);
        pair_set_remote(p, &p->a, wqe, 0);
        wqe->imm_or_inv = i;
        pair_post(p, &p->a);
    }
    pair_run(p);
    for (unsigned i = 0; i < 2; i++) {
        pair_post_receive(p, &p->b, 70, 0, 0);
        struct cqe cqe = pair_poll(p->b.recv_cq);
        assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
        assert_int_equal(cqe.byte_len, 100 + i);
        assert_int_equal(cqe.imm_data, i);
    }
    pair_close(p);
}

static void a_stored_message_that_does_not_fit_its_receive(void **state)
{
    struct pair *p = pair_open(NULL);
    post_sends(p, 2, LEN);
    pair_run(p);
    pair_post_receive(p, &p->b, 70, 100000, LEN - 1);
    pair_expect(p->b.recv_cq, 70, WC_LOC_LEN_ERR);
    assert_int_equal(qp_counters(p->b.qp)->wq.recv_errors, 1);
    struct terminate t = pair_terminate_of(p, &p->b);
    assert_true(t.has_ddp);
    assert_int_equal(t.code, 5);
    assert_int_equal(t.ddp_segment_len, LEN + DDP_UNTAGGED_HEADER_LEN);
    pair_close(p);
}

// The program posts a receive; before it has rung, another Send arrives: the stored one is first.
static void a_send_does_not_overtake_a_stored_one(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, "1", 1);
    pair_inject(p, &p->b, c.octets, c.len);
    for (unsigned i = 0; i < 2; i++) {
        struct recv_wqe *wqe = wq_receive_slot(qp_wq(p->b.qp), i);
        wqe->wr_id = 70 + i;
        wqe->sge_count = 1;
        wqe->sge[0] = (struct sge){(uintptr_t)p->b.memory + i, 1, p->b.stag};
    }
    wq_receive_commit(qp_wq(p->b.qp), 2);
    c = craft_untagged(RDMAP_SEND, 2, 0, true, "2", 1);
    pair_inject(p, &p->b, c.octets, c.len);
    qp_on_receive_posted(p->b.qp, p->now);
    pair_expect(p->b.recv_cq, 70, WC_SUCCESS);
    pair_expect(p->b.recv_cq, 71, WC_SUCCESS);
    assert_memory_equal(p->b.memory, "12", 2);
    assert_int_equal(qp_counters(p->b.qp)->wq.recv_completions, 2);
    pair_close(p);
}

// What a program reads behind its Send is as it was when the Send had been received.
static void a_request_waits_until_the_sends_before_it_have_their_receives(void **state)
{
    struct pair *p = pair_open(NULL);
    uint64_t word = 41;
    memcpy(p->b.memory, &word, sizeof word);
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, "1", 1);
    pair_inject(p, &p->b, c.octets, c.len);
    c = craft_atomic_request(1, RDMAP_ATOMIC_FETCH_ADD, p->b.stag, (uintptr_t)p->b.memory);
    pair_inject(p, &p->b, c.octets, c.len);
    memcpy(&word, p->b.memory, sizeof word);
    assert_int_equal(word, 41);
    assert_int_equal(qp_counters(p->b.qp)->held_requests, 1);
    pair_post_receive(p, &p->b, 70, 1000, 100);
    pair_expect(p->b.recv_cq, 70, WC_SUCCESS);
    memcpy(&word, p->b.memory, sizeof word);
    assert_int_equal(word, 42);
    pair_close(p);
}

static void only_a_read_between_weft_ends_waits_for_no_send(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        bool is_weft = i / 2, is_atomic = i % 2;
        struct pair *p = pair_open(&(struct pair_options){.weft = is_weft});
        uint64_t at = (uintptr_t)p->b.memory;
        pair_run(p);
        struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, "1", 1);
        pair_inject(p, &p->b, c.octets, c.len);
        c = is_atomic ? craft_atomic_request(1, RDMAP_ATOMIC_FETCH_ADD, p->b.stag, at)
                      : craft_read_request(1, p->b.stag, at, 8);
        pair_inject(p, &p->b, c.octets, c.len);
        assert_int_equal(qp_counters(p->b.qp)->held_requests, !is_weft || is_atomic);
        pair_close(p);
    }
}

// A Send for each of the receives that b posts, all of them `count`.
static void fill_receives(struct pair *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        pair_post_receive(p, &p->b, i, 0, 0);
    }
    for (unsigned i = 0; i < count; i++) {
        pair_post_op(p, &p->a, i, WQE_SEND, 0, 0, 0, 0);
    }
    pair_run(p);
}

static bool may_post_receive(const struct pair *p)
{
    return p->b.srq != NULL ? srq_slot(p->b.srq, 0) != NULL
                            : wq_receive_slot(qp_wq(p->b.qp), 0) != NULL;
}

static void a_receive_is_free_when_its_completion_was_polled(void **state)
{
    for (uint32_t srq_wr = 0; srq_wr <= 4; srq_wr += 4) {
        struct pair_options options = {.config.wq.caps.max_recv_wr = 4, .srq_wr = srq_wr};
        struct pair *p = pair_open(&options);
        for (unsigned round = 0; round < 3; round++) { // the ring wraps
            fill_receives(p, 4);
            assert_false(may_post_receive(p));
            pair_expect(p->b.recv_cq, 0, WC_SUCCESS);
            assert_true(may_post_receive(p));
            for (unsigned i = 1; i < 4; i++) {
                pair_expect(p->b.recv_cq, i, WC_SUCCESS);
            }
        }
        pair_close(p);
    }
}

static void completions_outlive_the_reset_of_their_queue_pair(void **state)
{
    struct pair_options options = {.config.wq.caps.max_recv_wr = 4};
    struct pair *p = pair_open(&options);
    fill_receives(p, 4);
    assert_int_equal(qp_modify(p->b.qp, QP_RESET, p->now), 0);
    qp_on_llp_closed(p->b.qp, QP_CLOSE_LOCAL, p->now);
    assert_int_equal(qp_modify(p->b.qp, QP_INIT, p->now), 0);
    for (unsigned i = 0; i < 4; i++) {
        wq_receive_slot(qp_wq(p->b.qp), i)->wr_id = 99;
    }
    for (unsigned i = 0; i < 4; i++) {
        pair_expect(p->b.recv_cq, i, WC_SUCCESS);
    }
    assert_non_null(wq_receive_slot(qp_wq(p->b.qp), 3));
    assert_null(wq_receive_slot(qp_wq(p->b.qp), 4));
    pair_close(p);
}

static void purged_completions_give_shared_receives_back(void **state)
{
    struct pair_options options = {.srq_wr = 4};
    struct pair *p = pair_open(&options);
    fill_receives(p, 4);
    assert_null(srq_slot(p->b.srq, 0));
    assert_int_equal(cq_purge(p->b.recv_cq, qp_num(p->b.qp)), 4);
    assert_non_null(srq_slot(p->b.srq, 3));
    pair_close(p);
}

// Immediate Data that follows no Write reports no octets, whatever was written earlier.
static void immediate_data_alone_reports_no_octets(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_tagged(RDMAP_WRITE, p->b.stag, (uintptr_t)p->b.memory, true, NULL, 50);
    pair_inject(p, &p->b, c.octets, c.len);
    c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 0);
    pair_inject(p, &p->b, c.octets, c.len);
    c = craft_untagged(RDMAP_IMMEDIATE_SE, 2, 0, true, "abcdefgh", 8);
    pair_inject(p, &p->b, c.octets, c.len);
    pair_post_receive(p, &p->b, 70, 0, 0);
    pair_post_receive(p, &p->b, 71, 0, 0);
    pair_expect(p->b.recv_cq, 70, WC_SUCCESS);
    struct cqe cqe = pair_poll(p->b.recv_cq);
    assert_int_equal(cqe.byte_len, 0);
    assert_memory_equal(&cqe.imm_data, "abcd", 4);
    assert_true(cqe.solicited);
    pair_close(p);
}

static void queue_pairs_share_receives(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.srq_wr = 8});
    post_sends(p, 3, 100);
    srq_set_limit(p->b.srq, 2);
    assert_int_equal(p->b.limit_count, 1); // nothing is posted
    for (unsigned i = 0; i < 3; i++) {
        pair_post_receive(p, &p->b, 70 + i, 100000 + i * 100, 100);
    }
    srq_set_limit(p->b.srq, 2);
    assert_int_equal(p->b.limit_count, 1);
    pair_run(p);
    assert_int_equal(p->b.limit_count, 2);
    assert_int_equal(srq_limit(p->b.srq), 0);
    for (unsigned i = 0; i < 3; i++) {
        pair_expect(p->b.recv_cq, 70 + i, WC_SUCCESS);
        pair_expect_filled(&p->b, 100000 + i * 100, 100, (uint8_t)i);
    }
    qp_modify(p->b.qp, QP_ERR, p->now);
    assert_int_equal(p->b.event_count[QP_EVENT_LAST_WQE_REACHED], 1);
    pair_close(p);
}

static void a_claimed_shared_receive_is_flushed_to_its_queue_pair(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.srq_wr = 8});
    pair_post_receive(p, &p->b, 70, 0, 100);
    pair_post_receive(p, &p->b, 71, 0, 100);
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, false, NULL, 10);
    pair_inject(p, &p->b, c.octets, c.len);
    qp_on_llp_closed(p->b.qp, QP_CLOSE_RESET, p->now);
    pair_expect(p->b.recv_cq, 70, WC_WR_FLUSH_ERR);
    pair_expect_none(p->b.recv_cq);
    assert_int_equal(srq_posted_count(p->b.srq), 1);
    pair_close(p);
}

// What is in the queue can still be polled, and its receives are free only then.
static void a_full_cq_frees_no_receive_that_waits_to_be_polled(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config.wq = {.caps = {.max_recv_wr = 4}}});
    assert_int_equal(cq_resize(p->b.recv_cq, 2), 0);
    for (unsigned i = 0; i < 4; i++) {
        pair_post_receive(p, &p->b, 10 + i, i * 100, 100);
    }
    for (unsigned i = 0; i < 3; i++) {
        pair_post_op(p, &p->a, i, WQE_SEND, 0, i * 100, 50 + i, 0);
    }
    pair_run(p);
    assert_true(cq_has_overflowed(p->b.recv_cq));
    assert_int_equal(qp_state_of(p->b.qp), QP_ERR);
    assert_null(wq_receive_slot(qp_wq(p->b.qp), 0));
    for (unsigned i = 0; i < 2; i++) {
        struct cqe cqe = pair_poll(p->b.recv_cq);
        assert_int_equal(cqe.wr_id, 10 + i);
        assert_int_equal(cqe.byte_len, 50 + i);
    }
    assert_non_null(wq_receive_slot(qp_wq(p->b.qp), 1));
    assert_null(wq_receive_slot(qp_wq(p->b.qp), 2)); // lost with their completions
    assert_int_equal(qp_modify(p->b.qp, QP_RESET, p->now), 0);
    assert_non_null(wq_receive_slot(qp_wq(p->b.qp), 3));
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_without_a_receive_are_stored_and_reading_goes_on),
        cmocka_unit_test(a_message_that_is_half_here_is_finished_in_its_receive),
        cmocka_unit_test(a_full_store_stalls_and_goes_on),
        cmocka_unit_test(a_segment_larger_than_the_store_stalls_at_once),
        cmocka_unit_test(without_a_receive_for_too_long_the_stream_ends),
        cmocka_unit_test(what_was_never_stored_ends_the_stream_without_its_header),
        cmocka_unit_test(a_receive_in_time_ends_the_wait),
        cmocka_unit_test(a_stored_invalidation_has_taken_effect),
        cmocka_unit_test(a_stored_immediate_remembers_its_write),
        cmocka_unit_test(a_stored_message_that_does_not_fit_its_receive),
        cmocka_unit_test(a_send_does_not_overtake_a_stored_one),
        cmocka_unit_test(a_request_waits_until_the_sends_before_it_have_their_receives),
        cmocka_unit_test(only_a_read_between_weft_ends_waits_for_no_send),
        cmocka_unit_test(a_receive_is_free_when_its_completion_was_polled),
        cmocka_unit_test(completions_outlive_the_reset_of_their_queue_pair),
        cmocka_unit_test(purged_completions_give_shared_receives_back),
        cmocka_unit_test(immediate_data_alone_reports_no_octets),
        cmocka_unit_test(queue_pairs_share_receives),
        cmocka_unit_test(a_claimed_shared_receive_is_flushed_to_its_queue_pair),
        cmocka_unit_test(a_full_cq_frees_no_receive_that_waits_to_be_polled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

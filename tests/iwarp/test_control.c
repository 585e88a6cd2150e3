// The life of a stream: establishing, orderly end, errors, reset, deadlines.
#include <errno.h>

#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

static bool wants_close(const struct end *e, bool *ret_abort)
{
    return qp_wants_close(e->qp, ret_abort);
}

static void work_waits_for_the_stream(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    assert_int_equal(qp_state_of(p->a.qp), QP_RESET);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    assert_false(qp_has_output(p->a.qp));
    assert_false(pair_output(p, &p->a));
    pair_connect(p);
    assert_int_equal(qp_state_of(p->a.qp), QP_RTS);
    assert_true(qp_has_output(p->a.qp));
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void a_responder_is_silent_until_the_first_ulpdu(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->b, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    assert_false(qp_has_output(p->b.qp));
    assert_false(pair_output(p, &p->b));
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 0, 0);
    pair_run(p);
    pair_expect(p->b.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void a_silent_initiator_keeps_a_responder_waiting_so_long_and_no_longer(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.stream = {.silence_ns = 100}});
    instant_ns due_ns = p->now + 100;
    pair_post_op(p, &p->b, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    assert_int_equal(qp_next_deadline(p->b.qp), due_ns);
    qp_on_deadline(p->b.qp, due_ns - 1);
    assert_false(qp_has_output(p->b.qp));
    qp_on_deadline(p->b.qp, due_ns);
    assert_true(qp_has_output(p->b.qp));
    pair_run(p);
    pair_expect(p->b.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void the_extension_message_is_first(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true, .rtr = QP_RTR_SEND});
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 8, 0);
    struct span ulpdu = pair_peek(p, &p->a);
    assert_int_equal(rdmap_control_opcode(ulpdu.ptr[1]), RDMAP_EXTENSION);
    assert_int_equal(p->a.batch.count, 2); // it stands in for the ready-to-receive indication
    pair_run(p);
    assert_int_equal(p->b.extension_count, 1);
    pair_close(p);
}

static void each_ready_indication_lets_the_responder_send(void **state)
{
    static const uint8_t kinds[] = {QP_RTR_SEND, QP_RTR_WRITE, QP_RTR_READ};
    for (unsigned i = 0; i < 3; i++) {
        struct pair *p = pair_open(&(struct pair_options){.rtr = kinds[i]});
        pair_post_receive(p, &p->b, 70, 0, 64);
        pair_post_op(p, &p->b, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
        assert_true(qp_has_output(p->a.qp));
        pair_run(p);
        pair_expect(p->b.send_cq, 1, WC_SUCCESS);
        pair_expect_none(p->b.recv_cq); // no receive is taken
        pair_expect_none(p->a.send_cq);
        pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED, 0, 0, 0);
        pair_run(p);
        pair_expect(p->b.recv_cq, 70, WC_SUCCESS); // a second empty Send is a message
        pair_close(p);
    }
}

static void an_orderly_end_lets_everything_out(void **state)
{
    struct pair *p = pair_open(NULL);
    bool abort;
    pair_post_receive(p, &p->a, 70, 0, 64);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    assert_int_equal(qp_modify(p->a.qp, QP_SQD, p->now), 0);
    pair_post_op(p, &p->a, 3, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0); // too late
    assert_int_equal(qp_state_of(p->a.qp), QP_SQD);
    pair_output(p, &p->a);
    assert_false(wants_close(&p->a, &abort));
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    assert_int_equal(p->a.event_count[QP_EVENT_SQ_DRAINED], 1);
    assert_true(wants_close(&p->a, &abort));
    assert_false(abort);
    pair_expect_none(p->a.send_cq);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_LOCAL, p->now);
    qp_on_llp_closed(p->b.qp, QP_CLOSE_PEER, p->now);
    assert_false(wants_close(&p->a, &abort));
    pair_expect(p->a.send_cq, 3, WC_WR_FLUSH_ERR);
    pair_expect(p->a.recv_cq, 70, WC_WR_FLUSH_ERR);
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    assert_int_equal(qp_state_of(p->b.qp), QP_ERR);
    pair_close(p);
}

static void an_orderly_end_answers_the_peers_requests_first(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 200});
    bool abort;
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 5000, 0);
    pair_output(p, &p->a);
    pair_hand(p, &p->a);
    pair_deliver(p, &p->a);
    assert_int_equal(qp_modify(p->b.qp, QP_SQD, p->now), 0);
    assert_false(wants_close(&p->b, &abort));
    pair_run(p);
    assert_true(wants_close(&p->b, &abort));
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void the_error_state_flushes_both_queues(void **state)
{
    struct pair *p = pair_open(NULL);
    bool abort;
    pair_post_receive(p, &p->a, 70, 0, 64);
    pair_post_receive(p, &p->a, 71, 0, 64);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, 0, 0, 64, 0); // unsignalled ones are flushed aloud
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, 0, 0, 64, 0);
    pair_output(p, &p->a);
    assert_int_equal(qp_modify(p->a.qp, QP_ERR, p->now), 0);
    // The Write is still referenced by the batch: nothing may be told before that is dropped.
    pair_expect_none(p->a.send_cq);
    assert_true(wants_close(&p->a, &abort));
    assert_true(abort);
    pair_drop_batch(&p->a);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_LOCAL, p->now);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
    pair_expect(p->a.recv_cq, 70, WC_WR_FLUSH_ERR);
    pair_expect(p->a.recv_cq, 71, WC_WR_FLUSH_ERR);
    pair_close(p);
}

static void posts_to_a_dead_queue_pair_are_flushed_at_once(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    assert_int_equal(qp_modify(p->a.qp, QP_ERR, p->now), 0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 64, 0);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_post_receive(p, &p->a, 70, 0, 64);
    pair_expect(p->a.recv_cq, 70, WC_WR_FLUSH_ERR);
    pair_close(p);
}

static void a_stream_that_comes_too_late_is_to_be_closed(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    bool abort;
    assert_int_equal(qp_modify(p->a.qp, QP_ERR, p->now), 0);
    pair_connect(p);
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    assert_true(wants_close(&p->a, &abort));
    pair_close(p);
}

static void a_region_is_read_until_the_transport_has_taken_what_names_it(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a);
    assert_true(wq_reads_from(qp_wq(p->a.qp), p->a.stag));
    assert_false(wq_reads_from(qp_wq(p->a.qp), p->a.stag + 1));
    pair_hand(p, &p->a);
    assert_false(wq_reads_from(qp_wq(p->a.qp), p->a.stag));
    pair_run(p);
    assert_int_equal(pair_poll_count(p->a.send_cq), 1);
    pair_close(p);
}

static void a_read_does_not_keep_its_sink(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a);
    assert_false(wq_reads_from(qp_wq(p->a.qp), p->a.stag)); // placement looks the region up afresh
    pair_run(p);
    assert_int_equal(pair_poll_count(p->a.send_cq), 1);
    pair_close(p);
}

// Success says that all that was posted before has been successful too.
static void what_was_handed_before_the_end_has_succeeded_up_to_the_first_failure(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 3, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 4, WQE_RDMA_WRITE, 0, 0, 64, 0); // told all the same
    pair_post_op(p, &p->a, 5, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a);
    for (unsigned i = 0; i < 4; i++) {
        pair_hand(p, &p->a);
    }
    pair_drop_batch(&p->a);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_TIMEOUT, p->now);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 3, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 4, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 5, WC_WR_FLUSH_ERR);
    pair_expect_none(p->a.send_cq);
    pair_close(p);
}

// A transport that keeps what it takes settles it later: completions wait, memory does not.
static void work_requests_complete_when_they_are_settled(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.stream.settles_apart = true});
    for (unsigned i = 1; i <= 3; i++) {
        pair_post_op(p, &p->a, i, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    }
    uint64_t end[3];
    pair_output(p, &p->a);
    for (unsigned i = 0; i < 3; i++) {
        struct unit *u = p->a.batch.units[p->a.batch.head];
        end[i] = u->end;
        pair_hand(p, &p->a);
    }
    assert_false(wq_reads_from(qp_wq(p->a.qp), p->a.stag));
    pair_expect_none(p->a.send_cq);
    qp_on_settled(p->a.qp, end[0] - 1, p->now);
    pair_expect_none(p->a.send_cq);
    qp_on_settled(p->a.qp, end[1], p->now);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_expect_none(p->a.send_cq);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_TIMEOUT, p->now);
    pair_expect(p->a.send_cq, 3, WC_WR_FLUSH_ERR);
    pair_close(p);
}

static void reset_forgets_everything_and_starts_anew(void **state)
{
    struct pair *p = pair_open(NULL);
    bool abort;
    pair_post_receive(p, &p->a, 70, 0, 64);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a);
    assert_int_equal(mem_table_live(p->a.mem).sinks, 1);
    assert_int_equal(qp_modify(p->a.qp, QP_RESET, p->now), 0);
    assert_int_equal(mem_table_live(p->a.mem).sinks, 0); // where an answer might be placed
    assert_int_equal(qp_query(p->a.qp).sq_count, 0);
    assert_int_equal(qp_query(p->a.qp).rq_count, 0);
    assert_true(wants_close(&p->a, &abort));
    assert_true(abort);
    pair_drop_batch(&p->a);
    p->a.position = 0;
    qp_on_llp_closed(p->a.qp, QP_CLOSE_LOCAL, p->now);
    pair_expect_none(p->a.send_cq);
    pair_expect_none(p->a.recv_cq);
    assert_int_equal(qp_state_of(p->a.qp), QP_RESET);
    assert_int_equal(qp_modify(p->a.qp, QP_INIT, p->now), 0);
    assert_int_equal(qp_modify(p->b.qp, QP_RESET, p->now), 0);
    assert_int_equal(qp_modify(p->b.qp, QP_INIT, p->now), 0);
    pair_connect(p);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_close(p);
}

// A request of the life before leaves no trace in the slot where the next one's first will stand.
static void reset_forgets_what_the_peer_asked_for(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a);
    pair_hand(p, &p->a);
    assert_true(pair_deliver(p, &p->a));
    assert_int_equal(qp_query(p->b.qp).reads_due, 1);
    struct end *ends[] = {&p->a, &p->b};
    for (unsigned i = 0; i < 2; i++) {
        qp_on_llp_closed(ends[i]->qp, QP_CLOSE_RESET, p->now);
        assert_int_equal(qp_modify(ends[i]->qp, QP_RESET, p->now), 0);
        assert_int_equal(qp_modify(ends[i]->qp, QP_INIT, p->now), 0);
        assert_int_equal(qp_query(ends[i]->qp).reads_due, 0);
        ends[i]->position = 0;
    }
    pair_poll_count(p->a.send_cq);
    pair_connect(p);
    pair_fill(&p->b, 0, 64, 3);
    pair_post_op(p, &p->a, 2, WQE_RDMA_READ, WQE_SIGNALED, 100, 64, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_expect_filled(&p->a, 100, 64, 3);
    pair_close(p);
}

// The receive of a message that is cut by a reset goes back to the queue that others share.
static void reset_gives_back_the_receive_of_a_message_under_way(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 200, .srq_wr = 4});
    for (unsigned i = 0; i < 4; i++) {
        pair_post_receive(p, &p->b, 70 + i, 0, 1000);
    }
    assert_null(srq_slot(p->b.srq, 0));
    pair_post_op(p, &p->a, 1, WQE_SEND, WQE_SIGNALED, 0, 1000, 0);
    pair_output(p, &p->a);
    pair_hand(p, &p->a);
    assert_true(pair_deliver(p, &p->a)); // the first of several segments
    assert_int_equal(srq_posted_count(p->b.srq), 3);
    assert_null(srq_slot(p->b.srq, 0));
    assert_int_equal(qp_modify(p->b.qp, QP_RESET, p->now), 0);
    assert_non_null(srq_slot(p->b.srq, 0));
    pair_drop_batch(&p->a);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_RESET, p->now);
    pair_close(p);
}

// What a user reads in a trace or a report.
static void ends_states_and_events_have_names_of_their_own(void **state)
{
    for (unsigned i = 0; i < QP_CLOSE_REASON_COUNT; i++) {
        assert_non_null(strchr(qp_close_reason_name(i), ' '));
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(qp_close_reason_name(i), qp_close_reason_name(k));
        }
    }
    for (unsigned i = 0; i < QP_EVENT_COUNT; i++) {
        assert_true(strlen(qp_event_name(i)) > 4);
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(qp_event_name(i), qp_event_name(k));
        }
    }
    for (unsigned i = 0; i < QP_STREAM_STATE_COUNT; i++) {
        assert_true(strlen(qp_stream_state_name(i)) > 3);
    }
    for (unsigned i = 0; i < QP_STREAM_EVENT_COUNT; i++) {
        assert_true(strlen(qp_stream_event_name(i)) > 3);
    }
    assert_string_equal(qp_close_reason_name(QP_CLOSE_PEER), "the peer closed");
}

// The stream is open: that the program has not asked for RTS yet is nothing to the peer.
static void in_rtr_work_leaves_as_answers_do(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    assert_int_equal(qp_modify(p->b.qp, QP_INIT, p->now), 0);
    assert_int_equal(qp_modify(p->b.qp, QP_RTR, p->now), 0);
    pair_connect(p);
    pair_post_op(p, &p->b, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    assert_int_equal(p->b.event_count[QP_EVENT_COMM_EST], 1);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->b.send_cq, 1, WC_SUCCESS);
    assert_int_equal(qp_state_of(p->b.qp), QP_RTR);
    assert_int_equal(qp_modify(p->b.qp, QP_RTS, p->now), 0);
    pair_close(p);
}

static void a_terminate_that_cannot_leave_becomes_a_reset(void **state)
{
    struct pair *p = pair_open(NULL);
    bool abort;
    p->a.room = 0;
    pair_post_receive(p, &p->a, 70, 0, 64);
    qp_on_stream_error(p->a.qp, TERM_MPA_CRC, p->now);
    pair_output(p, &p->a);
    assert_false(wants_close(&p->a, &abort));
    instant_ns deadline = qp_next_deadline(p->a.qp);
    assert_true(deadline > p->now && deadline != INSTANT_NEVER);
    pair_expect_none(p->a.recv_cq);
    qp_on_deadline(p->a.qp, deadline);
    pair_expect(p->a.recv_cq, 70, WC_WR_FLUSH_ERR); // the program hears at once
    assert_true(wants_close(&p->a, &abort));
    assert_int_equal(qp_next_deadline(p->a.qp), INSTANT_NEVER);
    assert_false(qp_has_output(p->a.qp));
    pair_close(p);
}

static void a_peer_that_is_not_there_fails_the_oldest_work_request(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    pair_post_op(p, &p->a, 1, WQE_SEND, 0, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_SEND, 0, 0, 64, 0);
    pair_post_receive(p, &p->a, 3, 0, 64);
    qp_on_no_peer(p->a.qp, p->now);
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    pair_expect(p->a.send_cq, 1, WC_RETRY_EXC_ERR);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
    pair_expect(p->a.recv_cq, 3, WC_WR_FLUSH_ERR);
    pair_close(p);
}

static void a_queue_pair_gives_the_rights_that_it_was_told_to_give(void **state)
{
    struct pair *p = pair_open(NULL);
    qp_set_rights(p->b.qp, MEM_ACCESS_REMOTE_READ);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, 0, 0, 64, 0);
    pair_run(p);
    assert_int_equal(qp_state_of(p->b.qp), QP_ERR);
    pair_close(p);
}

static void a_reset_gives_all_rights_again(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    qp_set_rights(p->b.qp, 0);
    qp_serve_none(p->b.qp);
    assert_int_equal(qp_modify(p->b.qp, QP_RESET, p->now), 0);
    assert_int_equal(qp_modify(p->b.qp, QP_INIT, p->now), 0);
    pair_connect(p);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

/* ---- the next life --------------------------------------------------------------------------- */

// Both ends are reset, and ready for another stream.
static void start_over(struct pair *p)
{
    struct end *ends[] = {&p->a, &p->b};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(qp_modify(ends[i]->qp, QP_RESET, p->now), 0);
        pair_drop_batch(ends[i]);
        qp_on_llp_closed(ends[i]->qp, QP_CLOSE_RESET, p->now);
        assert_int_equal(qp_next_deadline(ends[i]->qp), INSTANT_NEVER);
        assert_null(qp_query(ends[i]->qp).refused);
        assert_null(qp_query(ends[i]->qp).refused_by_peer);
        assert_int_equal(qp_modify(ends[i]->qp, QP_INIT, p->now), 0);
        ends[i]->position = 0;
    }
}

static void expect_alive(struct pair *p)
{
    pair_post_receive(p, &p->b, 80, 0, 64);
    pair_post_op(p, &p->a, 90, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 90, WC_SUCCESS);
    pair_expect(p->b.recv_cq, 80, WC_SUCCESS);
}

static void an_orderly_end_is_told_in_each_life(void **state)
{
    struct pair *p = pair_open(NULL);
    for (unsigned life = 1; life < 4; life++) {
        bool abort;
        expect_alive(p);
        assert_int_equal(qp_modify(p->a.qp, QP_SQD, p->now), 0);
        pair_run(p);
        assert_int_equal(p->a.event_count[QP_EVENT_SQ_DRAINED], life);
        assert_true(wants_close(&p->a, &abort));
        start_over(p);
        assert_false(wants_close(&p->a, &abort));
        pair_connect(p);
        assert_false(wants_close(&p->a, &abort));
    }
    expect_alive(p);
    pair_close(p);
}

// Neither who refuses nor who is refused remembers it, and either may say so again.
static void a_refusal_is_of_one_life(void **state)
{
    struct pair *p = pair_open(NULL);
    for (unsigned life = 1; life < 4; life++) {
        expect_alive(p);
        qp_on_stream_error(p->a.qp, TERM_MPA_CRC, p->now);
        assert_true(qp_has_output(p->a.qp));
        assert_int_not_equal(qp_next_deadline(p->a.qp), INSTANT_NEVER);
        if (life != 2) { // else it is due still when the reset comes
            pair_run(p);
            assert_non_null(qp_query(p->b.qp).refused_by_peer);
            assert_int_equal(p->b.event_count[QP_EVENT_FATAL] > 0, true);
        }
        start_over(p);
        pair_connect(p);
        assert_false(qp_has_output(p->a.qp));
    }
    expect_alive(p);
    pair_close(p);
}

static void limits_are_those_of_its_making_again(void **state)
{
    struct pair *p = pair_open(NULL);
    assert_int_equal(qp_query(p->a.qp).ord, 4);
    qp_set_ord_max(p->a.qp, 1);
    assert_int_equal(qp_query(p->a.qp).ord, 1);
    start_over(p);
    pair_connect(p);
    assert_int_equal(qp_query(p->a.qp).ord, 4);
    qp_set_ord_max(p->a.qp, UINT32_MAX);
    assert_int_equal(qp_query(p->a.qp).ord, 4);
    pair_close(p);
}

// What waits for the peer does not wait in the next life for what was due in this one.
static void a_silence_ends_with_its_life_or_its_time(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.stream = {.silence_ns = 100}});
    assert_int_equal(qp_next_deadline(p->b.qp), p->now + 100);
    start_over(p);
    p->now += 1000;
    pair_connect(p);
    assert_int_equal(qp_next_deadline(p->b.qp), p->now + 100);
    qp_on_deadline(p->b.qp, p->now + 100);
    assert_int_equal(qp_next_deadline(p->b.qp), INSTANT_NEVER);
    pair_close(p);
}

// A dead queue pair flushes what is posted; one that was made anew does not.
static void what_was_flushed_in_one_life_is_not_in_the_next(void **state)
{
    struct pair *p = pair_open(NULL);
    assert_int_equal(qp_modify(p->a.qp, QP_ERR, p->now), 0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 64, 0);
    start_over(p);
    pair_poll_count(p->a.send_cq);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_expect_none(p->a.send_cq);
    pair_connect(p);
    pair_run(p);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_close(p);
}

static void a_silent_queue_pair_completes_nothing(void **state)
{
    struct pair *p = pair_open(NULL);
    qp_silence(p->a.qp);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    pair_expect_none(p->a.send_cq);
    pair_close(p);
}

static void segments_may_become_longer_before_the_first(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 200});
    assert_int_equal(qp_query(p->a.qp).segment_len, 200);
    qp_use_mulpdu(p->a.qp, 1000);
    assert_int_equal(qp_query(p->a.qp).segment_len, 1000);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 1500, 0);
    pair_output(p, &p->a);
    assert_int_equal(p->a.batch.count, 2);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void forbidden_changes_are_refused(void **state)
{
    struct pair *p = pair_open(NULL);
    assert_int_equal(qp_modify(p->a.qp, QP_INIT, p->now), -EINVAL);
    assert_int_equal(qp_modify(p->a.qp, QP_SQE, p->now), -EINVAL);
    assert_int_equal(qp_modify(p->a.qp, (enum qp_state)77, p->now), -EINVAL);
    assert_int_equal(qp_state_of(p->a.qp), QP_RTS);
    pair_close(p);
}

static void overrun_send_cq(struct pair *p)
{
    for (unsigned i = 0; i < 1100; i++) {
        if (wq_send_slot(qp_wq(p->a.qp), 0) == NULL) {
            break;
        }
        pair_post_op(p, &p->a, i, WQE_RDMA_WRITE, 0, 0, 8, 0);
        pair_output(p, &p->a);
        while (pair_hand(p, &p->a) && pair_deliver(p, &p->a)) {
        }
    }
}

static void a_cq_that_overflows_ends_its_queue_pair(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config.wq = {.sq_sig_all = true}});
    overrun_send_cq(p);
    assert_true(cq_has_overflowed(p->a.send_cq));
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    assert_true(qp_counters(p->a.qp)->wq.cq_overruns > 0);
    assert_int_equal(p->a.event_count[QP_EVENT_FATAL], 1); // no completion can tell
    pair_close(p);
}

static void an_overrun_is_told_in_each_life(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config.wq = {.sq_sig_all = true}});
    for (unsigned life = 1; life < 4; life++) {
        overrun_send_cq(p);
        assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
        assert_int_equal(p->a.event_count[QP_EVENT_FATAL], life);
        start_over(p);
        pair_connect(p);
    }
    pair_close(p);
}

static void capabilities_out_of_range_are_refused(void **state)
{
    struct qp *qp;
    struct qp_config config = {.wq.caps = {.max_send_sge = SGE_COUNT_MAX + 1}};
    assert_int_equal(qp_create(&config, &qp), -EINVAL);
    config = (struct qp_config){.wq.caps = {.max_recv_wr = UINT32_MAX}};
    assert_int_equal(qp_create(&config, &qp), -EINVAL);
    struct srq *srq;
    assert_int_equal(srq_create(&(struct srq_config){.max_wr = 0}, &srq), -EINVAL);
    assert_int_equal(srq_create(&(struct srq_config){.max_wr = 1, .max_sge = 33}, &srq), -EINVAL);
}

static void the_format_names_the_state(void **state)
{
    struct pair *p = pair_open(NULL);
    char line[200];
    qp_format(p->a.qp, line, sizeof line);
    assert_non_null(strstr(line, "qp 17 RTS stream OPEN"));
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_waits_for_the_stream),
        cmocka_unit_test(a_responder_is_silent_until_the_first_ulpdu),
        cmocka_unit_test(a_silent_initiator_keeps_a_responder_waiting_so_long_and_no_longer),
        cmocka_unit_test(the_extension_message_is_first),
        cmocka_unit_test(each_ready_indication_lets_the_responder_send),
        cmocka_unit_test(an_orderly_end_lets_everything_out),
        cmocka_unit_test(an_orderly_end_answers_the_peers_requests_first),
        cmocka_unit_test(the_error_state_flushes_both_queues),
        cmocka_unit_test(posts_to_a_dead_queue_pair_are_flushed_at_once),
        cmocka_unit_test(a_stream_that_comes_too_late_is_to_be_closed),
        cmocka_unit_test(a_region_is_read_until_the_transport_has_taken_what_names_it),
        cmocka_unit_test(a_read_does_not_keep_its_sink),
        cmocka_unit_test(what_was_handed_before_the_end_has_succeeded_up_to_the_first_failure),
        cmocka_unit_test(work_requests_complete_when_they_are_settled),
        cmocka_unit_test(reset_forgets_everything_and_starts_anew),
        cmocka_unit_test(reset_forgets_what_the_peer_asked_for),
        cmocka_unit_test(reset_gives_back_the_receive_of_a_message_under_way),
        cmocka_unit_test(ends_states_and_events_have_names_of_their_own),
        cmocka_unit_test(in_rtr_work_leaves_as_answers_do),
        cmocka_unit_test(a_terminate_that_cannot_leave_becomes_a_reset),
        cmocka_unit_test(a_peer_that_is_not_there_fails_the_oldest_work_request),
        cmocka_unit_test(a_queue_pair_gives_the_rights_that_it_was_told_to_give),
        cmocka_unit_test(a_reset_gives_all_rights_again),
        cmocka_unit_test(an_orderly_end_is_told_in_each_life),
        cmocka_unit_test(a_refusal_is_of_one_life),
        cmocka_unit_test(limits_are_those_of_its_making_again),
        cmocka_unit_test(a_silence_ends_with_its_life_or_its_time),
        cmocka_unit_test(what_was_flushed_in_one_life_is_not_in_the_next),
        cmocka_unit_test(a_silent_queue_pair_completes_nothing),
        cmocka_unit_test(segments_may_become_longer_before_the_first),
        cmocka_unit_test(forbidden_changes_are_refused),
        cmocka_unit_test(a_cq_that_overflows_ends_its_queue_pair),
        cmocka_unit_test(an_overrun_is_told_in_each_life),
        cmocka_unit_test(capabilities_out_of_range_are_refused),
        cmocka_unit_test(the_format_names_the_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

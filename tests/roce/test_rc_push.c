// Writes that are put into the peer's memory past packets: which of them, what becomes of the queue
// pair meanwhile, and how it looks to its peer.
#include <stdlib.h>

#include "base/gate_mirror.h"
#include "base/port_packet_push.h"
#include "tests/golden.h"
#include "tests/roce/rc_end.h"
#include "wire/aeth.h"
#include "wire/psn.h"
#include "wq/status.h"
#include "wq/wqe.h"

enum { REMOTE = 0x10000, REMOTE_KEY = 0x1234 };

static struct packet_push asked;
static struct span first_piece;
static unsigned asked_count;
static enum past_answer answer;

static enum past_answer push(void *ctx, const struct packet_push *p)
{
    asked = *p;
    first_piece = p->write.pieces[0];
    asked_count++;
    return answer;
}

static struct rc_end *open_with(const struct rc_end_options *options)
{
    struct rc_end *e = rc_end_open(options);
    e->push = push;
    asked_count = 0;
    answer = PAST_BEGUN;
    return e;
}

static void over(struct rc_end *e, bool is_done)
{
    e->t->ops->on_pushed(e->t, is_done, e->now);
    rc_end_output(e);
}

static void post(struct rc_end *e, uint64_t wr_id, uint32_t len)
{
    rc_end_post(e, wr_id, WQE_RDMA_WRITE, 0, len, REMOTE, REMOTE_KEY);
}

static void lone_write_takes_no_psn(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    post(e, 1, 100);
    rc_end_left_none(e);
    assert_int_equal(asked_count, 1);
    assert_int_equal(asked.write.stag, REMOTE_KEY);
    assert_int_equal(asked.write.to, REMOTE);
    assert_int_equal(asked.write.len, 100);
    assert_ptr_equal(first_piece.ptr, e->memory);
    assert_int_equal(asked.from.qp_num, RC_END_NUMBER);
    assert_int_equal(asked.from.peer_qp_num, RC_END_PEER);
    assert_int_equal(asked.from.psn, RC_END_PSN);
    assert_false(asked.is_writer);
    rc_end_completed_none(e->send_cq);
    over(e, true);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    assert_int_equal(rc_end_counters(e)->pushed_writes, 1);
    post(e, 2, 100);
    assert_true(asked.is_writer);
    assert_int_equal(asked.from.psn, RC_END_PSN);
    over(e, true);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    rc_end_close(e);
}

static void write_that_is_not_there_goes_by_packets(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    post(e, 1, 100);
    over(e, false);
    assert_int_equal(asked_count, 1); // it is not asked for again
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    post(e, 2, 100);
    assert_int_equal(asked_count, 2);
    assert_int_equal(asked.from.psn, psn_add(RC_END_PSN, 1));
    over(e, true);
    rc_end_close(e);
}

static void write_that_is_refused_goes_by_packets(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    answer = PAST_REFUSED;
    post(e, 1, 100);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN);
    rc_end_close(e);
}

// What is out, and what waits before it, comes first.
static void write_behind_another_goes_by_packets(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    rc_end_post(e, 1, WQE_SEND, 0, 10, 0, 0);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    post(e, 2, 100);
    rc_end_left(e, ROCE_WRITE_ONLY, psn_add(RC_END_PSN, 1));
    assert_int_equal(asked_count, 0);
    rc_end_take_ack(e, psn_add(RC_END_PSN, 1), AETH_SYNDROME_ACK);
    post(e, 3, 100);
    assert_int_equal(asked_count, 1);
    over(e, true);
    rc_end_close(e);
}

static void read_that_waits_is_not_overtaken(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 100, REMOTE, REMOTE_KEY);
    post(e, 2, 100);
    assert_int_equal(asked_count, 0);
    rc_end_close(e);
}

static void what_follows_waits_until_it_is_over(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    post(e, 1, 100);
    rc_end_post(e, 2, WQE_SEND, 0, 10, 0, 0);
    rc_end_left_none(e);
    assert_false(e->t->ops->has_output(e->t));
    over(e, true);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

static void other_messages_are_not_asked_for(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){.pmtu = 4096});
    rc_end_post(e, 1, WQE_RDMA_WRITE_WITH_IMM, 0, 100, REMOTE, REMOTE_KEY);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_post(e, 2, WQE_SEND, 0, 100, 0, 0);
    rc_end_take_ack(e, psn_add(RC_END_PSN, 1), AETH_SYNDROME_ACK);
    post(e, 3, 0);
    rc_end_take_ack(e, psn_add(RC_END_PSN, 2), AETH_SYNDROME_ACK);
    post(e, 4, 4097);
    assert_int_equal(asked_count, 0);
    rc_end_close(e);
}

static void plain_queue_pair_knows_nothing_of_it(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){.is_plain = true});
    struct gate gate;
    post(e, 1, 100);
    assert_int_equal(asked_count, 0);
    assert_false(e->t->ops->gate(e->t, &gate));
    rc_end_close(e);
}

// The copy reads from memory that belongs to the program again when the Write has completed.
static void queue_pair_that_fails_meanwhile_is_flushed_behind_it(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    post(e, 1, 100);
    rc_end_modify(e, QP_ERR);
    e->t->ops->on_send_posted(e->t, e->now);
    rc_end_completed_none(e->send_cq);
    over(e, true);
    rc_end_completed(e->send_cq, 1, WC_WR_FLUSH_ERR);
    rc_end_close(e);
}

static void queue_pair_that_drains_does_so_behind_it(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    post(e, 1, 100);
    rc_end_modify(e, QP_SQD);
    assert_int_equal(e->events[QP_EVENT_SQ_DRAINED], 0);
    over(e, true);
    assert_int_equal(e->events[QP_EVENT_SQ_DRAINED], 1);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

// The peer's requests are answered meanwhile.
static void peer_is_answered_while_it_is_out(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    post(e, 1, 100);
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN);
    p.reth = (struct reth){.va = rc_end_addr(e, 0), .rkey = e->key, .dma_len = 4};
    p.bth.ack_req = true;
    rc_end_take(e, &p, "abcd", 4);
    rc_end_left_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    over(e, true);
    rc_end_close(e);
}

/* ---- as the peer sees it --------------------------------------------------------------------- */

static void gate_says_which_packet_is_taken_next(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    struct gate gate;
    assert_true(e->t->ops->gate(e->t, &gate));
    assert_int_equal(gate.qp_num, RC_END_NUMBER);
    assert_int_equal(gate.peer_qp_num, RC_END_PEER);
    assert_int_equal(gate.pd, e->pd);
    assert_memory_equal(&gate.local, &rc_end_local, sizeof gate.local);
    assert_memory_equal(&gate.remote, &rc_end_remote, sizeof gate.remote);
    assert_int_equal(gate.psn, RC_END_PSN);
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN);
    p.reth = (struct reth){.va = rc_end_addr(e, 0), .rkey = e->key, .dma_len = 4};
    rc_end_take(e, &p, "abcd", 4);
    assert_true(e->t->ops->gate(e->t, &gate));
    assert_int_equal(gate.psn, psn_add(RC_END_PSN, 1));
    rc_end_close(e);
}

static bool is_open_in(enum qp_state to)
{
    struct rc_end *e = open_with(&(struct rc_end_options){.state = to == QP_RTR ? QP_RTR : QP_RTS});
    struct gate gate;
    if (to > QP_RTS) {
        rc_end_modify(e, to);
    }
    const bool is_open = e->t->ops->gate(e->t, &gate);
    rc_end_close(e);
    return is_open;
}

static void gate_is_open_where_a_packet_would_be_taken(void **state)
{
    assert_false(is_open_in(QP_RTR)); // the program would be told of that
    assert_true(is_open_in(QP_RTS));
    assert_true(is_open_in(QP_SQD));
    assert_false(is_open_in(QP_ERR));
}

static void gate_closes_when_the_right_is_gone(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){.rights = MEM_ACCESS_REMOTE_READ});
    struct gate gate;
    assert_false(e->t->ops->gate(e->t, &gate));
    rc_end_close(e);
}

static void gate_closes_to_who_was_refused(void **state)
{
    struct rc_end *e = open_with(&(struct rc_end_options){0});
    struct gate gate;
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN);
    p.reth = (struct reth){.va = 0, .rkey = e->key ^ 0x100, .dma_len = 4};
    rc_end_take(e, &p, "abcd", 4);
    assert_false(e->t->ops->gate(e->t, &gate));
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lone_write_takes_no_psn),
        cmocka_unit_test(write_that_is_not_there_goes_by_packets),
        cmocka_unit_test(write_that_is_refused_goes_by_packets),
        cmocka_unit_test(write_behind_another_goes_by_packets),
        cmocka_unit_test(read_that_waits_is_not_overtaken),
        cmocka_unit_test(what_follows_waits_until_it_is_over),
        cmocka_unit_test(other_messages_are_not_asked_for),
        cmocka_unit_test(plain_queue_pair_knows_nothing_of_it),
        cmocka_unit_test(queue_pair_that_fails_meanwhile_is_flushed_behind_it),
        cmocka_unit_test(queue_pair_that_drains_does_so_behind_it),
        cmocka_unit_test(peer_is_answered_while_it_is_out),
        cmocka_unit_test(gate_says_which_packet_is_taken_next),
        cmocka_unit_test(gate_is_open_where_a_packet_would_be_taken),
        cmocka_unit_test(gate_closes_when_the_right_is_gone),
        cmocka_unit_test(gate_closes_to_who_was_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

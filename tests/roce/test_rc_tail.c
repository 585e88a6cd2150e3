// The last packets of a flight are lost, and nothing comes behind them that would tell the peer:
// the oldest leaves again after two round trips, and no try is spent.
#include "tests/roce/rc_end.h"

enum { PMTU = 256, REMOTE_KEY = 0x1234, TIMEOUT = 14 };

static const uint64_t remote = 0x100000;
static const duration_ns rtt_ns = 100 * NS_PER_US, patience_ns = 2 * rtt_ns + 200 * NS_PER_US;

// A round trip is known; RC_END_PSN + 1 is next.
static struct rc_end *open_known(uint8_t timeout)
{
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = timeout, .retry_count = 0});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN);
    e->now += rtt_ns;
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    return e;
}

// At their pace, which is over before a round trip is.
static void post_writes(struct rc_end *e, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        rc_end_wait(e, e->now + (i > 0 ? rtt_ns / 4 : 0));
        rc_end_post(e, 2 + i, WQE_RDMA_WRITE, i, 4, remote, REMOTE_KEY);
        rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1 + i);
    }
}

static void the_oldest_leaves_again_after_two_round_trips(void **state)
{
    struct rc_end *e = open_known(TIMEOUT);
    post_writes(e, 1);
    instant_ns begin = e->now;
    rc_end_wait(e, begin + patience_ns - 1);
    rc_end_left_none(e);
    rc_end_wait(e, begin + patience_ns);
    assert_true(rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1)->p.bth.ack_req);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->tail_probes, 1);
    rc_end_take_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER);
    rc_end_close(e);
}

// The packet in the middle of a message too, and it asks, whether it did before or not.
static void a_packet_inside_a_message_asks_when_it_leaves_again(void **state)
{
    struct rc_end *e = open_known(TIMEOUT);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 6 * PMTU, remote, REMOTE_KEY);
    rc_end_wait(e, e->now + rtt_ns);
    rc_end_take_ack(e, RC_END_PSN + 4, AETH_SYNDROME_ACK);
    e->first = e->count = 0;
    e->memory[4 * PMTU] = 9;
    rc_end_wait(e, e->now + patience_ns);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_WRITE_MIDDLE, RC_END_PSN + 5);
    assert_true(left->p.bth.ack_req);
    assert_int_equal(left->p.payload.ptr[0], 9);
    rc_end_left_none(e);
    rc_end_close(e);
}

// What left before it the second time tells nothing of it.
static void what_left_again_is_not_lost_by_what_is_here_of_before(void **state)
{
    struct rc_end *e = open_known(TIMEOUT);
    e->is_weft_peer = true;
    post_writes(e, 5);
    rc_end_wait(e, e->now + patience_ns);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1);
    rc_end_left_none(e);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x7);
    rc_end_left_none(e);
    rc_end_close(e);
}

// Its answer may be lost as well, many times in a row.
static void it_leaves_after_twice_as_long_each_time_and_no_try_is_spent(void **state)
{
    struct rc_end *e = open_known(TIMEOUT);
    post_writes(e, 1);
    const instant_ns end = e->now + (4096 << TIMEOUT);
    for (duration_ns wait_ns = patience_ns; e->now + wait_ns < end; wait_ns *= 2) {
        rc_end_wait(e, e->now + wait_ns - 1);
        rc_end_left_none(e);
        rc_end_wait(e, e->now + 1);
        rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1);
    }
    assert_int_equal(rc_end_counters(e)->tail_probes, 7);
    rc_end_wait(e, end - 1);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->timeouts, 0);
    assert_int_equal(rc_end_state(e), QP_RTS);
    rc_end_wait(e, end + 1); // retry_count is 0
    rc_end_completed(e->send_cq, 2, WC_RETRY_EXC_ERR);
    rc_end_left_none(e);
    rc_end_close(e);
}

// More than one was lost: the peer waits for what it does not have, and a round trip is enough.
static void all_behind_leaves_again_if_the_answer_is_for_it_alone(void **state)
{
    struct rc_end *e = open_known(TIMEOUT);
    post_writes(e, 3);
    rc_end_wait(e, e->now + patience_ns);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1);
    rc_end_take_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    rc_end_left_none(e);
    rc_end_wait(e, e->now + rtt_ns);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 2);
    rc_end_wait(e, e->now + rtt_ns / 4);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 3);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->tail_losses, 1);
    rc_end_close(e);
}

// They were late, all of them: the next comes at once behind the first.
static void nothing_leaves_again_if_acknowledgements_were_late(void **state)
{
    struct rc_end *e = open_known(TIMEOUT);
    post_writes(e, 3);
    rc_end_wait(e, e->now + patience_ns);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1);
    for (uint32_t i = 1; i <= 3; i++) {
        rc_end_take_ack(e, RC_END_PSN + i, AETH_SYNDROME_ACK);
    }
    rc_end_wait(e, e->now + NS_PER_S);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->tail_losses, 0);
    rc_end_close(e);
}

// What was sent twice does not tell which of them was acknowledged.
static void no_round_trip_is_measured_by_it(void **state)
{
    struct rc_end *e = open_known(TIMEOUT);
    for (unsigned i = 0; i < 20; i++) {
        rc_end_post(e, 2 + i, WQE_RDMA_WRITE, i, 4, remote, REMOTE_KEY);
        rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1 + i);
        rc_end_wait(e, e->now + patience_ns - 1); // as long as the first time: nothing was learned
        rc_end_left_none(e);
        rc_end_wait(e, e->now + 1);
        rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1 + i);
        rc_end_take_ack(e, RC_END_PSN + 1 + i, AETH_SYNDROME_ACK);
    }
    rc_end_close(e);
}

// A Read is asked for again from the first packet of its answer that is missing.
static void a_read_is_asked_for_again(void **state)
{
    static const uint8_t octets[PMTU];
    struct rc_end *e = open_known(TIMEOUT);
    rc_end_post(e, 2, WQE_RDMA_READ, 0, 3 * PMTU, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1);
    struct roce_packet p = rc_end_make(ROCE_READ_RESPONSE_FIRST, RC_END_PSN + 1);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    rc_end_take(e, &p, octets, PMTU);
    rc_end_wait(e, e->now + patience_ns);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 2);
    assert_int_equal(left->p.reth.dma_len, 2 * PMTU);
    assert_int_equal(left->p.reth.va, remote + PMTU);
    rc_end_close(e);
}

static void answer_read(struct rc_end *e, uint32_t i)
{
    static const uint8_t octets[PMTU];
    struct roce_packet p = rc_end_make(ROCE_READ_RESPONSE_ONLY, RC_END_PSN + 1 + i);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    rc_end_take(e, &p, octets, PMTU);
    rc_end_completed(e->send_cq, 2 + i, WC_SUCCESS);
}

// One after the other, as who waits for each does it: that some answers were late is no reason to
// hold the next ones back for longer than the peer takes.
static void reads_leave_when_posted_after_some_were_answered_late(void **state)
{
    enum { LATE = 16, ALL = 32 };
    struct rc_end *e = open_known(TIMEOUT);
    for (uint32_t i = 0; i < ALL; i++) {
        rc_end_post(e, 2 + i, WQE_RDMA_READ, 0, PMTU, remote, REMOTE_KEY);
        rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1 + i);
        rc_end_wait(e, e->now + (i < LATE ? patience_ns : rtt_ns));
        if (i < LATE) {
            rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1 + i);
            rc_end_wait(e, e->now + 2 * rtt_ns);
        }
        rc_end_left_none(e);
        answer_read(e, i);
    }
    assert_int_equal(rc_end_counters(e)->tail_probes, LATE);
    rc_end_close(e);
}

// Whoever has no receive says when to come again.
static void nothing_leaves_while_the_peer_has_no_receive(void **state)
{
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = 20, .rnr_retry_count = 7});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    e->now += rtt_ns;
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_post(e, 2, WQE_SEND, 0, 4, 0, 0);
    e->first = e->count = 0;
    rc_end_take_ack(e, RC_END_PSN + 1, aeth_syndrome_rnr(20)); // 10 ms
    rc_end_wait(e, e->now + 5 * NS_PER_MS);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void nothing_leaves_before_a_round_trip_is_known(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = 20});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN);
    rc_end_wait(e, e->now + NS_PER_S);
    rc_end_left_none(e);
    rc_end_close(e);
}

// Which is over before: there is nothing to gain.
static void a_short_time_out_comes_alone(void **state)
{
    struct rc_end *e = open_known(6); // 262 us
    post_writes(e, 1);
    rc_end_wait(e, e->now + NS_PER_S);
    rc_end_left_none(e);
    rc_end_completed(e->send_cq, 2, WC_RETRY_EXC_ERR);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_leaves_again_after_two_round_trips),
        cmocka_unit_test(a_packet_inside_a_message_asks_when_it_leaves_again),
        cmocka_unit_test(what_left_again_is_not_lost_by_what_is_here_of_before),
        cmocka_unit_test(it_leaves_after_twice_as_long_each_time_and_no_try_is_spent),
        cmocka_unit_test(all_behind_leaves_again_if_the_answer_is_for_it_alone),
        cmocka_unit_test(nothing_leaves_again_if_acknowledgements_were_late),
        cmocka_unit_test(no_round_trip_is_measured_by_it),
        cmocka_unit_test(a_read_is_asked_for_again),
        cmocka_unit_test(reads_leave_when_posted_after_some_were_answered_late),
        cmocka_unit_test(nothing_leaves_while_the_peer_has_no_receive),
        cmocka_unit_test(nothing_leaves_before_a_round_trip_is_known),
        cmocka_unit_test(a_short_time_out_comes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

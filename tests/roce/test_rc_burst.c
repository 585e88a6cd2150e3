// Packets that come together: what follows from them happens once, when they are over, and in the
// order in which they came; and packets that leave together, whose memory is looked up once.
#include "roce/rc_internal.h"
#include "tests/roce/rc_end.h"
#include "wire/aeth.h"
#include "wq/status.h"

enum {
    PMTU = 256,
    READ_PACKETS = 4,
    READ_LEN = READ_PACKETS * PMTU,
    REMOTE_KEY = 0x1234567,
    RNR_TIMER = 14,
};

static const uint64_t remote = 0x7000;
static uint8_t octets[PMTU];

static struct rc_end *open_end(void)
{
    return rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
}

static void post_send(struct rc_end *e, uint64_t wr_id)
{
    rc_end_post(e, wr_id, WQE_SEND, 0, PMTU, 0, 0);
    rc_end_output(e);
}

static void take_one_ack(struct rc_end *e, uint32_t psn)
{
    struct roce_packet p = rc_end_make(ROCE_ACKNOWLEDGE, psn);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    rc_end_take_one(e, &p, "", 0);
}

// The answer to a Read of READ_PACKETS whose first has this PSN.
static void take_one_answer(struct rc_end *e, uint32_t first_psn, uint32_t i, size_t len)
{
    uint8_t operation = i == 0                  ? ROCE_READ_RESPONSE_FIRST
                        : i + 1 == READ_PACKETS ? ROCE_READ_RESPONSE_LAST
                                                : ROCE_READ_RESPONSE_MIDDLE;
    struct roce_packet p = rc_end_make(operation, first_psn + i);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    memset(octets, (int)(1 + i), sizeof octets);
    rc_end_take_one(e, &p, octets, len);
}

/* ---- what comes ------------------------------------------------------------------------------ */

// The window grows by all of them, and each is heard of.
static void acknowledgements_that_come_together_are_followed_when_they_are_over(void **state)
{
    struct rc_end *e = open_end();
    for (uint32_t i = 0; i < 4; i++) {
        post_send(e, i);
    }
    for (uint32_t i = 0; i < 4; i++) {
        take_one_ack(e, RC_END_PSN + i);
        assert_true(e->rc->req.heard_mark < e->rc->req.acked_mark);
        rc_end_completed_none(e->send_cq);
    }
    rc_end_take_over(e);
    for (uint32_t i = 0; i < 4; i++) {
        rc_end_completed(e->send_cq, i, WC_SUCCESS);
    }
    assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER); // nobody is waited for
    rc_end_close(e);
}

static void a_read_whose_answer_comes_together_is_complete_when_that_is_over(void **state)
{
    struct rc_end *e = open_end();
    rc_end_post(e, 1, WQE_RDMA_READ, 0, READ_LEN, remote, REMOTE_KEY);
    rc_end_output(e);
    for (uint32_t i = 0; i < READ_PACKETS; i++) {
        take_one_answer(e, RC_END_PSN, i, PMTU);
        assert_int_equal(e->memory[i * PMTU], 1 + i); // it is placed at once
    }
    rc_end_take_over(e);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER);
    rc_end_close(e);
}

static void what_is_acknowledged_before_an_answer_that_is_wrong_is_complete(void **state)
{
    struct rc_end *e = open_end();
    post_send(e, 1);
    rc_end_post(e, 2, WQE_RDMA_READ, 0, READ_LEN, remote, REMOTE_KEY);
    rc_end_output(e);
    take_one_ack(e, RC_END_PSN);
    take_one_answer(e, RC_END_PSN + 1, 0, PMTU);
    take_one_answer(e, RC_END_PSN + 1, 1, PMTU - 4);
    rc_end_take_over(e);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_completed(e->send_cq, 2, WC_BAD_RESP_ERR);
    assert_int_equal(rc_end_state(e), QP_ERR);
    rc_end_close(e);
}

static void what_is_acknowledged_before_a_request_that_is_refused_is_complete(void **state)
{
    struct rc_end *e = open_end();
    struct roce_packet wrong = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN);
    post_send(e, 1);
    post_send(e, 2);
    take_one_ack(e, RC_END_PSN);
    wrong.reth = (struct reth){.va = rc_end_addr(e, 0), .rkey = e->key + 1, .dma_len = 4};
    rc_end_take_one(e, &wrong, octets, 4);
    rc_end_take_over(e);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_completed(e->send_cq, 2, WC_WR_FLUSH_ERR);
    rc_end_close(e);
}

// Progress lets the peer be asked again at once: what it says behind that has the last word.
static void a_peer_that_is_not_ready_behind_an_acknowledgement_is_waited_for(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .rnr_retry_count = 7});
    for (uint32_t i = 0; i < 2; i++) {
        post_send(e, i);
        rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + i);
    }
    take_one_ack(e, RC_END_PSN);
    struct roce_packet nak = rc_end_make(ROCE_ACKNOWLEDGE, RC_END_PSN + 1);
    nak.aeth.syndrome = aeth_syndrome_rnr(RNR_TIMER);
    rc_end_take_one(e, &nak, "", 0);
    rc_end_take_over(e);
    rc_end_completed(e->send_cq, 0, WC_SUCCESS);
    rc_end_left_none(e);
    rc_end_wait(e, e->now + aeth_rnr_timer_ns(RNR_TIMER));
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
    rc_end_close(e);
}

/* ---- what leaves ----------------------------------------------------------------------------- */

static void take_read(struct rc_end *e, uint32_t psn, uint32_t len)
{
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, psn);
    p.reth = (struct reth){.va = rc_end_addr(e, 0), .rkey = e->key, .dma_len = len};
    rc_end_take(e, &p, "", 0);
}

static void expect_answer(struct rc_end *e, uint8_t operation, uint32_t i, size_t len)
{
    const struct rc_end_packet *packet = rc_end_left(e, operation, RC_END_PSN + i);
    assert_int_equal(packet->p.payload.len, len);
    assert_memory_equal(packet->p.payload.ptr, e->memory + (size_t)i * PMTU, len);
}

static void fill(struct rc_end *e, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        e->memory[i] = (uint8_t)(i * 7 + i / PMTU);
    }
}

static void an_answer_is_cut_into_packets_each_of_its_place(void **state)
{
    struct rc_end *e = open_end();
    const uint32_t last_len = 12;
    fill(e, READ_LEN);
    take_read(e, RC_END_PSN, READ_LEN - PMTU + last_len);
    expect_answer(e, ROCE_READ_RESPONSE_FIRST, 0, PMTU);
    expect_answer(e, ROCE_READ_RESPONSE_MIDDLE, 1, PMTU);
    expect_answer(e, ROCE_READ_RESPONSE_MIDDLE, 2, PMTU);
    expect_answer(e, ROCE_READ_RESPONSE_LAST, 3, last_len);
    rc_end_left_none(e);
    rc_end_close(e);
}

// Of answers no more leave in a turn than the queue pair has; the next turn goes on there.
static void an_answer_that_is_longer_than_a_turn_goes_on_in_the_next(void **state)
{
    enum { COUNT = RC_TURN_PACKETS + 2 };
    struct rc_end *e = open_end();
    fill(e, COUNT * PMTU);
    take_read(e, RC_END_PSN, COUNT * PMTU);
    assert_int_equal(e->count, RC_TURN_PACKETS);
    assert_true(e->t->ops->has_output(e->t));
    rc_end_output(e);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t operation = i == 0           ? ROCE_READ_RESPONSE_FIRST
                            : i + 1 == COUNT ? ROCE_READ_RESPONSE_LAST
                                             : ROCE_READ_RESPONSE_MIDDLE;
        expect_answer(e, operation, i, PMTU);
    }
    rc_end_left_none(e);
    rc_end_close(e);
}

/* ---- company --------------------------------------------------------------------------------- */

enum { LARGE = 4096, TRAIN = 15 }; // as many packets of that length leave together

// It may have several trains out.
static struct rc_end *open_wide(bool is_one_host)
{
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = LARGE, .is_one_host = is_one_host});
    e->rc->req.congestion.window = 4 * TRAIN;
    return e;
}

// So many at once; how many packets have left.
static unsigned send_large(struct rc_end *e, unsigned count)
{
    const unsigned before = e->count;
    for (unsigned i = 0; i < count; i++) {
        rc_end_post(e, i, WQE_RDMA_WRITE, 0, LARGE, remote, REMOTE_KEY);
    }
    rc_end_output(e);
    return e->count - before;
}

// While a train is out, and the peer is to say so when it has it.
static void within_a_host_what_fills_no_train_waits_for_company(void **state)
{
    struct rc_end *e = open_wide(true);
    assert_int_equal(send_large(e, TRAIN), TRAIN);
    assert_int_equal(send_large(e, TRAIN - 1), 0);
    assert_int_equal(send_large(e, 4), TRAIN);
    assert_int_equal(send_large(e, 1), 0);
    rc_end_close(e);
}

static void what_waits_for_company_leaves_when_the_peer_has_the_rest(void **state)
{
    struct rc_end *e = open_wide(true);
    assert_int_equal(send_large(e, TRAIN), TRAIN);
    assert_int_equal(send_large(e, 3), 0);
    rc_end_take_ack(e, RC_END_PSN + TRAIN - 2, AETH_SYNDROME_ACK);
    assert_int_equal(e->count, TRAIN + 3);
    assert_true(e->packets[(e->first + e->count - 1) % e->packet_capacity].p.bth.ack_req);
    rc_end_close(e);
}

static void where_less_than_a_train_is_out_nothing_waits(void **state)
{
    struct rc_end *e = open_wide(true);
    assert_int_equal(send_large(e, TRAIN - 1), TRAIN - 1);
    assert_int_equal(send_large(e, 1), 1);
    rc_end_close(e);
}

static void over_a_line_nothing_waits_for_company(void **state)
{
    struct rc_end *e = open_wide(false);
    assert_int_equal(send_large(e, TRAIN), TRAIN);
    assert_int_equal(send_large(e, 1), 1);
    rc_end_close(e);
}

static void post_reads(struct rc_end *e, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rc_end_post(e, i, WQE_RDMA_READ, 0, LARGE, remote, REMOTE_KEY);
    }
    rc_end_output(e);
}

static void reads_wait_for_company_too(void **state)
{
    struct rc_end *e = rc_end_open(
        &(struct rc_end_options){.pmtu = LARGE, .is_one_host = true, .max_rd_atomic = TRAIN});
    e->rc->req.congestion.window = 4 * TRAIN;
    assert_int_equal(send_large(e, TRAIN), TRAIN);
    post_reads(e, TRAIN - 1);
    assert_int_equal(e->count, TRAIN);
    post_reads(e, 1);
    assert_int_equal(e->count, 2 * TRAIN);
    rc_end_close(e);
}

// Of two requests the second brings less than a train.
static void a_read_that_has_begun_does_not_wait_for_company(void **state)
{
    struct rc_end *e = open_wide(true);
    assert_int_equal(send_large(e, TRAIN), TRAIN);
    rc_end_post(e, 1, WQE_RDMA_READ, 0, (2 * TRAIN + 2) * LARGE, remote, REMOTE_KEY);
    rc_end_output(e);
    rc_end_output(e);
    assert_int_equal(e->count, TRAIN + 2);
    rc_end_close(e);
}

static void what_an_atomic_stands_behind_does_not_wait_for_company(void **state)
{
    struct rc_end *e = open_wide(true);
    assert_int_equal(send_large(e, TRAIN), TRAIN);
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, LARGE, remote, REMOTE_KEY);
    rc_end_post(e, 2, WQE_ATOMIC_FETCH_AND_ADD, 0, 8, remote, REMOTE_KEY);
    rc_end_output(e);
    assert_int_equal(e->count, TRAIN + 2);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledgements_that_come_together_are_followed_when_they_are_over),
        cmocka_unit_test(a_read_whose_answer_comes_together_is_complete_when_that_is_over),
        cmocka_unit_test(what_is_acknowledged_before_an_answer_that_is_wrong_is_complete),
        cmocka_unit_test(what_is_acknowledged_before_a_request_that_is_refused_is_complete),
        cmocka_unit_test(a_peer_that_is_not_ready_behind_an_acknowledgement_is_waited_for),
        cmocka_unit_test(an_answer_is_cut_into_packets_each_of_its_place),
        cmocka_unit_test(an_answer_that_is_longer_than_a_turn_goes_on_in_the_next),
        cmocka_unit_test(within_a_host_what_fills_no_train_waits_for_company),
        cmocka_unit_test(what_waits_for_company_leaves_when_the_peer_has_the_rest),
        cmocka_unit_test(where_less_than_a_train_is_out_nothing_waits),
        cmocka_unit_test(over_a_line_nothing_waits_for_company),
        cmocka_unit_test(reads_wait_for_company_too),
        cmocka_unit_test(a_read_that_has_begun_does_not_wait_for_company),
        cmocka_unit_test(what_an_atomic_stands_behind_does_not_wait_for_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What leaves again towards a weft end that says what it has: only what is lost.
#include "roce/rc_internal.h"
#include "tests/roce/rc_end.h"

enum { PMTU = 256, REMOTE_KEY = 0x1234, WINDOW = 10, TIMEOUT = 14 };

static const uint64_t remote = 0x100000;

// A message of so many packets has left, the first time; the peer greets.
static struct rc_end *open_sent(uint32_t packet_count)
{
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = TIMEOUT, .retry_count = 7});
    e->is_weft_peer = true;
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, packet_count * PMTU, remote, REMOTE_KEY);
    assert_int_equal(e->count, packet_count < WINDOW ? packet_count : WINDOW);
    e->first = e->count = 0;
    return e;
}

static void left_middle(struct rc_end *e, uint32_t i)
{
    assert_true(rc_end_left(e, ROCE_WRITE_MIDDLE, RC_END_PSN + i)->p.bth.ack_req);
}

static void only_what_is_missing_leaves_again(void **state)
{
    struct rc_end *e = open_sent(9);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x7e & ~0x10U); // 1, 2 and 6 are missing
    left_middle(e, 1);
    left_middle(e, 2);
    left_middle(e, 6);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->repeated_alone, 3);
    assert_int_equal(rc_end_counters(e)->sacks_in, 1);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x7e & ~0x10U); // the net has it twice
    rc_end_left_none(e);
    rc_end_take_ack(e, RC_END_PSN + 8, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

// What is remembered of packets grows while they are out.
static void of_a_longer_flight_only_what_is_missing_leaves_again(void **state)
{
    struct rc_end *e = open_sent(100);
    rc_end_take_ack(e, RC_END_PSN + WINDOW - 1, AETH_SYNDROME_ACK);
    assert_int_equal(e->count, 2 * WINDOW);
    e->first = e->count = 0;
    rc_end_take_sack(e, RC_END_PSN + WINDOW, 0x7ffff & ~0x22U); // 10, 12 and 16 are missing
    left_middle(e, WINDOW);
    left_middle(e, WINDOW + 2);
    left_middle(e, WINDOW + 6);
    assert_int_equal(rc_end_counters(e)->repeated_alone, 3);
    assert_int_equal(rc_end_counters(e)->requests_again, 3);
    rc_end_close(e);
}

static void of_a_flight_of_forty_only_what_is_missing_leaves_again(void **state)
{
    struct rc_end *e = open_sent(100);
    rc_end_take_ack(e, RC_END_PSN + WINDOW - 1, AETH_SYNDROME_ACK);
    rc_end_take_ack(e, RC_END_PSN + 3 * WINDOW - 1, AETH_SYNDROME_ACK);
    e->first = e->count = 0;
    // 30, 50 and 65 are missing
    rc_end_take_sack(e, RC_END_PSN + 3 * WINDOW, 0x7fffffffff & ~(1ULL << 19 | 1ULL << 34));
    left_middle(e, 3 * WINDOW);
    left_middle(e, 5 * WINDOW);
    left_middle(e, 6 * WINDOW + 5);
    assert_int_equal(rc_end_counters(e)->repeated_alone, 3);
    rc_end_close(e);
}

// They may have overtaken it.
static void two_later_ones_are_not_enough(void **state)
{
    struct rc_end *e = open_sent(9);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x3);
    rc_end_left_none(e);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x7);
    left_middle(e, 1);
    rc_end_left_none(e);
    rc_end_close(e);
}

// A connection that lasts for hours has sent more packets than 32 bits count.
static void it_is_so_behind_four_thousand_million_packets(void **state)
{
    static const uint64_t counts[] = {UINT32_MAX - 8, UINT32_MAX - 4, UINT32_MAX,
                                      3 * UINT64_C(1) << 32};
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = TIMEOUT});
        e->rc->req.repeat.order = e->rc->req.repeat.newest = counts[i];
        e->is_weft_peer = true;
        rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 9 * PMTU, remote, REMOTE_KEY);
        e->first = e->count = 0;
        rc_end_take_sack(e, RC_END_PSN + 1, 0x3);
        rc_end_left_none(e);
        rc_end_take_sack(e, RC_END_PSN + 1, 0x7);
        left_middle(e, 1);
        rc_end_left_none(e);
        rc_end_take_sack(e, RC_END_PSN + 1, 0x7); // the net has it twice
        rc_end_left_none(e);
        rc_end_close(e);
    }
}

// Nothing will come that could tell more.
static void the_last_that_left_is_enough(void **state)
{
    struct rc_end *e = open_sent(9);
    rc_end_take_sack(e, RC_END_PSN + 7, 0x1);
    left_middle(e, 7);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void what_is_lost_again_leaves_again(void **state)
{
    struct rc_end *e = open_sent(100);
    rc_end_take_sack(e, RC_END_PSN + 1, 0xf);
    left_middle(e, 1);
    e->first = e->count = 0;
    e->now += NS_PER_MS; // so it is not the first way of what left again
    rc_end_take_sack(e, RC_END_PSN + 1, 0xff);
    while (e->count > 0) {
        assert_true(e->packets[e->first].p.bth.psn != ((RC_END_PSN + 1) & 0xffffff));
        e->first = (e->first + 1) % e->packet_capacity;
        e->count--;
    }
    rc_end_wait(e, e->now + 100 * NS_PER_US);
    e->first = e->count = 0;
    rc_end_take_sack(e, RC_END_PSN + 1, 0xffff); // what left behind it the second time is here
    left_middle(e, 1);
    rc_end_close(e);
}

// None of the packets that leave now has this number.
static void drop_none_of(struct rc_end *e, uint32_t i)
{
    while (e->count > 0) {
        assert_true(e->packets[e->first].p.bth.psn != ((RC_END_PSN + i) & 0xffffff));
        e->first = (e->first + 1) % e->packet_capacity;
        e->count--;
    }
}

// What left again and is acknowledged with what stands before it left later than what is missing.
static void what_is_acknowledged_tells_of_what_left_before_it(void **state)
{
    struct rc_end *e = open_sent(100);
    rc_end_take_sack(e, RC_END_PSN, 0x6f & ~0x20U); // 0, 5 and 6 are missing
    rc_end_left(e, ROCE_WRITE_FIRST, RC_END_PSN);
    drop_none_of(e, 6);
    e->now += NS_PER_MS;
    rc_end_take_sack(e, RC_END_PSN + 6, 0x1); // all before the 6th, and the 7th, are here
    left_middle(e, 6);
    rc_end_close(e);
}

static void what_is_here_makes_room_in_the_window(void **state)
{
    struct rc_end *e = open_sent(100);
    rc_end_take_sack(e, RC_END_PSN, 0xff); // 0 and 9 are not; the window is 7 by the loss
    rc_end_left(e, ROCE_WRITE_FIRST, RC_END_PSN);
    for (uint32_t i = WINDOW; i < WINDOW + 5; i++) {
        assert_int_equal(rc_end_left(e, ROCE_WRITE_MIDDLE, RC_END_PSN + i)->p.bth.psn,
                         (RC_END_PSN + i) & 0xffffff);
    }
    rc_end_left_none(e);
    rc_end_close(e);
}

// What was here beyond the hole is acknowledged with it: it makes no room in the window any more.
static void behind_a_hole_that_has_closed_the_window_is_as_before(void **state)
{
    struct rc_end *e = open_sent(9);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x7);
    left_middle(e, 1);
    rc_end_take_ack(e, RC_END_PSN + 8, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 20 * PMTU, remote, REMOTE_KEY);
    assert_int_equal(e->count, 7);
    rc_end_close(e);
}

// The peer may have gone: what it had is not believed any more.
static void everything_leaves_again_after_silence(void **state)
{
    struct rc_end *e = open_sent(5);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x7);
    left_middle(e, 1);
    rc_end_wait(e, e->now + (4096 << TIMEOUT));
    left_middle(e, 1);
    rc_end_take_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    rc_end_left(e, ROCE_WRITE_MIDDLE, RC_END_PSN + 2);
    rc_end_close(e);
}

static void who_does_not_greet_has_all_leave_again(void **state)
{
    struct rc_end *e = open_sent(5);
    e->is_weft_peer = false;
    rc_end_take_sack(e, RC_END_PSN + 1, 0x7);
    assert_int_equal(e->count, 4);
    assert_int_equal(rc_end_counters(e)->sacks_in, 0);
    rc_end_close(e);
}

static void what_is_no_sack_has_all_leave_again(void **state)
{
    struct rc_end *e = open_sent(5);
    struct roce_packet p = rc_end_make(ROCE_ACKNOWLEDGE, RC_END_PSN + 1);
    p.aeth.syndrome = 0x60;
    rc_end_take(e, &p, "\2\1\0\0\377\0\0\0", 8);
    assert_int_equal(e->count, 4);
    assert_int_equal(rc_end_counters(e)->sacks_in, 0);
    rc_end_close(e);
}

// More than was ever sent, or what was not, is nothing.
static void what_never_left_is_not_here(void **state)
{
    struct rc_end *e = open_sent(5);
    rc_end_take_sack(e, RC_END_PSN + 1, UINT64_MAX);
    left_middle(e, 1);
    rc_end_left_none(e);
    rc_end_take_ack(e, RC_END_PSN + 4, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

// It has the Write behind the Read, so it has answered that.
static void a_read_is_asked_for_again_without_the_messages_behind_it(void **state)
{
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = TIMEOUT, .retry_count = 7});
    rc_end_meet(e);
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 3 * PMTU, remote, REMOTE_KEY);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 2 * PMTU, remote, REMOTE_KEY);
    rc_end_post(e, 3, WQE_RDMA_READ, 0, PMTU, remote, REMOTE_KEY);
    e->first = e->count = 0;
    rc_end_take_ack(e, RC_END_PSN + 4, AETH_SYNDROME_ACK);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    rc_end_left_none(e);
    rc_end_close(e);
}

/* ---- answers that come early ----------------------------------------------------------------- */

enum { PACKETS = 8, AT = 1024 };

// A Read of so many packets has left.
static struct rc_end *open_reading(bool is_met)
{
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .timeout = TIMEOUT, .retry_count = 7});
    if (is_met) {
        rc_end_meet(e);
    }
    rc_end_post(e, 1, WQE_RDMA_READ, AT, PACKETS * PMTU - 3, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    return e;
}

static void take_answer(struct rc_end *e, uint32_t i, size_t len)
{
    uint8_t octets[PMTU];
    uint8_t operation = i % PACKETS == 0             ? ROCE_READ_RESPONSE_FIRST
                        : i % PACKETS == PACKETS - 1 ? ROCE_READ_RESPONSE_LAST
                                                     : ROCE_READ_RESPONSE_MIDDLE;
    struct roce_packet p = rc_end_make(operation, RC_END_PSN + i);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    memset(octets, (int)i + 1, PMTU);
    rc_end_take(e, &p, octets, len);
}

static size_t len_of(uint32_t i)
{
    return i % PACKETS == PACKETS - 1 ? PMTU - 3 : PMTU;
}

static void expect_octets(const struct rc_end *e, uint32_t i, uint8_t value)
{
    for (size_t at = 0; at < len_of(i); at++) {
        assert_int_equal(e->memory[AT + i * PMTU + at], value);
    }
}

static void answers_are_placed_at_once_and_only_what_is_missing_is_asked_for(void **state)
{
    struct rc_end *e = open_reading(true);
    take_answer(e, 0, PMTU);
    for (uint32_t i = 3; i < PACKETS; i++) {
        take_answer(e, i, len_of(i));
        expect_octets(e, i, (uint8_t)(i + 1));
    }
    rc_end_completed_none(e->send_cq);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1);
    assert_int_equal(left->p.reth.va, remote + PMTU);
    assert_int_equal(left->p.reth.dma_len, 2 * PMTU);
    rc_end_left_none(e);
    take_answer(e, 1, PMTU);
    take_answer(e, 2, PMTU);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    for (uint32_t i = 0; i < PACKETS; i++) {
        expect_octets(e, i, (uint8_t)(i + 1));
    }
    assert_int_equal(e->memory[AT + PACKETS * PMTU - 3], 0);
    assert_int_equal(rc_end_counters(e)->early_answers, PACKETS - 3);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void each_run_that_is_missing_is_asked_for_alone(void **state)
{
    struct rc_end *e = open_reading(true);
    take_answer(e, 1, PMTU);
    take_answer(e, 3, PMTU);
    take_answer(e, 4, PMTU);
    take_answer(e, PACKETS - 1, PMTU - 3);
    assert_int_equal(rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN)->p.reth.dma_len, PMTU);
    assert_int_equal(rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 2)->p.reth.dma_len, PMTU);
    assert_int_equal(rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 5)->p.reth.dma_len, 2 * PMTU);
    rc_end_left_none(e);
    rc_end_close(e);
}

// The window is 7 by the loss, and two of it are asked for anew. It is one loss, however many
// answers tell of it, and whether there is room to ask at once or not.
static void lost_answers_make_the_window_smaller_once(void **state)
{
    for (unsigned has_room = 0; has_room < 2; has_room++) {
        struct rc_end *e = open_reading(true);
        e->has_no_room = !has_room;
        take_answer(e, 0, PMTU);
        for (uint32_t i = 3; i < PACKETS; i++) {
            take_answer(e, i, len_of(i));
        }
        e->has_no_room = false;
        rc_end_output(e);
        rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1);
        rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 20 * PMTU, remote, REMOTE_KEY);
        rc_end_left(e, ROCE_WRITE_FIRST, RC_END_PSN + PACKETS);
        for (uint32_t i = 1; i < 5; i++) {
            rc_end_left(e, ROCE_WRITE_MIDDLE, RC_END_PSN + PACKETS + i);
        }
        rc_end_left_none(e);
        rc_end_close(e);
    }
}

#define RTT_NS (100 * NS_PER_US)

// A round trip is known by a Read, and of the next the second answer is missing: it has been asked
// for again.
static struct rc_end *open_missing_one(void)
{
    struct rc_end *e = open_reading(true);
    e->now += RTT_NS;
    for (uint32_t i = 0; i < PACKETS; i++) {
        take_answer(e, i, len_of(i));
    }
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_post(e, 2, WQE_RDMA_READ, AT, PACKETS * PMTU - 3, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + PACKETS);
    take_answer(e, PACKETS, PMTU);
    for (uint32_t i = 2; i < 5; i++) {
        take_answer(e, PACKETS + i, PMTU);
    }
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + PACKETS + 1);
    return e;
}

static void an_answer_that_is_lost_again_is_asked_for_after_a_round_trip(void **state)
{
    struct rc_end *e = open_missing_one();
    e->now += RTT_NS - 1;
    take_answer(e, PACKETS + 5, PMTU);
    rc_end_left_none(e);
    e->now += 1;
    take_answer(e, PACKETS + 6, PMTU);
    assert_int_equal(rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + PACKETS + 1)->p.reth.dma_len,
                     PMTU);
    rc_end_left_none(e);
    rc_end_close(e);
}

// Nothing of it is acknowledged before the hole has closed. A tail-loss probe tells what is known:
// it leaves after two round trips and what a peer may take to answer.
static void what_leaves_behind_a_missing_answer_tells_of_no_round_trip(void **state)
{
    struct rc_end *e = open_missing_one();
    rc_end_post(e, 3, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    rc_end_wait(e, e->now + RTT_NS / 4); // it is paced
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 2 * PACKETS);
    e->now += 10 * NS_PER_MS;
    take_answer(e, PACKETS + 1, PMTU);
    for (uint32_t i = 5; i < PACKETS; i++) {
        take_answer(e, PACKETS + i, len_of(i));
    }
    rc_end_take_ack(e, RC_END_PSN + 2 * PACKETS, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    rc_end_completed(e->send_cq, 3, WC_SUCCESS);
    rc_end_post(e, 4, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 2 * PACKETS + 1);
    const instant_ns due = e->now + 2 * RTT_NS + 200 * NS_PER_US;
    rc_end_wait(e, due - 1);
    rc_end_left_none(e);
    rc_end_wait(e, due);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 2 * PACKETS + 1);
    rc_end_close(e);
}

static void after_silence_all_answers_are_asked_for_again(void **state)
{
    struct rc_end *e = open_reading(true);
    take_answer(e, 0, PMTU);
    take_answer(e, 2, PMTU);
    rc_end_wait(e, e->now + (4096 << TIMEOUT));
    assert_int_equal(rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1)->p.reth.dma_len,
                     (PACKETS - 1) * PMTU - 3);
    for (uint32_t i = 1; i < PACKETS; i++) {
        rc_end_completed_none(e->send_cq);
        take_answer(e, i, len_of(i));
    }
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

// The rest, as before.
static void a_strangers_answers_wait_for_their_turn(void **state)
{
    struct rc_end *e = open_reading(false);
    take_answer(e, 0, PMTU);
    take_answer(e, 3, PMTU);
    expect_octets(e, 3, 0);
    assert_int_equal(rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 1)->p.reth.dma_len,
                     (PACKETS - 1) * PMTU - 3);
    rc_end_close(e);
}

// Neither a length that its place does not have, nor an answer to what is no Read.
static void what_does_not_fit_is_not_placed_early(void **state)
{
    struct rc_end *e = open_reading(true);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, PMTU, remote, REMOTE_KEY);
    e->first = e->count = 0;
    take_answer(e, 3, PMTU - 4);
    take_answer(e, PACKETS - 1, PMTU);
    struct roce_packet p = rc_end_make(ROCE_READ_RESPONSE_ONLY, RC_END_PSN + PACKETS);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    rc_end_take(e, &p, "wrong", 5);
    for (uint32_t i = 0; i < PACKETS; i++) {
        expect_octets(e, i, 0);
    }
    assert_int_equal(rc_end_counters(e)->early_answers, 0);
    assert_int_equal(rc_end_state(e), QP_RTS);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_missing_leaves_again),
        cmocka_unit_test(of_a_longer_flight_only_what_is_missing_leaves_again),
        cmocka_unit_test(of_a_flight_of_forty_only_what_is_missing_leaves_again),
        cmocka_unit_test(two_later_ones_are_not_enough),
        cmocka_unit_test(it_is_so_behind_four_thousand_million_packets),
        cmocka_unit_test(the_last_that_left_is_enough),
        cmocka_unit_test(what_is_lost_again_leaves_again),
        cmocka_unit_test(what_is_acknowledged_tells_of_what_left_before_it),
        cmocka_unit_test(what_is_here_makes_room_in_the_window),
        cmocka_unit_test(behind_a_hole_that_has_closed_the_window_is_as_before),
        cmocka_unit_test(everything_leaves_again_after_silence),
        cmocka_unit_test(who_does_not_greet_has_all_leave_again),
        cmocka_unit_test(what_is_no_sack_has_all_leave_again),
        cmocka_unit_test(what_never_left_is_not_here),
        cmocka_unit_test(a_read_is_asked_for_again_without_the_messages_behind_it),
        cmocka_unit_test(answers_are_placed_at_once_and_only_what_is_missing_is_asked_for),
        cmocka_unit_test(each_run_that_is_missing_is_asked_for_alone),
        cmocka_unit_test(lost_answers_make_the_window_smaller_once),
        cmocka_unit_test(an_answer_that_is_lost_again_is_asked_for_after_a_round_trip),
        cmocka_unit_test(what_leaves_behind_a_missing_answer_tells_of_no_round_trip),
        cmocka_unit_test(after_silence_all_answers_are_asked_for_again),
        cmocka_unit_test(a_strangers_answers_wait_for_their_turn),
        cmocka_unit_test(what_does_not_fit_is_not_placed_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

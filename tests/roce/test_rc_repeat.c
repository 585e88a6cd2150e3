// What leaves again towards a weft end that says what it has: only what is lost.
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
        e->first = (e->first + 1) % RC_END_PACKETS;
        e->count--;
    }
    rc_end_wait(e, e->now + 100 * NS_PER_US);
    e->first = e->count = 0;
    rc_end_take_sack(e, RC_END_PSN + 1, 0xffff); // what left behind it the second time is here
    left_middle(e, 1);
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
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN + 5);
    rc_end_left_none(e);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_missing_leaves_again),
        cmocka_unit_test(two_later_ones_are_not_enough),
        cmocka_unit_test(the_last_that_left_is_enough),
        cmocka_unit_test(what_is_lost_again_leaves_again),
        cmocka_unit_test(what_is_here_makes_room_in_the_window),
        cmocka_unit_test(everything_leaves_again_after_silence),
        cmocka_unit_test(who_does_not_greet_has_all_leave_again),
        cmocka_unit_test(what_is_no_sack_has_all_leave_again),
        cmocka_unit_test(what_never_left_is_not_here),
        cmocka_unit_test(a_read_is_asked_for_again_without_the_messages_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

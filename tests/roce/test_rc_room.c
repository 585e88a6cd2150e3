// Two reliable connections of one device: what both have in the network is to fit its room, which
// is told in packets here. A packet shorter than 1024 octets takes as much, and its headers.
#include "congestion/share.h"
#include "tests/roce/rc_end.h"

enum { PMTU = 256, COUNTED_LEN = 1024 + 64, REMOTE_KEY = 0x1234, TIMEOUT = 14 };

static const uint64_t remote = 0x100000;

static struct two {
    struct congestion_share share;
    struct rc_end *one, *other;
} two;

static void open_two(uint32_t room_packets)
{
    const struct rc_end_options options = {
        .pmtu = PMTU, .timeout = TIMEOUT, .retry_count = 7, .share = &two.share};
    congestion_share_init(&two.share, room_packets * COUNTED_LEN);
    two.one = rc_end_open(&options);
    two.other = rc_end_open(&options);
}

static void close_two(void)
{
    rc_end_close(two.one);
    rc_end_close(two.other);
}

static void write_packets(struct rc_end *e, uint32_t count)
{
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, count * PMTU, remote, REMOTE_KEY);
}

static void read_packets(struct rc_end *e, uint32_t count)
{
    rc_end_post(e, 1, WQE_RDMA_READ, 0, count * PMTU, remote, REMOTE_KEY);
}

static bool has_output(const struct rc_end *e)
{
    return e->t->ops->has_output(e->t);
}

static void who_is_alone_has_all_of_it_and_asks_by_the_packet_that_fills_it(void **state)
{
    open_two(4);
    write_packets(two.one, 10);
    assert_int_equal(two.one->count, 4);
    assert_true(two.one->packets[3].p.bth.ack_req);
    assert_false(has_output(two.one));
    rc_end_take_ack(two.one, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    assert_int_equal(two.one->count, 6);
    close_two();
}

static void who_finds_none_goes_on_when_the_other_has_its_answer(void **state)
{
    open_two(1);
    write_packets(two.one, 1);
    rc_end_left(two.one, ROCE_WRITE_ONLY, RC_END_PSN);
    write_packets(two.other, 1);
    rc_end_left_none(two.other);
    assert_false(has_output(two.other));
    rc_end_take_ack(two.one, RC_END_PSN, AETH_SYNDROME_ACK);
    assert_true(has_output(two.other));
    rc_end_output(two.other);
    rc_end_left(two.other, ROCE_WRITE_ONLY, RC_END_PSN);
    close_two();
}

// The request leaves when all that it asks for has room, and what is left is for others.
static void read_takes_what_its_answer_will_take(void **state)
{
    open_two(4);
    write_packets(two.one, 3);
    assert_int_equal(two.one->count, 3);
    read_packets(two.other, 2);
    rc_end_left_none(two.other);
    rc_end_take_ack(two.one, RC_END_PSN + 2, AETH_SYNDROME_ACK);
    rc_end_output(two.other);
    rc_end_left(two.other, ROCE_READ_REQUEST, RC_END_PSN);
    write_packets(two.one, 3);
    assert_int_equal(two.one->count - two.one->first, 5); // two of the three
    close_two();
}

static void one_that_ends_leaves_its_room_to_the_other(void **state)
{
    open_two(1);
    write_packets(two.one, 1);
    write_packets(two.other, 1);
    rc_end_left_none(two.other);
    rc_end_modify(two.one, QP_ERR);
    rc_end_output(two.one);
    rc_end_output(two.other);
    rc_end_left(two.other, ROCE_WRITE_ONLY, RC_END_PSN);
    close_two();
}

static void the_other_has_what_is_left(void **state)
{
    open_two(4);
    write_packets(two.one, 2);
    assert_int_equal(two.one->count, 2);
    write_packets(two.other, 3);
    assert_int_equal(two.other->count, 2);
    close_two();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_alone_has_all_of_it_and_asks_by_the_packet_that_fills_it),
        cmocka_unit_test(who_finds_none_goes_on_when_the_other_has_its_answer),
        cmocka_unit_test(read_takes_what_its_answer_will_take),
        cmocka_unit_test(one_that_ends_leaves_its_room_to_the_other),
        cmocka_unit_test(the_other_has_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// A peer that lies about its messages beyond holes: nothing is written twice, nothing incomplete is
// delivered, and the stream ends as it would in order.
#include "tests/iwarp/hole.h"

// A segment of a Send with numbers of its own.
static unsigned segment(struct hole *h, uint32_t msn, uint32_t mo, bool last, uint32_t len)
{
    static const uint8_t octets[200];
    struct ddp_header header = {
        .last = last, .rsvdulp = rdmap_control_emit(RDMAP_SEND), .msn = msn, .mo = mo};
    return hole_segment(h, &header, octets, len);
}

static void segments_that_overlap_are_not_both_placed(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 1, 200);
    segment(h, 1, 0, false, 50); // the hole
    unsigned second = segment(h, 1, 50, false, 60);
    unsigned third = segment(h, 1, 100, true, 50); // ten octets too early
    hole_begin(h);
    hole_arrive(h, second, third);
    hole_arrive(h, third, h->count);
    assert_int_equal(hole_counters(h)->early_sends, 1);
    assert_int_equal(hole_counters(h)->early_put_off, 1);
    hole_arrive(h, 0, second);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_DDP_MO], 1);
    hole_drop(h);
}

// All octets are counted, none overlaps, but one place was never written: the receive would hold
// something stale there.
static void a_message_with_a_gap_is_not_delivered(void **state)
{
    struct hole *h = hole_open(NULL);
    h->is_twin_free = true; // it refuses the segment out of place
    hole_post_receives(h, 2, 200);
    unsigned first = segment(h, 1, 0, true, 10); // the hole
    segment(h, 2, 0, false, 50);
    segment(h, 2, 60, true, 50); // ten octets are left out
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    assert_int_equal(hole_counters(h)->early_sends, 2);
    hole_arrive(h, first, first + 1);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->wq.recv_completions, 1);
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_PLACED_APART], 1);
    assert_int_equal(hole_counters(h)->terminates_out[TERM_DDP_MO], 1);
    hole_drop(h);
}

static void octets_in_order_must_not_touch_early_ones(void **state)
{
    struct hole *h = hole_open(NULL);
    h->is_twin_free = true;
    hole_post_receives(h, 1, 200);
    unsigned first = segment(h, 1, 0, false, 60); // reaches over what comes next
    unsigned second = segment(h, 1, 50, true, 50);
    hole_begin(h);
    hole_arrive(h, second, h->count);
    hole_arrive(h, first, second);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_PLACED_APART], 1);
    assert_int_equal(hole_counters(h)->wq.recv_completions, 0);
    hole_drop(h);
}

static void a_message_ends_only_once(void **state)
{
    static const struct {
        uint32_t mo, len;
        bool last;
    } seconds[] = {{0, 20, true}, {0, 10, false}, {30, 10, true}, {30, 10, false}};
    for (unsigned i = 0; i < 4; i++) {
        struct hole *h = hole_open(NULL);
        h->is_twin_free = true;
        hole_post_receives(h, 2, 200);
        unsigned first = segment(h, 1, 0, true, 10); // the hole
        segment(h, 2, 0, true, 20);
        segment(h, 2, seconds[i].mo, seconds[i].last, seconds[i].len);
        hole_begin(h);
        hole_arrive(h, first + 1, h->count);
        assert_int_equal(hole_counters(h)->early_sends, 1);
        hole_arrive(h, first, first + 1);
        assert_true(hole_is_over(h));
        assert_int_equal(hole_counters(h)->wq.recv_completions, 2);
        hole_drop(h);
    }
}

static void a_request_slot_is_filled_only_once(void **state)
{
    struct hole *h = hole_open(NULL);
    h->is_twin_free = true;
    unsigned first = hole_read_request(h, 0, 8);
    hole_read_request(h, 100, 8);
    h->sender.tx_msn[DDP_QN_READ_REQUEST]--;
    hole_read_request(h, 200, 8);
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    assert_int_equal(hole_counters(h)->early_requests, 1);
    assert_int_equal(hole_counters(h)->early_put_off, 1);
    hole_arrive(h, first, first + 1);
    assert_true(hole_is_over(h));
    hole_drop(h);
}

// The ledger of the hole says that a message ends in it, but the message before it never came: what
// the hole holds back and what can be delivered are not the same, and that ends the stream.
static void a_request_whose_predecessor_never_came_is_not_started(void **state)
{
    struct hole *h = hole_open(NULL);
    h->is_twin_free = true; // it refuses the number out of turn
    unsigned first = hole_write(h, h->early.stag, hole_write_to(0), 8); // the hole
    h->sender.tx_msn[DDP_QN_READ_REQUEST]++;
    hole_read_request(h, 0, 8);
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    assert_int_equal(hole_counters(h)->early_requests, 1);
    hole_arrive(h, first, first + 1);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_PLACED_APART], 1);
    assert_int_equal(hole_counters(h)->released_requests, 0);
    hole_drop(h);
}

// Not an octet tells of this one: only the count of Sends does.
static void an_empty_send_whose_predecessor_never_came_is_not_delivered(void **state)
{
    struct hole *h = hole_open(NULL);
    h->is_twin_free = true;
    hole_post_receives(h, 2, 200);
    unsigned first = hole_write(h, h->early.stag, hole_write_to(0), 8);
    segment(h, 2, 0, true, 0);
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    assert_int_equal(hole_counters(h)->early_sends, 1);
    hole_arrive(h, first, first + 1);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_PLACED_APART], 1);
    assert_int_equal(hole_counters(h)->wq.recv_completions, 0);
    hole_drop(h);
}

static void message_far_ahead_waits_in_the_transport(void **state)
{
    struct hole_options options = {.recv_wr = 2 * EARLY_SEND_MAX};
    struct hole *h = hole_open(&options);
    h->is_twin_free = true;
    hole_post_receives(h, 2 * EARLY_SEND_MAX, 0);
    unsigned first = segment(h, 1, 0, true, 0);
    segment(h, 1 + EARLY_SEND_MAX, 0, true, 0);
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    assert_int_equal(hole_counters(h)->early_put_off, 1);
    hole_drop(h);
}

// One octet to a segment, every other of which is lost: what is kept of a message has a bound, and
// what is beyond it waits in the transport.
static void pieces_of_messages_are_bounded(void **state)
{
    enum { LEN = 400 };
    struct hole_options options = {.mulpdu = DDP_UNTAGGED_HEADER_LEN + 1};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 1, LEN);
    unsigned first = hole_send(h, &(struct hole_send){.len = LEN});
    hole_begin(h);
    for (unsigned i = 1; i < LEN; i += 2) {
        hole_arrive(h, first + i, first + i + 1);
    }
    assert_int_equal(h->early.qp->early->coverage.count, DDP_COVERAGE_MAX);
    assert_int_equal(hole_counters(h)->early_put_off, LEN / 2 - DDP_COVERAGE_MAX);
    hole_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_that_overlap_are_not_both_placed),
        cmocka_unit_test(a_message_with_a_gap_is_not_delivered),
        cmocka_unit_test(octets_in_order_must_not_touch_early_ones),
        cmocka_unit_test(a_message_ends_only_once),
        cmocka_unit_test(a_request_slot_is_filled_only_once),
        cmocka_unit_test(a_request_whose_predecessor_never_came_is_not_started),
        cmocka_unit_test(an_empty_send_whose_predecessor_never_came_is_not_delivered),
        cmocka_unit_test(message_far_ahead_waits_in_the_transport),
        cmocka_unit_test(pieces_of_messages_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

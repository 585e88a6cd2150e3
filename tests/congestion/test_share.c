// What the senders of a device may have out together.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "congestion/share.h"

enum { MEMBERS = 4, PACKET_LEN = 1000, ROOM_LEN = 10 * PACKET_LEN };

static struct congestion_share share;
static struct congestion_member members[MEMBERS];
static unsigned told[MEMBERS]; // how often each was told that it need not wait
static instant_ns now;

static void on_room(void *ctx)
{
    told[(struct congestion_member *)ctx - members]++;
}

static int begin(void **state)
{
    now = NS_PER_S;
    congestion_share_init(&share, ROOM_LEN);
    for (unsigned i = 0; i < MEMBERS; i++) {
        congestion_member_init(&members[i], &share, on_room, &members[i]);
        told[i] = 0;
    }
    return 0;
}

static bool may(unsigned i, unsigned packets)
{
    return congestion_member_may(&members[i], packets * PACKET_LEN, now);
}

static void set(unsigned i, unsigned packets)
{
    congestion_member_set(&members[i], packets * PACKET_LEN, now);
}

static void wait_for(unsigned i, unsigned packets)
{
    congestion_member_wait(&members[i], packets * PACKET_LEN);
}

static uint64_t most(unsigned i)
{
    return congestion_member_most(&members[i]) / PACKET_LEN;
}

static void most_is_what_the_others_leave(void **state)
{
    assert_int_equal(most(0), 10);
    set(0, 6);
    assert_int_equal(most(0), 10); // what it has itself is no other's
    assert_int_equal(most(1), 4);
    set(1, 4);
    assert_int_equal(most(2), 0);
    wait_for(2, 1);
    set(1, 0);
    assert_int_equal(most(2), 4);
    assert_int_equal(most(1), 0); // who waits is first
}

static void all_together_fit_the_room(void **state)
{
    assert_true(may(0, 10));
    set(0, 6);
    assert_true(may(1, 4));
    assert_false(may(1, 5));
    set(1, 4);
    assert_false(may(2, 1));
    assert_true(may(0, 6)); // it has them already
    assert_false(may(0, 7));
    set(0, 5);
    assert_true(may(2, 1));
}

static void each_has_the_same_part(void **state)
{
    assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), 10);
    for (unsigned i = 0; i < MEMBERS; i++) {
        set(i, 1);
    }
    assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), 2);
    assert_int_equal(congestion_member_packets(&members[0], ROOM_LEN), 1);
}

// Their acknowledgements may all have come at once.
static void who_had_something_out_lately_counts(void **state)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        set(i, 1);
        set(i, 0);
    }
    set(0, 1);
    set(1, 1);
    set(0, 0);
    set(1, 0);
    assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), 5);
    for (unsigned i = 0; i < 2; i++) {
        now += 10 * NS_PER_MS;
        set(0, 1);
        set(0, 0);
    }
    assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), 10);
}

static void who_waits_has_its_turn_in_the_order_of_coming(void **state)
{
    set(0, 10);
    wait_for(1, 4);
    wait_for(2, 1);
    set(0, 7);
    assert_int_equal(told[1] + told[2], 0);
    assert_false(may(2, 1)); // there is room, but the other came before
    assert_false(may(0, 8));
    set(0, 6);
    assert_int_equal(told[1], 1);
    assert_true(may(1, 4));
    set(1, 4);
    congestion_member_leave(&members[1]);
    assert_false(may(2, 1));
    set(0, 5);
    assert_true(told[2] > 0);
    assert_true(may(2, 1));
}

static void room_is_promised_once(void **state)
{
    set(0, 10);
    wait_for(1, 4);
    wait_for(2, 4);
    set(0, 5); // room for one of them
    assert_int_equal(told[1], 1);
    assert_int_equal(told[2], 0);
    set(0, 2); // and for both
    assert_int_equal(told[2], 1);
}

static void who_leaves_the_line_lets_the_next_pass(void **state)
{
    set(0, 9);
    wait_for(1, 4);
    wait_for(2, 1);
    assert_false(may(2, 1));
    congestion_member_leave(&members[1]);
    assert_int_equal(told[2], 1);
    assert_true(may(2, 1));
}

static void what_is_more_than_the_room_leaves_when_nothing_is_out(void **state)
{
    set(0, 1);
    assert_false(may(1, 11));
    set(0, 0);
    assert_true(may(1, 11));
    set(1, 11);
    assert_false(may(1, 12));
}

// Their peers are gone, or the network is.
static void what_nobody_answers_is_written_off(void **state)
{
    set(0, 10);
    wait_for(1, 1);
    assert_false(may(1, 1));
    assert_true(congestion_member_until(&members[1]) == now + CONGESTION_WRITE_OFF_NS);
    now += CONGESTION_WRITE_OFF_NS;
    assert_true(may(1, 1));
    set(1, 1);
    congestion_member_leave(&members[1]);
    assert_true(may(2, 9));
    assert_false(may(2, 10));
    set(0, 0); // late: it takes nothing from the others
    assert_false(may(2, 10));
    set(0, 1); // and counts again
    assert_false(may(2, 9));
}

// A millisecond; who has something out in it counts in the next one too.
static void a_period_is_a_millisecond(void **state)
{
    static const struct {
        duration_ns later_ns;
        uint32_t packets; // of two who had something out, and of itself
    } rows[] = {{0, 5}, {NS_PER_MS - 1, 5}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(state);
        set(0, 1); // a period begins
        set(1, 1);
        set(1, 0);
        now += rows[i].later_ns;
        set(0, 2);
        assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), rows[i].packets);
    }
    now += 1;
    set(0, 1); // the next one
    assert_int_equal(share.period_began, now);
    assert_int_equal(share.most_active_before, 2);
    assert_int_equal(share.most_active, 1);
    now += NS_PER_MS - 1;
    set(0, 2);
    assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), 5);
    now += 1;
    set(0, 1);
    assert_int_equal(share.most_active_before, 1);
    assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), 10);
}

static void who_waits_is_one_of_those_who_share(void **state)
{
    congestion_member_set(&members[0], 1, now); // an octet is something
    assert_int_equal(share.active, 1);
    assert_int_equal(congestion_member_packets(&members[0], PACKET_LEN), 10);
    assert_int_equal(congestion_member_packets(&members[1], PACKET_LEN), 5);
    set(0, 10);
    wait_for(1, 1);
    assert_int_equal(share.active, 2);
    assert_int_equal(share.most_active, 2);
    wait_for(1, 2); // more: it stands there already
    assert_int_equal(share.active, 2);
    assert_true(congestion_member_waits(&members[1]));
    congestion_member_leave(&members[1]);
    assert_int_equal(share.active, 1);
    assert_false(congestion_member_waits(&members[1]));
    assert_true(congestion_member_until(&members[1]) == INSTANT_NEVER);
}

// What one has already is not promised to it once more.
static void of_those_who_wait_what_they_have_counts_once(void **state)
{
    set(1, 2);
    set(0, 8);
    wait_for(1, 4);
    wait_for(2, 3);
    set(0, 5); // two more for the one, three for the other: there are three
    assert_int_equal(told[1], 1);
    assert_int_equal(told[2], 0);
    set(0, 3); // five
    assert_int_equal(told[2], 1);
}

static void silence_is_since_something_came_back(void **state)
{
    set(0, 5);
    now += CONGESTION_WRITE_OFF_NS - 1;
    set(0, 10); // more: nothing has come back by that
    assert_false(may(1, 1));
    now += 1;
    assert_true(may(1, 1));
    set(0, 9);
    assert_false(may(1, 2));
    now += CONGESTION_WRITE_OFF_NS - 1;
    assert_false(may(1, 2));
    now += 1;
    assert_true(may(1, 2));
    set(0, 0);
    now += 10 * CONGESTION_WRITE_OFF_NS;
    wait_for(2, 1);
    assert_false(may(1, 1)); // where nothing is out nobody is silent, and the other is first
    set(1, 10);
    assert_int_equal(share.epoch, 0);
}

static void what_was_written_off_counts_anew_when_it_is_told_again(void **state)
{
    set(0, 4);
    set(1, 4);
    now += CONGESTION_WRITE_OFF_NS;
    set(2, 3); // all else is written off
    assert_int_equal(share.epoch, 1);
    assert_int_equal(share.out_len, 3 * PACKET_LEN);
    assert_int_equal(most(0), 7);
    set(0, 4); // the same as before, of this epoch
    assert_int_equal(share.out_len, 7 * PACKET_LEN);
    assert_int_equal(most(0), 7);
    assert_int_equal(most(1), 3);
    set(0, 4);
    assert_int_equal(share.out_len, 7 * PACKET_LEN);
}

static void without_a_share_all_may(void **state)
{
    struct congestion_member alone;
    congestion_member_init(&alone, NULL, on_room, NULL);
    congestion_member_set(&alone, UINT64_MAX, now);
    assert_true(congestion_member_may(&alone, UINT64_MAX, now));
    assert_int_equal(congestion_member_packets(&alone, PACKET_LEN), UINT32_MAX);
    assert_true(congestion_member_most(&alone) == UINT64_MAX);
    congestion_member_leave(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(most_is_what_the_others_leave, begin),
        cmocka_unit_test_setup(all_together_fit_the_room, begin),
        cmocka_unit_test_setup(each_has_the_same_part, begin),
        cmocka_unit_test_setup(who_had_something_out_lately_counts, begin),
        cmocka_unit_test_setup(who_waits_has_its_turn_in_the_order_of_coming, begin),
        cmocka_unit_test_setup(room_is_promised_once, begin),
        cmocka_unit_test_setup(who_leaves_the_line_lets_the_next_pass, begin),
        cmocka_unit_test_setup(what_is_more_than_the_room_leaves_when_nothing_is_out, begin),
        cmocka_unit_test_setup(what_nobody_answers_is_written_off, begin),
        cmocka_unit_test_setup(a_period_is_a_millisecond, begin),
        cmocka_unit_test_setup(who_waits_is_one_of_those_who_share, begin),
        cmocka_unit_test_setup(of_those_who_wait_what_they_have_counts_once, begin),
        cmocka_unit_test_setup(silence_is_since_something_came_back, begin),
        cmocka_unit_test_setup(what_was_written_off_counts_anew_when_it_is_told_again, begin),
        cmocka_unit_test_setup(without_a_share_all_may, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

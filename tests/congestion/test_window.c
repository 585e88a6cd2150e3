// The window by itself: numbers in, window and pace out.
#include <string.h>

#include "congestion/cnp.h"
#include "tests/congestion/bench.h"

// A window's worth was acknowledged, and took `rtt_ns`; the next begins a little later.
static void round_trip(struct bench *b, duration_ns rtt_ns)
{
    b->now += 2 * rtt_ns;
    congestion_on_rtt(&b->c, rtt_ns, b->now);
    congestion_on_ack(&b->c, congestion_window(&b->c), true);
}

// In avoidance, with a window of 40 and a round trip of 100 us.
static struct bench avoiding(void)
{
    struct bench b = begin();
    round_trip(&b, RTT_NS);
    round_trip(&b, RTT_NS);
    b.c.phase = CONGESTION_AVOIDANCE;
    b.c.window = 40;
    return b;
}

/* ---- growing --------------------------------------------------------------------------------- */

static void window_begins_with_ten_packets(void **state)
{
    struct bench b = begin();
    assert_int_equal(congestion_window(&b.c), 10);
    assert_int_equal(congestion_not_before(&b.c), 0);
}

static void slow_start_doubles_per_round_trip_up_to_the_largest(void **state)
{
    struct bench b = begin();
    static const uint32_t windows[] = {20, 40, 80, 128, 128};
    for (unsigned i = 0; i < 5; i++) {
        round_trip(&b, RTT_NS);
        assert_in_range(congestion_window(&b.c), windows[i] - 1, windows[i]);
    }
}

static void window_grows_by_one_packet_per_round_trip(void **state)
{
    struct bench b = avoiding();
    for (unsigned i = 1; i <= 10; i++) {
        round_trip(&b, RTT_NS + 40 * US);
        assert_in_range(congestion_window(&b.c), 40 + i - 1, 40 + i);
    }
}

static void window_of_one_packet_and_less_grows_by_one(void **state)
{
    struct bench b = avoiding();
    b.c.window = 1;
    round_trip(&b, RTT_NS);
    assert_window(&b, 2);
    b.c.window = 0.25;
    round_trip(&b, RTT_NS);
    assert_window(&b, 1.25);
}

static void sender_that_is_not_limited_does_not_grow(void **state)
{
    struct bench b = begin();
    congestion_on_ack(&b.c, 10, false);
    assert_window(&b, 10);
}

static void window_below_one_limits_whoever_sends(void **state)
{
    struct bench b = avoiding();
    b.c.window = 0.25;
    congestion_on_ack(&b.c, 1, false);
    assert_window(&b, 1.25);
    congestion_on_ack(&b.c, 1, false);
    assert_window(&b, 1.25);
}

static void settings_are_obeyed(void **state)
{
    const struct congestion_config config = {.target_ns = 10 * US, .window_max = 12};
    struct bench b = {.now = 100 * NS_PER_S};
    congestion_init(&b.c, &config);
    round_trip(&b, RTT_NS);
    assert_int_equal(congestion_window(&b.c), 12);
    round_trip(&b, RTT_NS + 5 * US);
    assert_int_equal(congestion_window(&b.c), 12);
    round_trip(&b, RTT_NS + 20 * US);
    assert_int_equal(congestion_window(&b.c), 10);
}

/* ---- delay ----------------------------------------------------------------------------------- */

static void slow_start_ends_when_packets_wait_long(void **state)
{
    struct bench b = begin();
    round_trip(&b, RTT_NS);
    round_trip(&b, RTT_NS + 90 * US);
    assert_int_equal(b.c.phase, CONGESTION_SLOW_START);
    round_trip(&b, RTT_NS + 110 * US);
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
}

static void cut_by_delay_is_what_empties_the_queue(void **state)
{
    struct bench b = avoiding();
    round_trip(&b, RTT_NS + 60 * US);
    assert_window(&b, 40 * 100.0 / 160);
}

static void cut_by_delay_leaves_half(void **state)
{
    struct bench b = avoiding();
    round_trip(&b, RTT_NS * 9);
    assert_window(&b, 20);
}

static void one_delayed_answer_is_no_queue(void **state)
{
    struct bench b = avoiding();
    round_trip(&b, RTT_NS);
    b.now += RTT_NS / 2;
    congestion_on_rtt(&b.c, RTT_NS, b.now);
    b.now += 40 * RTT_NS;
    double window = b.c.window;
    congestion_on_rtt(&b.c, 41 * RTT_NS, b.now);
    assert_true(b.c.window >= window);
}

// A message there and one back: the host that has other work answers late, and no smaller window
// would have it answer sooner.
static void delay_of_who_sends_less_than_it_may_cuts_nothing(void **state)
{
    struct bench b = avoiding();
    round_trip(&b, RTT_NS); // of which the last of the window was held back
    congestion_on_rtt(&b.c, RTT_NS, b.now += 2 * RTT_NS);
    double window = b.c.window;
    for (unsigned i = 0; i < 40; i++) {
        congestion_on_rtt(&b.c, i % 5 == 4 ? RTT_NS : 20 * RTT_NS, b.now += 40 * RTT_NS);
        congestion_on_ack(&b.c, 1, false);
        assert_window(&b, window);
    }
    round_trip(&b, RTT_NS * 20);
    round_trip(&b, RTT_NS * 20);
    assert_true(b.c.window < window);
}

static void queue_that_was_emptied_is_cut_again_later(void **state)
{
    struct bench b = avoiding();
    for (unsigned cuts = 1; cuts <= 6; cuts++) {
        double before = b.c.window;
        round_trip(&b, RTT_NS + 60 * US);
        assert_true(b.c.window < before * 0.7);
        b.c.window = 40;
        for (unsigned i = 0; i < 4; i++) {
            round_trip(&b, RTT_NS);
        }
        assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    }
}

// So many round trips in which packets wait so long.
static void stand(struct bench *b, unsigned rounds, duration_ns waited_ns)
{
    for (unsigned i = 0; i < rounds; i++) {
        round_trip(b, RTT_NS + waited_ns);
    }
}

// A cut, three round trips for it to work, and that twice.
enum { ROUNDS_OF_CUT = 4, ROUNDS_TO_COMPETE = 2 * ROUNDS_OF_CUT };

static struct bench competing(void)
{
    struct bench b = avoiding();
    stand(&b, ROUNDS_TO_COMPETE, 80 * US);
    assert_int_equal(b.c.phase, CONGESTION_COMPETING);
    return b;
}

static void queue_that_stands_is_somebody_elses(void **state)
{
    struct bench b = avoiding();
    stand(&b, ROUNDS_TO_COMPETE - 1, 80 * US);
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    assert_true(b.c.window < 40 * 0.6);
    stand(&b, 1, 80 * US);
    assert_int_equal(b.c.phase, CONGESTION_COMPETING);
    assert_in_range(congestion_window(&b.c), 40, 41); // what was cut is back
    double window = b.c.window;
    stand(&b, 1, 80 * US);
    assert_true(b.c.window > window);
}

static void half_the_target_is_as_good_as_empty(void **state)
{
    struct bench b = avoiding(), other = b;
    for (unsigned i = 0; i < 4; i++) {
        stand(&b, 1, 60 * US);
        stand(&b, ROUNDS_OF_CUT - 1, 25 * US);
        assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    }
    stand(&other, 1, 60 * US);
    stand(&other, ROUNDS_OF_CUT - 1, 26 * US);
    stand(&other, 1, 60 * US);
    stand(&other, ROUNDS_OF_CUT - 1, 26 * US);
    assert_int_equal(other.c.phase, CONGESTION_COMPETING);
}

static void cuts_in_vain_count_only_in_a_row(void **state)
{
    struct bench b = avoiding();
    for (unsigned i = 0; i < 3; i++) {
        stand(&b, ROUNDS_OF_CUT, 80 * US);
        assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
        stand(&b, 1, 80 * US);
        stand(&b, ROUNDS_OF_CUT - 1, 0);
        assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    }
}

// What else is wrong makes a cut that is being judged mean nothing.
static void loss_and_time_outs_end_the_judging(void **state)
{
    struct bench b = avoiding();
    stand(&b, 2, 80 * US);
    congestion_on_loss(&b.c, b.now);
    stand(&b, ROUNDS_TO_COMPETE - 1, 80 * US);
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    b = avoiding();
    stand(&b, 2, 80 * US);
    congestion_on_timeout(&b.c, b.now);
    b.c.phase = CONGESTION_AVOIDANCE;
    stand(&b, ROUNDS_TO_COMPETE - 1, 80 * US);
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
}

static void competition_ends_when_the_queue_is_empty(void **state)
{
    struct bench b = competing();
    stand(&b, 1, 13 * US); // a quarter of the target
    assert_int_equal(b.c.phase, CONGESTION_COMPETING);
    stand(&b, 1, 12 * US);
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    stand(&b, ROUNDS_TO_COMPETE - 1, 80 * US); // and begins as it did
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    stand(&b, 1, 80 * US);
    assert_int_equal(b.c.phase, CONGESTION_COMPETING);
}

static void competition_ends_after_eight_losses(void **state)
{
    struct bench b = competing();
    for (unsigned losses = 1; losses <= 8; losses++) {
        assert_int_equal(b.c.phase, CONGESTION_COMPETING);
        b.now += 3 * RTT_NS;
        congestion_on_loss(&b.c, b.now);
        congestion_on_loss(&b.c, b.now); // of the same round trip: one loss
    }
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
}

static void shorter_round_trip_is_the_shortest_from_then_on(void **state)
{
    struct bench b = avoiding();
    round_trip(&b, RTT_NS / 2);
    b.c.window = 40;
    round_trip(&b, RTT_NS + 10 * US);
    round_trip(&b, RTT_NS + 10 * US);
    assert_true(b.c.window < 40);
}

static void clock_that_went_back_measures_nothing(void **state)
{
    struct bench b = avoiding();
    const struct congestion before = b.c;
    congestion_on_rtt(&b.c, 0, b.now);
    congestion_on_rtt(&b.c, (duration_ns)0 - 5 * US, b.now);
    assert_memory_equal(&b.c, &before, sizeof before);
}

static void shortest_is_remembered_for_ten_seconds_at_least(void **state)
{
    struct bench b = avoiding();
    b.now += 11 * NS_PER_S;
    stand(&b, ROUNDS_TO_COMPETE, 80 * US);
    assert_int_equal(b.c.phase, CONGESTION_COMPETING);
}

static void way_that_became_longer_is_noticed(void **state)
{
    struct bench b = avoiding();
    for (unsigned i = 0; i < 3; i++) {
        b.now += 11 * NS_PER_S;
        round_trip(&b, RTT_NS * 2);
    }
    b.c.phase = CONGESTION_AVOIDANCE;
    b.c.rounds_to_judge = 0;
    double window = b.c.window;
    round_trip(&b, RTT_NS * 2 + 40 * US);
    assert_true(b.c.window > window);
}

/* ---- loss, time-outs, notifications ---------------------------------------------------------- */

static void loss_leaves_seven_tenths_once_per_round_trip(void **state)
{
    struct bench b = avoiding();
    congestion_on_loss(&b.c, b.now);
    assert_window(&b, 28);
    congestion_on_loss(&b.c, b.now + RTT_NS / 2);
    assert_window(&b, 28);
    congestion_on_loss(&b.c, b.now + 2 * RTT_NS);
    assert_window(&b, 28 * 0.7);
}

static void loss_ends_slow_start(void **state)
{
    struct bench b = begin();
    congestion_on_loss(&b.c, b.now);
    assert_window(&b, 7);
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
}

static void notification_leaves_eight_tenths_once_per_round_trip(void **state)
{
    struct bench b = avoiding();
    congestion_on_cnp(&b.c, b.now);
    congestion_on_cnp(&b.c, b.now + 50 * US);
    assert_window(&b, 32);
}

static void time_out_leaves_one_packet_and_slow_start_to_half(void **state)
{
    struct bench b = avoiding();
    congestion_on_timeout(&b.c, b.now);
    assert_window(&b, 1);
    for (unsigned i = 0; i < 4; i++) {
        round_trip(&b, RTT_NS);
    }
    assert_in_range(congestion_window(&b.c), 10, 16);
    while (b.c.phase == CONGESTION_SLOW_START) {
        round_trip(&b, RTT_NS);
    }
    assert_window(&b, 20);
}

static void time_out_of_one_packet_leaves_it_that(void **state)
{
    struct bench b = avoiding();
    b.c.window = 1;
    congestion_on_timeout(&b.c, b.now);
    assert_window(&b, 1);
    congestion_on_ack(&b.c, 1, true);
    assert_window(&b, 1); // half of it, at least one, is where slow start ends
    assert_int_equal(b.c.phase, CONGESTION_AVOIDANCE);
    b.c.window = 0.5;
    congestion_on_timeout(&b.c, b.now);
    assert_window(&b, 0.5);
}

static void time_outs_double_until_something_is_acknowledged(void **state)
{
    struct bench b = avoiding();
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(congestion_timeout(&b.c, 1000), 1000 << (i < 6 ? i : 6));
        congestion_on_timeout(&b.c, b.now);
    }
    congestion_on_ack(&b.c, 1, true);
    assert_int_equal(congestion_timeout(&b.c, 1000), 1000);
}

static void window_never_vanishes(void **state)
{
    struct bench b = avoiding();
    for (unsigned i = 0; i < 100; i++) {
        b.now += 2 * RTT_NS;
        congestion_on_loss(&b.c, b.now);
        assert_true(congestion_window(&b.c) >= 1);
    }
    assert_true(b.c.window == 0.125);
}

/* ---- pace ------------------------------------------------------------------------------------ */

// Sends as soon as it is allowed to, for so long; returns how many packets.
static uint32_t send_for(struct bench *b, duration_ns how_long)
{
    uint32_t packets = 0;
    instant_ns end = b->now + how_long;
    for (;;) {
        instant_ns at = congestion_not_before(&b->c);
        b->now = at > b->now ? at : b->now;
        if (b->now >= end) {
            b->now = end;
            return packets;
        }
        congestion_on_sent(&b->c, 1, b->now);
        packets++;
    }
}

static void packets_are_spread_over_the_round_trip(void **state)
{
    struct bench b = avoiding();
    send_for(&b, RTT_NS);
    assert_in_range(send_for(&b, 100 * RTT_NS), 124 * 40 + 20,
                    125 * 40 + 20); // 5/4 of a window each
    assert_in_range(send_for(&b, RTT_NS / 4), 40 / 4, 40 / 4 + 5);
}

static void slow_start_is_paced_at_two_windows(void **state)
{
    struct bench b = begin();
    round_trip(&b, RTT_NS);
    send_for(&b, RTT_NS);
    assert_in_range(send_for(&b, 100 * RTT_NS), 199 * 20, 200 * 20);
}

// Those that are longer were in a queue, or at a host that was busy.
static void pace_follows_the_shortest_round_trip(void **state)
{
    struct bench b = avoiding();
    b.c.phase = CONGESTION_COMPETING; // so that the window stays what it is
    b.c.config.window_max = 40;
    stand(&b, 60, 30 * RTT_NS);
    assert_true(b.c.srtt_ns > 20 * RTT_NS);
    send_for(&b, RTT_NS);
    assert_in_range(send_for(&b, 100 * RTT_NS), 124 * 40 + 20, 125 * 40 + 20);
}

static void what_was_due_leaves_together_up_to_a_burst(void **state)
{
    struct bench b = avoiding();
    send_for(&b, RTT_NS);
    b.now += 10 * RTT_NS;
    assert_in_range(send_for(&b, 1), 10, 10); // a quarter of the window
}

// A window of 7 in 32 us: one packet in 3.7, and each asks for an acknowledgement.
static void what_is_due_within_five_microseconds_leaves_together(void **state)
{
    struct bench b = begin();
    round_trip(&b, 32 * US);
    b.c.phase = CONGESTION_AVOIDANCE;
    b.c.window = 7;
    send_for(&b, RTT_NS);
    b.now += RTT_NS;
    assert_in_range(send_for(&b, 1), 2, 2);
}

// However short a round trip is.
static void what_has_a_line_is_paced(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        struct bench b = avoiding();
        b.c.config.has_no_line = i % 2 == 0;
        round_trip(&b, i < 2 ? 10 * US : 100 * US);
        congestion_on_sent(&b.c, 40, b.now);
        assert_int_equal(congestion_not_before(&b.c) > b.now, i % 2);
        assert_int_equal(congestion_is_paced(&b.c), i % 2);
        b.c.window = 0.5; // which nothing but waiting holds to
        congestion_on_sent(&b.c, 1, b.now);
        congestion_on_sent(&b.c, 1, b.now);
        assert_true(congestion_not_before(&b.c) > b.now);
    }
}

// Within one host nothing waits in queues: not even slow start ends.
static void delay_says_nothing_where_there_is_no_line(void **state)
{
    struct bench b = begin();
    b.c.config.has_no_line = true;
    round_trip(&b, RTT_NS);
    for (unsigned i = 0; i < 5; i++) {
        round_trip(&b, 20 * RTT_NS);
    }
    assert_window(&b, CONGESTION_WINDOW_STRANGER);
    congestion_on_sent(&b.c, 40, b.now);
    assert_true(congestion_not_before(&b.c) <= b.now);
    congestion_on_loss(&b.c, b.now);
    assert_window(&b, 0.7 * CONGESTION_WINDOW_STRANGER);
}

static void window_grows_beyond_its_first_limit_once_that_is_wider(void **state)
{
    struct bench b = begin();
    b.c.config.has_no_line = true;
    for (unsigned i = 0; i < 5; i++) {
        round_trip(&b, RTT_NS);
    }
    assert_window(&b, CONGESTION_WINDOW_STRANGER);
    congestion_widen(&b.c, 2 * CONGESTION_WINDOW_STRANGER);
    assert_window(&b, CONGESTION_WINDOW_STRANGER);
    for (unsigned i = 0; i < 5; i++) {
        round_trip(&b, RTT_NS);
    }
    assert_true(congestion_window(&b.c) > CONGESTION_WINDOW_STRANGER);
}

static void slow_start_goes_on_to_a_limit_that_was_widened_meanwhile(void **state)
{
    struct bench b = begin();
    b.c.config.has_no_line = true;
    round_trip(&b, RTT_NS);
    congestion_widen(&b.c, 2 * CONGESTION_WINDOW_STRANGER);
    for (unsigned i = 0; i < 5; i++) {
        round_trip(&b, RTT_NS);
    }
    assert_window(&b, 2 * CONGESTION_WINDOW_STRANGER);
}

static void window_below_one_is_held_to_by_waiting(void **state)
{
    struct bench b = avoiding();
    b.c.window = 0.25;
    assert_int_equal(congestion_window(&b.c), 1);
    send_for(&b, RTT_NS * 4);
    assert_in_range(send_for(&b, 100 * RTT_NS), 24, 26);
}

static void nothing_is_paced_before_a_round_trip_is_known(void **state)
{
    struct bench b = begin();
    for (unsigned i = 0; i < 10; i++) {
        assert_true(congestion_not_before(&b.c) <= b.now);
        congestion_on_sent(&b.c, 1, b.now);
    }
}

static void acknowledgements_are_asked_for_four_times_in_a_window(void **state)
{
    struct bench b = begin();
    static const struct {
        double window;
        uint32_t interval;
    } rows[] = {{0.2, 1}, {1, 1}, {7.9, 1}, {8, 2}, {40, 10}, {64, 16}, {128, 16}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        b.c.window = rows[i].window;
        assert_int_equal(congestion_ack_interval(&b.c), rows[i].interval);
    }
}

static void within_one_host_no_more_often_however_large_it_is(void **state)
{
    struct congestion c;
    congestion_init(&c, &(struct congestion_config){.window_max = 240, .has_no_line = true});
    c.window = 240;
    assert_int_equal(congestion_ack_interval(&c), 60);
    c.window = 3;
    assert_int_equal(congestion_ack_interval(&c), 1);
}

static void notifications_leave_at_most_once_in_fifty_microseconds(void **state)
{
    struct cnp_pace pace = {0};
    assert_true(cnp_pace_take(&pace, 0));
    assert_false(cnp_pace_take(&pace, 1));
    assert_false(cnp_pace_take(&pace, 50 * US - 1));
    assert_true(cnp_pace_take(&pace, 50 * US));
    assert_false(cnp_pace_take(&pace, 51 * US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_begins_with_ten_packets),
        cmocka_unit_test(slow_start_doubles_per_round_trip_up_to_the_largest),
        cmocka_unit_test(window_grows_by_one_packet_per_round_trip),
        cmocka_unit_test(window_of_one_packet_and_less_grows_by_one),
        cmocka_unit_test(sender_that_is_not_limited_does_not_grow),
        cmocka_unit_test(window_below_one_limits_whoever_sends),
        cmocka_unit_test(settings_are_obeyed),
        cmocka_unit_test(slow_start_ends_when_packets_wait_long),
        cmocka_unit_test(cut_by_delay_is_what_empties_the_queue),
        cmocka_unit_test(cut_by_delay_leaves_half),
        cmocka_unit_test(one_delayed_answer_is_no_queue),
        cmocka_unit_test(delay_of_who_sends_less_than_it_may_cuts_nothing),
        cmocka_unit_test(queue_that_was_emptied_is_cut_again_later),
        cmocka_unit_test(queue_that_stands_is_somebody_elses),
        cmocka_unit_test(half_the_target_is_as_good_as_empty),
        cmocka_unit_test(cuts_in_vain_count_only_in_a_row),
        cmocka_unit_test(loss_and_time_outs_end_the_judging),
        cmocka_unit_test(competition_ends_when_the_queue_is_empty),
        cmocka_unit_test(competition_ends_after_eight_losses),
        cmocka_unit_test(shorter_round_trip_is_the_shortest_from_then_on),
        cmocka_unit_test(clock_that_went_back_measures_nothing),
        cmocka_unit_test(shortest_is_remembered_for_ten_seconds_at_least),
        cmocka_unit_test(way_that_became_longer_is_noticed),
        cmocka_unit_test(loss_leaves_seven_tenths_once_per_round_trip),
        cmocka_unit_test(loss_ends_slow_start),
        cmocka_unit_test(notification_leaves_eight_tenths_once_per_round_trip),
        cmocka_unit_test(time_out_leaves_one_packet_and_slow_start_to_half),
        cmocka_unit_test(time_out_of_one_packet_leaves_it_that),
        cmocka_unit_test(time_outs_double_until_something_is_acknowledged),
        cmocka_unit_test(window_never_vanishes),
        cmocka_unit_test(packets_are_spread_over_the_round_trip),
        cmocka_unit_test(slow_start_is_paced_at_two_windows),
        cmocka_unit_test(pace_follows_the_shortest_round_trip),
        cmocka_unit_test(what_was_due_leaves_together_up_to_a_burst),
        cmocka_unit_test(what_is_due_within_five_microseconds_leaves_together),
        cmocka_unit_test(what_has_a_line_is_paced),
        cmocka_unit_test(delay_says_nothing_where_there_is_no_line),
        cmocka_unit_test(window_grows_beyond_its_first_limit_once_that_is_wider),
        cmocka_unit_test(slow_start_goes_on_to_a_limit_that_was_widened_meanwhile),
        cmocka_unit_test(window_below_one_is_held_to_by_waiting),
        cmocka_unit_test(nothing_is_paced_before_a_round_trip_is_known),
        cmocka_unit_test(acknowledgements_are_asked_for_four_times_in_a_window),
        cmocka_unit_test(within_one_host_no_more_often_however_large_it_is),
        cmocka_unit_test(notifications_leave_at_most_once_in_fifty_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

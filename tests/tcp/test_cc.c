// How the congestion window grows and shrinks, step by step: each number is that of RFC 5681 or RFC
// 9438. What comes of many steps is in test_numbers.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tcp/cc.h"

enum { MSS = 1000 };
static const instant_ns begin = 50 * NS_PER_S;

static struct tcp_cc cc;

// In congestion avoidance, with a window of so many segments that a loss at `before` segments left.
static void avoid(enum tcp_cc_kind kind, uint32_t before)
{
    tcp_cc_init(&cc, kind, MSS);
    cc.cwnd = before * MSS;
    tcp_cc_on_loss(&cc, before * MSS);
    tcp_cc_on_recovered(&cc);
}

static void ack(uint32_t len, duration_ns rtt_ns, duration_ns since_ns)
{
    tcp_cc_on_ack(&cc, len, true, rtt_ns, begin + since_ns);
}

// Octets of the window, give or take one.
static void expect_window(uint32_t len)
{
    assert_in_range(cc.cwnd, len - 1, len + 1);
}

/* ---- the first window ------------------------------------------------------------------------ */

static void first_window_is_ten_segments_of_usual_length(void **state)
{
    static const struct {
        uint32_t mss, window;
    } rows[] = {{536, 5360}, {1460, 14600}, {1461, 14600}, {7300, 14600}, {9000, 18000}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tcp_cc_init(&cc, TCP_CC_CUBIC, rows[i].mss);
        assert_int_equal(cc.cwnd, rows[i].window);
        assert_int_equal(cc.ssthresh, TCP_SSTHRESH_NONE);
        cc.cwnd = 20000; // and no more is left of one when nothing was sent for long
        tcp_cc_on_idle(&cc);
        assert_int_equal(cc.cwnd, rows[i].window);
    }
}

/* ---- slow start ------------------------------------------------------------------------------ */

static void slow_start_grows_by_what_arrives_up_to_its_threshold(void **state)
{
    tcp_cc_init(&cc, TCP_CC_NEWRENO, MSS);
    ack(3 * MSS, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 13 * MSS);
    cc.ssthresh = 14 * MSS;
    ack(14 * MSS, NS_PER_MS, 0); // one of it to the threshold, the others are no window
    assert_int_equal(cc.cwnd, 14 * MSS);
    ack(MSS, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 15 * MSS);
}

static void window_is_no_larger_than_can_be_offered(void **state)
{
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    cc.cwnd = (1U << 30) - 10;
    ack(MSS, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 1U << 30);
}

// The round trips of one window after the other, of which the second is longer: HyStart ends here.
static bool start_with(bool is_limited)
{
    bool has_ended = false;
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    for (tcp_seq una = 0; una < 400 * MSS; una += MSS) {
        duration_ns rtt_ns = una < 10 * MSS ? 10 * NS_PER_MS : 30 * NS_PER_MS;
        has_ended |= tcp_cc_on_round_trip(&cc, rtt_ns, is_limited, una, una + 10 * MSS);
        assert_int_equal(cc.ssthresh, has_ended ? cc.cwnd : TCP_SSTHRESH_NONE);
    }
    return has_ended;
}

static void longer_round_trips_end_slow_start_where_the_window_is_the_limit(void **state)
{
    assert_true(start_with(true));
    assert_false(start_with(false));
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void loss_leaves_seven_tenths_or_half_but_two_segments(void **state)
{
    static const struct {
        enum tcp_cc_kind kind;
        uint32_t flight, left;
    } rows[] = {
        {TCP_CC_CUBIC, 20 * MSS, 14 * MSS}, {TCP_CC_NEWRENO, 20 * MSS, 10 * MSS},
        {TCP_CC_CUBIC, 2 * MSS, 2 * MSS},   {TCP_CC_NEWRENO, 3 * MSS, 2 * MSS},
        {TCP_CC_NEWRENO, 5 * MSS, 2500},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tcp_cc_init(&cc, rows[i].kind, MSS);
        tcp_cc_on_loss(&cc, rows[i].flight);
        assert_in_range(cc.ssthresh, rows[i].left - 1, rows[i].left);
        tcp_cc_on_recovered(&cc);
        assert_int_equal(cc.cwnd, cc.ssthresh);
    }
}

static void what_was_no_loss_is_taken_back(void **state)
{
    avoid(TCP_CC_NEWRENO, 20);
    tcp_cc_undo(&cc, 20 * MSS, 30 * MSS);
    assert_int_equal(cc.cwnd, 20 * MSS);
    assert_int_equal(cc.ssthresh, 30 * MSS);
    tcp_cc_undo(&cc, 5 * MSS, 6 * MSS); // never to less
    assert_int_equal(cc.cwnd, 20 * MSS);
    assert_int_equal(cc.ssthresh, 30 * MSS);
}

// RFC 4015: what is under way may stay, and what was acknowledged is followed by as much, up to a
// first window.
static void spurious_time_out_leaves_what_is_under_way(void **state)
{
    static const struct {
        uint32_t acked, window;
    } rows[] = {{2 * MSS, 8 * MSS}, {10 * MSS, 16 * MSS}, {11 * MSS, 16 * MSS}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
        tcp_cc_on_timeout(&cc, 20 * MSS, true);
        tcp_cc_on_spurious_timeout(&cc, rows[i].acked, 6 * MSS, 40 * MSS);
        assert_int_equal(cc.cwnd, rows[i].window);
        assert_int_equal(cc.ssthresh, 40 * MSS);
    }
}

/* ---- Reno ------------------------------------------------------------------------------------ */

static void reno_grows_by_a_segment_for_each_window(void **state)
{
    avoid(TCP_CC_NEWRENO, 20);
    for (unsigned i = 0; i < 9; i++) {
        ack(MSS, NS_PER_MS, 0);
        assert_int_equal(cc.cwnd, 10 * MSS);
    }
    ack(3 * MSS, NS_PER_MS, 0); // two more than a window, and they count for the next one
    assert_int_equal(cc.cwnd, 11 * MSS);
    ack(9 * MSS - 1, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 11 * MSS);
    ack(1, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 12 * MSS);
    tcp_cc_on_mss(&cc, 500);
    ack(12 * MSS, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 12 * MSS + 500);
}

static void what_was_counted_is_forgotten_with_a_loss(void **state)
{
    avoid(TCP_CC_NEWRENO, 20);
    ack(9 * MSS, NS_PER_MS, 0);
    tcp_cc_on_loss(&cc, 20 * MSS);
    tcp_cc_on_recovered(&cc);
    ack(10 * MSS - 1, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 10 * MSS);
    ack(1, NS_PER_MS, 0);
    assert_int_equal(cc.cwnd, 11 * MSS);
}

static void window_is_never_below_a_segment_of_the_new_length(void **state)
{
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    tcp_cc_on_timeout(&cc, 20 * MSS, true);
    tcp_cc_on_mss(&cc, 1400);
    assert_int_equal(cc.cwnd, 1400);
}

/* ---- CUBIC ----------------------------------------------------------------------------------- */

// A loss at a thousand segments leaves 700, and they are a thousand again after K = cbrt(300 / 0.4)
// = 9.0856 s; between the window is what the cubic says it will be in a round trip.
static void cubic_grows_back_in_so_many_seconds(void **state)
{
    static const struct {
        duration_ns since_ns;
        uint32_t target; // 0.4 (t + 0.1 s - K)^3 + 1000 segments
    } rows[] = {
        {1 * NS_PER_S, 796303},  // d = -7.9856
        {5 * NS_PER_S, 974675},  // d = -3.9856
        {9 * NS_PER_S, 1000000}, // d = 0.0144
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        avoid(TCP_CC_CUBIC, 1000);
        ack(1, 100 * NS_PER_MS, 0); // an epoch begins
        cc.cwnd = 700 * MSS;
        ack(700 * MSS, 100 * NS_PER_MS, rows[i].since_ns); // a whole window of it
        assert_in_range(cc.cwnd, rows[i].target - 20, rows[i].target + 20);
    }
}

// In proportion to what is acknowledged.
static void cubic_goes_a_part_of_the_way_with_a_part_of_a_window(void **state)
{
    avoid(TCP_CC_CUBIC, 1000);
    ack(1, 100 * NS_PER_MS, 0);
    cc.cwnd = 700 * MSS;
    ack(70 * MSS, 100 * NS_PER_MS, 5 * NS_PER_S);
    assert_in_range(cc.cwnd, 727465, 727475);
}

// RFC 9438 section 4.4.
static void cubic_grows_by_half_in_a_round_trip_at_most(void **state)
{
    avoid(TCP_CC_CUBIC, 1000);
    ack(1, 100 * NS_PER_MS, 0);
    cc.cwnd = 700 * MSS;
    ack(700 * MSS, 100 * NS_PER_MS, 100 * NS_PER_S);
    expect_window(1050 * MSS);
}

// Behind the window that it had it goes on from there.
static void cubic_without_a_loss_begins_at_its_own_window(void **state)
{
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    cc.cwnd = cc.ssthresh = 100 * MSS;
    ack(1, 100 * NS_PER_MS, 0);
    cc.cwnd = 100 * MSS;
    ack(100 * MSS, 100 * NS_PER_MS, 10 * NS_PER_S); // 0.4 * 10.1^3 = 412, of which 50 at most
    expect_window(150 * MSS);
    cc.cwnd = 100 * MSS;
    ack(100 * MSS, 100 * NS_PER_MS, 2 * NS_PER_S); // 0.4 * 2.1^3 = 3.704
    assert_in_range(cc.cwnd, 103700, 103708);
}

// RFC 9438 section 4.7: a loss below the window of the one before makes room, 0.85 of it.
static void cubic_makes_room_when_it_shrinks_from_loss_to_loss(void **state)
{
    static const struct {
        uint32_t second; // segments
        double w_max;
    } rows[] = {{800, 680 * MSS}, {1000, 1000 * MSS}, {1200, 1200 * MSS}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        avoid(TCP_CC_CUBIC, 1000);
        cc.cwnd = rows[i].second * MSS;
        tcp_cc_on_loss(&cc, rows[i].second * MSS);
        assert_true(cc.cubic.w_max > rows[i].w_max - 1 && cc.cubic.w_max < rows[i].w_max + 1);
    }
}

// Section 4.3: over a short path the window that Reno would have is larger. It grows by alpha, 9/17
// of a segment, in a round trip, and by a segment behind the window of the loss.
static void cubic_is_no_slower_than_reno(void **state)
{
    avoid(TCP_CC_CUBIC, 20);
    for (unsigned i = 0; i < 4; i++) {
        ack(cc.cwnd, NS_PER_US, i * NS_PER_US);
    }
    expect_window(14000 + 4 * 9 * MSS / 17);
    for (unsigned i = 4; cc.cwnd < 20 * MSS; i++) {
        ack(cc.cwnd, NS_PER_US, i * NS_PER_US);
    }
    uint32_t window = cc.cwnd;
    ack(window, NS_PER_US, 20 * NS_PER_US);
    expect_window(window + MSS);
}

// Section 5.8: time in which the program, not the window, was the limit does not count.
static void cubic_stands_still_while_the_window_is_not_the_limit(void **state)
{
    avoid(TCP_CC_CUBIC, 1000);
    ack(1, 100 * NS_PER_MS, 0);
    tcp_cc_on_ack(&cc, MSS, false, 100 * NS_PER_MS, begin + 30 * NS_PER_S);
    tcp_cc_on_ack(&cc, MSS, false, 100 * NS_PER_MS, begin + 60 * NS_PER_S);
    cc.cwnd = 700 * MSS;
    ack(700 * MSS, 100 * NS_PER_MS, 65 * NS_PER_S);
    assert_in_range(cc.cwnd, 974655, 974695); // as after five seconds
    tcp_cc_on_ack(&cc, MSS, false, 100 * NS_PER_MS, begin + 66 * NS_PER_S);
    assert_int_equal(cc.cubic.epoch_began, begin + 61 * NS_PER_S);
}

static void no_epoch_goes_on_behind_what_changed_the_window(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        avoid(TCP_CC_CUBIC, 1000);
        ack(1, 100 * NS_PER_MS, 0);
        assert_true(cc.cubic.has_epoch);
        switch (i) {
        case 0:
            tcp_cc_on_loss(&cc, MSS);
            break;
        case 1:
            tcp_cc_on_timeout(&cc, MSS, false);
            break;
        case 2:
            tcp_cc_on_idle(&cc);
            break;
        default:
            tcp_cc_undo(&cc, 2000 * MSS, 2000 * MSS);
            break;
        }
        assert_false(cc.cubic.has_epoch);
    }
    assert_true(cc.cubic.w_max == 2000 * MSS);
    tcp_cc_on_timeout(&cc, MSS, false); // section 4.8: the next one begins at its own window
    assert_true(cc.cubic.w_max == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_window_is_ten_segments_of_usual_length),
        cmocka_unit_test(slow_start_grows_by_what_arrives_up_to_its_threshold),
        cmocka_unit_test(window_is_no_larger_than_can_be_offered),
        cmocka_unit_test(longer_round_trips_end_slow_start_where_the_window_is_the_limit),
        cmocka_unit_test(loss_leaves_seven_tenths_or_half_but_two_segments),
        cmocka_unit_test(what_was_no_loss_is_taken_back),
        cmocka_unit_test(spurious_time_out_leaves_what_is_under_way),
        cmocka_unit_test(reno_grows_by_a_segment_for_each_window),
        cmocka_unit_test(what_was_counted_is_forgotten_with_a_loss),
        cmocka_unit_test(window_is_never_below_a_segment_of_the_new_length),
        cmocka_unit_test(cubic_grows_back_in_so_many_seconds),
        cmocka_unit_test(cubic_goes_a_part_of_the_way_with_a_part_of_a_window),
        cmocka_unit_test(cubic_grows_by_half_in_a_round_trip_at_most),
        cmocka_unit_test(cubic_without_a_loss_begins_at_its_own_window),
        cmocka_unit_test(cubic_makes_room_when_it_shrinks_from_loss_to_loss),
        cmocka_unit_test(cubic_is_no_slower_than_reno),
        cmocka_unit_test(cubic_stands_still_while_the_window_is_not_the_limit),
        cmocka_unit_test(no_epoch_goes_on_behind_what_changed_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

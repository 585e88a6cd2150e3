// The window right before and behind each of its bounds.
#include "tests/congestion/bench.h"

// A window's worth was in use, and was seen to take so long.
static void see(struct bench *b, duration_ns rtt_ns)
{
    congestion_on_ack(&b->c, 0, true);
    b->now += 2 * rtt_ns;
    congestion_on_rtt(&b->c, rtt_ns, b->now);
}

// In avoidance, with a window of 40.
static struct bench avoiding(void)
{
    struct bench b = begin();
    see(&b, RTT_NS);
    see(&b, RTT_NS);
    b.c.phase = CONGESTION_AVOIDANCE;
    b.c.window = 40;
    return b;
}

static void phases_have_names(void **state)
{
    assert_string_equal(congestion_phase_name(CONGESTION_SLOW_START), "slow start");
    assert_string_equal(congestion_phase_name(CONGESTION_AVOIDANCE), "avoidance");
    assert_string_equal(congestion_phase_name(CONGESTION_COMPETING), "competing");
}

static void who_is_told_a_limit_has_no_more(void **state)
{
    struct bench b = avoiding();
    congestion_limit(&b.c, 3);
    assert_int_equal(congestion_window(&b.c), 3);
    congestion_limit(&b.c, 41);
    assert_int_equal(congestion_window(&b.c), 40);
}

static void a_round_trip_is_an_eighth_of_each_sample(void **state)
{
    struct bench b = begin();
    const instant_ns first = b.now;
    congestion_on_rtt(&b.c, 800, first);
    assert_int_equal(b.c.srtt_ns, 800);
    assert_int_equal(b.c.round_began, first);
    assert_int_equal(b.c.epoch_began, first);
    congestion_on_rtt(&b.c, 800, first + 799);
    assert_int_equal(b.c.round_began, first);
    congestion_on_rtt(&b.c, 800, first + 800); // the next begins
    assert_int_equal(b.c.round_began, first + 800);
    assert_int_equal(b.c.round_ns, INSTANT_NEVER);
    congestion_on_rtt(&b.c, 1600, first + 801);
    assert_int_equal(b.c.srtt_ns, 800 - 100 + 200);
    congestion_on_rtt(&b.c, 5000, first + 10 * NS_PER_S - 1);
    assert_int_equal(b.c.least_ns, 800);
    congestion_on_rtt(&b.c, 5000, first + 10 * NS_PER_S);
    assert_int_equal(b.c.least_before_ns, 800);
    assert_int_equal(b.c.least_ns, 5000);
    assert_int_equal(b.c.epoch_began, first + 10 * NS_PER_S);
    b = begin();
    congestion_on_rtt(&b.c, 5, 5); // since the clock began
    assert_int_equal(b.c.srtt_ns, 5);
}

static void once_per_round_trip_is_as_soon_as_it_is_over(void **state)
{
    struct bench b = avoiding();
    congestion_on_loss(&b.c, b.now);
    assert_window(&b, 28);
    congestion_on_loss(&b.c, b.now + b.c.srtt_ns - 1);
    assert_window(&b, 28);
    congestion_on_loss(&b.c, b.now + b.c.srtt_ns);
    assert_window(&b, 19.6);
}

static void what_a_wait_in_queues_comes_to(void **state)
{
    const duration_ns target_ns = CONGESTION_TARGET_NS;
    const struct {
        enum congestion_phase phase, then;
        duration_ns waited_ns;
        bool is_above_target;
    } rows[] = {
        {CONGESTION_SLOW_START, CONGESTION_SLOW_START, 100 * US, false},
        {CONGESTION_SLOW_START, CONGESTION_AVOIDANCE, 100 * US + 1, 100 * US + 1 > target_ns},
        {CONGESTION_AVOIDANCE, CONGESTION_AVOIDANCE, target_ns, false},
        {CONGESTION_AVOIDANCE, CONGESTION_AVOIDANCE, target_ns + 1, true},
        {CONGESTION_COMPETING, CONGESTION_COMPETING, target_ns / 4, false},
        {CONGESTION_COMPETING, CONGESTION_AVOIDANCE, target_ns / 4 - 1, false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b = avoiding();
        b.c.phase = rows[i].phase;
        see(&b, RTT_NS + rows[i].waited_ns);
        assert_int_equal(b.c.phase, rows[i].then);
        assert_int_equal(b.c.is_above_target, rows[i].is_above_target);
    }
}

// The time between two packets, where the round trip is 200 us lately, and 100 us at its shortest.
static void from_a_window_of_one_on_the_shortest_round_trip_counts(void **state)
{
    static const struct {
        double window;
        duration_ns each_ns;
    } rows[] = {{0.5, 400 * US}, {1, 80 * US}, {1.6, 50 * US}, {40, 2 * US}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b = avoiding();
        b.c.srtt_ns = 2 * RTT_NS;
        b.c.window = rows[i].window;
        congestion_on_sent(&b.c, 1, 0);
        assert_int_equal(congestion_not_before(&b.c), rows[i].each_ns);
        congestion_on_sent(&b.c, 1, 10); // a burst's time has not passed since the clock began
        assert_int_equal(congestion_not_before(&b.c), 2 * rows[i].each_ns);
        assert_true(congestion_is_paced(&b.c));
    }
    struct bench b = avoiding();
    b.c.least_ns = b.c.least_before_ns = 50;
    assert_true(congestion_is_paced(&b.c)); // by a nanosecond
}

static void a_window_of_one_packet_grows_by_who_uses_it(void **state)
{
    struct bench b = avoiding();
    b.c.window = 1;
    b.c.was_limited = false;
    congestion_on_ack(&b.c, 1, false);
    assert_window(&b, 1);
    assert_false(b.c.was_limited);
    congestion_on_ack(&b.c, 1, true);
    assert_window(&b, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_have_names),
        cmocka_unit_test(who_is_told_a_limit_has_no_more),
        cmocka_unit_test(a_round_trip_is_an_eighth_of_each_sample),
        cmocka_unit_test(once_per_round_trip_is_as_soon_as_it_is_over),
        cmocka_unit_test(what_a_wait_in_queues_comes_to),
        cmocka_unit_test(from_a_window_of_one_on_the_shortest_round_trip_counts),
        cmocka_unit_test(a_window_of_one_packet_grows_by_who_uses_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

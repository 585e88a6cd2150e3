// Rate times round trip, measured on answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wq/read_pace.h"

enum { PART_LEN = 65536 };

// A pipe of `rate` octets per second and `rtt_ns`: whatever is asked for comes after the round trip
// and at that rate. Reads `rounds` times what the pace allows; returns what it allows then.
static uint64_t read_through(struct read_pace *pace, uint64_t rate, duration_ns rtt_ns,
                             unsigned rounds)
{
    instant_ns now = NS_PER_S;
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t window_len = pace->pipe_len > 2 * PART_LEN ? pace->pipe_len : 2 * PART_LEN;
        uint64_t before_len = pace->delivered_len;
        instant_ns issued_ns = now, first_ns = now + rtt_ns;
        read_pace_on_first_octet(pace, issued_ns, true, first_ns);
        for (uint64_t len = PART_LEN; len <= window_len; len += PART_LEN) {
            now = first_ns + len * NS_PER_S / rate;
            read_pace_on_answer(pace, PART_LEN, before_len, issued_ns, now);
        }
    }
    return pace->pipe_len;
}

static void a_long_pipe_is_filled(void **state)
{
    struct read_pace pace = {0};
    uint64_t rate = 1000000000, rtt_ns = 10 * NS_PER_MS; // 10 MB are on their way
    assert_true(read_through(&pace, rate, rtt_ns, 12) > rate / 100 * 9 / 10);
}

static void a_short_pipe_needs_no_more_than_two_parts(void **state)
{
    struct read_pace pace = {0};
    assert_true(read_through(&pace, 1000000000, 20 * NS_PER_US, 50) < 2 * PART_LEN);
}

static void the_limit_does_not_feed_on_itself(void **state)
{
    struct read_pace pace = {0};
    uint64_t rate = 1000000000, rtt_ns = 10 * NS_PER_MS;
    assert_true(read_through(&pace, rate, rtt_ns, 100) <= 2 * rate / 100);
}

static void a_path_that_became_longer_is_noticed(void **state)
{
    struct read_pace pace = {0};
    instant_ns now = NS_PER_S;
    read_pace_on_first_octet(&pace, now, true, now + NS_PER_MS);
    for (unsigned i = 0; i < 30; i++) {
        now += NS_PER_S;
        read_pace_on_first_octet(&pace, now, true, now + 5 * NS_PER_MS);
    }
    assert_int_equal(pace.rtt_ns, 5 * NS_PER_MS);
}

static void behind_others_a_path_only_becomes_shorter(void **state)
{
    struct read_pace pace = {0};
    instant_ns now = NS_PER_S;
    read_pace_on_first_octet(&pace, now, true, now + 9 * NS_PER_MS); // a hiccup
    read_pace_on_first_octet(&pace, now, false, now + NS_PER_MS);
    for (unsigned i = 0; i < 30; i++) {
        now += NS_PER_S;
        read_pace_on_first_octet(&pace, now, false, now + 5 * NS_PER_MS);
    }
    assert_int_equal(pace.rtt_ns, NS_PER_MS);
}

static void a_clock_that_stands_still_says_nothing(void **state)
{
    struct read_pace pace = {0};
    read_pace_on_first_octet(&pace, 5, true, 5);
    read_pace_on_answer(&pace, PART_LEN, 0, 5, 5);
    assert_int_equal(pace.pipe_len, 0);
    assert_int_equal(pace.delivered_len, PART_LEN);
}

// Twice what is on the way: 1000 octets in 500 ns, where the first comes after 100.
static void an_answer_raises_the_limit_at_once_and_lowers_it_by_an_eighth(void **state)
{
    struct read_pace pace = {0};
    const instant_ns issued_ns = NS_PER_S;
    read_pace_on_answer(&pace, 1000, 0, issued_ns, issued_ns + 500); // no round trip is known
    assert_int_equal(pace.pipe_len, 0);
    read_pace_on_first_octet(&pace, issued_ns, true, issued_ns + 100);
    read_pace_on_answer(&pace, 1000, 1000, issued_ns, issued_ns + 500);
    assert_int_equal(pace.delivered_len, 2000);
    assert_int_equal(pace.pipe_len, 2 * 1000 * 100 / 500);
    read_pace_on_answer(&pace, 4000, 2000, issued_ns, issued_ns + 500);
    assert_int_equal(pace.pipe_len, 2 * 4000 * 100 / 500);
    read_pace_on_answer(&pace, 1, 6000, issued_ns, issued_ns + 500);
    assert_int_equal(pace.pipe_len, 1600 - 1600 / 8);
    read_pace_on_answer(&pace, UINT32_MAX, 0, issued_ns, issued_ns + 1);
    assert_int_equal(pace.pipe_len, 2ULL << 30); // no more than anybody may have
}

static void what_comes_at_once_has_taken_a_nanosecond(void **state)
{
    for (unsigned early = 0; early < 2; early++) {
        struct read_pace pace = {0};
        read_pace_on_first_octet(&pace, 50, true, 50 - early);
        assert_int_equal(pace.rtt_ns, 1);
        read_pace_on_answer(&pace, 100, 0, 50, 60);
        assert_int_equal(pace.pipe_len, 2 * 100 / 10);
    }
}

// The shortest of this window of ten seconds, and of the one before.
static void a_window_of_round_trips_is_ten_seconds(void **state)
{
    enum { SECONDS = 1000 * 1000 * 1000 };
    static const struct {
        instant_ns at;
        duration_ns rtt_ns, shortest_ns;
    } rows[] = {
        {100 * (instant_ns)SECONDS, 9, 9},     {101 * (instant_ns)SECONDS, 4, 4},
        {102 * (instant_ns)SECONDS, 7, 4},     {110 * (instant_ns)SECONDS, 8, 4}, // not over yet
        {110 * (instant_ns)SECONDS + 1, 8, 4},                                    // the next begins
        {120 * (instant_ns)SECONDS + 1, 6, 4}, {120 * (instant_ns)SECONDS + 2, 9, 6},
        {131 * (instant_ns)SECONDS, 9, 9},
    };
    struct read_pace pace = {0};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        read_pace_on_first_octet(&pace, rows[i].at - rows[i].rtt_ns, true, rows[i].at);
        assert_int_equal(pace.rtt_ns, rows[i].shortest_ns);
    }
}

static void what_lasts_is_what_comes_in_its_time(void **state)
{
    struct read_pace pace = {.delivered_len = 5000};
    assert_int_equal(read_pace_lasting_len(&pace, 2000, 100, 100 + READ_LASTS_NS), 3000);
    assert_int_equal(read_pace_lasting_len(&pace, 2000, 100, 100 + READ_LASTS_NS / 2), 6000);
    assert_int_equal(read_pace_lasting_len(&pace, 4999, 100, 102), READ_LASTS_NS / 2);
    assert_int_equal(read_pace_lasting_len(&pace, 4999, 100, 100), READ_LASTS_NS);
    assert_int_equal(read_pace_lasting_len(&pace, 4999, 100, 99), READ_LASTS_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_pipe_is_filled),
        cmocka_unit_test(a_short_pipe_needs_no_more_than_two_parts),
        cmocka_unit_test(the_limit_does_not_feed_on_itself),
        cmocka_unit_test(a_path_that_became_longer_is_noticed),
        cmocka_unit_test(behind_others_a_path_only_becomes_shorter),
        cmocka_unit_test(a_clock_that_stands_still_says_nothing),
        cmocka_unit_test(an_answer_raises_the_limit_at_once_and_lowers_it_by_an_eighth),
        cmocka_unit_test(what_comes_at_once_has_taken_a_nanosecond),
        cmocka_unit_test(a_window_of_round_trips_is_ten_seconds),
        cmocka_unit_test(what_lasts_is_what_comes_in_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

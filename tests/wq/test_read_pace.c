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
    (void)state;
    struct read_pace pace = {0};
    uint64_t rate = 1000000000, rtt_ns = 10 * NS_PER_MS; // 10 MB are on their way
    assert_true(read_through(&pace, rate, rtt_ns, 12) > rate / 100 * 9 / 10);
}

static void a_short_pipe_needs_no_more_than_two_parts(void **state)
{
    (void)state;
    struct read_pace pace = {0};
    assert_true(read_through(&pace, 1000000000, 20 * NS_PER_US, 50) < 2 * PART_LEN);
}

static void the_limit_does_not_feed_on_itself(void **state)
{
    (void)state;
    struct read_pace pace = {0};
    uint64_t rate = 1000000000, rtt_ns = 10 * NS_PER_MS;
    assert_true(read_through(&pace, rate, rtt_ns, 100) <= 2 * rate / 100);
}

static void a_path_that_became_longer_is_noticed(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
    struct read_pace pace = {0};
    read_pace_on_first_octet(&pace, 5, true, 5);
    read_pace_on_answer(&pace, PART_LEN, 0, 5, 5);
    assert_int_equal(pace.pipe_len, 0);
    assert_int_equal(pace.delivered_len, PART_LEN);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

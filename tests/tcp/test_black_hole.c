// Paths that swallow long segments: when time-outs are taken for one, how much shorter segments
// become, when full ones are tried again; and a whole connection over such a path.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tcp/black_hole.h"
#include "tests/tcp/net.h"

enum { MSS = 1460, LEAST = 536, UNA = 1000 };

#define BEGIN (5 * NS_PER_S) // time_out counts back from it

// So many time-outs in a row, a second each, of a full segment at UNA, the last of them now.
// Returns what that says.
static uint16_t time_out(struct tcp_black_hole *h, unsigned times, instant_ns now)
{
    uint16_t mss = 0;
    while (times-- > 0) {
        mss = tcp_black_hole_on_timeout(h, UNA, MSS, MSS, LEAST, now - times * NS_PER_S);
    }
    return mss;
}

static void three_timeouts_in_a_row_are_a_hole(void **state)
{
    struct tcp_black_hole h = {0};
    assert_int_equal(time_out(&h, 2, BEGIN), 0);
    assert_int_equal(time_out(&h, 1, BEGIN), 984);
}

static void three_within_a_second_are_none_yet(void **state)
{
    struct tcp_black_hole h = {0};
    for (instant_ns at = BEGIN; at < BEGIN + NS_PER_S; at += NS_PER_S / 10) {
        assert_int_equal(tcp_black_hole_on_timeout(&h, UNA, MSS, MSS, LEAST, at), 0);
    }
    assert_int_equal(tcp_black_hole_on_timeout(&h, UNA, MSS, MSS, LEAST, BEGIN + NS_PER_S), 984);
}

static void an_acknowledgement_between_them_begins_anew(void **state)
{
    struct tcp_black_hole h = {0};
    assert_int_equal(time_out(&h, 2, BEGIN), 0);
    assert_int_equal(tcp_black_hole_on_timeout(&h, UNA + MSS, MSS, MSS, LEAST, BEGIN), 0);
    assert_int_equal(time_out(&h, 2, BEGIN + 9 * NS_PER_S), 0);
    assert_int_equal(time_out(&h, 1, BEGIN + 9 * NS_PER_S), 984);
}

static void segments_become_as_short_as_every_path_takes_and_no_shorter(void **state)
{
    static const struct {
        uint32_t segment_len;
        uint16_t least_mss, mss;
    } rows[] = {{8960, 536, 984}, {985, 536, 984}, {984, 536, 536},    {537, 536, 536},
                {536, 536, 0},    {1, 536, 0},     {1221, 1220, 1220}, {1220, 1220, 0}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tcp_black_hole h = {0};
        uint16_t mss = 0;
        for (unsigned k = 0; k < 3; k++) {
            mss = tcp_black_hole_on_timeout(&h, UNA, rows[i].segment_len, MSS, rows[i].least_mss,
                                            k * NS_PER_S);
        }
        assert_int_equal(mss, rows[i].mss);
        assert_int_equal(h.full_mss, mss > 0 ? MSS : 0);
    }
}

static void full_segments_are_tried_again_ever_more_rarely(void **state)
{
    static const duration_ns waits_s[] = {10, 20, 40, 80, 160, 320, 600, 600};
    struct tcp_black_hole h = {0};
    instant_ns now = BEGIN;
    for (unsigned i = 0; i < sizeof waits_s / sizeof waits_s[0]; i++) {
        assert_int_equal(time_out(&h, 3, now), 984);
        now += waits_s[i] * NS_PER_S;
        assert_int_equal(tcp_black_hole_raise(&h, now - 1), 0);
        assert_int_equal(tcp_black_hole_raise(&h, now), MSS);
        assert_int_equal(tcp_black_hole_raise(&h, now), 0); // once
    }
}

static void a_hole_long_after_another_is_a_first_one(void **state)
{
    struct tcp_black_hole h = {0};
    time_out(&h, 3, BEGIN);
    assert_int_equal(tcp_black_hole_raise(&h, BEGIN + 10 * NS_PER_S), MSS);
    time_out(&h, 3, BEGIN + 611 * NS_PER_S);
    assert_int_equal(tcp_black_hole_raise(&h, BEGIN + 621 * NS_PER_S), MSS);
}

// A megabyte from each end over a path that takes packets of 1,300 octets.
static void a_connection_gets_through_a_hole(void **state)
{
    struct net net;
    net_init(&net, 1);
    net.config.mss = MSS;
    net.delay_ns = 5 * NS_PER_MS;
    net.faults = (struct net_faults){.swallowed_beyond = 1280};
    net.side[0].send_len = net.side[1].send_len = NET_STREAM_MAX;
    net_run(&net, 4000 * NS_PER_S);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(net.side[i].tcb->counters.black_holes, 1);
        assert_int_equal(net.side[i].tcb->counters.timeouts, 3);
    }
    net_fini(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_timeouts_in_a_row_are_a_hole),
        cmocka_unit_test(three_within_a_second_are_none_yet),
        cmocka_unit_test(an_acknowledgement_between_them_begins_anew),
        cmocka_unit_test(segments_become_as_short_as_every_path_takes_and_no_shorter),
        cmocka_unit_test(full_segments_are_tried_again_ever_more_rarely),
        cmocka_unit_test(a_hole_long_after_another_is_a_first_one),
        cmocka_unit_test(a_connection_gets_through_a_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

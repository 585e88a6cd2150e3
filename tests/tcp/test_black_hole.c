// Paths that swallow long segments: when time-outs are taken for one, how much shorter segments
// become, when full ones are tried again; and a whole connection over such a path.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tcp/black_hole.h"
#include "tests/tcp/net.h"

enum { MSS = 1460, UNA = 1000 };

// So many time-outs in a row, each of a full segment at UNA. Returns what the last one says.
static uint16_t time_out(struct tcp_black_hole *h, unsigned times, instant_ns now)
{
    uint16_t mss = 0;
    for (unsigned i = 0; i < times; i++) {
        mss = tcp_black_hole_on_timeout(h, UNA, MSS, MSS, now);
    }
    return mss;
}

static void three_timeouts_in_a_row_are_a_hole(void **state)
{
    struct tcp_black_hole h = {0};
    assert_int_equal(time_out(&h, 2, 0), 0);
    assert_int_equal(time_out(&h, 1, 0), 1024);
}

static void an_acknowledgement_between_them_begins_anew(void **state)
{
    struct tcp_black_hole h = {0};
    assert_int_equal(time_out(&h, 2, 0), 0);
    assert_int_equal(tcp_black_hole_on_timeout(&h, UNA + MSS, MSS, MSS, 0), 0);
    assert_int_equal(time_out(&h, 2, 0), 0);
    assert_int_equal(time_out(&h, 1, 0), 1024);
}

static void segments_become_as_short_as_every_path_takes_and_no_shorter(void **state)
{
    static const struct {
        uint32_t segment_len;
        uint16_t mss;
    } rows[] = {{8960, 1024}, {1025, 1024}, {1024, 536}, {537, 536}, {536, 0}, {1, 0}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tcp_black_hole h = {0};
        uint16_t mss = 0;
        for (unsigned k = 0; k < 3; k++) {
            mss = tcp_black_hole_on_timeout(&h, UNA, rows[i].segment_len, MSS, 0);
        }
        assert_int_equal(mss, rows[i].mss);
        assert_int_equal(h.full_mss, mss > 0 ? MSS : 0);
    }
}

static void full_segments_are_tried_again_ever_more_rarely(void **state)
{
    static const duration_ns waits_s[] = {10, 20, 40, 80, 160, 320, 600, 600};
    struct tcp_black_hole h = {0};
    instant_ns now = 5 * NS_PER_S;
    for (unsigned i = 0; i < sizeof waits_s / sizeof waits_s[0]; i++) {
        assert_int_equal(time_out(&h, 3, now), 1024);
        now += waits_s[i] * NS_PER_S;
        assert_int_equal(tcp_black_hole_raise(&h, now - 1), 0);
        assert_int_equal(tcp_black_hole_raise(&h, now), MSS);
        assert_int_equal(tcp_black_hole_raise(&h, now), 0); // once
    }
}

static void a_hole_long_after_another_is_a_first_one(void **state)
{
    struct tcp_black_hole h = {0};
    time_out(&h, 3, 0);
    assert_int_equal(tcp_black_hole_raise(&h, 10 * NS_PER_S), MSS);
    time_out(&h, 3, 611 * NS_PER_S);
    assert_int_equal(tcp_black_hole_raise(&h, 621 * NS_PER_S), MSS);
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
        cmocka_unit_test(an_acknowledgement_between_them_begins_anew),
        cmocka_unit_test(segments_become_as_short_as_every_path_takes_and_no_shorter),
        cmocka_unit_test(full_segments_are_tried_again_ever_more_rarely),
        cmocka_unit_test(a_hole_long_after_another_is_a_first_one),
        cmocka_unit_test(a_connection_gets_through_a_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

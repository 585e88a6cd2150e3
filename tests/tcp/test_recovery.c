// How much may be sent while losses are repaired, in figures: RFC 6937's proportional rate
// reduction, the window behind a time-out, and taking back what was for nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tcp/recovery.h"

enum { MSS = 1000, WINDOW = 10 * MSS };

static struct tcp_cc cc;
static struct tcp_recovery rec;

static void begin(void)
{
    tcp_cc_init(&cc, TCP_CC_NEWRENO, MSS);
    rec = (struct tcp_recovery){.phase = TCP_PHASE_OPEN};
    assert_int_equal(cc.cwnd, WINDOW);
}

static void enter(void)
{
    begin();
    tcp_recovery_enter(&rec, &cc, 0, WINDOW, WINDOW);
    assert_int_equal(cc.ssthresh, WINDOW / 2);
}

struct ack {
    uint32_t delivered_len, pipe;
    bool is_progress;
    uint32_t send_len; // what then may leave
    uint32_t sent_len; // what does
};

static void expect_acks(const struct ack *acks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        tcp_recovery_on_ack(&rec, &cc, acks[i].delivered_len, acks[i].pipe, acks[i].is_progress);
        if (cc.cwnd != acks[i].pipe + acks[i].send_len) {
            fail_msg("ack %u: %u may leave", i, cc.cwnd - acks[i].pipe);
        }
        tcp_recovery_on_sent(&rec, acks[i].sent_len);
    }
}

// Half the window: one octet leaves for two that arrive; but the first segment goes at once.
static void the_window_shrinks_in_proportion_to_what_arrives(void **state)
{
    static const struct ack acks[] = {
        {1000, 9000, false, 1000, 1000}, {1000, 9000, false, 0, 0},
        {1000, 8000, false, 500, 0},     {1, 8000, false, 501, 0}, // rounded up
        {999, 7000, true, 1000, 1000},   {1000, 6000, true, 500, 0},
    };
    enter();
    expect_acks(acks, 6);
}

// Below ssthresh: what arrived and was not made up for, a segment more where ACKs advance, and
// never beyond ssthresh.
static void behind_heavy_loss_it_grows_back_to_ssthresh(void **state)
{
    static const struct ack acks[] = {
        {1000, 1000, false, 1000, 1000}, // as many as arrived
        {1000, 1000, true, 2000, 2000},  // and one
        {500, 2000, false, 500, 500},    // more was sent than arrived: by what arrives now
        {4000, 2000, false, 3000, 0},    // 6500 arrived, 3500 were sent
        {1000, 5000, true, 0, 0},        // there
    };
    enter();
    expect_acks(acks, 5);
}

static void each_recovery_counts_for_itself(void **state)
{
    static const struct ack acks[] = {{4000, 6000, false, 2000, 1000}};
    enter();
    expect_acks(acks, 1);
    tcp_recovery_on_timeout(&rec, &cc, 1000, WINDOW);
    cc.ssthresh = WINDOW / 2;
    tcp_recovery_enter(&rec, &cc, 2000, 2000 + WINDOW, WINDOW);
    cc.ssthresh = WINDOW / 2;
    expect_acks(acks, 1);
}

static void it_ends_with_what_was_outstanding_when_it_began(void **state)
{
    enter();
    assert_false(tcp_recovery_on_una(&rec, &cc, WINDOW - 1));
    assert_int_equal(rec.phase, TCP_PHASE_FAST);
    assert_true(tcp_recovery_on_una(&rec, &cc, WINDOW));
    assert_int_equal(rec.phase, TCP_PHASE_OPEN);
    assert_int_equal(cc.cwnd, WINDOW / 2);
    assert_false(tcp_recovery_on_una(&rec, &cc, 2 * WINDOW));
}

// RFC 5681 section 3.1, equation 4, and RFC 5681 section 5: a segment whose time-out ran out twice
// was lost twice, but of one flight.
static void a_timeout_halves_once_for_one_segment(void **state)
{
    begin();
    tcp_recovery_on_timeout(&rec, &cc, 500, 500 + WINDOW);
    assert_int_equal(cc.cwnd, MSS);
    assert_int_equal(cc.ssthresh, WINDOW / 2);
    tcp_recovery_on_timeout(&rec, &cc, 500, 500 + WINDOW);
    assert_int_equal(cc.ssthresh, WINDOW / 2);
    cc.cwnd = 8 * MSS;
    tcp_recovery_on_timeout(&rec, &cc, 1000, 1000 + WINDOW); // the next one
    assert_int_equal(cc.ssthresh, 4 * MSS);
    assert_int_equal(cc.cwnd, MSS);
    cc.cwnd = 3 * MSS; // it grows by slow start, and stays
    assert_true(tcp_recovery_on_una(&rec, &cc, 1000 + WINDOW));
    assert_int_equal(cc.cwnd, 3 * MSS);
}

// While a recovery shrinks the window, its aim counts, not where it is by now.
static void a_timeout_in_a_recovery_counts_from_its_aim(void **state)
{
    enter();
    cc.cwnd = 2 * MSS;
    tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
    assert_int_equal(cc.ssthresh, 5 * MSS / 2);
}

struct dsack_case {
    const char *what;
    tcp_seq left, right;
    unsigned resent;
    bool is_undone;
};

static void what_all_arrived_twice_is_taken_back(void **state)
{
    static const struct dsack_case cases[] = {
        {"the one that was sent again", 2000, 3000, 1, true},
        {"the first and last octets", 1000, WINDOW, 1, true},
        {"one of two", 2000, 3000, 2, false},
        {"none was sent again", 2000, 3000, 0, false},
        {"before it began", 999, 2000, 1, false},
        {"behind it", 9000, WINDOW + 1, 1, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        tcp_recovery_on_resent(&rec, 0); // outside of any: does not count
        tcp_recovery_enter(&rec, &cc, 1000, WINDOW, WINDOW - 1000);
        for (unsigned k = 0; k < cases[i].resent; k++) {
            tcp_recovery_on_resent(&rec, 0);
        }
        cc.cwnd = MSS;
        bool is_undone = tcp_recovery_on_dsack(&rec, &cc, cases[i].left, cases[i].right);
        if (is_undone != cases[i].is_undone || (rec.phase == TCP_PHASE_OPEN) != is_undone ||
            cc.cwnd != (is_undone ? WINDOW : MSS) || (cc.ssthresh > WINDOW) != is_undone) {
            fail_msg("%s", cases[i].what);
        }
    }
}

// A time-out in a fast recovery: what is taken back is both.
static void what_is_taken_back_is_the_window_before_the_first(void **state)
{
    enter();
    tcp_recovery_on_resent(&rec, 0);
    cc.cwnd = 3 * MSS;
    tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
    tcp_recovery_on_resent(&rec, 0);
    assert_false(tcp_recovery_on_dsack(&rec, &cc, 0, 1000));
    assert_true(tcp_recovery_on_dsack(&rec, &cc, 0, 1000));
    assert_int_equal(cc.cwnd, WINDOW);
    assert_int_equal(cc.ssthresh, TCP_SSTHRESH_NONE);
}

// A probe at the tail that was not needed takes back no recovery that was.
static void what_is_sent_again_outside_takes_nothing_back(void **state)
{
    enter();
    assert_true(tcp_recovery_on_una(&rec, &cc, WINDOW));
    tcp_recovery_on_resent(&rec, 0);
    assert_false(tcp_recovery_on_dsack(&rec, &cc, 0, 1000));
    assert_int_equal(cc.cwnd, WINDOW / 2);
}

struct echo_case {
    const char *what;
    bool is_resent, has_echo;
    uint32_t echo;
    bool is_spurious;
};

// RFC 3522 section 3.2.
static void a_timeout_is_spurious_if_an_earlier_time_is_echoed(void **state)
{
    static const struct echo_case cases[] = {
        {"earlier", true, true, 999, true},
        {"the same", true, true, 1000, false},
        {"later", true, true, 1001, false},
        {"earlier, of a clock that wraps", true, true, UINT32_MAX, true},
        {"none", true, false, 0, false},
        {"nothing was sent again yet", false, true, 999, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
        if (cases[i].is_resent) {
            tcp_recovery_on_resent(&rec, 1000);
            tcp_recovery_on_resent(&rec, 2000); // the first counts
        }
        bool is_spurious = tcp_recovery_on_echo(&rec, cases[i].has_echo, cases[i].echo);
        bool is_once_more = tcp_recovery_on_echo(&rec, true, 999); // the first one tells
        if (is_spurious != cases[i].is_spurious || is_once_more) {
            fail_msg("%s", cases[i].what);
        }
    }
}

static void a_fast_recovery_is_not_taken_for_a_spurious_timeout(void **state)
{
    begin();
    tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
    tcp_recovery_on_resent(&rec, 1000);
    tcp_recovery_on_una(&rec, &cc, WINDOW);
    tcp_recovery_enter(&rec, &cc, WINDOW, 2 * WINDOW, WINDOW);
    assert_false(tcp_recovery_on_echo(&rec, true, 999));
}

// Of a fast recovery something is lost, and stays so: the window shrank for that.
static void a_timeout_of_a_fast_recovery_is_not_taken_for_spurious(void **state)
{
    enter();
    tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
    tcp_recovery_on_resent(&rec, 1000);
    assert_false(tcp_recovery_on_echo(&rec, true, 999));
}

static void what_shrank_for_a_mark_stays_so_behind_a_spurious_timeout(void **state)
{
    begin();
    assert_true(tcp_recovery_on_mark(&rec, &cc, 0, WINDOW, WINDOW));
    const uint32_t ssthresh = cc.ssthresh;
    assert_true(ssthresh < cc.cwnd);
    tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
    tcp_recovery_on_resent(&rec, 1000);
    assert_true(tcp_recovery_on_echo(&rec, true, 999));
    tcp_recovery_take_back_timeout(&rec, &cc, MSS, MSS);
    assert_int_equal(cc.ssthresh, ssthresh);
}

static void a_window_that_is_kept_stays_small_if_all_arrives_twice(void **state)
{
    begin();
    tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
    tcp_recovery_on_resent(&rec, 1000);
    tcp_recovery_keep_window(&rec);
    assert_false(tcp_recovery_on_dsack(&rec, &cc, 0, MSS));
    assert_int_equal(cc.cwnd, MSS);
}

// RFC 4015 section 3.2, steps 9 and 11.
static void behind_a_spurious_timeout_slow_start_goes_on_to_where_it_was(void **state)
{
    begin();
    cc.cwnd = 3 * MSS;
    cc.ssthresh = 8 * MSS;
    tcp_recovery_on_timeout(&rec, &cc, 0, WINDOW);
    tcp_recovery_on_resent(&rec, 1000);
    tcp_recovery_take_back_timeout(&rec, &cc, 20 * MSS, 3 * MSS);
    assert_int_equal(rec.phase, TCP_PHASE_OPEN);
    assert_int_equal(cc.cwnd, 3 * MSS + 10 * MSS); // what is in the network, an initial window
    assert_int_equal(cc.ssthresh, 8 * MSS);
    assert_false(tcp_recovery_on_dsack(&rec, &cc, 0, MSS)); // no news
    assert_int_equal(cc.cwnd, 13 * MSS);
    assert_false(tcp_recovery_on_round_trip(&rec, WINDOW));
    assert_true(tcp_recovery_on_round_trip(&rec, WINDOW + 1));
    assert_false(tcp_recovery_on_round_trip(&rec, WINDOW + 2));
}

// A path that takes other segments: what is counted in segments counts in those.
static void segments_of_another_length_are_counted_as_they_are(void **state)
{
    begin();
    tcp_cc_on_mss(&cc, 600);
    assert_int_equal(cc.cwnd, WINDOW);
    tcp_recovery_on_timeout(&rec, &cc, 0, 600);
    assert_int_equal(cc.cwnd, 600);
    assert_int_equal(cc.ssthresh, 1200); // two
    tcp_cc_on_mss(&cc, 700);
    assert_int_equal(cc.cwnd, 700); // one may leave
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_shrinks_in_proportion_to_what_arrives),
        cmocka_unit_test(behind_heavy_loss_it_grows_back_to_ssthresh),
        cmocka_unit_test(each_recovery_counts_for_itself),
        cmocka_unit_test(it_ends_with_what_was_outstanding_when_it_began),
        cmocka_unit_test(a_timeout_halves_once_for_one_segment),
        cmocka_unit_test(a_timeout_in_a_recovery_counts_from_its_aim),
        cmocka_unit_test(what_all_arrived_twice_is_taken_back),
        cmocka_unit_test(what_is_taken_back_is_the_window_before_the_first),
        cmocka_unit_test(a_timeout_is_spurious_if_an_earlier_time_is_echoed),
        cmocka_unit_test(a_fast_recovery_is_not_taken_for_a_spurious_timeout),
        cmocka_unit_test(a_timeout_of_a_fast_recovery_is_not_taken_for_spurious),
        cmocka_unit_test(what_shrank_for_a_mark_stays_so_behind_a_spurious_timeout),
        cmocka_unit_test(a_window_that_is_kept_stays_small_if_all_arrives_twice),
        cmocka_unit_test(behind_a_spurious_timeout_slow_start_goes_on_to_where_it_was),
        cmocka_unit_test(segments_of_another_length_are_counted_as_they_are),
        cmocka_unit_test(what_is_sent_again_outside_takes_nothing_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

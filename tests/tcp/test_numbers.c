// The parts of TCP that take numbers and give numbers: acceptability, round-trip times, windows.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tcp/acceptable.h"
#include "tcp/cc.h"
#include "tcp/recovery.h"
#include "tcp/rtt.h"
#include "tcp/tcp.h"

enum { MSS = 1000 };

/* ---- acceptability --------------------------------------------------------------------------- */

static void segment_is_acceptable_as_table_6_says(void **state)
{
    static const struct {
        tcp_seq seq;
        uint64_t len;
        tcp_seq edge; // nxt is 100
        bool is_acceptable;
    } known[] = {
        {100, 0, 100, true}, // shut: only an ACK at nxt
        {99, 0, 100, false},  {101, 0, 100, false}, {100, 1, 100, false},
        {100, 0, 110, true}, // open, no octets
        {109, 0, 110, true},  {110, 0, 110, false}, {99, 0, 110, false},
        {100, 1, 110, true}, // octets: one of them in the window
        {109, 5, 110, true},  {110, 1, 110, false}, {90, 11, 110, true},
        {90, 10, 110, false}, {90, 50, 110, false}, // neither its first nor its last
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(tcp_segment_is_acceptable(known[i].seq, known[i].len, 100, known[i].edge),
                         known[i].is_acceptable);
    }
}

static void reset_is_believed_at_the_edge_only(void **state)
{
    assert_int_equal(tcp_rst_judge(100, 100, 110), TCP_RST_EXACT);
    assert_int_equal(tcp_rst_judge(100, 100, 100), TCP_RST_EXACT);
    assert_int_equal(tcp_rst_judge(101, 100, 110), TCP_RST_CHALLENGE);
    assert_int_equal(tcp_rst_judge(109, 100, 110), TCP_RST_CHALLENGE);
    assert_int_equal(tcp_rst_judge(110, 100, 110), TCP_RST_OUTSIDE);
    assert_int_equal(tcp_rst_judge(99, 100, 110), TCP_RST_OUTSIDE);
}

static void acknowledgement_must_be_of_the_last_window(void **state)
{
    assert_int_equal(tcp_ack_judge(1000, 1000, 2000, 500), TCP_ACK_OK);
    assert_int_equal(tcp_ack_judge(2000, 1000, 2000, 500), TCP_ACK_OK);
    assert_int_equal(tcp_ack_judge(2001, 1000, 2000, 500), TCP_ACK_NEW);
    assert_int_equal(tcp_ack_judge(500, 1000, 2000, 500), TCP_ACK_OK);
    assert_int_equal(tcp_ack_judge(499, 1000, 2000, 500), TCP_ACK_OLD);
}

static void number_from_the_wire_is_the_nearest(void **state)
{
    tcp_seq first = tcp_seq_first(0xfffffff0);
    assert_int_equal(tcp_seq_near(first, 0x10), first + 0x20); // across the wrap
    assert_int_equal(tcp_seq_near(first + 0x20, 0xfffffff0), first);
    assert_int_equal(tcp_seq_wire(first + 0x20), 0x10);
    assert_int_equal(tcp_seq_near(tcp_seq_first(0), 0xffffffff), tcp_seq_first(0) - 1);
}

/* ---- round-trip times ------------------------------------------------------------------------ */

static void timeout_follows_the_formulas(void **state)
{
    struct tcp_rtt rtt;
    tcp_rtt_init(&rtt, 1000, NS_PER_US);
    assert_int_equal(tcp_rtt_rto(&rtt), NS_PER_S); // before any sample
    tcp_rtt_on_sample(&rtt, 80 * NS_PER_MS);
    assert_int_equal(rtt.srtt_ns, 80 * NS_PER_MS);
    assert_int_equal(rtt.rttvar_ns, 40 * NS_PER_MS);
    assert_int_equal(tcp_rtt_rto(&rtt), 240 * NS_PER_MS);
    tcp_rtt_on_sample(&rtt, 160 * NS_PER_MS);
    assert_int_equal(rtt.rttvar_ns, 50 * NS_PER_MS); // 3/4 * 40 + 1/4 * 80
    assert_int_equal(rtt.srtt_ns, 90 * NS_PER_MS);   // 7/8 * 80 + 1/8 * 160
    assert_int_equal(tcp_rtt_rto(&rtt), 290 * NS_PER_MS);
}

// RFC 4015 section 3.2, step 11.
static void round_trip_behind_a_spurious_timeout_counts_whole(void **state)
{
    struct tcp_rtt rtt;
    tcp_rtt_init(&rtt, 1000, NS_PER_US);
    tcp_rtt_on_sample(&rtt, 80 * NS_PER_MS);
    tcp_rtt_on_spurious_timeout(&rtt, 60 * NS_PER_MS); // it is short again: nothing changes
    assert_int_equal(tcp_rtt_rto(&rtt), 240 * NS_PER_MS);
    tcp_rtt_on_spurious_timeout(&rtt, 160 * NS_PER_MS);
    assert_int_equal(rtt.srtt_ns, 160 * NS_PER_MS);
    assert_int_equal(rtt.rttvar_ns, 80 * NS_PER_MS);
}

static void timeout_has_bounds_and_doubles_between_them(void **state)
{
    struct tcp_rtt rtt;
    tcp_rtt_init(&rtt, 200 * NS_PER_MS, NS_PER_US);
    tcp_rtt_on_sample(&rtt, 1000);
    assert_int_equal(tcp_rtt_rto(&rtt), 200 * NS_PER_MS);
    for (unsigned i = 0; i < 100; i++) {
        tcp_rtt_back_off(&rtt);
    }
    assert_int_equal(tcp_rtt_rto(&rtt), TCP_RTO_MAX_NS);
    tcp_rtt_end_back_off(&rtt);
    assert_int_equal(tcp_rtt_rto(&rtt), 200 * NS_PER_MS);
    tcp_rtt_back_off(&rtt);
    assert_int_equal(tcp_rtt_rto(&rtt), 400 * NS_PER_MS);
}

static void timeout_is_longer_than_a_round_trip_that_never_varies(void **state)
{
    struct tcp_rtt rtt;
    tcp_rtt_init(&rtt, 10 * NS_PER_MS, 5 * NS_PER_MS);
    for (unsigned i = 0; i < 100; i++) {
        tcp_rtt_on_sample(&rtt, 20 * NS_PER_MS);
    }
    assert_int_equal(tcp_rtt_rto(&rtt), 25 * NS_PER_MS);
}

static void no_round_trip_is_too_short(void **state)
{
    struct tcp_rtt rtt;
    tcp_rtt_init(&rtt, 0, NS_PER_US);
    for (unsigned i = 0; i < 100; i++) {
        tcp_rtt_on_sample(&rtt, 0);
        tcp_rtt_on_least(&rtt, 0, i);
        assert_true(rtt.srtt_ns > 0);
        assert_true(tcp_rtt_least(&rtt) > 0);
        assert_true(tcp_rtt_rto(&rtt) >= NS_PER_US);
    }
}

static void least_round_trip_is_forgotten_after_two_windows(void **state)
{
    struct tcp_rtt rtt;
    tcp_rtt_init(&rtt, 0, NS_PER_US);
    tcp_rtt_on_least(&rtt, 10, 0);
    tcp_rtt_on_least(&rtt, 100, TCP_MIN_RTT_AGE_NS);
    assert_int_equal(tcp_rtt_least(&rtt), 10);
    tcp_rtt_on_least(&rtt, 100, 2 * TCP_MIN_RTT_AGE_NS);
    assert_int_equal(tcp_rtt_least(&rtt), 100);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void initial_window_is_that_of_rfc_6928(void **state)
{
    static const struct {
        uint32_t mss, window;
    } known[] = {{536, 5360}, {1460, 14600}, {3000, 14600}, {8960, 17920}};
    struct tcp_cc cc;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        tcp_cc_init(&cc, TCP_CC_NEWRENO, known[i].mss);
        assert_int_equal(cc.cwnd, known[i].window);
    }
}

static void slow_start_grows_by_what_is_acknowledged_and_ends_at_ssthresh(void **state)
{
    struct tcp_cc cc;
    tcp_cc_init(&cc, TCP_CC_NEWRENO, MSS);
    cc.ssthresh = 12500;
    tcp_cc_on_ack(&cc, 2000, true, 0, 0);
    assert_int_equal(cc.cwnd, 12000);
    tcp_cc_on_ack(&cc, 2000, true, 0, 0);
    assert_int_equal(cc.cwnd, 12500);
}

static void reno_grows_by_one_segment_in_a_window(void **state)
{
    struct tcp_cc cc;
    tcp_cc_init(&cc, TCP_CC_NEWRENO, MSS);
    cc.ssthresh = cc.cwnd;
    for (unsigned i = 0; i < 9; i++) {
        tcp_cc_on_ack(&cc, MSS, true, 0, 0);
    }
    assert_int_equal(cc.cwnd, 10 * MSS);
    tcp_cc_on_ack(&cc, MSS, true, 0, 0);
    assert_int_equal(cc.cwnd, 11 * MSS);
}

static void window_that_was_not_the_limit_does_not_grow(void **state)
{
    struct tcp_cc cc;
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    tcp_cc_on_ack(&cc, 5 * MSS, false, 0, 0);
    assert_int_equal(cc.cwnd, 10 * MSS);
}

// One round trip after the other, all of the window acknowledged in each.
static instant_ns cubic_run(struct tcp_cc *cc, instant_ns now, duration_ns rtt, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        now += rtt;
        for (uint32_t left = cc->cwnd; left >= MSS; left -= MSS) {
            tcp_cc_on_ack(cc, MSS, true, rtt, now);
        }
    }
    return now;
}

static void cubic_is_back_at_its_old_window_after_k_seconds(void **state)
{
    struct tcp_cc cc;
    duration_ns rtt = 100 * NS_PER_MS;
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    cc.cwnd = 1000 * MSS;
    tcp_cc_on_loss(&cc, cc.cwnd);
    tcp_cc_on_recovered(&cc);
    assert_int_equal(cc.cwnd, 700 * MSS);
    // K = (1000 * 0.3 / 0.4)^(1/3) s = 9.1 s
    instant_ns now = cubic_run(&cc, 0, rtt, 45);
    assert_in_range(cc.cwnd, 930 * MSS, 980 * MSS); // at half of it: concave, fast at first
    now = cubic_run(&cc, now, rtt, 45);
    assert_in_range(cc.cwnd, 985 * MSS, 1015 * MSS);
    now = cubic_run(&cc, now, rtt, 90);
    assert_in_range(cc.cwnd, 1230 * MSS, 1330 * MSS); // and convex: as much above, and beyond
}

static void cubic_is_never_slower_than_reno_would_be(void **state)
{
    struct tcp_cc cc;
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    cc.cwnd = 20 * MSS;
    tcp_cc_on_loss(&cc, cc.cwnd);
    tcp_cc_on_recovered(&cc);
    cubic_run(&cc, 0, NS_PER_MS, 100); // so short that the cubic has hardly begun
    assert_in_range(cc.cwnd, 14 * MSS + 50 * MSS, 14 * MSS + 100 * MSS);
}

static void cubic_makes_room_when_its_window_shrinks_from_loss_to_loss(void **state)
{
    struct tcp_cc cc;
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    cc.cwnd = 100 * MSS;
    tcp_cc_on_loss(&cc, cc.cwnd);
    tcp_cc_on_recovered(&cc);
    tcp_cc_on_loss(&cc, cc.cwnd);
    assert_true(cc.cubic.w_max < 70 * MSS);
}

static void timeout_leaves_one_segment_and_halves_once(void **state)
{
    struct tcp_cc cc;
    tcp_cc_init(&cc, TCP_CC_NEWRENO, MSS);
    tcp_cc_on_timeout(&cc, 10 * MSS, true);
    assert_int_equal(cc.cwnd, MSS);
    assert_int_equal(cc.ssthresh, 5 * MSS);
    tcp_cc_on_timeout(&cc, MSS, false);
    assert_int_equal(cc.ssthresh, 5 * MSS);
}

/* ---- recovery -------------------------------------------------------------------------------- */

static void recovery_sends_in_proportion_to_what_arrives(void **state)
{
    struct tcp_cc cc;
    struct tcp_recovery rec = {.phase = TCP_PHASE_OPEN};
    uint32_t pipe = 19 * MSS, sent = 0;
    tcp_cc_init(&cc, TCP_CC_NEWRENO, MSS);
    cc.cwnd = 20 * MSS;
    tcp_recovery_enter(&rec, &cc, 1000, 1000 + 20 * MSS, 20 * MSS);
    assert_int_equal(cc.ssthresh, 10 * MSS);
    for (unsigned i = 0; i < 19; i++) {
        pipe -= MSS;
        tcp_recovery_on_ack(&rec, &cc, MSS, pipe, true);
        while (pipe + MSS <= cc.cwnd) {
            tcp_recovery_on_sent(&rec, MSS);
            pipe += MSS;
            sent++;
        }
    }
    assert_in_range(sent, 9, 10); // one for two
    assert_in_range(pipe, 9 * MSS, 10 * MSS);
    assert_false(tcp_recovery_on_una(&rec, &cc, 1000 + 19 * MSS));
    assert_true(tcp_recovery_on_una(&rec, &cc, 1000 + 20 * MSS));
    assert_int_equal(cc.cwnd, 10 * MSS);
}

static void what_arrives_is_replaced_even_where_more_was_sent_before(void **state)
{
    struct tcp_cc cc;
    struct tcp_recovery rec = {.phase = TCP_PHASE_OPEN};
    tcp_cc_init(&cc, TCP_CC_NEWRENO, MSS);
    cc.cwnd = 20 * MSS;
    tcp_recovery_enter(&rec, &cc, 1000, 1000 + 20 * MSS, 20 * MSS);
    tcp_recovery_on_ack(&rec, &cc, MSS, 5 * MSS, true); // below ssthresh: it may catch up
    assert_int_equal(cc.cwnd, 7 * MSS);
    tcp_recovery_on_sent(&rec, 2 * MSS);
    tcp_recovery_on_ack(&rec, &cc, MSS, 6 * MSS, false); // not while more is lost, but it goes on
    assert_int_equal(cc.cwnd, 7 * MSS);
}

static void recovery_is_taken_back_only_if_all_of_it_was_needless(void **state)
{
    struct tcp_cc cc;
    struct tcp_recovery rec = {.phase = TCP_PHASE_OPEN};
    tcp_cc_init(&cc, TCP_CC_CUBIC, MSS);
    tcp_recovery_enter(&rec, &cc, 1000, 11000, 10000);
    assert_false(tcp_recovery_on_dsack(&rec, &cc, 1000, 2000)); // nothing was sent again yet
    tcp_recovery_on_resent(&rec, 0);
    tcp_recovery_on_resent(&rec, 0);
    assert_false(tcp_recovery_on_dsack(&rec, &cc, 500, 900)); // of before
    assert_false(tcp_recovery_on_dsack(&rec, &cc, 1000, 2000));
    assert_true(tcp_recovery_on_dsack(&rec, &cc, 2000, 3000));
    assert_int_equal(rec.phase, TCP_PHASE_OPEN);
    assert_int_equal(cc.ssthresh, TCP_SSTHRESH_NONE);
    assert_int_equal(cc.cwnd, 10 * MSS);
}

/* ---- what a connection is unless told otherwise ---------------------------------------------- */

static void defaults_are_what_the_rfcs_ask_for(void **state)
{
    const struct tcp_config *c = &tcp_config_default;
    assert_int_equal(c->mss, 1500 - 40);                        // RFC 6691, over Ethernet
    assert_int_equal(c->mss_unsaid, 536);                       // RFC 9293 MUST-15
    assert_int_equal(c->wishes, TCP_WISH_ALL);                  // RFC 7323, RFC 2018
    assert_false(c->nagle);                                     // which RDMA has no use for
    assert_in_range(c->delayed_ack_ns, 1, 500 * NS_PER_MS - 1); // MUST-40
    assert_true(c->connect_timeout_ns >= 180 * NS_PER_S);       // MUST-23
    assert_true(c->user_timeout_ns >= 100 * NS_PER_S);          // SHOULD-11
    assert_false(c->user_timeout_when_shut);                    // MUST-36
    assert_int_equal(c->keepalive_idle_ns, 0);                  // MUST-25: off
    assert_true(c->keepalive_count > 1);                        // MUST-29: one may get lost
    assert_true(c->time_wait_ns >= 60 * NS_PER_S);
    assert_int_equal(c->challenge_max, 10); // RFC 5961 section 7
    assert_int_equal(c->cc, TCP_CC_CUBIC);
}

// Each costs memory, or waits, on every connection of a device.
static void default_sizes_and_times_are_these(void **state)
{
    const struct tcp_config *c = &tcp_config_default;
    assert_int_equal(c->window_len, 1 << 20);
    assert_int_equal(c->buffer_len, 1 << 20);
    assert_int_equal(c->send_len, 1 << 20);
    assert_int_equal(c->range_max, 256);
    assert_int_equal(c->piece_max, 1024);
    assert_int_equal(c->flight_max, 1024);
    assert_int_equal(c->delayed_ack_ns, 25 * NS_PER_MS);
    assert_int_equal(c->rto_min_ns, 200 * NS_PER_MS);
    assert_int_equal(c->rto_slack_ns, NS_PER_US);
    assert_int_equal(c->connect_timeout_ns, 180 * NS_PER_S);
    assert_int_equal(c->user_timeout_ns, 300 * NS_PER_S); // docs/tcp.md, SHLD-11
    assert_int_equal(c->keepalive_interval_ns, 75 * NS_PER_S);
    assert_int_equal(c->keepalive_count, 9);
    assert_int_equal(c->time_wait_ns, 60 * NS_PER_S);
}

static void every_reason_and_refusal_has_a_name_of_its_own(void **state)
{
    for (unsigned i = 0; i < TCP_REASON_COUNT; i++) {
        assert_true(strlen(tcp_reason_name(i)) > 1);
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(tcp_reason_name(i), tcp_reason_name(k));
        }
    }
    for (unsigned i = 0; i < TCP_REFUSAL_COUNT; i++) {
        assert_true(strlen(tcp_refusal_name(i)) > 1);
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(tcp_refusal_name(i), tcp_refusal_name(k));
        }
    }
    assert_string_equal(tcp_refusal_name(TCP_REFUSED_BAD_SACK), "BAD_SACK");
    assert_string_equal(tcp_refusal_name(TCP_REFUSAL_COUNT), "?");
    assert_string_equal(tcp_reason_name(TCP_REASON_RESET), "reset");
    assert_string_equal(tcp_reason_name(TCP_REASON_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segment_is_acceptable_as_table_6_says),
        cmocka_unit_test(reset_is_believed_at_the_edge_only),
        cmocka_unit_test(acknowledgement_must_be_of_the_last_window),
        cmocka_unit_test(number_from_the_wire_is_the_nearest),
        cmocka_unit_test(timeout_follows_the_formulas),
        cmocka_unit_test(round_trip_behind_a_spurious_timeout_counts_whole),
        cmocka_unit_test(timeout_has_bounds_and_doubles_between_them),
        cmocka_unit_test(timeout_is_longer_than_a_round_trip_that_never_varies),
        cmocka_unit_test(no_round_trip_is_too_short),
        cmocka_unit_test(least_round_trip_is_forgotten_after_two_windows),
        cmocka_unit_test(initial_window_is_that_of_rfc_6928),
        cmocka_unit_test(slow_start_grows_by_what_is_acknowledged_and_ends_at_ssthresh),
        cmocka_unit_test(reno_grows_by_one_segment_in_a_window),
        cmocka_unit_test(window_that_was_not_the_limit_does_not_grow),
        cmocka_unit_test(cubic_is_back_at_its_old_window_after_k_seconds),
        cmocka_unit_test(cubic_is_never_slower_than_reno_would_be),
        cmocka_unit_test(cubic_makes_room_when_its_window_shrinks_from_loss_to_loss),
        cmocka_unit_test(timeout_leaves_one_segment_and_halves_once),
        cmocka_unit_test(recovery_sends_in_proportion_to_what_arrives),
        cmocka_unit_test(what_arrives_is_replaced_even_where_more_was_sent_before),
        cmocka_unit_test(recovery_is_taken_back_only_if_all_of_it_was_needless),
        cmocka_unit_test(defaults_are_what_the_rfcs_ask_for),
        cmocka_unit_test(default_sizes_and_times_are_these),
        cmocka_unit_test(every_reason_and_refusal_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

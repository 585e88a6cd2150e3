// What an acknowledgement says by itself: whether it says anything new, which of its blocks tell of
// what came twice, how long a round trip took, and whether the window was of use.
#include "tcp/rtt.h"
#include "tests/tcp/script.h"

static struct script s;

static void skip_all(void)
{
    s.out_read = s.out_count;
}

// So many segments are outstanding, of which the first begins at 1.
static void open_with(unsigned count)
{
    script_open(&s, NULL);
    user_send(&s, count * 1000, 0);
    skip_all();
    script_wait(&s, SCRIPT_RTT_NS);
}

/* ---- duplicates (RFC 5681 section 2) --------------------------------------------------------- */

static void duplicate_is_what_says_nothing_new_of_what_is_outstanding(void **state)
{
    const struct tcp_counters *counters;
    open_with(5);
    counters = &s.tcb->counters;
    peer_ack(&s, 1001);
    peer_ack(&s, 1001);
    assert_int_equal(counters->duplicate_acks, 1);
    s.peer_window -= 1; // it tells of its window
    peer_ack(&s, 1001);
    assert_int_equal(counters->duplicate_acks, 1);
    peer_ack(&s, 1001); // which is this one now
    assert_int_equal(counters->duplicate_acks, 2);
    peer_data(&s, 1, 10);
    assert_int_equal(counters->duplicate_acks, 2);
    peer_segment(&s, TCP_ACK, (uint32_t)s.handed + 1, 1, 0, NULL); // an old one
    assert_int_equal(counters->duplicate_acks, 2);
    peer_ack(&s, 5001);
    peer_ack(&s, 5001); // there is nothing outstanding
    assert_int_equal(counters->duplicate_acks, 2);
    skip_all();
    script_close(&s);
}

static void end_of_the_peers_octets_is_no_duplicate(void **state)
{
    open_with(2);
    peer_segment(&s, TCP_FIN | TCP_ACK, 1, 1, 0, NULL);
    assert_int_equal(s.tcb->counters.duplicate_acks, 0);
    skip_all();
    script_close(&s);
}

// RFC 7323 section 2.2: the peer's window is meant shifted.
static void windows_of_duplicates_are_equal_as_they_are_meant(void **state)
{
    script_prepare(&s);
    s.config.wishes = TCP_WISH_ALL;
    s.peer.has_scale = true;
    s.peer.scale = 2;
    script_begin(&s);
    tcp_connect(s.tcb, s.iss, s.now);
    script_run(&s);
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer);
    user_send(&s, 3000, 0);
    peer_ack(&s, 1001);
    peer_ack(&s, 1001);
    assert_int_equal(s.tcb->counters.duplicate_acks, 1);
    skip_all();
    script_close(&s);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

// RFC 2883 section 4: the first block, of what is acknowledged or lies in the second.
static void block_tells_of_what_came_twice_below_the_ack_or_in_the_next_block(void **state)
{
    static const struct {
        uint32_t left, right, left2, right2;
        bool is_dsack;
    } rows[] = {
        {1001, 1501, 0, 0, true},        // below what is acknowledged
        {1001, 2001, 0, 0, true},        // ... up to its end
        {1001, 2002, 0, 0, false},       // ... and beyond
        {2001, 3001, 0, 0, false},       // behind it
        {3001, 4001, 3001, 5001, true},  // at the beginning of the second
        {4001, 5001, 3001, 5001, true},  // at its end
        {3001, 5001, 3001, 5001, true},  // all of it
        {3001, 5002, 3001, 5001, false}, // beyond its end
        {3000, 5001, 3001, 5001, false}, // before its beginning
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_with(6);
        peer_ack(&s, 2001);
        peer_sack(&s, 2001, rows[i].left, rows[i].right, rows[i].left2, rows[i].right2);
        assert_int_equal(s.tcb->counters.spurious_retransmits, rows[i].is_dsack);
        assert_int_equal(refusals(&s, TCP_REFUSED_BAD_SACK), 0);
        skip_all();
        script_close(&s);
    }
}

static void block_is_of_octets_that_were_sent(void **state)
{
    static const struct {
        uint32_t left, right;
        bool is_bad;
    } rows[] = {
        {2001, 3001, false}, // up to the last
        {2001, 3002, true},  // one was not sent
        {1001, 1001, true},  // none
        {1001, 1000, true},  // back to front
        {1, 501, false},     // from the first
        {0, 501, true},      // the SYN is no octet
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_with(3);
        peer_ack(&s, 1001);
        peer_sack(&s, 1001, rows[i].left, rows[i].right, 0, 0);
        assert_int_equal(refusals(&s, TCP_REFUSED_BAD_SACK), rows[i].is_bad);
        skip_all();
        script_close(&s);
    }
}

/* ---- round trips ----------------------------------------------------------------------------- */

// Octets 1 to 500 were sent and have just been sent again, and a round trip is known. Their
// timestamp.
static uint32_t open_sent_twice(duration_ns rtt_ns)
{
    script_prepare(&s);
    s.config.wishes = TCP_WISH_ALL;
    s.peer = (struct tcp_options){.mss = SCRIPT_MSS, .has_timestamps = true, .ts_value = 1000};
    script_begin(&s);
    tcp_connect(s.tcb, s.iss, s.now);
    script_run(&s);
    script_wait(&s, rtt_ns);
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer);
    user_send(&s, 500, 0);
    skip_all();
    script_wait(&s, tcp_next_deadline(s.tcb) - s.now);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    return next_segment(&s)->header.options.ts_value;
}

// RFC 7323 section 4: which of both is acknowledged is told by the timestamp that comes back. It
// counts milliseconds: where a round trip is shorter, one tells nothing. A time-out is as long as
// before in any case (RFC 6298 section 5, Karn).
static void what_was_sent_twice_is_measured_by_the_timestamp_that_comes_back(void **state)
{
    static const struct {
        duration_ns known_ns;
        uint32_t age_ms; // of the timestamp
        duration_ns sample_ns;
    } rows[] = {
        {10 * NS_PER_MS, 40, 40 * NS_PER_MS},
        {10 * NS_PER_MS, 2, 2 * NS_PER_MS},
        {10 * NS_PER_MS, 1, NS_PER_MS},
        {10 * NS_PER_MS, 0, NS_PER_MS},
        {NS_PER_MS, 1, NS_PER_MS},
        {100 * NS_PER_US, 2, 2 * NS_PER_MS},
        {100 * NS_PER_US, 1, 0},
        {100 * NS_PER_US, 0, 0},
        {10 * NS_PER_MS, 60000, 60 * NS_PER_S},
        {10 * NS_PER_MS, 60001, 0},      // nothing waits for so long
        {10 * NS_PER_MS, UINT32_MAX, 0}, // of the future
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tcp_options o = {.has_timestamps = true, .ts_value = 1001};
        o.ts_echo = open_sent_twice(rows[i].known_ns) + 5 - rows[i].age_ms;
        struct tcp_rtt expected = s.tcb->rtt;
        assert_int_equal(expected.srtt_ns, rows[i].known_ns);
        script_wait(&s, 5 * NS_PER_MS);
        peer_segment(&s, TCP_ACK, 1, 501, 0, &o);
        if (rows[i].sample_ns > 0) {
            tcp_rtt_on_sample(&expected, rows[i].sample_ns);
        }
        if (rows[i].age_ms <= 60000) {
            tcp_rtt_end_back_off(&expected);
        }
        assert_int_equal(s.tcb->rtt.srtt_ns, expected.srtt_ns);
        assert_int_equal(s.tcb->rtt.rttvar_ns, expected.rttvar_ns);
        assert_int_equal(tcp_rtt_rto(&s.tcb->rtt), tcp_rtt_rto(&expected));
        script_close(&s);
    }
}

// RFC 6298 section 4: what was in the same window tells the time-out nothing more.
static void round_trip_counts_once_for_the_timeout(void **state)
{
    open_with(5);
    peer_ack(&s, 1001);
    assert_int_equal(s.tcb->rtt.srtt_ns, SCRIPT_RTT_NS);
    script_wait(&s, NS_PER_MS);
    peer_ack(&s, 2001);
    assert_int_equal(s.tcb->rtt.srtt_ns, SCRIPT_RTT_NS);
    script_wait(&s, NS_PER_MS);
    peer_ack(&s, 5001);
    skip_all();
    script_close(&s);
}

// ... but the least of them is looked for in all (RFC 8985 section 6.2, step 1).
static void shortest_round_trip_is_looked_for_with_every_ack(void **state)
{
    open_with(1);
    peer_ack(&s, 1001);
    assert_int_equal(tcp_rtt_least(&s.tcb->rtt), SCRIPT_RTT_NS);
    user_send(&s, 1000, 0);
    script_wait(&s, 4 * NS_PER_MS);
    peer_ack(&s, 2001);
    assert_int_equal(tcp_rtt_least(&s.tcb->rtt), 4 * NS_PER_MS);
    skip_all();
    script_close(&s);
}

/* ---- probes and recoveries ------------------------------------------------------------------- */

// RFC 8985 section 7.2, step 2.
static void next_probe_takes_a_round_trip_measured_since(void **state)
{
    open_with(2);
    peer_ack(&s, 2001);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t first = 2001 + i * 3000;
        user_send(&s, 2000, 0);
        skip_all();
        script_wait(&s, 30 * NS_PER_MS);
        assert_int_equal(next_segment(&s)->reason, TCP_REASON_LOSS_PROBE);
        peer_ack(&s, first + 2000);
        user_send(&s, 1000, 0);
        skip_all();
        script_wait(&s, SCRIPT_RTT_NS);
        peer_ack(&s, first + 3000);
    }
    assert_int_equal(s.tcb->counters.loss_probes, 2);
    script_close(&s);
}

static void probe_that_showed_a_loss_shrinks_the_window_no_second_time(void **state)
{
    open_with(1);
    peer_ack(&s, 1001);
    user_send(&s, 10000, 0);
    skip_all();
    script_wait(&s, 30 * NS_PER_MS);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_LOSS_PROBE);
    peer_sack(&s, 1001, 10001, 11001, 0, 0);
    script_wait(&s, 5 * NS_PER_MS);
    expect_data(&s, 1001, 1000);
    peer_ack(&s, 11001);
    assert_int_equal(s.tcb->cc.ssthresh, 7000);
    user_send(&s, 7000, 0);
    skip_all();
    peer_ack(&s, 12001);
    assert_int_equal(s.tcb->cc.ssthresh, 7000);
    script_close(&s);
}

// RFC 6937 section 3, PRR-SSRB: below ssthresh as much as arrives, and a segment more with what
// moves SND.UNA and shows no other loss.
static void progress_within_a_recovery_lets_one_segment_more_go(void **state)
{
    open_with(10);
    peer_sack(&s, 1, 7001, 10001, 0, 0); // seven are lost
    expect_data(&s, 1, 1000);
    expect_data(&s, 1001, 1000);
    expect_data(&s, 2001, 1000);
    expect_nothing(&s);
    script_wait(&s, SCRIPT_RTT_NS);
    peer_sack(&s, 1, 7001, 10001, 0, 0); // nothing new
    expect_nothing(&s);
    peer_sack(&s, 1001, 7001, 10001, 0, 0);
    expect_data(&s, 3001, 1000);
    expect_data(&s, 4001, 1000);
    expect_nothing(&s);
    script_close(&s);
}

/* ---- the window ------------------------------------------------------------------------------ */

// RFC 7661: in slow start half of it, in this round trip or the one before.
static void window_grows_if_it_was_used(void **state)
{
    static const struct {
        unsigned counts[3]; // of segments in a round trip; the window is 10 at first
        bool grows;         // in the last
    } rows[] = {
        {{4}, false}, {{5}, true}, {{10, 1}, true}, {{10, 1, 1}, false}, {{10, 1, 11}, true},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t sent = 0, before = 0;
        script_open(&s, NULL);
        for (unsigned k = 0; k < 3 && rows[i].counts[k] > 0; k++) {
            before = s.tcb->cc.cwnd;
            user_send(&s, rows[i].counts[k] * 1000, 0);
            skip_all();
            script_wait(&s, SCRIPT_RTT_NS);
            sent += rows[i].counts[k] * 1000;
            peer_ack(&s, sent + 1);
        }
        assert_int_equal(s.tcb->cc.cwnd > before, rows[i].grows);
        script_close(&s);
    }
}

// RFC 3168 section 6.1.2: by what was on its way when the mark came, of which SACKed octets are no
// part any more.
static void mark_shrinks_the_window_by_what_was_under_way(void **state)
{
    struct tcp_options sack = {.sack_count = 1};
    script_prepare(&s);
    s.config.ecn = TCP_ECN_REQUEST;
    script_begin(&s);
    tcp_connect(s.tcb, s.iss, s.now);
    script_run(&s);
    script_wait(&s, SCRIPT_RTT_NS);
    peer_segment(&s, TCP_SYN | TCP_ACK | TCP_ECE, 0, 1, 0, &s.peer);
    user_send(&s, 10000, 0);
    script_wait(&s, SCRIPT_RTT_NS);
    peer_sack(&s, 1, 1001, 2001, 0, 0);
    sack.sack[0] = (struct tcp_sack_block){s.iss + 1001, s.iss + 3001};
    peer_segment(&s, TCP_ACK | TCP_ECE, 1, 1, 0, &sack);
    assert_int_equal(s.tcb->counters.reductions_by_marks, 1);
    assert_int_equal(s.tcb->cc.ssthresh, 6300); // seven tenths of nine segments
    skip_all();
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicate_is_what_says_nothing_new_of_what_is_outstanding),
        cmocka_unit_test(end_of_the_peers_octets_is_no_duplicate),
        cmocka_unit_test(windows_of_duplicates_are_equal_as_they_are_meant),
        cmocka_unit_test(block_tells_of_what_came_twice_below_the_ack_or_in_the_next_block),
        cmocka_unit_test(block_is_of_octets_that_were_sent),
        cmocka_unit_test(what_was_sent_twice_is_measured_by_the_timestamp_that_comes_back),
        cmocka_unit_test(round_trip_counts_once_for_the_timeout),
        cmocka_unit_test(shortest_round_trip_is_looked_for_with_every_ack),
        cmocka_unit_test(next_probe_takes_a_round_trip_measured_since),
        cmocka_unit_test(probe_that_showed_a_loss_shrinks_the_window_no_second_time),
        cmocka_unit_test(progress_within_a_recovery_lets_one_segment_more_go),
        cmocka_unit_test(window_grows_if_it_was_used),
        cmocka_unit_test(mark_shrinks_the_window_by_what_was_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Losses: how they are found, what is sent again, and what the window does meanwhile.
#include "tests/tcp/script.h"

static struct script s;

static void skip_all(void)
{
    s.out_read = s.out_count;
}

// `count` segments are outstanding, sent at once; a round trip is 10 ms.
static void open_with(unsigned count, void (*change)(struct script *script))
{
    script_open(&s, change);
    user_send(&s, 1000, 0); // a round trip to measure
    script_wait(&s, 10 * NS_PER_MS);
    peer_ack(&s, 1001);
    user_send(&s, count * 1000, 0);
    assert_int_equal(s.out_count - s.out_read, count + 1);
    skip_all();
    script_wait(&s, 10 * NS_PER_MS);
}

static void third_segment_sacked_behind_a_hole_brings_it_again(void **state)
{
    open_with(5, NULL);
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    peer_sack(&s, 1001, 2001, 4001, 0, 0);
    expect_nothing(&s);
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    expect_data(&s, 1001, 1000);
    assert_int_equal(s.tcb->counters.recoveries, 1);
    peer_sack(&s, 1001, 2001, 6001, 0, 0);
    expect_nothing(&s); // once is enough
    peer_ack(&s, 6001);
    assert_int_equal(s.tcb->recovery.phase, TCP_PHASE_OPEN);
    script_close(&s);
}

static void single_sack_is_enough_after_a_quarter_of_a_round_trip(void **state)
{
    open_with(2, NULL); // no three segments could be SACKed
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    expect_nothing(&s);
    script_wait(&s, 3 * NS_PER_MS);
    expect_data(&s, 1001, 1000);
    script_close(&s);
}

static void what_is_sent_meanwhile_does_not_put_off_the_end_of_that_quarter(void **state)
{
    open_with(2, NULL);
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    user_send(&s, 1000, 0);
    expect_data(&s, 3001, 1000);
    script_wait(&s, 3 * NS_PER_MS);
    expect_data(&s, 1001, 1000);
    script_close(&s);
}

static void reordering_within_the_window_costs_nothing(void **state)
{
    open_with(2, NULL);
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    script_wait(&s, NS_PER_MS);
    peer_ack(&s, 3001);
    script_wait(&s, 10 * NS_PER_MS);
    expect_nothing(&s);
    assert_int_equal(s.tcb->counters.reordering, 1);
    assert_int_equal(s.tcb->counters.recoveries, 0);
    script_close(&s);
}

static void reordering_once_seen_makes_it_wait_beyond_three_sacks(void **state)
{
    open_with(2, NULL);
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    peer_ack(&s, 3001);
    user_send(&s, 5000, 0);
    skip_all();
    script_wait(&s, 10 * NS_PER_MS);
    peer_sack(&s, 3001, 4001, 8001, 0, 0);
    expect_nothing(&s);
    script_wait(&s, 3 * NS_PER_MS);
    expect_data(&s, 3001, 1000);
    script_close(&s);
}

static void lost_retransmission_is_found_by_what_was_sent_after_it(void **state)
{
    open_with(6, NULL);
    peer_sack(&s, 1001, 2001, 6001, 0, 0); // 6001 is still under way
    expect_data(&s, 1001, 1000);
    user_send(&s, 1000, 0);
    expect_data(&s, 7001, 1000);
    script_wait(&s, 10 * NS_PER_MS);
    peer_sack(&s, 1001, 2001, 8001, 0, 0); // what was sent after it has arrived
    script_wait(&s, 5 * NS_PER_MS);
    expect_data(&s, 1001, 1000);
    assert_int_equal(s.tcb->counters.timeouts, 0);
    script_close(&s);
}

static void late_original_does_not_make_its_retransmission_look_fast(void **state)
{
    open_with(6, NULL);
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    expect_data(&s, 1001, 1000);
    script_wait(&s, NS_PER_MS);
    peer_ack(&s, 5001); // too soon to be of what was just sent
    script_wait(&s, NS_PER_MS);
    expect_nothing(&s); // or else all that was sent before it would be lost
    peer_ack(&s, 7001);
    script_close(&s);
}

static void what_is_sent_again_gets_the_time_it_needs(void **state)
{
    open_with(5, NULL); // its time-out runs since 10 ms ago
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    expect_data(&s, 1001, 1000);
    script_wait(&s, 195 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.timeouts, 0);
    script_wait(&s, 10 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    skip_all();
    script_close(&s);
}

static void first_loss_is_repaired_at_once_though_the_window_must_shrink(void **state)
{
    open_with(10, NULL);
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    script_wait(&s, 3 * NS_PER_MS); // eight are in the network, seven may be
    expect_data(&s, 1001, 1000);
    script_close(&s);
}

static void lowest_of_the_lost_goes_first(void **state)
{
    open_with(6, NULL);
    peer_sack(&s, 1001, 4001, 7001, 0, 0); // three are lost
    expect_data(&s, 1001, 1000);
    expect_data(&s, 2001, 1000);
    expect_data(&s, 3001, 1000);
    script_close(&s);
}

static void window_shrinks_in_proportion_and_ends_at_seven_tenths(void **state)
{
    open_with(10, NULL);
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    assert_int_equal(s.tcb->cc.ssthresh, 7000); // CUBIC
    peer_ack(&s, 11001);
    assert_int_equal(s.tcb->cc.cwnd, 7000);
    skip_all();
    script_close(&s);
}

static void reno(struct script *script)
{
    script->config.cc = TCP_CC_NEWRENO;
}

static void reno_halves(void **state)
{
    open_with(10, reno);
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    assert_int_equal(s.tcb->cc.ssthresh, 5000);
    skip_all();
    script_close(&s);
}

static void probe_at_the_tail_asks_after_two_round_trips(void **state)
{
    open_with(2, NULL); // both are lost
    script_wait(&s, 9 * NS_PER_MS);
    expect_nothing(&s);
    script_wait(&s, 2 * NS_PER_MS);
    struct script_segment *probe = next_segment(&s);
    assert_int_equal(probe->reason, TCP_REASON_LOSS_PROBE);
    assert_int_equal(probe->header.seq - s.iss, 2001); // the last one
    script_wait(&s, 10 * NS_PER_MS);
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    script_wait(&s, 5 * NS_PER_MS);
    expect_data(&s, 1001, 1000); // the probe has brought the loss to light
    assert_int_equal(s.tcb->counters.timeouts, 0);
    script_close(&s);
}

static void probe_that_finds_no_room_leaves_when_there_is_some(void **state)
{
    open_with(2, NULL);
    s.out_room = 0; // the link is busy
    script_wait(&s, 11 * NS_PER_MS);
    expect_nothing(&s);
    s.out_room = UINT32_MAX;
    script_run(&s);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_LOSS_PROBE);
    assert_int_equal(s.tcb->counters.loss_probes, 1);
    script_close(&s);
}

static void probe_that_found_no_room_until_the_timeout_does_not_leave(void **state)
{
    open_with(2, NULL);
    s.out_room = 0;
    script_wait(&s, 11 * NS_PER_MS); // the probe is due
    script_wait(&s, 250 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    s.out_room = UINT32_MAX;
    script_run(&s);
    struct script_segment *first = next_segment(&s);
    assert_int_equal(first->reason, TCP_REASON_RETRANSMIT);
    assert_int_equal(first->header.seq - s.iss, 1001);
    expect_nothing(&s);
    script_close(&s);
}

static void probe_comes_after_a_second_where_no_round_trip_was_measured(void **state)
{
    script_prepare(&s);
    script_begin(&s);
    tcp_connect(s.tcb, s.iss, s.now);
    script_run(&s);
    script_wait(&s, NS_PER_S); // the SYN goes twice: its answer measures nothing
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer);
    skip_all();
    assert_int_equal(s.tcb->rtt.srtt_ns, 0);
    user_send(&s, 1000, 0);
    expect_data(&s, 1, 1000);
    script_wait(&s, NS_PER_S - 1);
    expect_nothing(&s);
    script_wait(&s, 1);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_LOSS_PROBE);
    script_close(&s);
}

// A link that reads hears the time before what has arrived, and sends after both.
static void probe_that_a_sack_overtakes_does_not_leave(void **state)
{
    open_with(5, NULL);
    s.now = tcp_next_deadline(s.tcb);
    tcp_on_deadline(s.tcb, s.now);
    peer_sack(&s, 1001, 3001, 6001, 0, 0); // the last, and as long as three segments
    assert_int_equal(s.tcb->counters.loss_probes, 0);
    expect_data(&s, 1001, 1000);
    skip_all();
    peer_ack(&s, 6001);
    assert_int_equal(s.tcb->recovery.phase, TCP_PHASE_OPEN);
    script_close(&s);
}

static void loss_that_the_probe_repaired_counts_for_congestion(void **state)
{
    open_with(10, NULL);
    uint32_t cwnd = s.tcb->cc.cwnd;
    peer_ack(&s, 10001); // the last one is lost
    script_wait(&s, 250 * NS_PER_MS);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_LOSS_PROBE);
    peer_ack(&s, 11001);
    user_send(&s, 1000, 0);
    skip_all();
    peer_ack(&s, 12001); // the probe was needed, or else a duplicate ACK had come
    assert_true(s.tcb->cc.cwnd < cwnd);
    script_close(&s);
}

static void probe_that_was_not_needed_changes_nothing(void **state)
{
    open_with(1, NULL);
    uint32_t cwnd = s.tcb->cc.cwnd;
    script_wait(&s, 230 * NS_PER_MS);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_LOSS_PROBE);
    peer_ack(&s, 2001);
    peer_sack(&s, 2001, 1001, 2001, 0, 0); // D-SACK: it came twice
    user_send(&s, 1000, 0);
    peer_ack(&s, 3001);
    skip_all();
    assert_true(s.tcb->cc.cwnd >= cwnd);
    assert_int_equal(s.tcb->counters.spurious_retransmits, 1);
    script_close(&s);
}

static void what_a_full_window_is_probed_with_is_its_last_segment_alone(void **state)
{
    open_with(2, NULL);
    s.peer_window = 2000; // all of it is outstanding
    peer_ack(&s, 1001);
    script_wait(&s, 15 * NS_PER_MS);
    expect_data(&s, 2001, 1000);
    expect_nothing(&s);
    peer_ack(&s, 3001);
    script_close(&s);
}

static void probe_before_a_timeout_repairs_no_loss_of_its_own(void **state)
{
    open_with(10, NULL);
    script_wait(&s, 300 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.loss_probes, 1);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    peer_ack(&s, 11001);
    skip_all();
    uint32_t cwnd = s.tcb->cc.cwnd, ssthresh = s.tcb->cc.ssthresh;
    user_send(&s, 1000, 0);
    skip_all();
    peer_ack(&s, 12001);
    assert_true(s.tcb->cc.cwnd >= cwnd);
    assert_int_equal(s.tcb->cc.ssthresh, ssthresh);
    script_close(&s);
}

// RFC 6675 section 5.1: SACKed octets are believed, unless the first of all is one.
static void timeout_leaves_alone_what_was_sacked(void **state)
{
    open_with(4, NULL);
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    expect_data(&s, 1001, 1000); // and is lost again
    script_wait(&s, 250 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    expect_data(&s, 1001, 1000);
    assert_int_equal(s.tcb->scoreboard.sacked_len, 3000);
    peer_ack(&s, 2001);
    expect_nothing(&s);
    peer_ack(&s, 5001);
    script_close(&s);
}

static void timeout_sends_the_first_again_and_begins_with_one_segment(void **state)
{
    open_with(4, NULL);
    script_wait(&s, 500 * NS_PER_MS);
    struct script_segment *probe = next_segment(&s);
    assert_int_equal(probe->reason, TCP_REASON_LOSS_PROBE);
    expect_data(&s, 1001, 1000);
    expect_nothing(&s);
    assert_int_equal(s.tcb->cc.cwnd, 1000);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    peer_ack(&s, 2001);
    expect_data(&s, 2001, 1000); // slow start through what is lost
    expect_data(&s, 3001, 1000);
    peer_ack(&s, 5001);
    assert_int_equal(s.tcb->recovery.phase, TCP_PHASE_OPEN);
    script_close(&s);
}

static void each_segment_that_times_out_shrinks_the_window_once(void **state)
{
    open_with(10, NULL);
    script_wait(&s, 300 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    assert_int_equal(s.tcb->cc.ssthresh, 7000);
    script_wait(&s, 500 * NS_PER_MS); // the same again
    assert_int_equal(s.tcb->counters.timeouts, 2);
    assert_int_equal(s.tcb->cc.ssthresh, 7000);
    peer_ack(&s, 4001);
    assert_int_equal(s.tcb->cc.cwnd, 4000);
    script_wait(&s, 1500 * NS_PER_MS); // another
    assert_int_equal(s.tcb->counters.timeouts, 3);
    assert_int_equal(s.tcb->cc.ssthresh, 2800);
    skip_all();
    script_close(&s);
}

static void patience_doubles_with_each_timeout(void **state)
{
    open_with(1, NULL);
    script_wait(&s, 500 * NS_PER_MS); // a probe, and the first time-out
    assert_int_equal(s.tcb->counters.timeouts, 1);
    for (unsigned i = 2; i < 12; i++) {
        instant_ns begin = s.now, at = tcp_next_deadline(s.tcb);
        script_wait(&s, at - begin);
        assert_int_equal(s.tcb->counters.timeouts, i);
        duration_ns patience = tcp_next_deadline(s.tcb) - s.now, twice = 400 * NS_PER_MS << (i - 1);
        assert_int_equal(patience, twice < 60 * NS_PER_S ? twice : 60 * NS_PER_S); // RFC 6298 (2.5)
    }
    peer_ack(&s, 2001);
    skip_all();
    script_close(&s);
}

static void peer_that_reneges_gets_again_what_it_had_sacked(void **state)
{
    open_with(4, NULL);
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    expect_data(&s, 1001, 1000);
    peer_ack(&s, 2001); // and of the others it knows nothing any more
    expect_nothing(&s);
    script_wait(&s, 250 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    expect_data(&s, 2001, 1000); // a segment, as after any time-out
    expect_nothing(&s);
    peer_ack(&s, 3001);
    expect_data(&s, 3001, 1000);
    expect_data(&s, 4001, 1000);
    peer_ack(&s, 5001);
    expect_nothing(&s);
    script_close(&s);
}

static void what_the_link_takes_of_reneged_octets_is_what_was_sent(void **state)
{
    open_with(4, NULL);
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    expect_data(&s, 1001, 1000);
    peer_ack(&s, 2001);
    s.out_room = 1;
    script_wait(&s, 250 * NS_PER_MS);
    expect_data(&s, 2001, 1000);
    s.out_room = UINT32_MAX;
    peer_ack(&s, 3001);
    expect_data(&s, 3001, 1000);
    expect_data(&s, 4001, 1000);
    assert_int_equal(s.tcb->counters.octets_retransmitted, 4000);
    peer_ack(&s, 5001);
    script_close(&s);
}

static void fin_behind_reneged_octets_goes_with_the_last_of_them(void **state)
{
    open_with(3, NULL);
    tcp_close(s.tcb, s.now);
    script_run(&s);
    expect_flags(&s, TCP_FIN | TCP_ACK, 4001);
    peer_sack(&s, 1001, 2001, 4002, 0, 0);
    expect_data(&s, 1001, 1000);
    peer_ack(&s, 2001);
    script_wait(&s, 250 * NS_PER_MS);
    expect_flags(&s, TCP_ACK, 2001);
    peer_ack(&s, 3001);
    struct script_segment *last = next_segment(&s);
    assert_int_equal(last->header.seq - s.iss, 3001);
    assert_int_equal(last->len, 1000);
    assert_int_equal(last->header.flags, TCP_FIN | TCP_PSH | TCP_ACK);
    peer_ack(&s, 4002);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_FIN_WAIT_2);
    script_close(&s);
}

static void recovery_that_was_not_needed_is_taken_back(void **state)
{
    open_with(8, NULL);
    uint32_t cwnd = s.tcb->cc.cwnd;
    peer_sack(&s, 1001, 2001, 5001, 0, 0);
    expect_data(&s, 1001, 1000);
    assert_true(s.tcb->cc.ssthresh < cwnd);
    peer_ack(&s, 9001); // it was late, not lost
    peer_sack(&s, 9001, 1001, 2001, 0, 0);
    assert_true(s.tcb->cc.cwnd >= cwnd);
    script_close(&s);
}

static void without_sack(struct script *script)
{
    script->peer.sack_permitted = false;
}

// RFC 6298 section 5.3.
static void acknowledgement_of_new_octets_starts_the_timeout_anew(void **state)
{
    script_open(&s, without_sack); // so that no probe goes before it
    user_send(&s, 2000, 0);
    skip_all();
    script_wait(&s, 150 * NS_PER_MS);
    peer_ack(&s, 1001);
    script_wait(&s, tcp_rtt_rto(&s.tcb->rtt) - 1);
    expect_nothing(&s);
    script_wait(&s, 1);
    expect_data(&s, 1001, 1000);
    script_close(&s);
}

static void timeout_that_was_not_needed_is_taken_back(void **state)
{
    open_with(8, NULL);
    uint32_t cwnd = s.tcb->cc.cwnd;
    script_wait(&s, 210 * NS_PER_MS); // the peer was not run
    assert_int_equal(s.tcb->counters.timeouts, 1);
    assert_int_equal(s.tcb->cc.cwnd, 1000);
    skip_all();
    peer_ack(&s, 9001);
    peer_sack(&s, 9001, 1001, 2001, 0, 0); // D-SACK: it came twice
    assert_true(s.tcb->cc.cwnd >= cwnd);
    assert_true(s.tcb->cc.ssthresh >= cwnd);
    script_close(&s);
}

static void three_duplicate_acks_do_without_sack(void **state)
{
    open_with(6, without_sack);
    peer_ack(&s, 1001);
    peer_ack(&s, 1001);
    expect_nothing(&s);
    peer_ack(&s, 1001);
    expect_data(&s, 1001, 1000);
    peer_ack(&s, 3001); // partial: the next hole
    expect_data(&s, 3001, 1000);
    peer_ack(&s, 7001);
    assert_int_equal(s.tcb->recovery.phase, TCP_PHASE_OPEN);
    assert_int_equal(s.tcb->counters.timeouts, 0);
    assert_int_equal(s.tcb->counters.duplicate_acks, 3);
    script_close(&s);
}

// RFC 6582 section 3.2: duplicates behind the third tell that more has arrived, not that more is
// lost.
static void duplicates_within_a_recovery_without_sack_bring_nothing_again(void **state)
{
    open_with(8, without_sack);
    for (unsigned i = 0; i < 5; i++) {
        peer_ack(&s, 1001);
    }
    expect_data(&s, 1001, 1000);
    peer_ack(&s, 4001); // three segments: two of the five are left
    expect_data(&s, 4001, 1000);
    peer_ack(&s, 4001);
    expect_nothing(&s);
    peer_ack(&s, 9001);
    script_close(&s);
}

// What a partial one acknowledges, duplicates had told of.
static void partial_ack_without_sack_accounts_for_its_duplicates(void **state)
{
    open_with(8, without_sack);
    for (unsigned i = 0; i < 5; i++) {
        peer_ack(&s, 1001);
    }
    assert_int_equal(tcp_pipe(s.tcb), 3000);
    peer_ack(&s, 4001); // of the five behind it, which the network has, two have arrived
    assert_int_equal(tcp_pipe(s.tcb), 3000);
    peer_ack(&s, 9001);
    assert_int_equal(tcp_pipe(s.tcb), 0);
    skip_all();
    script_close(&s);
}

static void recovery_without_sack_is_over_with_what_was_outstanding(void **state)
{
    open_with(8, without_sack);
    for (unsigned i = 0; i < 7; i++) {
        peer_ack(&s, 1001);
    }
    expect_data(&s, 1001, 1000);
    user_send(&s, 1000, 0);
    expect_data(&s, 9001, 1000);
    peer_ack(&s, 9001); // the new one is under way
    expect_nothing(&s);
    peer_ack(&s, 10001);
    script_close(&s);
}

static void duplicates_within_a_recovery_without_sack_let_new_octets_go(void **state)
{
    open_with(10, without_sack);
    for (unsigned i = 0; i < 3; i++) {
        peer_ack(&s, 1001);
    }
    expect_data(&s, 1001, 1000);
    uint32_t delivered = s.tcb->recovery.delivered_len;
    peer_ack(&s, 1001);
    assert_int_equal(s.tcb->recovery.delivered_len, delivered + 1000);
    for (unsigned i = 0; i < 3; i++) {
        peer_ack(&s, 1001);
    }
    user_send(&s, 1000, 0);
    expect_data(&s, 11001, 1000);
    peer_ack(&s, 12001);
    script_close(&s);
}

// What came before the time-out tells nothing of what was sent again since.
static void timeout_forgets_the_duplicates_before_it(void **state)
{
    open_with(6, without_sack);
    peer_ack(&s, 1001);
    peer_ack(&s, 1001);
    script_wait(&s, 250 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.timeouts, 1);
    expect_data(&s, 1001, 1000);
    peer_ack(&s, 1001); // the third: something has left the network, but nothing is lost by it
    expect_data(&s, 2001, 1000);
    script_close(&s);
}

static void duplicate_acks_let_new_octets_go(void **state)
{
    open_with(10, NULL);
    user_send(&s, 20000, 0);
    skip_all();
    unsigned before = s.out_count;
    peer_sack(&s, 1001, 2001, 3001, 0, 0); // limited transmit (RFC 3042)
    assert_true(s.out_count > before);
    assert_int_equal(s.out[before].reason, TCP_REASON_DATA);
    skip_all();
    script_close(&s);
}

static void duplicate_acks_do_not_make_the_window_grow(void **state)
{
    open_with(10, NULL);
    uint32_t cwnd = s.tcb->cc.cwnd;
    peer_sack(&s, 1001, 2001, 3001, 0, 0);
    peer_sack(&s, 1001, 2001, 4001, 0, 0);
    assert_int_equal(s.tcb->cc.cwnd, cwnd);
    peer_ack(&s, 4001); // it was late, not lost
    assert_int_equal(s.tcb->cc.cwnd, cwnd + 1000);
    peer_ack(&s, 11001);
    skip_all();
    script_close(&s);
}

static void sack_of_part_of_a_segment_does_not_count(void **state)
{
    open_with(4, NULL);
    peer_sack(&s, 1001, 2001, 2500, 0, 0);
    assert_int_equal(s.tcb->scoreboard.sacked_len, 0);
    peer_sack(&s, 1001, 2001, 3500, 0, 0);
    assert_int_equal(s.tcb->scoreboard.sacked_len, 1000);
    skip_all();
    script_close(&s);
}

// A lost segment counts in the window as what it is long, not as a full one.
static void two_short_losses_are_repaired_at_once(void **state)
{
    script_open(&s, NULL);
    for (unsigned i = 0; i < 10; i++) {
        user_send(&s, 300, 1);
    }
    s.out_read = s.out_count;
    peer_sack(&s, 1, 601, 1501, 0, 0); // the window: one full segment more
    expect_data(&s, 1, 300);
    expect_data(&s, 301, 300);
    script_close(&s);
}

// All was acknowledged between the timer and its probe: the link is not full for that.
static void probe_that_is_not_needed_any_more_holds_nothing_up(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 1500, 0);
    s.out_read = s.out_count;
    s.now = tcp_next_deadline(s.tcb);
    tcp_on_deadline(s.tcb, s.now);
    assert_true(tcp_wants_output(s.tcb, s.now)); // the probe
    peer_ack(&s, 1501);
    expect_nothing(&s);
    assert_int_equal(s.tcb->counters.loss_probes, 0);
    user_send(&s, 500, 0);
    expect_data(&s, 1501, 500);
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(third_segment_sacked_behind_a_hole_brings_it_again),
        cmocka_unit_test(single_sack_is_enough_after_a_quarter_of_a_round_trip),
        cmocka_unit_test(what_is_sent_meanwhile_does_not_put_off_the_end_of_that_quarter),
        cmocka_unit_test(reordering_within_the_window_costs_nothing),
        cmocka_unit_test(reordering_once_seen_makes_it_wait_beyond_three_sacks),
        cmocka_unit_test(lost_retransmission_is_found_by_what_was_sent_after_it),
        cmocka_unit_test(late_original_does_not_make_its_retransmission_look_fast),
        cmocka_unit_test(what_is_sent_again_gets_the_time_it_needs),
        cmocka_unit_test(first_loss_is_repaired_at_once_though_the_window_must_shrink),
        cmocka_unit_test(lowest_of_the_lost_goes_first),
        cmocka_unit_test(window_shrinks_in_proportion_and_ends_at_seven_tenths),
        cmocka_unit_test(reno_halves),
        cmocka_unit_test(probe_at_the_tail_asks_after_two_round_trips),
        cmocka_unit_test(probe_that_finds_no_room_leaves_when_there_is_some),
        cmocka_unit_test(probe_that_found_no_room_until_the_timeout_does_not_leave),
        cmocka_unit_test(probe_comes_after_a_second_where_no_round_trip_was_measured),
        cmocka_unit_test(probe_that_a_sack_overtakes_does_not_leave),
        cmocka_unit_test(loss_that_the_probe_repaired_counts_for_congestion),
        cmocka_unit_test(probe_that_was_not_needed_changes_nothing),
        cmocka_unit_test(what_a_full_window_is_probed_with_is_its_last_segment_alone),
        cmocka_unit_test(probe_before_a_timeout_repairs_no_loss_of_its_own),
        cmocka_unit_test(timeout_leaves_alone_what_was_sacked),
        cmocka_unit_test(timeout_sends_the_first_again_and_begins_with_one_segment),
        cmocka_unit_test(each_segment_that_times_out_shrinks_the_window_once),
        cmocka_unit_test(patience_doubles_with_each_timeout),
        cmocka_unit_test(peer_that_reneges_gets_again_what_it_had_sacked),
        cmocka_unit_test(what_the_link_takes_of_reneged_octets_is_what_was_sent),
        cmocka_unit_test(fin_behind_reneged_octets_goes_with_the_last_of_them),
        cmocka_unit_test(recovery_that_was_not_needed_is_taken_back),
        cmocka_unit_test(acknowledgement_of_new_octets_starts_the_timeout_anew),
        cmocka_unit_test(timeout_that_was_not_needed_is_taken_back),
        cmocka_unit_test(three_duplicate_acks_do_without_sack),
        cmocka_unit_test(duplicates_within_a_recovery_without_sack_bring_nothing_again),
        cmocka_unit_test(partial_ack_without_sack_accounts_for_its_duplicates),
        cmocka_unit_test(recovery_without_sack_is_over_with_what_was_outstanding),
        cmocka_unit_test(duplicates_within_a_recovery_without_sack_let_new_octets_go),
        cmocka_unit_test(timeout_forgets_the_duplicates_before_it),
        cmocka_unit_test(duplicate_acks_let_new_octets_go),
        cmocka_unit_test(duplicate_acks_do_not_make_the_window_grow),
        cmocka_unit_test(sack_of_part_of_a_segment_does_not_count),
        cmocka_unit_test(two_short_losses_are_repaired_at_once),
        cmocka_unit_test(probe_that_is_not_needed_any_more_holds_nothing_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What somebody who guesses, lies or floods can do: RFC 5961, 7323, 5927; CVE-2018-5390 and its
// kin.
#include <errno.h>

#include "tests/tcp/script.h"

static struct script s;

static void blind_reset_in_the_window_is_challenged(void **state)
{
    script_open(&s, NULL);
    assert_int_equal(peer_segment(&s, TCP_RST, 500, 0, 0, NULL), TCP_REFUSED_BAD_RST);
    struct script_segment *challenge = next_segment(&s);
    assert_int_equal(challenge->reason, TCP_REASON_CHALLENGE_ACK);
    assert_int_equal(challenge->header.ack - s.irs, 1);
    assert_int_equal(peer_segment(&s, TCP_RST, 70000, 0, 0, NULL), TCP_REFUSED_NOT_ACCEPTABLE);
    expect_nothing(&s); // outside of it: in silence
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_close(&s);
}

static void blind_syn_is_challenged(void **state)
{
    script_open(&s, NULL);
    assert_int_equal(peer_segment(&s, TCP_SYN, 500, 0, 0, &s.peer), TCP_REFUSED_BAD_SYN);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_CHALLENGE_ACK);
    assert_int_equal(peer_segment(&s, TCP_SYN | TCP_ACK, 90000, 1, 0, &s.peer),
                     TCP_REFUSED_NOT_ACCEPTABLE);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_CHALLENGE_ACK);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_close(&s);
}

static void blind_octets_need_a_plausible_acknowledgement(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 1000, 0);
    s.out_read = s.out_count;
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, 1002, 10, NULL), TCP_REFUSED_ACK_TOO_NEW);
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, (uint32_t)-70000, 10, NULL),
                     TCP_REFUSED_ACK_TOO_OLD);
    assert_int_equal(peer_segment(&s, 0, 1, 0, 10, NULL), TCP_REFUSED_NO_ACK);
    assert_int_equal(s.handed, 0);
    s.out_read = s.out_count;
    script_close(&s);
}

static void challenges_are_few_in_a_second(void **state)
{
    script_open(&s, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        peer_segment(&s, TCP_RST, 500 + i, 0, 0, NULL);
    }
    assert_int_equal(s.out_count - s.out_read, s.config.challenge_max);
    assert_int_equal(s.tcb->counters.challenges_suppressed, 1000 - s.config.challenge_max);
    s.out_read = s.out_count;
    script_wait(&s, NS_PER_S);
    peer_segment(&s, TCP_RST, 500, 0, 0, NULL);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_CHALLENGE_ACK);
    script_close(&s);
}

static void two_who_disagree_do_not_answer_each_other_for_ever(void **state)
{
    script_open(&s, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        peer_segment(&s, TCP_ACK, 90000, 1, 0, NULL);
    }
    assert_true(s.out_count - s.out_read <= s.config.challenge_max);
    s.out_read = s.out_count;
    script_close(&s);
}

static void with_timestamps(struct script *script)
{
    script->config.wishes = TCP_WISH_ALL;
    script->peer.has_timestamps = true;
    script->peer.ts_value = 1000;
}

static void segment_with_an_old_timestamp_is_refused(void **state)
{
    script_open(&s, with_timestamps);
    struct tcp_options ts = {.has_timestamps = true, .ts_value = 999};
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, 1, 100, &ts), TCP_REFUSED_OLD_TIMESTAMP);
    assert_int_equal(s.handed, 0);
    s.out_read = s.out_count;
    ts.ts_value = 1000;
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, 1, 100, &ts), TCP_TAKEN);
    script_close(&s);
}

static void timestamps_wrap_and_age(void **state)
{
    script_open(&s, with_timestamps);
    s.tcb->config.delayed_ack_ns = 0; // an echo goes with each ACK
    struct tcp_options ts = {.has_timestamps = true, .ts_value = 1000 + (1U << 30)};
    peer_segment(&s, TCP_ACK, 1, 1, 100, &ts);
    ts.ts_value += 1U << 30;
    peer_segment(&s, TCP_ACK, 101, 1, 100, &ts);
    ts.ts_value += 1U << 30;
    peer_segment(&s, TCP_ACK, 201, 1, 100, &ts);
    ts.ts_value += 1U << 30; // once round
    peer_segment(&s, TCP_ACK, 301, 1, 100, &ts);
    assert_int_equal(s.handed, 400);
    ts.ts_value -= 5;
    script_wait(&s, 25ULL * 24 * 3600 * NS_PER_S); // it means nothing after so long
    peer_segment(&s, TCP_ACK, 401, 1, 100, &ts);
    assert_int_equal(s.handed, 500);
    s.out_read = s.out_count;
    script_close(&s);
}

static void segment_without_the_agreed_timestamp_is_refused_in_silence(void **state)
{
    script_open(&s, with_timestamps);
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, 1, 100, NULL), TCP_REFUSED_NO_TIMESTAMP);
    expect_nothing(&s);
    peer_segment(&s, TCP_RST, 1, 0, 0, NULL); // a RST needs none
    assert_int_equal(tcp_status(s.tcb), -ECONNRESET);
    script_close(&s);
}

static void timestamp_of_octets_beyond_a_hole_is_not_echoed(void **state)
{
    script_open(&s, with_timestamps);
    struct tcp_options ts = {.has_timestamps = true, .ts_value = 2000};
    peer_segment(&s, TCP_ACK, 1001, 1, 100, &ts);
    assert_int_equal(next_segment(&s)->header.options.ts_echo, 1000);
    ts.ts_value = 1500;
    peer_segment(&s, TCP_ACK, 1, 1, 1000, &ts);
    assert_int_equal(next_segment(&s)->header.options.ts_echo, 1500);
    script_close(&s);
}

static void sack_of_what_was_not_sent_is_refused(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 5000, 0);
    s.out_read = s.out_count;
    peer_sack(&s, 1, 4001, 9001, 0, 0);
    peer_sack(&s, 1, 3001, 2001, 0, 0);            // back to front
    peer_sack(&s, 1, (uint32_t)-5000, 4001, 0, 0); // from before the beginning
    assert_int_equal(refusals(&s, TCP_REFUSED_BAD_SACK), 3);
    assert_int_equal(s.tcb->scoreboard.sacked_len, 0);
    expect_nothing(&s);
    script_close(&s);
}

static void optimistic_acknowledgement_is_refused(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 5000, 0);
    s.out_read = s.out_count;
    uint32_t cwnd = s.tcb->cc.cwnd;
    peer_segment(&s, TCP_ACK, 1, 9001, 0, NULL);
    assert_int_equal(s.tcb->cc.cwnd, cwnd);
    assert_int_equal(tcp_acked_position(s.tcb), 0);
    s.out_read = s.out_count;
    script_close(&s);
}

static void many_small_acknowledgements_grow_the_window_by_octets_only(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 10000, 0);
    s.out_read = s.out_count;
    uint32_t cwnd = s.tcb->cc.cwnd;
    for (uint32_t ack = 2; ack <= 1001; ack++) { // a thousand for one segment
        peer_segment(&s, TCP_ACK, 1, ack, 0, NULL);
    }
    assert_true(s.tcb->cc.cwnd <= cwnd + 1000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void conflicting_octets_do_not_replace_what_was_placed(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    uint8_t lie[1000];
    memset(lie, 0xff, sizeof lie);
    struct tcp_segment segment = {
        .header = {.seq = s.irs + 1001, .ack = s.iss + 1, .flags = TCP_ACK, .window = UINT16_MAX},
        .payload = span_of(lie, sizeof lie)};
    // The port would fail the test if it were offered an octet twice, or a wrong one.
    assert_int_equal(peer_segment_as_is(&s, &segment), TCP_REFUSED_DUPLICATE);
    s.out_read = s.out_count;
    script_close(&s);
}

static void flood_of_tiny_segments_is_bounded(void **state)
{
    script_open(&s, NULL);
    for (uint32_t seq = 3; seq < 40000; seq += 2) {
        peer_data(&s, seq, 1);
        s.out_count = s.out_read;
    }
    assert_int_equal(s.tcb->rcv.ranges.count, s.config.range_max);
    assert_true(refusals(&s, TCP_REFUSED_RANGES_FULL) > 19000);
    for (uint32_t seq = 1; seq < 40000; seq += 500) { // honest octets get through
        peer_data(&s, seq, 500);
        s.out_count = s.out_read;
    }
    assert_true(s.handed >= 39999);
    script_close(&s);
}

static void shut_window_admits_an_acknowledgement(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 1000, 0);
    s.out_read = s.out_count;
    s.in_order = PLACE_BUFFER;
    for (uint32_t seq = 1; seq < 60001; seq += 1000) {
        peer_segment(&s, TCP_ACK, seq, 1, 1000, NULL);
    }
    peer_segment(&s, TCP_ACK, 60001, 1001, 1, NULL); // probes, and acknowledges
    assert_int_equal(tcp_acked_position(s.tcb), 1000);
    assert_int_equal(s.tcb->rcv.nxt - s.tcb->rcv.first, 60000);
    s.out_read = s.out_count;
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blind_reset_in_the_window_is_challenged),
        cmocka_unit_test(blind_syn_is_challenged),
        cmocka_unit_test(blind_octets_need_a_plausible_acknowledgement),
        cmocka_unit_test(challenges_are_few_in_a_second),
        cmocka_unit_test(two_who_disagree_do_not_answer_each_other_for_ever),
        cmocka_unit_test(segment_with_an_old_timestamp_is_refused),
        cmocka_unit_test(timestamps_wrap_and_age),
        cmocka_unit_test(segment_without_the_agreed_timestamp_is_refused_in_silence),
        cmocka_unit_test(timestamp_of_octets_beyond_a_hole_is_not_echoed),
        cmocka_unit_test(sack_of_what_was_not_sent_is_refused),
        cmocka_unit_test(optimistic_acknowledgement_is_refused),
        cmocka_unit_test(many_small_acknowledgements_grow_the_window_by_octets_only),
        cmocka_unit_test(conflicting_octets_do_not_replace_what_was_placed),
        cmocka_unit_test(flood_of_tiny_segments_is_bounded),
        cmocka_unit_test(shut_window_admits_an_acknowledgement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Sending on a good path: where segments are cut, what windows allow, what leaves in one batch.
#include "tests/tcp/script.h"

static struct script s;

static void octets_are_cut_to_full_segments(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 2500, 0);
    expect_data(&s, 1, 1000);
    expect_data(&s, 1001, 1000);
    struct script_segment *last = next_segment(&s);
    assert_int_equal(last->len, 500);
    assert_true(last->header.flags & TCP_PSH);
    peer_ack(&s, 2501);
    assert_int_equal(tcp_acked_position(s.tcb), 2500);
    script_close(&s);
}

static void segments_begin_where_records_begin(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 2100, 3); // 700 each: two do not fit a segment
    expect_data(&s, 1, 700);
    expect_data(&s, 701, 700);
    expect_data(&s, 1401, 700);
    script_close(&s);
}

static void small_records_share_a_segment(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 300, 1); // leaves at once
    expect_data(&s, 1, 300);
    s.out_room = 0; // the link is busy
    user_send(&s, 3000, 10);
    s.out_room = UINT32_MAX;
    script_run(&s);
    expect_data(&s, 301, 900);
    expect_data(&s, 1201, 900);
    expect_data(&s, 2101, 900);
    expect_data(&s, 3001, 300);
    script_close(&s);
}

static void record_longer_than_a_segment_ends_with_a_segment_of_its_own(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 5000, 2); // 2500 each
    static const uint32_t len[] = {1000, 1000, 500, 1000, 1000, 500};
    for (uint32_t i = 0, seq = 1; i < 6; seq += len[i++]) {
        expect_data(&s, seq, len[i]);
    }
    script_close(&s);
}

static void what_was_cut_at_records_is_sent_again_as_it_was(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 2800, 4);
    s.out_read = s.out_count;
    peer_sack(&s, 1, 701, 1401, 0, 0);
    peer_sack(&s, 1, 701, 2801, 0, 0);
    expect_data(&s, 1, 700);
    script_close(&s);
}

static void equal_segments_leave_in_one_batch(void **state)
{
    script_open(&s, NULL);
    uint64_t before = s.tcb->counters.segments_out;
    user_send(&s, 9500, 0);
    assert_int_equal(s.tcb->counters.segments_out - before, 10);
    for (unsigned i = 0; i < 10; i++) {
        struct script_segment *out = next_segment(&s);
        assert_int_equal(out->header.flags & TCP_PSH, i == 9 ? TCP_PSH : 0);
    }
    script_close(&s);
}

static void initial_window_is_ten_segments(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 20000, 0);
    assert_int_equal(s.out_count - s.out_read, 10);
    s.out_read = s.out_count;
    peer_ack(&s, 2001); // slow start: two acknowledged, four more may go
    assert_int_equal(s.out_count - s.out_read, 4);
    s.out_read = s.out_count;
    script_close(&s);
}

static void what_the_link_did_not_take_goes_later(void **state)
{
    script_open(&s, NULL);
    s.out_room = 3;
    user_send(&s, 5000, 0);
    assert_true(tcp_wants_output(s.tcb, s.now));
    s.out_room = UINT32_MAX;
    script_run(&s);
    for (uint32_t i = 0; i < 5; i++) {
        expect_data(&s, 1 + i * 1000, 1000);
    }
    script_close(&s);
}

static void small_peer_window(struct script *script)
{
    script->peer_window = 2500;
}

static void no_octet_goes_beyond_the_window(void **state)
{
    script_open(&s, small_peer_window);
    user_send(&s, 6000, 0);
    expect_data(&s, 1, 1000);
    expect_data(&s, 1001, 1000);
    expect_nothing(&s); // 500 are not worth a segment (silly window syndrome)
    peer_ack(&s, 1001);
    expect_data(&s, 2001, 1000);
    script_close(&s);
}

static void half_of_a_small_window(struct script *script)
{
    script->peer_window = 600;
}

static void peer_that_never_offers_a_segment_gets_parts_of_one(void **state)
{
    script_open(&s, half_of_a_small_window);
    user_send(&s, 1000, 0);
    expect_data(&s, 1, 600);
    script_close(&s);
}

static void window_takes_whole_records_only(void **state)
{
    script_open(&s, small_peer_window);
    user_send(&s, 2800, 4); // 700 each, the window ends inside the fourth
    expect_data(&s, 1, 700);
    expect_data(&s, 701, 700);
    expect_data(&s, 1401, 700);
    expect_nothing(&s);
    peer_ack(&s, 701);
    expect_data(&s, 2101, 700);
    script_close(&s);
}

static void old_segment_does_not_change_the_window(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1, 1000);
    s.peer_window = 2000;
    peer_data(&s, 1001, 1000);
    expect_ack(&s, 2001);
    assert_int_equal(s.tcb->snd.wnd, 2000);
    s.peer_window = 60000;
    peer_segment(&s, TCP_ACK, 500, 1, 1600, NULL); // older octets in front
    assert_int_equal(s.tcb->snd.wnd, 2000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void with_nagle(struct script *script)
{
    script->config.nagle = true;
}

static void nagle_holds_what_is_small_while_something_is_outstanding(void **state)
{
    script_open(&s, with_nagle);
    user_send(&s, 100, 0);
    expect_data(&s, 1, 100);
    user_send(&s, 100, 0);
    expect_nothing(&s);
    user_send(&s, 1000, 0);
    expect_data(&s, 101, 1000); // a full one goes
    expect_nothing(&s);
    peer_ack(&s, 1101);
    expect_data(&s, 1101, 100);
    script_close(&s);
}

static void without_nagle_everything_goes_at_once(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 100, 0);
    expect_data(&s, 1, 100);
    user_send(&s, 100, 0);
    expect_data(&s, 101, 100);
    script_close(&s);
}

static void references_are_read_where_they_are_until_acknowledged(void **state)
{
    static uint8_t octets[1500];
    script_open(&s, NULL);
    for (unsigned i = 0; i < sizeof octets; i++) {
        octets[i] = script_octet(i);
    }
    struct iovec iov = {octets, sizeof octets};
    assert_int_equal(tcp_send(s.tcb, &iov, 1, TCP_SEND_REFERENCE), sizeof octets);
    assert_int_equal(s.tcb->sendq.copies_len, 0);
    script_run(&s);
    expect_data(&s, 1, 1000);
    expect_data(&s, 1001, 500);
    peer_ack(&s, 1001);
    assert_int_equal(tcp_acked_position(s.tcb), 1000);
    assert_true(s.events & TCP_EVENT_ACKED);
    script_close(&s);
}

static void little_room(struct script *script)
{
    script->config.send_len = 1000;
    script->config.piece_max = 4;
}

static void full_queue_takes_part_of_a_stream_and_none_of_a_record(void **state)
{
    static uint8_t octets[1500];
    script_open(&s, little_room);
    s.out_room = 0;
    struct iovec iov = {octets, sizeof octets};
    assert_int_equal(tcp_send_room(s.tcb, 1, 0), 1000);
    assert_int_equal(tcp_send(s.tcb, &iov, 1, TCP_SEND_RECORD), 0);
    assert_int_equal(tcp_send(s.tcb, &iov, 1, 0), 1000);
    assert_int_equal(tcp_send(s.tcb, &iov, 1, 0), 0);
    assert_int_equal(tcp_send_room(s.tcb, 4, TCP_SEND_REFERENCE), 0); // pieces
    script_close(&s);
}

static void octets_of_both_directions_share_segments(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1, 1000);
    user_send(&s, 100, 0);
    assert_int_equal(next_segment(&s)->header.ack - s.irs, 1001);
    script_wait(&s, 20 * NS_PER_MS);
    expect_nothing(&s); // no ACK of its own
    script_close(&s);
}

static void segment_too_long_for_sack_blocks_is_joined_by_an_ack(void **state)
{
    script_open(&s, NULL);
    s.out_room = 0;
    peer_data(&s, 1001, 1000);
    user_send(&s, 1000, 0);
    s.out_room = UINT32_MAX;
    script_run(&s);
    expect_data(&s, 1, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    script_close(&s);
}

static void window_grows_by_all_of_the_burst_that_filled_it(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 10000, 0);
    for (uint32_t i = 1; i <= 10; i++) { // the pipe runs dry meanwhile
        peer_ack(&s, 1 + i * 1000);
    }
    assert_int_equal(s.tcb->cc.cwnd, 20000);
    user_send(&s, 4000, 0);
    peer_ack(&s, 14001);
    uint32_t cwnd = s.tcb->cc.cwnd;
    user_send(&s, 4000, 0);
    peer_ack(&s, 18001);
    assert_int_equal(s.tcb->cc.cwnd, cwnd); // a round trip later the burst is forgotten
    s.out_read = s.out_count;
    script_close(&s);
}

static void idle_connection_begins_anew_with_the_initial_window(void **state)
{
    script_open(&s, NULL);
    for (uint32_t acked = 0; acked < 100000; acked += 10000) {
        user_send(&s, 10000, 0);
        peer_ack(&s, acked + 10001);
    }
    assert_true(s.tcb->cc.cwnd > 20000);
    script_wait(&s, 10 * NS_PER_S);
    s.out_read = s.out_count;
    user_send(&s, 30000, 0);
    assert_int_equal(s.out_count - s.out_read, 10);
    s.out_read = s.out_count;
    script_close(&s);
}

static void peer_that_answers_at_once(struct script *script)
{
    script->config.rto_min_ns = script->config.rto_slack_ns = 10 * NS_PER_MS;
}

static void short_timeouts_do_not_make_short_pauses_idle(void **state)
{
    script_open(&s, peer_that_answers_at_once);
    user_send(&s, 10000, 0);
    peer_ack(&s, 10001);
    script_wait(&s, 190 * NS_PER_MS);
    s.out_read = s.out_count;
    user_send(&s, 30000, 0);
    assert_int_equal(s.out_count - s.out_read, 20);
    s.out_read = s.out_count;
    script_close(&s);
}

static void smaller_path_cuts_what_is_outstanding_anew(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 2000, 0);
    s.out_read = s.out_count;
    uint32_t cwnd = s.tcb->cc.cwnd;
    tcp_on_path_mss(s.tcb, s.iss + 9000, 500); // not outstanding: a guess
    assert_int_equal(tcp_emss(s.tcb), 1000);
    tcp_on_path_mss(s.tcb, s.iss + 1, 500);
    assert_int_equal(tcp_emss(s.tcb), 500);
    script_run(&s);
    for (uint32_t i = 0; i < 4; i++) {
        expect_data(&s, 1 + i * 500, 500);
    }
    assert_int_equal(s.tcb->cc.cwnd, cwnd); // no sign of congestion
    script_close(&s);
}

// What still fits is on its way, and is not sent twice; nor is anything where nothing is smaller.
static void smaller_path_takes_for_lost_what_was_larger_alone(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 1000, 1);
    user_send(&s, 400, 1);
    s.out_read = s.out_count;
    tcp_on_path_mss(s.tcb, s.iss + 1, 1000);
    assert_int_equal(s.tcb->scoreboard.lost_len, 0);
    tcp_on_path_mss(s.tcb, s.iss + 1, 500);
    assert_int_equal(s.tcb->scoreboard.lost_len, 1000);
    script_run(&s);
    expect_data(&s, 1, 500);
    expect_data(&s, 501, 500);
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_are_cut_to_full_segments),
        cmocka_unit_test(segments_begin_where_records_begin),
        cmocka_unit_test(small_records_share_a_segment),
        cmocka_unit_test(record_longer_than_a_segment_ends_with_a_segment_of_its_own),
        cmocka_unit_test(what_was_cut_at_records_is_sent_again_as_it_was),
        cmocka_unit_test(equal_segments_leave_in_one_batch),
        cmocka_unit_test(initial_window_is_ten_segments),
        cmocka_unit_test(what_the_link_did_not_take_goes_later),
        cmocka_unit_test(no_octet_goes_beyond_the_window),
        cmocka_unit_test(peer_that_never_offers_a_segment_gets_parts_of_one),
        cmocka_unit_test(window_takes_whole_records_only),
        cmocka_unit_test(old_segment_does_not_change_the_window),
        cmocka_unit_test(nagle_holds_what_is_small_while_something_is_outstanding),
        cmocka_unit_test(without_nagle_everything_goes_at_once),
        cmocka_unit_test(references_are_read_where_they_are_until_acknowledged),
        cmocka_unit_test(full_queue_takes_part_of_a_stream_and_none_of_a_record),
        cmocka_unit_test(octets_of_both_directions_share_segments),
        cmocka_unit_test(segment_too_long_for_sack_blocks_is_joined_by_an_ack),
        cmocka_unit_test(window_grows_by_all_of_the_burst_that_filled_it),
        cmocka_unit_test(idle_connection_begins_anew_with_the_initial_window),
        cmocka_unit_test(short_timeouts_do_not_make_short_pauses_idle),
        cmocka_unit_test(smaller_path_cuts_what_is_outstanding_anew),
        cmocka_unit_test(smaller_path_takes_for_lost_what_was_larger_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

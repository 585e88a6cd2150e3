// Receiving: placement in and beyond order, delivery in order, what is acknowledged.
#include "tests/tcp/script.h"

static struct script s;

static void octets_in_order_are_handed_up_at_once(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 1000);
    peer_data(&s, 1001, 1000);
    assert_int_equal(s.handed, 2000);
    expect_ack(&s, 2001);
    script_close(&s);
}

static void octets_beyond_a_hole_are_placed_at_once_and_delivered_when_it_closes(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    assert_int_equal(s.placed_octets, 1000);
    assert_int_equal(s.handed, 0);
    expect_sack(&s, 1, 1, 1001, 2001);
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 2000);
    assert_int_equal(s.released.n[0], 1);
    assert_int_equal(s.released.n[1], 1000);
    expect_ack(&s, 2001);
    script_close(&s);
}

static void second_hole_may_close_before_the_first(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 500);
    expect_sack(&s, 1, 1, 1001, 1501);
    peer_data(&s, 2001, 500);
    expect_sack(&s, 1, 2, 2001, 2501, 1001, 1501);
    peer_data(&s, 1501, 500);
    expect_sack(&s, 1, 1, 1001, 2501);
    assert_int_equal(s.handed, 0);
    assert_int_equal(s.tcb->rcv.ranges.count, 1);
    peer_data(&s, 1, 1000);
    assert_int_equal(s.advances, 1);
    assert_int_equal(s.released.n[0], 3);
    expect_ack(&s, 2501);
    script_close(&s);
}

static void one_segment_fills_a_hole_and_more_beyond_it(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 500);
    expect_sack(&s, 1, 1, 1001, 1501);
    peer_data(&s, 2001, 500);
    expect_sack(&s, 1, 2, 2001, 2501, 1001, 1501);
    peer_data(&s, 501, 2500);                     // touches and covers both, and goes on
    expect_sack(&s, 1, 2, 1001, 1501, 501, 3001); // D-SACK first
    peer_data(&s, 1, 500);
    assert_int_equal(s.handed, 3000);
    expect_ack(&s, 3001);
    script_close(&s);
}

static void what_is_there_already_is_never_offered_again(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    uint64_t calls = s.placed_calls;
    peer_data(&s, 1001, 1000);
    assert_int_equal(s.placed_calls, calls);
    expect_sack(&s, 1, 2, 1001, 2001, 1001, 2001); // D-SACK, and the range
    assert_int_equal(refusals(&s, TCP_REFUSED_DUPLICATE), 1);
    script_close(&s);
}

static void old_octets_are_reported_as_duplicates(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1, 1000);
    peer_data(&s, 1001, 1000);
    expect_ack(&s, 2001);
    peer_data(&s, 1, 1000);
    expect_sack(&s, 2001, 1, 1, 1001);
    assert_int_equal(refusals(&s, TCP_REFUSED_NOT_ACCEPTABLE), 1);
    script_close(&s);
}

static void duplicate_beyond_a_hole_is_followed_by_the_block_that_holds_it(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    peer_data(&s, 2001, 1000);
    expect_sack(&s, 1, 1, 1001, 3001);
    peer_data(&s, 4001, 1000);
    expect_sack(&s, 1, 2, 4001, 5001, 1001, 3001);
    peer_data(&s, 6001, 1000);
    expect_sack(&s, 1, 3, 6001, 7001, 4001, 5001, 1001, 3001);
    peer_data(&s, 1501, 500);
    expect_sack(&s, 1, 4, 1501, 2001, 1001, 3001, 6001, 7001, 4001, 5001);
    script_close(&s);
}

static void duplicate_in_a_segment_that_closes_the_first_hole_is_reported(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    peer_data(&s, 1, 1500);
    expect_sack(&s, 2001, 1, 1001, 1501);
    peer_data(&s, 3001, 1000);
    expect_sack(&s, 2001, 1, 3001, 4001);
    peer_data(&s, 2001, 3000); // and goes on behind it
    expect_sack(&s, 5001, 1, 3001, 4001);
    assert_int_equal(s.handed, 5000);
    script_close(&s);
}

static void blocks_of_the_last_segments_are_repeated_latest_first(void **state)
{
    static const uint32_t order[] = {5001, 1001, 9001, 3001, 7001};
    script_open(&s, NULL);
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++) {
        peer_data(&s, order[i], 1000);
    }
    s.out_read = s.out_count - 1;
    expect_sack(&s, 1, 4, 7001, 8001, 3001, 4001, 9001, 10001, 1001, 2001);
    peer_data(&s, 2001, 500); // a block that was reported before changes
    expect_sack(&s, 1, 4, 1001, 2501, 7001, 8001, 3001, 4001, 9001, 10001);
    script_close(&s);
}

static void arrival_in_front_of_a_block_kept_otherwise_makes_one_of_both(void **state)
{
    script_open(&s, NULL);
    s.beyond = PLACE_BUFFER;
    peer_data(&s, 2001, 1000);
    expect_sack(&s, 1, 1, 2001, 3001);
    s.beyond = PLACE_PLACED;
    peer_data(&s, 1001, 1000); // two ranges, one block to the peer
    assert_int_equal(s.tcb->rcv.ranges.count, 2);
    assert_true(s.tcb->counters.range_comparisons > 0);
    expect_sack(&s, 1, 1, 1001, 3001);
    script_close(&s);
}

static void single_octet_can_be_buffered(void **state)
{
    script_open(&s, NULL);
    s.beyond = PLACE_BUFFER;
    peer_data(&s, 2, 1);
    expect_sack(&s, 1, 1, 2, 3);
    peer_data(&s, 1, 1);
    expect_ack(&s, 3);
    assert_int_equal(s.handed, 2);
    script_close(&s);
}

static void dropped_octets_are_not_acknowledged_and_offered_when_they_come_again(void **state)
{
    script_open(&s, NULL);
    s.beyond = PLACE_DROP; // say, the CRC was wrong
    peer_data(&s, 1001, 1000);
    expect_ack(&s, 1);
    assert_int_equal(refusals(&s, TCP_REFUSED_PLACE_DROP), 1);
    s.beyond = PLACE_PLACED;
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    script_close(&s);
}

static void dropped_in_order_octets_are_not_acknowledged_either(void **state)
{
    script_open(&s, NULL);
    s.in_order = PLACE_DROP;
    peer_data(&s, 1, 1000);
    expect_ack(&s, 1);
    s.in_order = PLACE_PLACED;
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 1000);
    script_wait(&s, s.config.delayed_ack_ns);
    expect_ack(&s, 1001);
    script_close(&s);
}

static void buffered_octets_are_handed_up_in_order_later(void **state)
{
    script_open(&s, NULL);
    s.beyond = PLACE_BUFFER;
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    assert_int_equal(s.placed_octets, 0);
    assert_int_equal(s.tcb->rcv.buffered_len, 1000);
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 2000);
    assert_int_equal(s.advances, 0);
    assert_int_equal(s.tcb->rcv.buffered_len, 0);
    expect_ack(&s, 2001);
    script_close(&s);
}

static void placed_and_buffered_ranges_stay_apart_but_are_one_to_the_peer(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    s.beyond = PLACE_BUFFER;
    peer_data(&s, 2001, 1000);
    expect_sack(&s, 1, 1, 1001, 3001);
    assert_int_equal(s.tcb->rcv.ranges.count, 2);
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 3000);
    expect_ack(&s, 3001);
    script_close(&s);
}

static void answer_about_a_part_is_followed_by_an_offer_of_the_rest(void **state)
{
    script_open(&s, NULL);
    s.answer_len_max = 300;
    peer_data(&s, 1001, 1000);
    assert_int_equal(s.placed_calls, 4);
    assert_int_equal(s.tcb->rcv.ranges.count, 1);
    expect_sack(&s, 1, 1, 1001, 2001);
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 2000);
    expect_ack(&s, 2001);
    script_close(&s);
}

static void stalled_port_gets_nothing_until_it_is_resumed(void **state)
{
    script_open(&s, NULL);
    s.in_order = s.from_buffer = PLACE_BUFFER;
    peer_data(&s, 1, 1000);
    expect_ack(&s, 1001); // acknowledged: kept
    peer_data(&s, 2001, 1000);
    expect_sack(&s, 1001, 1, 2001, 3001); // placed beyond the hole all the same
    peer_data(&s, 1001, 1000);
    expect_ack(&s, 3001);
    assert_int_equal(s.handed, 0);
    tcp_resume(s.tcb, s.now); // still not
    assert_int_equal(s.handed, 0);
    s.in_order = s.from_buffer = PLACE_PLACED;
    tcp_resume(s.tcb, s.now);
    assert_int_equal(s.handed, 3000);
    script_run(&s);
    expect_ack(&s, 3001); // the window has opened
    script_close(&s);
}

static void refused_advance_holds_back_what_follows(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    s.advance = false;
    peer_data(&s, 1, 1000);
    expect_ack(&s, 2001);
    assert_int_equal(s.handed, 1000);
    peer_data(&s, 2001, 1000);
    expect_ack(&s, 3001);
    assert_int_equal(s.handed, 1000);
    s.advance = true;
    tcp_resume(s.tcb, s.now);
    assert_int_equal(s.handed, 3000);
    script_run(&s);
    s.out_read = s.out_count; // a window update, or not
    script_close(&s);
}

static void window_closes_while_the_port_is_stalled_and_its_edge_never_moves_back(void **state)
{
    script_open(&s, NULL);
    s.in_order = s.from_buffer = PLACE_BUFFER;
    uint32_t edge = 0;
    for (uint32_t seq = 1; seq < 60001; seq += 1000) {
        peer_data(&s, seq, 1000);
        struct script_segment *ack = next_segment(&s);
        uint32_t now_edge = ack->header.ack + ack->header.window;
        assert_true(now_edge - s.irs >= edge);
        edge = now_edge - s.irs;
    }
    assert_int_equal(edge, 60001);
    peer_data(&s, 60001, 1000);
    expect_ack(&s, 60001);
    assert_int_equal(refusals(&s, TCP_REFUSED_NOT_ACCEPTABLE), 1);
    assert_int_equal(s.tcb->rcv.buffered_len, 60000);
    s.in_order = s.from_buffer = PLACE_PLACED;
    tcp_resume(s.tcb, s.now);
    script_run(&s);
    assert_int_equal(next_segment(&s)->header.window, 60000);
    script_close(&s);
}

static void smaller_window_takes_effect_as_octets_arrive(void **state)
{
    script_open(&s, NULL);
    tcp_set_window(s.tcb, 10000);
    for (uint32_t seq = 1; seq < 60001; seq += 2000) {
        peer_data(&s, seq, 1000);
        peer_data(&s, seq + 1000, 1000);
        struct script_segment *ack = next_segment(&s);
        uint32_t expected = 60001 - (seq + 2000);
        assert_int_equal(ack->header.window, expected > 10000 ? expected : 10000);
    }
    script_close(&s);
}

static void few_ranges(struct script *script)
{
    script->config.range_max = 4;
}

// Four ranges, `last` being how the last of them came to be.
static void fill_table(enum place_verdict last)
{
    script_open(&s, few_ranges);
    for (uint32_t i = 1; i <= 4; i++) {
        s.beyond = i < 4 ? PLACE_PLACED : last;
        peer_data(&s, i * 2000 + 1, 1000);
    }
    s.out_read = s.out_count;
}

static void full_table_drops_the_newest_but_never_what_is_in_order(void **state)
{
    fill_table(PLACE_PLACED);
    peer_data(&s, 10001, 1000);
    assert_int_equal(refusals(&s, TCP_REFUSED_RANGES_FULL), 1);
    struct script_segment *ack = next_segment(&s);
    for (unsigned i = 0; i < ack->header.options.sack_count; i++) {
        assert_true(ack->header.options.sack[i].left - s.irs != 10001);
    }
    peer_data(&s, 3001, 1000); // grows a range, joins two: needs none
    assert_int_equal(refusals(&s, TCP_REFUSED_RANGES_FULL), 1);
    peer_data(&s, 10001, 1000); // now there is room
    assert_int_equal(refusals(&s, TCP_REFUSED_RANGES_FULL), 1);
    peer_data(&s, 1, 2000);
    assert_int_equal(s.handed, 5000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void full_table_has_a_place_for_what_a_stalled_port_leaves(void **state)
{
    fill_table(PLACE_PLACED);
    s.in_order = s.from_buffer = PLACE_BUFFER;
    peer_data(&s, 1, 1000);
    assert_int_equal(refusals(&s, TCP_REFUSED_RANGES_FULL), 0);
    assert_int_equal(next_segment(&s)->header.ack - s.irs, 1001);
    assert_int_equal(s.tcb->rcv.buffered_len, 1000);
    s.in_order = s.from_buffer = PLACE_PLACED;
    tcp_resume(s.tcb, s.now);
    assert_int_equal(s.handed, 1000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void full_table_and_a_stalled_port_overflow_nothing(void **state)
{
    fill_table(PLACE_PLACED);
    s.in_order = s.from_buffer = PLACE_BUFFER;
    for (uint32_t seq = 1; seq <= 9001; seq += 1000) {
        peer_data(&s, seq, 1000);
    }
    assert_int_equal(s.handed, 0);
    assert_true(refusals(&s, TCP_REFUSED_RANGES_FULL) > 0);
    s.in_order = s.from_buffer = PLACE_PLACED;
    tcp_resume(s.tcb, s.now);
    for (uint32_t seq = 1; seq <= 9001; seq += 1000) {
        peer_data(&s, seq, 1000);
    }
    assert_int_equal(s.handed, 10000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void full_table_buffers_what_follows_buffered_octets_unasked(void **state)
{
    fill_table(PLACE_BUFFER);
    s.beyond = PLACE_PLACED; // of what it placed there would be no record
    uint64_t placed = s.placed_octets;
    peer_data(&s, 9001, 1000);
    assert_int_equal(s.placed_octets, placed);
    assert_int_equal(s.tcb->rcv.buffered_len, 2000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void full_table_refuses_to_buffer_what_follows_placed_octets(void **state)
{
    fill_table(PLACE_PLACED);
    s.beyond = PLACE_BUFFER;
    peer_data(&s, 9001, 1000);
    assert_int_equal(s.tcb->rcv.buffered_len, 0);
    assert_int_equal(refusals(&s, TCP_REFUSED_RANGES_FULL), 1);
    s.out_read = s.out_count;
    script_close(&s);
}

static void holes_are_counted_as_they_open_merge_and_close(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1001, 1000);
    peer_data(&s, 3001, 1000);
    peer_data(&s, 2001, 1000);
    const struct tcp_counters *c = &s.tcb->counters;
    assert_int_equal(c->holes_opened, 2);
    assert_int_equal(c->holes_merged, 1);
    assert_int_equal(c->holes_closed, 0);
    peer_data(&s, 1, 1000);
    assert_int_equal(c->holes_closed, 1);
    s.in_order = s.from_buffer = PLACE_BUFFER;
    peer_data(&s, 4001, 1000); // kept in order: no hole
    peer_data(&s, 5001, 1000);
    assert_int_equal(c->holes_opened, 2);
    assert_int_equal(c->holes_closed, 1);
    s.out_read = s.out_count;
    script_close(&s);
}

static void no_buffer(struct script *script)
{
    script->config.buffer_len = 0;
}

static void stalled_port_is_asked_no_more_even_when_nothing_could_be_kept(void **state)
{
    script_open(&s, no_buffer);
    s.in_order = PLACE_BUFFER;
    peer_data(&s, 1, 1000);
    assert_int_equal(refusals(&s, TCP_REFUSED_BUFFER_FULL), 1);
    s.in_order = PLACE_PLACED;
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 0);
    tcp_resume(s.tcb, s.now);
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 1000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void scaled_window(struct script *script)
{
    script->config.wishes |= TCP_WISH_SCALE;
    script->config.window_len = script->config.buffer_len = 1 << 20;
    script->peer.has_scale = true;
}

// RFC 7323 section 2.3: shifted by what makes 2^20 fit into 16 bits.
static void window_is_told_in_units_of_the_scale(void **state)
{
    script_open(&s, scaled_window);
    peer_data(&s, 1, 1000);
    peer_data(&s, 1001, 1000);
    assert_int_equal(next_segment(&s)->header.window, (1 << 20) >> 5);
    script_close(&s);
}

static void what_was_offered_is_accepted_although_a_scaled_window_cannot_say_it_again(void **state)
{
    script_open(&s, scaled_window);
    s.in_order = s.from_buffer = PLACE_BUFFER;
    tcp_seq edge = s.tcb->rcv.edge;
    peer_data(&s, 1, 1); // the rest of the window is no multiple of the scale's unit
    assert_true(s.tcb->rcv.edge >= edge);
    s.out_read = s.out_count;
    script_close(&s);
}

static void window_of_two_segments(struct script *script)
{
    script->config.window_len = script->config.buffer_len = 2 * SCRIPT_MSS;
}

static void duplicate_that_ends_with_the_window_is_a_duplicate(void **state)
{
    script_open(&s, window_of_two_segments);
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 2001);
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 2, 1001, 2001, 1001, 2001);
    assert_int_equal(refusals(&s, TCP_REFUSED_DUPLICATE), 1);
    assert_int_equal(refusals(&s, TCP_REFUSED_NOT_ACCEPTABLE), 0);
    script_close(&s);
}

static void window_below_two_segments(struct script *script)
{
    script->config.window_len = script->config.buffer_len = SCRIPT_MSS * 3 / 2;
}

// RFC 9293 section 3.8.6.2.2: half of it is enough, if that is less than a segment.
static void half_of_a_small_window_is_worth_telling(void **state)
{
    script_open(&s, window_below_two_segments);
    peer_data(&s, 1, SCRIPT_MSS);
    script_wait(&s, NS_PER_S);
    assert_int_equal(next_segment(&s)->header.window, SCRIPT_MSS * 3 / 2);
    script_close(&s);
}

static void small_buffer(struct script *script)
{
    script->config.buffer_len = 1500;
}

static void what_finds_no_room_in_the_buffer_is_not_acknowledged(void **state)
{
    script_open(&s, small_buffer);
    s.beyond = PLACE_BUFFER;
    peer_data(&s, 1001, 1000);
    expect_sack(&s, 1, 1, 1001, 1501);
    assert_int_equal(refusals(&s, TCP_REFUSED_BUFFER_FULL), 1);
    peer_data(&s, 1, 1000);
    expect_ack(&s, 1501);
    script_close(&s);
}

static void buffer_wraps_round_its_end(void **state)
{
    script_open(&s, small_buffer);
    s.beyond = PLACE_BUFFER;
    for (uint32_t seq = 1; seq < 20000; seq += 900) {
        peer_data(&s, seq + 400, 500);
        peer_data(&s, seq, 400);
        assert_int_equal(s.handed, seq + 899);
    }
    s.out_read = s.out_count;
    script_close(&s);
}

static void fin_is_held_until_all_before_it_is_there(void **state)
{
    script_open(&s, NULL);
    peer_segment(&s, TCP_ACK | TCP_FIN, 1001, 1, 0, NULL);
    assert_int_equal(s.events & TCP_EVENT_FIN, 0);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    expect_ack(&s, 1);
    peer_data(&s, 1, 1000);
    assert_true(s.events & TCP_EVENT_FIN);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_CLOSE_WAIT);
    expect_ack(&s, 1002);
    script_close(&s);
}

static void fin_behind_stalled_octets_is_told_after_them(void **state)
{
    script_open(&s, NULL);
    s.in_order = s.from_buffer = PLACE_BUFFER;
    peer_segment(&s, TCP_ACK | TCP_FIN, 1, 1, 1000, NULL);
    expect_ack(&s, 1002); // acknowledged
    assert_int_equal(s.events & TCP_EVENT_FIN, 0);
    s.in_order = s.from_buffer = PLACE_PLACED;
    tcp_resume(s.tcb, s.now);
    script_run(&s);
    assert_true(s.events & TCP_EVENT_FIN);
    s.out_read = s.out_count;
    script_close(&s);
}

static void octets_beyond_the_fin_are_refused(void **state)
{
    script_open(&s, NULL);
    peer_segment(&s, TCP_ACK | TCP_FIN, 1001, 1, 0, NULL);
    assert_int_equal(peer_segment(&s, TCP_ACK, 1001, 1, 500, NULL), TCP_REFUSED_DATA_AFTER_FIN);
    assert_int_equal(peer_segment(&s, TCP_ACK | TCP_FIN, 501, 1, 100, NULL),
                     TCP_REFUSED_DATA_AFTER_FIN); // another FIN than before
    peer_data(&s, 1, 1000);
    assert_int_equal(s.handed, 1000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void every_second_segment_is_acknowledged_and_a_single_one_in_a_moment(void **state)
{
    script_open(&s, NULL);
    peer_data(&s, 1, 100);
    expect_nothing(&s);
    peer_data(&s, 101, 100);
    expect_ack(&s, 201);
    peer_data(&s, 201, 100);
    script_wait(&s, s.config.delayed_ack_ns - 1);
    expect_nothing(&s);
    script_wait(&s, 1);
    expect_ack(&s, 301);
    script_close(&s);
}

static void near_wrap(struct script *script)
{
    script->irs = UINT32_MAX - 1500; // the sequence space wraps inside the second segment
}

static void sequence_numbers_wrap_inside_a_hole(void **state)
{
    script_open(&s, near_wrap);
    peer_data(&s, 2001, 1000);
    expect_sack(&s, 1, 1, 2001, 3001);
    peer_data(&s, 1, 1000);
    expect_sack(&s, 1001, 1, 2001, 3001);
    peer_data(&s, 1001, 1000);
    expect_ack(&s, 3001);
    assert_int_equal(s.handed, 3000);
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_in_order_are_handed_up_at_once),
        cmocka_unit_test(octets_beyond_a_hole_are_placed_at_once_and_delivered_when_it_closes),
        cmocka_unit_test(second_hole_may_close_before_the_first),
        cmocka_unit_test(one_segment_fills_a_hole_and_more_beyond_it),
        cmocka_unit_test(what_is_there_already_is_never_offered_again),
        cmocka_unit_test(old_octets_are_reported_as_duplicates),
        cmocka_unit_test(duplicate_beyond_a_hole_is_followed_by_the_block_that_holds_it),
        cmocka_unit_test(duplicate_in_a_segment_that_closes_the_first_hole_is_reported),
        cmocka_unit_test(blocks_of_the_last_segments_are_repeated_latest_first),
        cmocka_unit_test(arrival_in_front_of_a_block_kept_otherwise_makes_one_of_both),
        cmocka_unit_test(single_octet_can_be_buffered),
        cmocka_unit_test(dropped_octets_are_not_acknowledged_and_offered_when_they_come_again),
        cmocka_unit_test(dropped_in_order_octets_are_not_acknowledged_either),
        cmocka_unit_test(buffered_octets_are_handed_up_in_order_later),
        cmocka_unit_test(placed_and_buffered_ranges_stay_apart_but_are_one_to_the_peer),
        cmocka_unit_test(answer_about_a_part_is_followed_by_an_offer_of_the_rest),
        cmocka_unit_test(stalled_port_gets_nothing_until_it_is_resumed),
        cmocka_unit_test(refused_advance_holds_back_what_follows),
        cmocka_unit_test(window_closes_while_the_port_is_stalled_and_its_edge_never_moves_back),
        cmocka_unit_test(smaller_window_takes_effect_as_octets_arrive),
        cmocka_unit_test(full_table_drops_the_newest_but_never_what_is_in_order),
        cmocka_unit_test(full_table_has_a_place_for_what_a_stalled_port_leaves),
        cmocka_unit_test(full_table_and_a_stalled_port_overflow_nothing),
        cmocka_unit_test(full_table_buffers_what_follows_buffered_octets_unasked),
        cmocka_unit_test(full_table_refuses_to_buffer_what_follows_placed_octets),
        cmocka_unit_test(holes_are_counted_as_they_open_merge_and_close),
        cmocka_unit_test(stalled_port_is_asked_no_more_even_when_nothing_could_be_kept),
        cmocka_unit_test(what_was_offered_is_accepted_although_a_scaled_window_cannot_say_it_again),
        cmocka_unit_test(window_is_told_in_units_of_the_scale),
        cmocka_unit_test(duplicate_that_ends_with_the_window_is_a_duplicate),
        cmocka_unit_test(half_of_a_small_window_is_worth_telling),
        cmocka_unit_test(what_finds_no_room_in_the_buffer_is_not_acknowledged),
        cmocka_unit_test(buffer_wraps_round_its_end),
        cmocka_unit_test(fin_is_held_until_all_before_it_is_there),
        cmocka_unit_test(fin_behind_stalled_octets_is_told_after_them),
        cmocka_unit_test(octets_beyond_the_fin_are_refused),
        cmocka_unit_test(every_second_segment_is_acknowledged_and_a_single_one_in_a_moment),
        cmocka_unit_test(sequence_numbers_wrap_inside_a_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Messages beyond holes: placed at once, delivered in order. What both sides must have delivered
// after every segment is compared by the template (hole.h).

#include "tests/iwarp/hole.h"

/* ---- Sends ----------------------------------------------------------------------------------- */

static void completions_appear_when_the_hole_closes(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 4, 400);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    unsigned second = hole_send(h, &(struct hole_send){.len = 50, .solicited = true});
    hole_send(h, &(struct hole_send){.len = 70, .has_immediate = true, .immediate = 99});
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_int_equal(hole_received_count(h), 0);
    assert_int_equal(hole_counters(h)->early_sends, 2);
    hole_arrive(h, first, second);
    assert_int_equal(hole_received_count(h), 3);
    assert_int_equal(hole_received(h, 1).byte_len, 50);
    assert_int_equal(hole_received(h, 2).imm_data, 99);
    assert_int_equal(hole_counters(h)->released_sends, 2);
    assert_int_equal(qp_query(h->early.qp).rq_count, 1); // nothing has come for the fourth
    hole_close(h);
}

static void every_segment_of_a_message_may_come_first(void **state)
{
    for (unsigned missing = 0; missing < 4; missing++) {
        struct hole *h = hole_open(NULL);
        hole_post_receives(h, 2, 400);
        unsigned first = hole_send(h, &(struct hole_send){.len = 390}); // four segments
        hole_send(h, &(struct hole_send){.len = 10});
        assert_int_equal(h->count - first, 5);
        hole_begin(h);
        for (unsigned i = h->count; i-- > first;) {
            if (i != first + missing) {
                hole_arrive(h, i, i + 1);
            }
        }
        assert_int_equal(hole_received_count(h), 0);
        hole_arrive(h, first + missing, first + missing + 1);
        assert_int_equal(hole_received_count(h), 2);
        hole_close(h);
    }
}

// What came in order goes on beyond the hole, and what came there goes on in order.
static void a_message_may_come_half_in_order(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 1, 400);
    unsigned first = hole_send(h, &(struct hole_send){.len = 400});
    hole_begin(h);
    hole_arrive(h, first, first + 1);
    hole_arrive(h, first + 2, first + 3);
    hole_arrive(h, first + 1, first + 2);
    assert_int_equal(hole_counters(h)->early_sends, 1);
    hole_arrive(h, first + 3, first + 4);
    assert_int_equal(hole_received_count(h), 1);
    hole_close(h);
}

static void the_start_of_a_message_may_be_released_before_its_end(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 2, 400);
    unsigned first = hole_send(h, &(struct hole_send){.len = 20});
    unsigned second = hole_send(h, &(struct hole_send){.len = 400});
    hole_begin(h);
    hole_arrive(h, second, second + 2);
    hole_arrive(h, first, second);
    assert_int_equal(hole_received_count(h), 1);
    hole_arrive(h, second + 2, h->count);
    assert_int_equal(hole_received_count(h), 2);
    hole_close(h);
}

static void later_hole_may_close_first(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 5, 100);
    unsigned first = h->count;
    for (unsigned i = 0; i < 5; i++) {
        hole_send(h, &(struct hole_send){.len = 10 + i});
    }
    hole_begin(h);
    hole_arrive(h, first + 4, first + 5);
    hole_arrive(h, first + 2, first + 3);
    hole_arrive(h, first + 3, first + 4); // closes the second hole
    assert_int_equal(hole_received_count(h), 0);
    hole_arrive(h, first, first + 1);
    assert_int_equal(hole_received_count(h), 1);
    hole_arrive(h, first + 1, first + 2);
    assert_int_equal(hole_received_count(h), 5);
    assert_int_equal(h->ledger.advances, 1);
    hole_close(h);
}

static void ranges_join_and_their_counts_add_up(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 7, 100);
    unsigned first = h->count;
    for (unsigned i = 0; i < 7; i++) {
        hole_send(h, &(struct hole_send){.len = 10 + i});
    }
    hole_begin(h);
    hole_arrive(h, first + 1, first + 2);
    hole_arrive(h, first + 3, first + 4);
    hole_arrive(h, first + 5, first + 6);
    hole_arrive(h, first + 2, first + 3);
    hole_arrive(h, first + 4, first + 5);
    assert_int_equal(hole_received_count(h), 0);
    hole_arrive(h, first, first + 1);
    assert_int_equal(hole_received_count(h), 6);
    assert_int_equal(h->ledger.advances, 1);
    hole_close(h);
}

// The worked example of docs/hole-ledger.md, line by line.
static void three_holes_close_as_the_document_says(void **state)
{
    struct hole *h = hole_open(NULL);
    uint32_t sink = hole_post_read(h, 1, 60);
    hole_post_receives(h, 3, 300);
    unsigned first = hole_send(h, &(struct hole_send){.len = 10}) - 1; // segment 1 is first + 1
    hole_send(h, &(struct hole_send){.len = 20});
    hole_write(h, h->early.stag, hole_write_to(0), 50);
    hole_read_request(h, 0, 30);
    hole_send(h, &(struct hole_send){.len = 200});
    hole_read_response(h, sink, 60);
    hole_write(h, h->early.stag, hole_write_to(100), 50);
    assert_int_equal(h->count, first + 9);
    hole_begin(h);
    unsigned sent = h->early.sent_count;
    static const unsigned early[] = {2, 4, 5, 7, 8, 3};
    for (unsigned i = 0; i < 6; i++) {
        hole_arrive(h, first + early[i], first + early[i] + 1);
    }
    assert_int_equal(hole_received_count(h), 0);
    assert_int_equal(h->early.sent_count, sent);
    hole_arrive(h, first + 1, first + 2);
    assert_int_equal(hole_received_count(h), 2);
    assert_int_equal(hole_counters(h)->doorbells, 1);
    assert_int_equal(h->early.sent_count, sent + 1);
    assert_int_equal(h->early.qp->rdmap.rx[DDP_QN_SEND].mo, 102);
    assert_int_equal(hole_completed_count(h), 0);
    hole_arrive(h, first + 6, first + 7);
    assert_int_equal(hole_received_count(h), 3);
    assert_int_equal(hole_completed_count(h), 1);
    hole_close(h);
}

static void message_numbers_wrap_beyond_a_hole(void **state)
{
    struct hole_options options = {.first_msn = UINT32_MAX - 1};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 4, 300);
    unsigned first = hole_send(h, &(struct hole_send){.len = 10});
    for (unsigned i = 0; i < 3; i++) {
        hole_send(h, &(struct hole_send){.len = 250});
        hole_read_request(h, 100 * i, 40);
    }
    hole_begin(h);
    for (unsigned i = h->count; i-- > first;) {
        hole_arrive(h, i, i + 1);
    }
    assert_int_equal(hole_received_count(h), 4);
    hole_close(h);
}

static void octets_that_were_placed_are_not_written_again(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 2, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    unsigned second = hole_send(h, &(struct hole_send){.len = 50});
    hole_begin(h);
    hole_arrive(h, second, h->count);
    uint8_t other[100] = {0};
    hole_arrive_forged(h, h->start[second], other, h->start[h->count] - h->start[second]);
    hole_arrive(h, first, second);
    assert_int_equal(hole_received_count(h), 2);
    hole_close(h); // and memory is as that of the naive side
}

static void send_without_a_posted_receive_is_not_acknowledged(void **state)
{
    for (uint32_t srq_wr = 0; srq_wr <= 8; srq_wr += 8) {
        struct hole_options options = {.srq_wr = srq_wr};
        struct hole *h = hole_open(&options);
        hole_post_receives(h, 1, 100);
        unsigned first = hole_send(h, &(struct hole_send){.len = 30});
        unsigned second = hole_send(h, &(struct hole_send){.len = 50});
        hole_begin(h);
        hole_arrive(h, second, h->count); // the only receive is that of the first
        assert_int_equal(hole_counters(h)->early_no_receive, 1);
        assert_int_equal(h->ledger.dropped, 1);
        hole_post_receives(h, 1, 100);
        hole_arrive(h, second, h->count); // sent again
        assert_int_equal(hole_counters(h)->early_sends, 1);
        h->is_twin_free = srq_wr > 0; // the SRQ's receives went in another order
        hole_arrive(h, first, second);
        assert_int_equal(hole_received_count(h), 2);
        hole_drop(h);
    }
}

// Otherwise those beyond the hole would wait for the message in it, and that one for a receive.
static void shared_receives_are_left_for_the_messages_before(void **state)
{
    struct hole_options options = {.srq_wr = 8};
    struct hole *h = hole_open(&options);
    h->is_twin_free = true;
    hole_post_receives(h, 2, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    unsigned second = hole_send(h, &(struct hole_send){.len = 50});
    hole_send(h, &(struct hole_send){.len = 60});
    hole_begin(h);
    hole_arrive(h, second, h->count);
    hole_arrive(h, first, second);
    assert_int_equal(hole_received_count(h), 2);
    hole_drop(h);
}

static void receives_are_reusable_only_after_their_completion_was_polled(void **state)
{
    struct hole_options options = {.recv_wr = 4};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 4, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    for (unsigned i = 0; i < 3; i++) {
        hole_send(h, &(struct hole_send){.len = 31 + i});
    }
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    assert_null(wq_receive_slot(qp_wq(h->early.qp), 0));
    h->early.is_polling_paused = h->naive.is_polling_paused = true;
    hole_arrive(h, first, first + 1);
    assert_null(wq_receive_slot(qp_wq(h->early.qp), 0)); // complete, but not polled
    h->early.is_polling_paused = h->naive.is_polling_paused = false;
    hole_compare(h);
    assert_non_null(wq_receive_slot(qp_wq(h->early.qp), 3));
    hole_close(h);
}

static void destroying_a_queue_pair_removes_its_completions(void **state)
{
    struct hole_options options = {.srq_wr = 4};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 4, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    for (unsigned i = 0; i < 3; i++) {
        hole_send(h, &(struct hole_send){.len = 31 + i});
    }
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    h->early.is_polling_paused = h->naive.is_polling_paused = true;
    hole_arrive(h, first, first + 1);
    assert_int_equal(cq_counters(h->early.recv_cq).pushed, 4);
    hole_drop(h); // purges the CQ, then checks that the SRQ has all its receives back
}

static void full_cq_ends_the_stream_as_in_order(void **state)
{
    struct hole_options options = {.cq_count = 2};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 4, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    for (unsigned i = 0; i < 3; i++) {
        hole_send(h, &(struct hole_send){.len = 31 + i});
    }
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    h->early.is_polling_paused = h->naive.is_polling_paused = true;
    hole_arrive(h, first, first + 1);
    assert_true(hole_is_over(h));
    assert_true(cq_has_overflowed(h->early.recv_cq));
    hole_drop(h);
}

static void receives_that_a_broken_stream_held_are_flushed(void **state)
{
    struct hole_options options = {.srq_wr = 8};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 4, 100);
    hole_send(h, &(struct hole_send){.len = 30});
    unsigned second = hole_send(h, &(struct hole_send){.len = 31});
    hole_begin(h);
    hole_arrive(h, second, h->count);
    h->is_twin_free = true; // the naive one has not touched its receive, and leaves it in the SRQ
    qp_on_llp_closed(h->early.qp, QP_CLOSE_RESET, 1000);
    hole_compare(h);
    assert_int_equal(hole_received_count(h), 1);
    assert_int_equal(hole_received(h, 0).status, WC_WR_FLUSH_ERR);
    assert_int_equal(srq_posted_count(h->early.srq), 3);
    hole_drop(h);
}

// An SRQ gives its receives in the order in which messages arrive; completions are in order.
static void shared_receives_go_to_who_comes_first(void **state)
{
    struct hole_options options = {.srq_wr = 8};
    struct hole *h = hole_open(&options);
    h->is_twin_free = true; // it takes them in another order
    hole_post_receives(h, 2, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    unsigned second = hole_send(h, &(struct hole_send){.len = 50});
    hole_begin(h);
    hole_arrive(h, second, h->count);
    hole_arrive(h, first, second);
    assert_int_equal(hole_received(h, 0).byte_len, 30);
    assert_int_equal(hole_received(h, 1).byte_len, 50);
    assert_int_equal(hole_received(h, 0).wr_id, hole_received(h, 1).wr_id + 1);
    hole_drop(h);
}

// The message before the hole finds no receive, another queue pair took it: what a closing hole
// releases waits behind it.
static void nothing_overtakes_a_send_that_waits_for_a_receive(void **state)
{
    struct hole_options options = {.srq_wr = 8};
    struct hole *h = hole_open(&options);
    h->is_twin_free = true;
    hole_post_receives(h, 2, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 30});
    unsigned second = hole_send(h, &(struct hole_send){.len = 50});
    hole_begin(h);
    hole_arrive(h, second, h->count);
    srq_free(h->early.srq, srq_claim(h->early.srq));
    hole_arrive(h, first, second);
    assert_int_equal(hole_received_count(h), 0);
    assert_true(qp_is_stalled(h->early.qp));
    hole_post_receives(h, 1, 100);
    hole_resume(h);
    assert_int_equal(hole_received(h, 0).byte_len, 30);
    assert_int_equal(hole_received(h, 1).byte_len, 50);
    hole_drop(h);
}

static void one_queue_pair_holds_only_so_many_shared_receives(void **state)
{
    struct hole_options options = {.srq_wr = 64};
    struct hole *h = hole_open(&options);
    h->is_twin_free = true;
    hole_post_receives(h, 64, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 1});
    for (unsigned i = 0; i < EARLY_SHARED_MAX + 3; i++) {
        hole_send(h, &(struct hole_send){.len = 1});
    }
    hole_begin(h);
    hole_arrive(h, first + 1, h->count);
    assert_int_equal(hole_counters(h)->early_sends, EARLY_SHARED_MAX);
    assert_int_equal(srq_posted_count(h->early.srq), 64 - EARLY_SHARED_MAX);
    assert_int_equal(hole_counters(h)->early_put_off, 3);
    hole_arrive(h, first, first + 1);
    assert_int_equal(hole_received_count(h), EARLY_SHARED_MAX + 4);
    hole_drop(h);
}

static void shared_receives_that_were_delivered_are_held_no_more(void **state)
{
    enum { ROUNDS = 6, BEYOND = 9 }; // together more than may be held at a time
    struct hole_options options = {.srq_wr = 64};
    struct hole *h = hole_open(&options);
    unsigned first[ROUNDS];
    h->is_twin_free = true;
    hole_post_receives(h, 64, 100);
    for (unsigned round = 0; round < ROUNDS; round++) {
        first[round] = hole_send(h, &(struct hole_send){.len = 1});
        for (unsigned i = 0; i < BEYOND; i++) {
            hole_send(h, &(struct hole_send){.len = 1});
        }
    }
    hole_begin(h);
    for (unsigned round = 0; round < ROUNDS; round++) {
        hole_arrive(h, first[round] + 1, first[round] + 1 + BEYOND);
        hole_arrive(h, first[round], first[round] + 1);
    }
    assert_int_equal(hole_counters(h)->early_sends, ROUNDS * BEYOND);
    assert_int_equal(hole_counters(h)->early_put_off, 0);
    hole_drop(h);
}

/* ---- Writes and Immediate Data --------------------------------------------------------------- */

static void writes_are_in_memory_before_the_hole_closes(void **state)
{
    struct hole *h = hole_open(NULL);
    unsigned first = hole_write(h, h->early.stag, hole_write_to(0), 100);
    unsigned second = hole_write(h, h->early.stag, hole_write_to(1000), 500);
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_memory_not_equal(h->early.memory + HOLE_WRITE_AT + 1000,
                            h->naive.memory + HOLE_WRITE_AT + 1000, 500);
    assert_int_equal(hole_counters(h)->early_writes, h->count - second);
    hole_arrive(h, first, second);
    hole_close(h);
}

static void immediate_data_tells_how_long_its_write_was(void **state)
{
    for (unsigned missing = 0; missing < 4; missing++) {
        struct hole *h = hole_open(NULL);
        hole_post_receives(h, 2, 0);
        unsigned first = hole_write(h, h->early.stag, hole_write_to(0), 60);
        hole_immediate(h, 60, false);
        hole_write(h, h->early.stag, hole_write_to(100), 90);
        hole_immediate(h, 90, true);
        hole_begin(h);
        for (unsigned i = 0; i < 4; i++) {
            if (i != missing) {
                hole_arrive(h, first + i, first + i + 1);
            }
        }
        hole_arrive(h, first + missing, first + missing + 1);
        assert_int_equal(hole_received(h, 0).byte_len, 60);
        assert_int_equal(hole_received(h, 1).byte_len, 90);
        hole_close(h);
    }
}

// Such a peer does not say it: its octets are counted in order, so the end of a Write waits.
static void the_end_of_a_foreign_write_waits(void **state)
{
    struct hole_options options = {.is_foreign = true};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 2, 0);
    unsigned first = hole_write(h, h->early.stag, hole_write_to(0), 250);
    hole_immediate(h, 250, false);
    unsigned second = hole_write(h, h->early.stag, hole_write_to(400), 350);
    hole_immediate(h, 350, false);
    hole_begin(h);
    for (unsigned i = h->count; i-- > first;) {
        hole_arrive(h, i, i + 1);
    }
    assert_int_equal(hole_received(h, 0).byte_len, 250);
    assert_int_equal(hole_received(h, 1).byte_len, 350);
    assert_int_equal(hole_counters(h)->early_writes, h->count - second - 2 + 1);
    hole_close(h);
}

/* ---- STags that are taken back --------------------------------------------------------------- */

// The Write stands before the invalidation in the stream, and arrives behind it.
static void an_invalidation_waits_for_the_write_before_it(void **state)
{
    struct hole *h = hole_open(NULL);
    uint32_t window = hole_bind_window(h);
    hole_post_receives(h, 1, 100);
    unsigned first = hole_write(h, window, hole_write_to(0), 60);
    unsigned second =
        hole_send(h, &(struct hole_send){.len = 10, .invalidates = true, .stag = window});
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_int_equal(hole_counters(h)->invalidations, 0);
    hole_arrive(h, first, second);
    assert_int_equal(hole_counters(h)->invalidations, 1);
    assert_int_equal(hole_received(h, 0).inv_rkey, window);
    hole_close(h);
}

static void a_write_behind_the_invalidation_of_its_stag_ends_the_stream(void **state)
{
    for (int is_inv_early = 0; is_inv_early < 2; is_inv_early++) {
        struct hole *h = hole_open(NULL);
        h->is_twin_free = true; // which refuses the Write itself, and names its header
        uint32_t window = hole_bind_window(h);
        hole_post_receives(h, 2, 100);
        unsigned first = hole_send(h, &(struct hole_send){.len = 10});
        unsigned second =
            hole_send(h, &(struct hole_send){.len = 10, .invalidates = true, .stag = window});
        unsigned third = hole_write(h, window, hole_write_to(0), 60);
        hole_begin(h);
        hole_arrive(h, third, h->count);
        assert_int_equal(hole_counters(h)->early_writes, 1);
        if (is_inv_early) {
            hole_arrive(h, second, third);
        }
        hole_arrive(h, first, second);
        hole_arrive(h, second, third);
        assert_true(hole_is_over(h));
        assert_int_equal(hole_received(h, 0).status, WC_SUCCESS);
        assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_WRITTEN_BEHIND], 1);
        assert_int_equal(hole_counters(h)->terminates_out[TERM_DDP_INVALID_STAG], 1);
        hole_drop(h);
    }
}

static void a_write_before_the_invalidation_of_its_stag_is_no_offence(void **state)
{
    struct hole *h = hole_open(NULL);
    uint32_t window = hole_bind_window(h);
    hole_post_receives(h, 2, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 10});
    unsigned second = hole_write(h, window, hole_write_to(0), 60);
    hole_send(h, &(struct hole_send){.len = 10, .invalidates = true, .stag = window});
    hole_begin(h);
    hole_arrive(h, second, second + 1); // beyond a hole, then released together with what follows
    hole_arrive(h, second + 1, h->count);
    hole_arrive(h, first, second);
    assert_false(hole_is_over(h));
    assert_int_equal(hole_counters(h)->invalidations, 1);
    hole_close(h);
}

/* ---- what is not placed ---------------------------------------------------------------------- */

static void terminate_is_held_until_the_hole_closes(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 1, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 10});
    unsigned second = hole_terminate(h);
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_false(hole_is_over(h));
    hole_arrive(h, first, second);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_received(h, 0).status, WC_SUCCESS);
    hole_drop(h);
}

static void nothing_is_placed_before_the_first_message_has_come(void **state)
{
    struct hole *h = hole_open(NULL);
    unsigned first = hole_write(h, h->early.stag, hole_write_to(0), 60);
    mpa_placer_init(&h->placer, &h->early.rx, PLACEMENT_EARLY, 0,
                    mspan_of(h->scratch, sizeof h->scratch));
    ledger_init(&h->ledger, mpa_placer_port(&h->placer), 0, h->wire, h->wire_len);
    hole_arrive(h, first, h->count);
    assert_int_equal(hole_counters(h)->early_writes, 0);
    assert_int_equal(hole_counters(h)->early_put_off, 1);
    hole_close(h);
}

static void what_would_be_refused_in_order_is_met_there(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_receives(h, 2, 20);
    unsigned first = hole_send(h, &(struct hole_send){.len = 10});
    unsigned second = hole_send(h, &(struct hole_send){.len = 21}); // too long for its receive
    hole_write(h, 0xdead, 0, 10);
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_int_equal(hole_counters(h)->early_put_off, 2);
    assert_false(hole_is_over(h));
    hole_arrive(h, first, second);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_DDP_TOO_LONG], 1);
    hole_drop(h);
}

static void wrong_crc_beyond_a_hole_does_not_end_the_stream(void **state)
{
    struct hole *h = hole_open(NULL);
    unsigned first = hole_write(h, h->early.stag, hole_write_to(0), 60);
    unsigned second = hole_write(h, h->early.stag, hole_write_to(100), 60);
    hole_begin(h);
    uint8_t octets[200];
    size_t at = h->start[second], len = h->wire_len - at;
    memcpy(octets, h->wire + at, len);
    octets[40] ^= 1;
    hole_arrive_forged(h, at, octets, len);
    assert_int_equal(h->ledger.dropped, 1);
    hole_arrive(h, first, second);
    hole_arrive(h, second, h->count);
    assert_false(hole_is_over(h));
    hole_close(h);
}

static void off_places_nothing_early(void **state)
{
    struct hole_options options = {.placement = PLACEMENT_OFF};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 2, 300);
    unsigned first = hole_send(h, &(struct hole_send){.len = 10});
    hole_send(h, &(struct hole_send){.len = 300});
    hole_begin(h);
    for (unsigned i = h->count; i-- > first;) {
        hole_arrive(h, i, i + 1);
    }
    assert_int_equal(hole_counters(h)->early_sends, 0);
    assert_int_equal(hole_received_count(h), 2);
    hole_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_appear_when_the_hole_closes),
        cmocka_unit_test(every_segment_of_a_message_may_come_first),
        cmocka_unit_test(a_message_may_come_half_in_order),
        cmocka_unit_test(the_start_of_a_message_may_be_released_before_its_end),
        cmocka_unit_test(later_hole_may_close_first),
        cmocka_unit_test(ranges_join_and_their_counts_add_up),
        cmocka_unit_test(three_holes_close_as_the_document_says),
        cmocka_unit_test(message_numbers_wrap_beyond_a_hole),
        cmocka_unit_test(octets_that_were_placed_are_not_written_again),
        cmocka_unit_test(send_without_a_posted_receive_is_not_acknowledged),
        cmocka_unit_test(shared_receives_are_left_for_the_messages_before),
        cmocka_unit_test(receives_are_reusable_only_after_their_completion_was_polled),
        cmocka_unit_test(destroying_a_queue_pair_removes_its_completions),
        cmocka_unit_test(full_cq_ends_the_stream_as_in_order),
        cmocka_unit_test(receives_that_a_broken_stream_held_are_flushed),
        cmocka_unit_test(shared_receives_go_to_who_comes_first),
        cmocka_unit_test(nothing_overtakes_a_send_that_waits_for_a_receive),
        cmocka_unit_test(one_queue_pair_holds_only_so_many_shared_receives),
        cmocka_unit_test(shared_receives_that_were_delivered_are_held_no_more),
        cmocka_unit_test(writes_are_in_memory_before_the_hole_closes),
        cmocka_unit_test(immediate_data_tells_how_long_its_write_was),
        cmocka_unit_test(the_end_of_a_foreign_write_waits),
        cmocka_unit_test(an_invalidation_waits_for_the_write_before_it),
        cmocka_unit_test(a_write_behind_the_invalidation_of_its_stag_ends_the_stream),
        cmocka_unit_test(a_write_before_the_invalidation_of_its_stag_is_no_offence),
        cmocka_unit_test(terminate_is_held_until_the_hole_closes),
        cmocka_unit_test(nothing_is_placed_before_the_first_message_has_come),
        cmocka_unit_test(what_would_be_refused_in_order_is_met_there),
        cmocka_unit_test(wrong_crc_beyond_a_hole_does_not_end_the_stream),
        cmocka_unit_test(off_places_nothing_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

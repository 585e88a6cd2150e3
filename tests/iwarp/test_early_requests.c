// Requests and answers beyond holes: the peer's requests stand in their slots until the doorbell
// rings; answers complete ours when the hole has closed. test_early.c has all other messages.

#include "tests/iwarp/hole.h"

/* ---- the peer's requests --------------------------------------------------------------------- */

static void one_doorbell_starts_the_pending_read_responses(void **state)
{
    struct hole *h = hole_open(NULL);
    unsigned first = hole_read_request(h, 0, 20);
    for (unsigned i = 1; i < 4; i++) {
        hole_read_request(h, 1000 * i, 300);
    }
    hole_begin(h);
    unsigned sent = h->early.sent_count;
    for (unsigned i = 3; i > 0; i--) {
        hole_arrive(h, first + i, first + i + 1);
    }
    assert_int_equal(hole_counters(h)->early_requests, 3);
    assert_int_equal(h->early.sent_count, sent); // posted, not started
    hole_arrive(h, first, first + 1);
    assert_int_equal(hole_counters(h)->doorbells, 1);
    assert_int_equal(hole_counters(h)->released_requests, 3);
    assert_true(h->early.sent_count > sent + 3);
    hole_close(h);
}

// The doorbell rings by the number that is stored with the hole, not by what stands in the slots.
static void as_many_requests_start_as_the_hole_counts(void **state)
{
    struct hole *h = hole_open(NULL);
    unsigned first = hole_read_request(h, 0, 20);
    hole_read_request(h, 100, 20);
    unsigned last = hole_read_request(h, 200, 20);
    hole_begin(h);
    hole_arrive(h, first + 1, last + 1);
    h->is_twin_free = true; // it knows nothing of counters
    h->ledger.counts[h->start[last]].n[RDMAP_HELD_READ_REQUESTS] = 0;
    hole_arrive(h, first, first + 1);
    assert_int_equal(hole_counters(h)->early_requests, 2);
    assert_int_equal(hole_counters(h)->released_requests, 1);
    assert_false(hole_is_over(h));
    hole_drop(h);
}

static void requests_beyond_ird_are_not_acknowledged(void **state)
{
    struct hole_options options = {.ird = 2};
    struct hole *h = hole_open(&options);
    unsigned first = hole_read_request(h, 0, 20);
    hole_read_request(h, 100, 20);
    unsigned third = hole_read_request(h, 200, 20);
    hole_begin(h);
    hole_arrive(h, first + 1, first + 2);
    hole_arrive(h, third, third + 1);
    assert_int_equal(hole_counters(h)->early_no_slot, 1);
    assert_int_equal(h->ledger.dropped, 1);
    hole_arrive(h, first, first + 1);
    hole_arrive(h, third, third + 1); // both slots are free by now
    hole_close(h);
}

static void atomics_act_when_the_hole_closes_and_in_order(void **state)
{
    struct hole *h = hole_open(NULL);
    unsigned first = hole_fetch_add(h, 0);
    hole_fetch_add(h, 0);
    hole_fetch_add(h, 1);
    hole_begin(h);
    uint64_t before, after;
    memcpy(&before, h->early.memory + HOLE_WORD_AT, sizeof before);
    hole_arrive(h, first + 2, first + 3);
    hole_arrive(h, first + 1, first + 2);
    memcpy(&after, h->early.memory + HOLE_WORD_AT, sizeof after);
    assert_int_equal(before, after);
    hole_arrive(h, first, first + 1);
    assert_int_equal(hole_counters(h)->released_requests, 2);
    hole_close(h);
}

// In the order of the stream, whatever class they are of: the Read finds the STag taken back.
static void a_request_behind_an_invalidation_is_refused_as_in_order(void **state)
{
    struct hole *h = hole_open(NULL);
    uint32_t window = hole_bind_window(h);
    hole_post_receives(h, 2, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 5});
    unsigned second =
        hole_send(h, &(struct hole_send){.len = 10, .invalidates = true, .stag = window});
    struct rdmap_read_request request = {
        .sink_stag = 0x5151, .rdmardsz = 8, .src_stag = window, .src_to = hole_write_to(0)};
    uint8_t octets[RDMAP_READ_REQUEST_LEN];
    rdmap_read_request_emit(&request, octets);
    struct ddp_header header = {.last = true,
                                .rsvdulp = rdmap_control_emit(RDMAP_READ_REQUEST),
                                .qn = DDP_QN_READ_REQUEST,
                                .msn = 1};
    hole_segment(h, &header, octets, sizeof octets);
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_false(hole_is_over(h));
    h->is_twin_free = true; // the same Terminate, but for the header that it names
    hole_arrive(h, first, second);
    assert_int_equal(hole_received_count(h), 2);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_REMOTE_INVALID_STAG], 1);
    hole_drop(h);
}

static void an_atomic_behind_an_invalidation_does_nothing(void **state)
{
    struct hole *h = hole_open(NULL);
    uint32_t window = hole_bind_window(h);
    uint64_t before, after;
    hole_post_receives(h, 2, 100);
    unsigned first = hole_send(h, &(struct hole_send){.len = 5});
    unsigned second =
        hole_send(h, &(struct hole_send){.len = 10, .invalidates = true, .stag = window});
    hole_fetch_add_by(h, window, hole_write_to(0));
    hole_begin(h);
    memcpy(&before, h->early.memory + HOLE_WRITE_AT, sizeof before);
    hole_arrive(h, second, h->count);
    h->is_twin_free = true; // the same Terminate, but for the header that it names
    hole_arrive(h, first, second);
    memcpy(&after, h->early.memory + HOLE_WRITE_AT, sizeof after);
    assert_int_equal(before, after);
    assert_int_equal(hole_counters(h)->released_requests, 1);
    assert_true(hole_is_over(h));
    hole_drop(h);
}

/* ---- answers to our requests ----------------------------------------------------------------- */

static void reads_complete_when_the_hole_closes(void **state)
{
    for (unsigned missing = 0; missing < 6; missing++) {
        struct hole *h = hole_open(NULL);
        uint32_t sink_1 = hole_post_read(h, 1, 300), sink_2 = hole_post_read(h, 2, 280);
        unsigned first = hole_read_response(h, sink_1, 300);
        hole_read_response(h, sink_2, 280);
        assert_int_equal(h->count - first, 6);
        hole_begin(h);
        for (unsigned i = 6; i-- > 0;) {
            if (i != missing) {
                hole_arrive(h, first + i, first + i + 1);
            }
        }
        assert_int_equal(hole_completed_count(h), missing >= 3);
        hole_arrive(h, first + missing, first + missing + 1);
        assert_int_equal(hole_completed_count(h), 2);
        hole_close(h);
    }
}

// Between weft ends an answer may be one part of a Read; the rest is asked for when it is complete.
static void partial_answer_is_completed_by_the_next_request(void **state)
{
    struct hole *h = hole_open(&(struct hole_options){.allotment = 120});
    hole_post_read(h, 1, 300); // two requests of 120 octets are out
    uint32_t sink =
        read_answer_of(LIST_ENTRY(h->early.qp->wq.requests.next, struct read_context, link))->sink;
    unsigned first = hole_send(h, &(struct hole_send){.len = 0});
    hole_post_receives(h, 1, 0);
    unsigned second = hole_read_response(h, sink, 120);
    hole_begin(h);
    unsigned sent = h->early.sent_count;
    hole_arrive(h, second, h->count);
    assert_int_equal(h->early.sent_count, sent);
    hole_arrive(h, first, second);
    assert_int_equal(h->early.sent_count, sent + 1); // the subsidiary request
    assert_int_not_equal(h->early.last_sink, sink);
    assert_int_equal(hole_completed_count(h), 0);
    hole_close(h);
}

static void atomics_of_ours_complete_when_the_hole_closes(void **state)
{
    struct hole *h = hole_open(NULL);
    hole_post_atomic(h, 1);
    hole_post_atomic(h, 2);
    unsigned first = hole_atomic_response(h, 1, 0x1122334455667788);
    hole_atomic_response(h, 2, 0x99);
    hole_begin(h);
    hole_arrive(h, first + 1, first + 2);
    assert_int_equal(hole_completed_count(h), 0);
    hole_arrive(h, first, first + 1);
    assert_int_equal(hole_completed_count(h), 2);
    hole_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_doorbell_starts_the_pending_read_responses),
        cmocka_unit_test(as_many_requests_start_as_the_hole_counts),
        cmocka_unit_test(requests_beyond_ird_are_not_acknowledged),
        cmocka_unit_test(atomics_act_when_the_hole_closes_and_in_order),
        cmocka_unit_test(a_request_behind_an_invalidation_is_refused_as_in_order),
        cmocka_unit_test(an_atomic_behind_an_invalidation_does_nothing),
        cmocka_unit_test(reads_complete_when_the_hole_closes),
        cmocka_unit_test(partial_answer_is_completed_by_the_next_request),
        cmocka_unit_test(atomics_of_ours_complete_when_the_hole_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

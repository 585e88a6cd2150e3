// What comes of records: rows, how long a work request and a read context last, and whose they are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "draw/works.h"

enum { COMPLETION_RECEIVE = 128 };

static struct works works;
static struct story story;
static uint64_t record_number;

static int setup(void **state)
{
    const struct story_bounds bounds = {
        .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = STORY_EVENT_MAX};
    memset(&works, 0, sizeof works);
    record_number = 0;
    return story_create(&story, &bounds, 1) ? 0 : -1;
}

static int teardown(void **state)
{
    story_destroy(&story);
    return 0;
}

static struct story_event *put_on(unsigned connection, unsigned side, enum journal_kind kind,
                                  uint64_t wr_id, uint64_t len)
{
    const struct journal_record r = {.kind = kind, .wr_id = wr_id, .len = len};
    record_number++;
    story_on_record(&story, record_number, record_number, connection);
    works_on_record(&works, &story, side, &r);
    return &story.event[story.event_count - 1];
}

static struct story_event *put(unsigned side, enum journal_kind kind, uint64_t wr_id, uint64_t len)
{
    return put_on(0, side, kind, wr_id, len);
}

static void complete_receive(uint64_t wr_id)
{
    const struct journal_record r = {
        .kind = JOURNAL_COMPLETED, .wr_id = wr_id, .opcode = COMPLETION_RECEIVE};
    record_number++;
    story_on_record(&story, record_number, record_number, 0);
    works_on_record(&works, &story, 0, &r);
}

static void packet(void)
{
    story_on_packet(&story, 1, ++record_number, 0);
    assert_non_null(story_add(&story, STORY_SEGMENT, 0));
}

/* ---- rows ------------------------------------------------------------------------------------ */

// Of one side and connection, and with no packet between.
static void a_run_of_the_same_is_one_message(void **state)
{
    uint32_t first = put(0, JOURNAL_SEND_POSTED, 1, 10)->message;
    assert_int_equal(put(0, JOURNAL_SEND_POSTED, 2, 10)->message, first);
    assert_int_equal(put(1, JOURNAL_SEND_POSTED, 3, 10)->message, first + 1);
    assert_int_equal(put_on(1, 1, JOURNAL_SEND_POSTED, 4, 10)->message, first + 2);
    assert_int_equal(put_on(1, 1, JOURNAL_COMPLETED, 4, 10)->message, first + 3);
    packet();
    assert_int_equal(put(0, JOURNAL_SEND_POSTED, 5, 10)->message, first + 4);
}

static void receives_of_a_run_are_one_row(void **state)
{
    put(0, JOURNAL_RECEIVE_POSTED, 1, 10);
    assert_non_null(strstr(put(0, JOURNAL_RECEIVE_POSTED, 2, 10)->label, "post 2 receives"));
    assert_int_equal(story.event_count, 1);
    put(1, JOURNAL_RECEIVE_POSTED, 3, 10);
    assert_int_equal(story.event_count, 2);
    put_on(1, 1, JOURNAL_RECEIVE_POSTED, 4, 10);
    assert_int_equal(story.event_count, 3);
    packet();
    const struct story_event *again = put_on(1, 1, JOURNAL_RECEIVE_POSTED, 5, 10);
    assert_non_null(strstr(again->label, "post receive · wr_id 0x5"));
}

static void a_receive_of_a_shared_queue_stands_where_it_is_taken(void **state)
{
    const struct story_event *first = put(0, JOURNAL_RECEIVE_TAKEN, 1, 10);
    assert_non_null(strstr(first->label, "takes a shared receive · wr_id 0x1 · 10 bytes"));
    assert_int_equal(first->kind, STORY_RECEIVE);
    put(0, JOURNAL_RECEIVE_TAKEN, 2, 10);
    assert_int_equal(story.event_count, 2); // each by itself
}

static void a_length_beyond_32_bits_is_not_made_short(void **state)
{
    assert_int_equal(put(0, JOURNAL_SEND_POSTED, 1, 1ULL << 32 | 1)->len, UINT32_MAX);
}

static void stags_are_lent_closed_or_taken_back(void **state)
{
    assert_non_null(strstr(put(0, JOURNAL_STAG_LENT, 1, 10)->label, "lends STag"));
    assert_non_null(strstr(put(0, JOURNAL_STAG_CLOSED, 1, 10)->label, "has back STag"));
    assert_non_null(strstr(put(0, JOURNAL_STAG_TAKEN_BACK, 1, 10)->label, "takes back STag"));
}

/* ---- holes ----------------------------------------------------------------------------------- */

static void put_hole(unsigned side, enum journal_kind kind, uint32_t number, uint64_t wr_id)
{
    const struct journal_record r = {.kind = kind, .key = number, .wr_id = wr_id, .len = 100};
    record_number++;
    story_on_record(&story, record_number, record_number, 0);
    works_on_record(&works, &story, side, &r);
}

static void a_hole_lasts_from_the_packet_that_opens_it_to_the_one_that_closes_it(void **state)
{
    packet();
    packet();
    put_hole(1, JOURNAL_HOLE_OPENED, 3, 0);
    packet();
    put_hole(1, JOURNAL_HOLE_CLOSED, 3, 2);
    assert_int_equal(story.event_count, 3); // no rows of its own
    assert_int_equal(story.span_count, 1);
    assert_int_equal(story.span[0].kind, STORY_HOLE);
    assert_int_equal(story.span[0].side, 1);
    assert_int_equal(story.span[0].begin, 1);
    assert_int_equal(story.span[0].end, 2);
    assert_non_null(strstr(story.span[0].label, "held back 2"));
}

static void holes_are_told_apart_by_their_numbers(void **state)
{
    packet();
    put_hole(1, JOURNAL_HOLE_OPENED, 3, 0);
    put_hole(1, JOURNAL_HOLE_OPENED, 4, 0);
    packet();
    put_hole(1, JOURNAL_HOLE_CLOSED, 4, 0);
    put_hole(1, JOURNAL_HOLE_CLOSED, 5, 0);                  // opened before the records begin
    put_hole(1, JOURNAL_HOLE_CLOSED, 3 + WORKS_HOLE_MAX, 0); // likewise, in the place of 3
    put_hole(0, JOURNAL_HOLE_CLOSED, 3, 0);                  // of the other side
    assert_int_equal(story.span_count, 2);
    assert_int_equal(story.span[0].end, STORY_NONE);
    assert_int_equal(story.span[1].end, 1);
    packet();
    put_hole(1, JOURNAL_HOLE_CLOSED, 3, 0);
    put_hole(1, JOURNAL_HOLE_CLOSED, 4, 0); // it was closed
    assert_int_equal(story.span[0].end, 2);
    assert_int_equal(story.span[1].end, 1);
}

static void a_hole_before_any_packet_is_not_drawn(void **state)
{
    put_hole(1, JOURNAL_HOLE_OPENED, 3, 0);
    packet();
    put_hole(1, JOURNAL_HOLE_CLOSED, 3, 0);
    assert_int_equal(story.span_count, 0);
}

/* ---- work requests --------------------------------------------------------------------------- */

static void a_work_request_lasts_until_its_completion(void **state)
{
    put(0, JOURNAL_SEND_POSTED, 1, 10);
    put(0, JOURNAL_SEND_POSTED, 2, 10);
    put(0, JOURNAL_COMPLETED, 1, 10);
    put(0, JOURNAL_SEND_POSTED, 3, 10);
    put(0, JOURNAL_COMPLETED, 2, 10);
    assert_int_equal(story.span_count, 3);
    assert_int_equal(story.span[0].end, 2);
    assert_int_equal(story.span[1].end, 4);
    assert_int_equal(story.span[2].end, STORY_NONE);
    put(0, JOURNAL_COMPLETED, 3, 10);
    assert_int_equal(story.span[0].end, 2);
    assert_int_equal(story.span[2].end, 5);
}

static void completions_of_others_end_none(void **state)
{
    put(0, JOURNAL_SEND_POSTED, 1, 10);
    put(0, JOURNAL_COMPLETED, 77, 10); // its post was not recorded
    put(1, JOURNAL_COMPLETED, 1, 10);
    put_on(1, 0, JOURNAL_COMPLETED, 1, 10);
    complete_receive(1);
    assert_int_equal(story.span[0].end, STORY_NONE);
}

static void of_too_many_the_oldest_stay_open(void **state)
{
    for (uint64_t i = 0; i < WORKS_SEND_MAX + 2; i++) {
        put(0, JOURNAL_SEND_POSTED, i, 10);
    }
    put(0, JOURNAL_COMPLETED, 1, 10); // forgotten
    put(0, JOURNAL_COMPLETED, 2, 10);
    assert_int_equal(story.span[1].end, STORY_NONE);
    assert_int_equal(story.span[2].end, WORKS_SEND_MAX + 3);
    for (unsigned i = 3; i < WORKS_SEND_MAX + 2; i++) {
        assert_int_equal(story.span[i].end, STORY_NONE);
    }
    put(0, JOURNAL_COMPLETED, WORKS_SEND_MAX + 1, 10);
    assert_int_equal(story.span[WORKS_SEND_MAX + 1].end, WORKS_SEND_MAX + 4);
}

/* ---- read contexts --------------------------------------------------------------------------- */

static void a_context_stays_with_a_read_that_goes_on(void **state)
{
    packet();
    put(0, JOURNAL_CONTEXT_GRANTED, 1, 10);
    packet();
    put(0, JOURNAL_CONTEXT_GONE, 1, 10);
    put(0, JOURNAL_CONTEXT_GRANTED, 1, 10);
    assert_int_equal(story.span_count, 1);
    assert_int_equal(story.span[0].end, STORY_NONE);
    packet();
    put(0, JOURNAL_CONTEXT_GONE, 1, 0); // nothing is left of it
    assert_int_equal(story.span[0].end, 2);
    put(0, JOURNAL_CONTEXT_GRANTED, 1, 10); // another Read of the same wr_id
    assert_int_equal(story.span_count, 2);
    put(0, JOURNAL_CONTEXT_GONE, 1, 10);
    put_on(1, 0, JOURNAL_CONTEXT_GRANTED, 1, 10); // of another connection
    assert_int_equal(story.span_count, 3);
}

static void a_context_that_goes_before_any_packet_ends_where_it_began(void **state)
{
    put(0, JOURNAL_CONTEXT_GRANTED, 1, 10);
    put_on(0, 0, JOURNAL_CONTEXT_GONE, 1, 0);
    assert_int_equal(story.span[0].end, story.span[0].begin);
}

static void a_context_that_nobody_was_seen_to_get_ends_nothing(void **state)
{
    packet();
    put(0, JOURNAL_SEND_POSTED, 1, 10); // span 0
    put(0, JOURNAL_CONTEXT_GONE, 1, 10);
    put(0, JOURNAL_CONTEXT_GRANTED, 1, 10);
    assert_int_equal(story.span[0].end, STORY_NONE);
    assert_int_equal(story.span_count, 2);
}

/* ---- of datagrams ---------------------------------------------------------------------------- */

enum { PEER = 7, OTHER = 8 };

static bool is_of_peer(const struct journal_record *r)
{
    return works_is_of(&works, 0, 0, PEER, r);
}

static void datagrams_are_of_the_partner_they_go_to_or_come_from(void **state)
{
    struct journal_record sent = {.kind = JOURNAL_SEND_POSTED, .key = PEER},
                          came = {
                              .kind = JOURNAL_COMPLETED, .opcode = COMPLETION_RECEIVE, .key = PEER};
    assert_true(is_of_peer(&sent) && is_of_peer(&came));
    sent.key = came.key = OTHER;
    assert_false(is_of_peer(&sent) || is_of_peer(&came));
}

static void a_send_of_datagrams_completes_where_it_was_posted(void **state)
{
    const struct journal_record done = {.kind = JOURNAL_COMPLETED, .wr_id = 3};
    assert_false(is_of_peer(&done));
    put(0, JOURNAL_SEND_POSTED, 3, 10);
    assert_true(is_of_peer(&done));
}

// Nobody knows yet, or will, whose datagram it is for.
static void receives_that_wait_or_fail_are_of_every_partner(void **state)
{
    const struct journal_record waits = {.kind = JOURNAL_RECEIVE_POSTED},
                                failed = {.kind = JOURNAL_COMPLETED,
                                          .opcode = COMPLETION_RECEIVE,
                                          .status = 5};
    assert_true(is_of_peer(&waits) && is_of_peer(&failed));
}

#define WORKS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORKS_TEST(a_run_of_the_same_is_one_message),
        WORKS_TEST(receives_of_a_run_are_one_row),
        WORKS_TEST(a_receive_of_a_shared_queue_stands_where_it_is_taken),
        WORKS_TEST(a_length_beyond_32_bits_is_not_made_short),
        WORKS_TEST(stags_are_lent_closed_or_taken_back),
        WORKS_TEST(a_hole_lasts_from_the_packet_that_opens_it_to_the_one_that_closes_it),
        WORKS_TEST(holes_are_told_apart_by_their_numbers),
        WORKS_TEST(a_hole_before_any_packet_is_not_drawn),
        WORKS_TEST(a_work_request_lasts_until_its_completion),
        WORKS_TEST(completions_of_others_end_none),
        WORKS_TEST(of_too_many_the_oldest_stay_open),
        WORKS_TEST(a_context_stays_with_a_read_that_goes_on),
        WORKS_TEST(a_context_that_goes_before_any_packet_ends_where_it_began),
        WORKS_TEST(a_context_that_nobody_was_seen_to_get_ends_nothing),
        WORKS_TEST(datagrams_are_of_the_partner_they_go_to_or_come_from),
        WORKS_TEST(a_send_of_datagrams_completes_where_it_was_posted),
        WORKS_TEST(receives_that_wait_or_fail_are_of_every_partner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What a story takes and what it leaves out, event by event, and which spans end where.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "draw/story.h"

static struct story story;

static const struct story_bounds all = {
    .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 100};

static void fresh(const struct story_bounds *bounds, instant_ns begin)
{
    story_destroy(&story);
    assert_true(story_create(&story, bounds, begin));
}

static int setup(void **state)
{
    fresh(&all, 0);
    return 0;
}

static int teardown(void **state)
{
    story_destroy(&story);
    assert_null(story.event);
    assert_int_equal(story.event_count, 0);
    story_destroy(&story); // nothing is left
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

// Packets 1 to 9, ten nanoseconds apart from 1000 on, which is when the connections began.
static void a_story_takes_what_lies_within_its_bounds(void **state)
{
    static const struct {
        struct story_bounds bounds;
        unsigned first, last, before, behind; // packets that are taken, and how many are not
    } rows[] = {
        {{.to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 9}, 1, 9, 0, 0},
        {{.from_packet = 3, .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 9}, 3, 9, 2, 0},
        {{.to_packet = 3, .to = UINT64_MAX, .event_max = 9}, 1, 3, 0, 6},
        {{.from_packet = 3, .to_packet = 3, .to = UINT64_MAX, .event_max = 9}, 3, 3, 2, 6},
        {{.to_packet = UINT64_MAX, .from = 20, .to = UINT64_MAX, .event_max = 9}, 3, 9, 2, 0},
        {{.to_packet = UINT64_MAX, .to = 20, .event_max = 9}, 1, 3, 0, 6},
        {{.to_packet = UINT64_MAX, .from = 20, .to = 20, .event_max = 9}, 3, 3, 2, 6},
        {{.from_packet = 2, .to_packet = 8, .from = 20, .to = 50, .event_max = 9}, 3, 6, 2, 3},
        {{.from_packet = 4, .to_packet = 5, .from = 20, .to = 50, .event_max = 9}, 4, 5, 3, 4},
        {{.to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 4}, 1, 4, 0, 5},
        {{.to_packet = UINT64_MAX, .to = UINT64_MAX, .first_event = 2, .event_max = 4}, 3, 6, 2, 3},
        {{.from_packet = 2, .to_packet = 8, .to = UINT64_MAX, .first_event = 2, .event_max = 9},
         4,
         8,
         3,
         1},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fresh(&rows[i].bounds, 1000);
        for (unsigned n = 1; n <= 9; n++) {
            const bool is_taken = n >= rows[i].first && n <= rows[i].last;
            story_on_packet(&story, n, 1000 + 10 * (n - 1), 2);
            assert_int_equal(story_next(&story), is_taken ? n - rows[i].first : STORY_NONE);
            const struct story_event *e = story_add(&story, STORY_WRITE, 1);
            assert_int_equal(e != NULL, is_taken);
            assert_int_equal(story_last(&story), is_taken ? n - rows[i].first : STORY_NONE);
            if (is_taken) {
                assert_int_equal(e->packet, n);
                assert_int_equal(e->at, 1000 + 10 * (n - 1));
                assert_int_equal(e->kind, STORY_WRITE);
                assert_int_equal(e->side, 1);
                assert_int_equal(e->connection, 2);
                assert_int_equal(e->record, 0);
                assert_int_equal(e->hole, STORY_NONE);
            }
        }
        assert_int_equal(story.left_out_before, rows[i].before);
        assert_int_equal(story.left_out_behind, rows[i].behind);
        assert_int_equal(story.event_count, rows[i].last - rows[i].first + 1);
    }
}

// Clocks of two captures may differ.
static void what_is_before_the_beginning_is_at_the_beginning(void **state)
{
    const struct story_bounds bounds = {.to_packet = UINT64_MAX, .to = 0, .event_max = 9};
    fresh(&bounds, 1000);
    story_on_packet(&story, 1, 10, 0);
    assert_non_null(story_add(&story, STORY_SEND, 0));
    story_on_packet(&story, 2, 1001, 0);
    assert_null(story_add(&story, STORY_SEND, 0));
}

static void a_record_is_another_event_than_the_packet_before_it(void **state)
{
    story_on_packet(&story, 5, 100, 1);
    story_add(&story, STORY_SEND, 0);
    assert_int_equal(story_last(&story), 0);
    story_on_record(&story, 7, 110, 2);
    assert_int_equal(story_last(&story), STORY_NONE);
    const struct story_event *e = story_add(&story, STORY_POST, 1);
    assert_int_equal(e->packet, 5);
    assert_int_equal(e->record, 7);
    assert_int_equal(e->at, 110);
    assert_int_equal(e->connection, 2);
    assert_int_equal(story_last(&story), 1);
    story_on_packet(&story, 6, 120, 1);
    assert_int_equal(story_last(&story), STORY_NONE);
    assert_int_equal(story_add(&story, STORY_SEND, 0)->record, 0);
}

/* ---- spans ----------------------------------------------------------------------------------- */

static void events_of(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        story_on_packet(&story, i + 1, i, 3);
        story_add(&story, STORY_SEND, 0);
    }
}

static void a_span_lasts_from_one_event_to_another(void **state)
{
    events_of(4);
    const uint32_t first = story_span_begin(&story, STORY_HOLE, 1, 1);
    const uint32_t second = story_span_begin(&story, STORY_READ, 0, 2);
    assert_int_equal(story.span[first].connection, 3);
    assert_int_equal(story.span[first].kind, STORY_HOLE);
    assert_int_equal(story.span[first].side, 1);
    story_span_end(&story, first, STORY_NONE); // not yet
    assert_int_equal(story.span[first].end, STORY_NONE);
    story_span_end(&story, first, 3);
    story_finish(&story);
    assert_int_equal(story.span_count, 2);
    assert_int_equal(story.span[first].end, 3);
    assert_false(story.span[first].is_open);
    assert_int_equal(story.span[second].begin, 2);
    assert_int_equal(story.span[second].end, 3); // the last event there is
    assert_true(story.span[second].is_open);
}

static void what_begins_with_nothing_is_passed_over(void **state)
{
    events_of(1);
    assert_int_equal(story_span_begin(&story, STORY_HOLE, 0, STORY_NONE), STORY_NONE);
    story_span_end(&story, STORY_NONE, 0);
    story_hole_deny(&story, STORY_NONE, "");
    assert_null(story_span_at(&story, STORY_NONE));
    assert_int_equal(story.span_count, 0);
}

// It was to be told of next, and nothing was.
static void a_span_whose_event_did_not_come_is_none(void **state)
{
    events_of(2);
    story_span_begin(&story, STORY_WORK, 0, 0);
    story_span_begin(&story, STORY_WORK, 0, story_next(&story));
    story_span_begin(&story, STORY_WORK, 0, 1);
    story_finish(&story);
    assert_int_equal(story.span_count, 2);
    assert_int_equal(story.span[0].begin, 0);
    assert_int_equal(story.span[1].begin, 1);
    assert_true(story.span[1].is_open);
}

static void there_is_room_for_two_spans_an_event(void **state)
{
    const struct story_bounds three = {.to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 3};
    fresh(&three, 0);
    events_of(3);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(story_span_begin(&story, STORY_READ, 0, i / 2), i);
    }
    assert_int_equal(story_span_begin(&story, STORY_READ, 0, 0), STORY_NONE);
    assert_int_equal(story.span_count, 6);
}

static void a_hole_that_was_none_makes_nothing_right_behind_it_early(void **state)
{
    events_of(5);
    for (uint32_t i = 1; i < 5; i++) {
        story.event[i].flags = STORY_EARLY | STORY_CUT;
    }
    const uint32_t first = story_span_begin(&story, STORY_HOLE, 1, 1);
    story_hole_before(&story, first, 1);
    const uint32_t second = story_span_begin(&story, STORY_HOLE, 1, 3);
    story_hole_before(&story, second, 3);
    story_hole_before(&story, first, STORY_NONE);
    story_hole_deny(&story, first, "it came");
    assert_int_equal(story.span[first].end, 4);
    assert_string_equal(story.span[first].label, "not captured");
    assert_string_equal(story.span[first].detail, "it came");
    assert_int_equal(story.span[second].end, STORY_NONE);
    for (uint32_t i = 1; i < 5; i++) {
        assert_int_equal(story.event[i].flags, i < 3 ? STORY_CUT : STORY_EARLY | STORY_CUT);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_story_takes_what_lies_within_its_bounds),
        CASE(what_is_before_the_beginning_is_at_the_beginning),
        CASE(a_record_is_another_event_than_the_packet_before_it),
        CASE(a_span_lasts_from_one_event_to_another),
        CASE(what_begins_with_nothing_is_passed_over),
        CASE(a_span_whose_event_did_not_come_is_none),
        CASE(there_is_room_for_two_spans_an_event),
        CASE(a_hole_that_was_none_makes_nothing_right_behind_it_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Where rows and lanes stand: each decision of the layout with what is right before and behind it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "draw/layout.h"

enum { EVENT_MAX = 64, TOP = 100, FIRST_Y = TOP + LAYOUT_HEAD_HEIGHT + 18 };

static struct story story;
static struct layout layout;

static int setup(void **state)
{
    static const struct story_bounds all = {
        .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = EVENT_MAX};
    assert_true(story_create(&story, &all, 0));
    return 0;
}

static int teardown(void **state)
{
    layout_destroy(&layout);
    story_destroy(&story);
    return 0;
}

static void fresh(void)
{
    teardown(NULL);
    setup(NULL);
}

static struct story_event *event_at(instant_ns at)
{
    story_on_packet(&story, story.event_count + 1, at, 0);
    struct story_event *e = story_add(&story, STORY_SEND, 0);
    e->len = 1;
    return e;
}

static void lay_out(bool folds)
{
    layout_destroy(&layout);
    assert_true(layout_create(&layout, &story, folds, TOP));
}

/* ---- rows ------------------------------------------------------------------------------------ */

// Events as letters: those of one letter are of one message, a dot is of none, and behind a letter
// `!` is a flag, `?` another kind.
static void events_of(const char *words)
{
    fresh();
    for (; *words != '\0'; words++) {
        struct story_event *last =
            story.event_count > 0 ? &story.event[story.event_count - 1] : NULL;
        if (*words == '!') {
            last->flags = STORY_LATE;
        } else if (*words == '?') {
            last->kind = STORY_WRITE;
        } else {
            event_at(0)->message = *words == '.' ? 0 : (uint32_t)*words;
        }
    }
}

static const char *rows(void)
{
    static char text[256];
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < layout.row_count; i++) {
        const struct layout_row *row = &layout.row[i];
        assert_int_equal(row->len, row->count);
        for (uint32_t n = 0; n < row->count; n++) {
            assert_int_equal(layout.row_of_event[row->event + n], i);
        }
        len += (size_t)snprintf(text + len, sizeof text - len, i > 0 ? " %u" : "%u", row->count);
    }
    return text;
}

static void runs_of_one_message_fold_but_for_their_ends(void **state)
{
    static const struct {
        const char *events, *folded;
    } cases[] = {
        {"aaaa", "1 1 1 1"},
        {"aaaaa", "1 1 2 1"},
        {"aaaaaaaa", "1 1 5 1"},
        {"aaaaab", "1 1 2 1 1"},
        {"baaaaa", "1 1 1 2 1"},
        {"aaaabbbbb", "1 1 1 1 1 1 2 1"},
        {"aaaaabbbbb", "1 1 2 1 1 1 2 1"},
        {"....." /* of none */, "1 1 1 1 1"},
        {"aaaaa!", "1 1 1 1 1"},
        {"a!aaaaa", "1 1 1 2 1"},
        {"aaaaa!aaaaa", "1 1 1 1 1 1 1 2 1"},
        {"aaaaaa!", "1 1 2 1 1"},
        {"aaaaaa?", "1 1 2 1 1"},
        {"aa?a?a?a?a?a", "1 1 1 2 1 1"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        events_of(cases[i].events);
        lay_out(true);
        assert_string_equal(rows(), cases[i].folded);
        assert_int_equal(layout.has_fold, layout.row_count < story.event_count);
        lay_out(false);
        assert_int_equal(layout.row_count, story.event_count);
        assert_false(layout.has_fold);
    }
}

static void of_all_events_kinds_and_flags_are_known(void **state)
{
    events_of("ab?c!d");
    lay_out(true);
    assert_int_equal(layout.flags, STORY_LATE);
    for (unsigned i = 0; i < STORY_KIND_COUNT; i++) {
        assert_int_equal(layout.has_kind[i], i == STORY_SEND || i == STORY_WRITE);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

// How far each row is from the one before it, with a break told.
static const char *steps(void)
{
    static char text[256];
    size_t len = 0;
    int y = FIRST_Y;
    text[0] = '\0';
    for (uint32_t i = 0; i < layout.row_count; i++) {
        const struct layout_row *row = &layout.row[i];
        len += (size_t)snprintf(text + len, sizeof text - len, i > 0 ? " %d" : "%d", row->y - y);
        if (row->silence > 0) {
            assert_int_equal(row->silence, story.event[i].at - story.event[i - 1].at);
            assert_int_equal(row->break_y, y + LAYOUT_ROW_HEIGHT + LAYOUT_SLANT / 2 + 4);
            len += (size_t)snprintf(text + len, sizeof text - len, "|");
        }
        y = row->y;
    }
    assert_int_equal(layout.last_y, y + LAYOUT_ROW_HEIGHT);
    return text;
}

static void rows_are_further_apart_where_more_time_passes(void **state)
{
    enum { MS = 1000 * 1000, BREAK = 500 * 1000 };
    static const struct {
        instant_ns pauses[8]; // the first is before the first event
        unsigned count;
        const char *steps;
    } cases[] = {
        {{5, 0, 0}, 3, "0 21 21"}, // none are any
        {{5, 10}, 2, "0 21"},
        {{5, 10, 20, 10}, 4, "0 21 25 21"},
        {{5, 10, 10, 10, 10, 30, 40, 79}, 8, "0 21 21 21 21 25 29 29"},
        {{5, 10, 10, 10, 10, 10, 80, 160}, 8, "0 21 21 21 21 21 33 35"},
        {{5, 10, 10, 10, BREAK, BREAK + 1}, 6, "0 21 21 21 35 55|"},
        {{9 * MS, 10, 10, MS}, 4, "0 21 21 55|"},
        {{5, 0, MS}, 3, "0 21 21"},                     // a usual one
        {{5, MS, MS, MS, 40 * MS}, 5, "0 21 21 21 35"}, // forty of them
        {{5, MS, MS, MS, 40 * MS + 39}, 5, "0 21 21 21 35"},
        {{5, MS, MS, MS, 40 * MS + 40}, 5, "0 21 21 21 55|"},
        {{5, 7, 10, 400 * MS}, 4, "0 21 21 55|"}, // the one in the middle is usual
        {{5, 10, MS, 2 * MS}, 4, "0 21 21 25"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        instant_ns at = 0;
        fresh();
        for (unsigned n = 0; n < cases[i].count; n++) {
            at += cases[i].pauses[n];
            event_at(at);
        }
        lay_out(true);
        assert_string_equal(steps(), cases[i].steps);
        assert_int_equal(layout.has_break, strchr(cases[i].steps, '|') != NULL);
    }
}

static void time_that_goes_back_is_no_pause(void **state)
{
    event_at(1000 * 1000 * 1000);
    event_at(10);
    event_at(20);
    lay_out(true);
    assert_string_equal(steps(), "0 21 21");
}

// What no packet shows takes less, and more before an arrow, whose words stand above it.
static void records_are_nearer_to_each_other(void **state)
{
    event_at(0)->record = 1;
    event_at(0)->record = 2;
    event_at(0);
    event_at(0);
    event_at(0)->record = 3;
    lay_out(true);
    static const int y[] = {0, 16, 36, 57, 78};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(layout.row[i].y, FIRST_Y + y[i]);
    }
    assert_int_equal(layout.last_y, FIRST_Y + 78 + 16);
}

static void a_story_of_nothing_has_no_rows(void **state)
{
    lay_out(true);
    assert_int_equal(layout.row_count, 0);
    assert_int_equal(layout.head_y, TOP);
    assert_int_equal(layout.last_y, FIRST_Y);
    assert_false(layout.has_break);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static uint32_t span(enum story_span_kind kind, unsigned side, uint32_t begin, uint32_t end)
{
    uint32_t it = story_span_begin(&story, kind, side, begin);
    story_span_end(&story, it, end);
    return it;
}

static void expect_lane(uint32_t span, int top, int bottom)
{
    assert_int_equal(layout.lane[span].top, FIRST_Y + top);
    assert_int_equal(layout.lane[span].bottom, FIRST_Y + bottom);
}

// At the side that sends where the arrow begins, at the other where it ends.
static void spans_reach_from_touch_to_touch(void **state)
{
    event_at(0);
    event_at(0)->side = 1;
    event_at(0)->record = 1;
    event_at(0);
    const uint32_t left = span(STORY_MESSAGE, 0, 0, 1), right = span(STORY_MESSAGE, 1, 0, 1);
    const uint32_t record = span(STORY_WORK, 1, 2, 2), open = span(STORY_READ, 1, 1, 3);
    const uint32_t back = span(STORY_STAG, 0, 3, 2), near = span(STORY_STAG, 1, 0, 0);
    story.span[open].is_open = true;
    lay_out(true);
    expect_lane(left, 0, 21 + LAYOUT_SLANT);
    expect_lane(right, LAYOUT_SLANT, 21);
    expect_lane(record, 42, 42 + 9); // seen at least so far
    expect_lane(open, 21, 62 + LAYOUT_SLANT + LAYOUT_ROW_HEIGHT / 2);
    expect_lane(back, 62, 62 + 9);
    expect_lane(near, LAYOUT_SLANT, LAYOUT_SLANT + 9);
    assert_true(layout.has_open);
}

static void a_message_that_goes_on_is_no_open_span(void **state)
{
    event_at(0);
    event_at(0);
    story.span[span(STORY_MESSAGE, 0, 0, 1)].is_open = true;
    span(STORY_HOLE, 1, 0, 1);
    lay_out(true);
    assert_false(layout.has_open);
    for (unsigned i = 0; i < STORY_SPAN_KIND_COUNT; i++) {
        assert_int_equal(layout.has_span[i], i == STORY_MESSAGE || i == STORY_HOLE);
    }
}

// Spans of eight events, in the order of their telling; where each is, counted in lanes.
static void spans_that_overlap_stand_side_by_side(void **state)
{
    static const struct {
        uint32_t begin, end;
        int lane;
    } rows_[] = {{0, 2, 0}, {1, 4, 1}, {2, 3, 2}, {3, 7, 0}, {4, 7, 2}, {5, 6, 1}};
    enum { COUNT = sizeof rows_ / sizeof rows_[0], WIDTH = 17, STEP = WIDTH + 4 };
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned from = 0; from < COUNT; from++) { // whichever is told first
            fresh();
            for (unsigned i = 0; i < 8; i++) {
                event_at(0);
            }
            for (unsigned i = 0; i < COUNT; i++) {
                const unsigned n = (from + i) % COUNT;
                span(STORY_READ, side, rows_[n].begin, rows_[n].end);
            }
            lay_out(true);
            assert_int_equal(layout.lanes_left_out, 0);
            for (unsigned i = 0; i < COUNT; i++) {
                const struct layout_lane *lane = &layout.lane[i];
                const int away = 7 + STEP * rows_[(from + i) % COUNT].lane;
                assert_true(lane->is_drawn);
                assert_int_equal(lane->width, WIDTH);
                assert_int_equal(lane->x, layout.line_x[side] + (side == 0 ? -away - WIDTH : away));
            }
        }
    }
}

// An event's height apart is next to it, and two units are between.
static void a_lane_is_free_two_units_below_a_span(void **state)
{
    static const struct {
        instant_ns pause; // stretches what is between the first and the second event
        uint32_t begin;
        int lane;
    } cases[] = {{0, 0, 1}, {0, 1, 0}};
    for (unsigned i = 0; i < 2; i++) {
        fresh();
        event_at(0);
        event_at(cases[i].pause);
        event_at(cases[i].pause);
        span(STORY_HOLE, 0, 0, 0);
        span(STORY_HOLE, 0, cases[i].begin, 2);
        lay_out(true);
        assert_int_equal(layout.line_x[0] - layout.lane[1].x - 7 - 16, cases[i].lane * 20);
    }
    // Records are sixteen apart: sent at 16, a span is from 0 to 9, or to 16 and so to 18.
    static const struct {
        uint32_t end;
        int lane;
    } records[] = {{0, 0}, {1, 1}};
    for (unsigned i = 0; i < 2; i++) {
        fresh();
        for (uint64_t n = 1; n < 4; n++) {
            event_at(0)->record = n;
        }
        span(STORY_HOLE, 0, 0, records[i].end);
        span(STORY_HOLE, 0, 1, 2);
        lay_out(true);
        assert_int_equal(layout.line_x[0] - layout.lane[1].x - 7 - 16, records[i].lane * 20);
    }
}

static void spans_beyond_the_last_lane_are_counted(void **state)
{
    event_at(0);
    event_at(0);
    for (unsigned i = 0; i < LAYOUT_LANE_MAX + 2; i++) {
        span(STORY_READ, 0, 0, 1);
        span(STORY_READ, 1, 0, 1);
    }
    lay_out(true);
    assert_int_equal(layout.lanes_left_out, 4);
    for (unsigned i = 0; i < LAYOUT_LANE_MAX + 2; i++) {
        assert_int_equal(layout.lane[2 * i].is_drawn, i < LAYOUT_LANE_MAX);
    }
    assert_int_equal(layout.lanes_width[0], 7 + LAYOUT_LANE_MAX * 21);
    assert_int_equal(layout.lanes_width[1], 7 + LAYOUT_LANE_MAX * 21);
}

// Outwards from the time line, each kind as wide as its lanes are.
static void kinds_stand_in_their_order(void **state)
{
    static const int width[STORY_SPAN_KIND_COUNT] = {6, 13, 16, 17, 15, 15};
    uint32_t its[2][STORY_SPAN_KIND_COUNT];
    event_at(0);
    event_at(0);
    for (unsigned kind = STORY_SPAN_KIND_COUNT; kind-- > 0;) {
        for (unsigned side = 0; side < 2; side++) {
            its[side][kind] = span((enum story_span_kind)kind, side, 0, 1);
            span((enum story_span_kind)kind, side, 0, 1);
        }
    }
    lay_out(true);
    int away = 7;
    for (unsigned kind = 0; kind < STORY_SPAN_KIND_COUNT; kind++) {
        const int w = width[kind];
        assert_int_equal(layout.lane[its[0][kind]].x, layout.line_x[0] - away - w);
        assert_int_equal(layout.lane[its[1][kind]].x, layout.line_x[1] + away);
        away += 2 * (w + 4);
    }
    assert_int_equal(layout.lanes_width[0], away);
    assert_int_equal(layout.line_x[0], LAYOUT_MARGIN + LAYOUT_TIME_WIDTH + away);
    assert_int_equal(layout.line_x[1], layout.line_x[0] + LAYOUT_ARROW_WIDTH);
    assert_int_equal(layout.width, layout.line_x[1] + away + LAYOUT_PACKET_WIDTH + LAYOUT_MARGIN);
}

// A head is wider than the time line that it stands on.
static void without_lanes_there_is_room_for_a_head(void **state)
{
    event_at(0);
    lay_out(true);
    assert_int_equal(layout.lanes_width[0], LAYOUT_HEAD_WIDTH / 2 + 4 - LAYOUT_TIME_WIDTH);
    assert_int_equal(layout.lanes_width[1], LAYOUT_HEAD_WIDTH / 2 + 4 - LAYOUT_PACKET_WIDTH);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(runs_of_one_message_fold_but_for_their_ends),
        CASE(of_all_events_kinds_and_flags_are_known),
        CASE(rows_are_further_apart_where_more_time_passes),
        CASE(time_that_goes_back_is_no_pause),
        CASE(records_are_nearer_to_each_other),
        CASE(a_story_of_nothing_has_no_rows),
        CASE(spans_reach_from_touch_to_touch),
        CASE(a_message_that_goes_on_is_no_open_span),
        CASE(spans_that_overlap_stand_side_by_side),
        CASE(a_lane_is_free_two_units_below_a_span),
        CASE(spans_beyond_the_last_lane_are_counted),
        CASE(kinds_stand_in_their_order),
        CASE(without_lanes_there_is_room_for_a_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

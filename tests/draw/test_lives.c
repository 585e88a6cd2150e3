// Which requests are one Read, which answer ends which of them, and how long keys live.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "draw/lives.h"

static struct story story;
static struct lives lives;

static void fresh(void)
{
    static const struct story_bounds all = {
        .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 500};
    story_destroy(&story);
    memset(&lives, 0, sizeof lives);
    assert_true(story_create(&story, &all, 0));
}

static int setup(void **state)
{
    fresh();
    return 0;
}

static int teardown(void **state)
{
    story_destroy(&story);
    return 0;
}

// Which is told of next, on either side.
static uint32_t event(unsigned side)
{
    static uint64_t number;
    number++;
    story_on_packet(&story, number, number, 0);
    story_add(&story, STORY_SEND, side);
    return story.event_count - 1;
}

static struct lives_part ask(unsigned side, const struct lives_request *r)
{
    event(side);
    return lives_on_request(&lives, &story, side, r);
}

/* ---- Reads ----------------------------------------------------------------------------------- */

enum { SINK = 0x11, OTHER_SINK = 0x12, SOURCE = 0x21, OTHER_SOURCE = 0x22 };

// The first request is for 100 octets from 1000, to 50.
static void requests_that_follow_each_other_are_one_read(void **state)
{
    static const struct {
        uint32_t sink_key, source_key;
        uint64_t sink_to, source_to;
        uint32_t len;
        bool goes_on;
    } rows[] = {
        // All up to the same end.
        {SINK, SOURCE, 60, 1010, 90, true},
        {OTHER_SINK, SOURCE, 7, 1099, 1, true},
        {SINK, SOURCE, 60, 1010, 89, false},
        {SINK, SOURCE, 60, 1010, 91, false},
        {SINK, OTHER_SOURCE, 60, 1010, 90, false},
        {SINK, SOURCE, 50, 1000, 100, false}, // the same once more
        {SINK, SOURCE, 49, 999, 101, false},
        // One behind the other: the sink too, or each its own.
        {SINK, SOURCE, 150, 1100, 100, true},
        {SINK, SOURCE, 150, 1100, 1, true},
        {SINK, SOURCE, 150, 1100, 101, false},
        {SINK, SOURCE, 149, 1100, 100, false},
        {SINK, SOURCE, 0, 1100, 100, false},
        {SINK, SOURCE, 150, 1101, 100, false},
        {OTHER_SINK, SOURCE, 0, 1100, 100, true},
        {OTHER_SINK, SOURCE, 150, 1100, 100, false},
        {OTHER_SINK, OTHER_SOURCE, 0, 1100, 100, false},
    };
    static const struct lives_request first = {
        .sink_key = SINK, .source_key = SOURCE, .sink_to = 50, .source_to = 1000, .len = 100};
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const struct lives_request next = {.sink_key = rows[i].sink_key,
                                               .source_key = rows[i].source_key,
                                               .sink_to = rows[i].sink_to,
                                               .source_to = rows[i].source_to,
                                               .len = rows[i].len};
            fresh();
            struct lives_part part = ask(side, &first);
            assert_int_equal(part.read, 1);
            assert_int_equal(part.part, 1);
            part = ask(1 - side, &next); // the other side's are others
            assert_int_equal(part.read, 1);
            assert_int_equal(part.part, 1);
            part = ask(side, &next);
            assert_int_equal(part.read, rows[i].goes_on ? 1 : 2);
            assert_int_equal(part.part, rows[i].goes_on ? 2 : 1);
            assert_int_equal(story.span[0].side, side);
            assert_int_equal(story.span[2].group, part.read);
        }
    }
}

static void a_request_says_what_it_asks_for(void **state)
{
    const struct lives_request r = {
        .sink_key = SINK, .source_key = SOURCE, .sink_to = 0x50, .source_to = 0x1000, .len = 100};
    const struct lives_request on = {.sink_key = SINK,
                                     .source_key = SOURCE,
                                     .sink_to = 0x50 + 100,
                                     .source_to = 0x1000 + 100,
                                     .len = 100};
    ask(0, &r);
    ask(0, &on);
    assert_int_equal(story.span[0].kind, STORY_READ);
    assert_string_equal(story.span[0].label, "Read 1.1");
    assert_string_equal(
        story.span[0].detail,
        "Read 1, request 1: 100 octets, from 0x00000021 +0x1000 to 0x00000011 +0x50");
    assert_string_equal(story.span[1].label, "Read 1.2");
    assert_int_equal(story.span[1].begin, 1);
}

// Of 100 octets at 1000, in pieces: each says where, how long, and whether it is the last.
static void a_read_ends_with_all_of_its_answer(void **state)
{
    static const struct {
        struct {
            uint64_t name, at;
            uint32_t len;
            bool is_last;
        } pieces[4];
        int ended_by; // -1: none of them
    } rows[] = {
        {{{7, 1000, 100, true}}, 0},
        {{{7, 1000, 100, false}}, -1},
        {{{7, 1000, 40, false}, {7, 1040, 60, true}}, 1},
        {{{7, 1000, 40, true}}, 0},                       // less than was asked for
        {{{7, 1040, 60, true}, {7, 1000, 40, false}}, 1}, // what is behind a hole before the rest
        {{{7, 1040, 60, true}, {7, 1000, 39, false}}, -1},
        {{{8, 1000, 100, true}}, -1},                   // another's
        {{{7, 999, 100, true}}, -1},                    // before it
        {{{7, 1100, 1, true}, {7, 1101, 1, true}}, -1}, // behind it
        {{{7, 1099, 1, true}, {7, 1000, 99, false}}, 1},
        {{{7, 1000, 100, true}, {7, 1000, 100, true}}, 0}, // once
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct lives_request r = {.len = 100, .name = 7, .begin = 1000, .extent = 100};
        fresh();
        ask(1, &r);
        for (unsigned n = 0; n < 4 && rows[i].pieces[n].len > 0; n++) {
            event(0);
            lives_on_response(&lives, &story, 0, rows[i].pieces[n].name, rows[i].pieces[n].at,
                              rows[i].pieces[n].len, rows[i].pieces[n].is_last);
            lives_on_response(&lives, &story, 1, rows[i].pieces[n].name, rows[i].pieces[n].at,
                              rows[i].pieces[n].len, rows[i].pieces[n].is_last);
        }
        assert_int_equal((int)story.span[0].end, rows[i].ended_by < 0 ? -1 : rows[i].ended_by + 1);
    }
}

static void a_read_of_nothing_ends_where_it_begins(void **state)
{
    const struct lives_request r = {.name = 7, .begin = 1000};
    ask(0, &r);
    lives_on_response(&lives, &story, 0, 7, 1001, 0, true);
    assert_int_equal(story.span[0].end, STORY_NONE);
    event(1);
    lives_on_response(&lives, &story, 0, 7, 1000, 0, true);
    assert_int_equal(story.span[0].end, 1);
}

static void the_first_of_two_reads_that_ask_alike_is_answered_first(void **state)
{
    const struct lives_request r = {.len = 10, .name = 7, .begin = 0, .extent = 10};
    ask(0, &r);
    ask(0, &r);
    event(1);
    lives_on_response(&lives, &story, 0, 7, 0, 10, true);
    assert_int_equal(story.span[0].end, 2);
    assert_int_equal(story.span[1].end, STORY_NONE);
    event(1);
    lives_on_response(&lives, &story, 0, 7, 0, 10, true);
    assert_int_equal(story.span[1].end, 3);
}

static void more_reads_than_there_is_room_for_forget_the_oldest(void **state)
{
    for (unsigned i = 0; i <= LIVES_READ_MAX; i++) {
        const struct lives_request r = {.source_key = i, .len = 10, .name = i, .extent = 10};
        assert_int_equal(ask(0, &r).read, i + 1);
    }
    event(1);
    for (unsigned i = 0; i <= LIVES_READ_MAX; i++) {
        lives_on_response(&lives, &story, 0, i, 0, 10, true);
        assert_int_equal(story.span[i].end, i == 0 ? STORY_NONE : LIVES_READ_MAX + 1);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void expect_key(uint32_t span, unsigned side, uint32_t begin, uint32_t end,
                       const char *detail)
{
    assert_true(span < story.span_count);
    assert_int_equal(story.span[span].kind, STORY_STAG);
    assert_int_equal(story.span[span].side, side);
    assert_int_equal(story.span[span].begin, begin);
    assert_int_equal(story.span[span].end, end);
    assert_string_equal(story.span[span].label, "0x00000021");
    assert_string_equal(story.span[span].detail, detail);
}

static void a_key_that_is_advertised_lives_to_its_end(void **state)
{
    for (unsigned side = 0; side < 2; side++) {
        fresh();
        event(side);
        lives_on_advertise(&lives, &story, side, SOURCE);
        expect_key(0, side, 0, STORY_NONE, "STag 0x00000021: advertised by a Send, not closed");
        event(1 - side);
        lives_on_use(&lives, &story, side, SOURCE);
        lives_on_end(&lives, &story, 1 - side, SOURCE, "closed"); // the other side has none
        lives_on_end(&lives, &story, side, SINK, "closed");
        event(1 - side);
        lives_on_end(&lives, &story, side, SOURCE, "closed");
        expect_key(0, side, 0, 2, "STag 0x00000021: advertised by a Send, then closed");
        event(1 - side);
        lives_on_end(&lives, &story, side, SOURCE, "closed"); // once
        assert_int_equal(story.span_count, 1);
        assert_int_equal(story.span[0].end, 2);
    }
}

static void a_key_that_is_used_lives_from_its_first_use(void **state)
{
    event(0);
    lives_on_use(&lives, &story, 1, SOURCE);
    event(0);
    lives_on_use(&lives, &story, 1, SOURCE);
    assert_int_equal(story.span_count, 0); // it may never end
    event(0);
    lives_on_end(&lives, &story, 1, SOURCE, "invalidated");
    expect_key(0, 1, 0, 2, "STag 0x00000021: first used, then invalidated");
}

static void a_key_that_is_used_and_then_advertised_begins_anew(void **state)
{
    event(0);
    lives_on_use(&lives, &story, 1, SOURCE);
    event(1);
    lives_on_advertise(&lives, &story, 1, SOURCE);
    event(0);
    lives_on_end(&lives, &story, 1, SOURCE, "closed");
    assert_int_equal(story.span_count, 1);
    expect_key(0, 1, 1, 2, "STag 0x00000021: advertised by a Send, then closed");
}

static void more_keys_than_there_is_room_for_forget_the_oldest(void **state)
{
    event(0);
    for (uint32_t i = 0; i <= LIVES_KEY_MAX; i++) {
        lives_on_use(&lives, &story, 0, i);
    }
    for (uint32_t i = 0; i <= LIVES_KEY_MAX; i++) {
        lives_on_end(&lives, &story, 0, i, "closed");
        assert_int_equal(story.span_count, i);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(requests_that_follow_each_other_are_one_read),
        CASE(a_request_says_what_it_asks_for),
        CASE(a_read_ends_with_all_of_its_answer),
        CASE(a_read_of_nothing_ends_where_it_begins),
        CASE(the_first_of_two_reads_that_ask_alike_is_answered_first),
        CASE(more_reads_than_there_is_room_for_forget_the_oldest),
        CASE(a_key_that_is_advertised_lives_to_its_end),
        CASE(a_key_that_is_used_lives_from_its_first_use),
        CASE(a_key_that_is_used_and_then_advertised_begins_anew),
        CASE(more_keys_than_there_is_room_for_forget_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

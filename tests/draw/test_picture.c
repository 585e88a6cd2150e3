// A picture as it is drawn: each kind of event and span, what is folded, silent, left out and
// written by strangers, on one connection and on two, compared whole with golden files.
#include <stdarg.h>

#include "draw/layout.h"
#include "draw/svg.h"
#include "draw/works.h"
#include "tests/golden.h"

enum { PICTURE_MAX = 1 << 16 };

static char drawn[PICTURE_MAX];
static size_t drawn_len;

static void put(void *ctx, const char *text, size_t len)
{
    assert_true(drawn_len + len < sizeof drawn);
    memcpy(drawn + drawn_len, text, len);
    drawn_len += len;
    drawn[drawn_len] = '\0';
}

static const char *draw(const struct picture *picture, bool is_page)
{
    const struct xml_out out = {.put = put};
    drawn_len = 0;
    assert_true(svg_put(&out, picture, is_page));
    return drawn;
}

/* ---- stories --------------------------------------------------------------------------------- */

static struct story story;
static uint64_t packet;
static instant_ns at;

static int setup(void **state)
{
    const struct story_bounds bounds = {
        .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 500};
    packet = 0;
    at = 100 * NS_PER_S;
    return story_create(&story, &bounds, at) ? 0 : -1;
}

static int teardown(void **state)
{
    story_destroy(&story);
    return 0;
}

// The next event, so long after the one before.
static uint32_t event(unsigned connection, enum story_kind kind, unsigned side, uint8_t flags,
                      duration_ns pause, const char *label)
{
    at += pause;
    story_on_packet(&story, ++packet, at, connection);
    struct story_event *e = story_add(&story, kind, side);
    assert_non_null(e);
    e->flags = flags;
    e->fpdus = kind != STORY_START && kind != STORY_SEGMENT;
    snprintf(e->label, sizeof e->label, "%s", label);
    snprintf(e->detail, sizeof e->detail, "%s of packet %llu", story_kind_name(kind),
             (unsigned long long)packet);
    return story_last(&story);
}

static uint32_t span(enum story_span_kind kind, unsigned side, uint32_t from, uint32_t to)
{
    uint32_t number = story_span_begin(&story, kind, side, from);
    struct story_span *s = story_span_at(&story, number);
    snprintf(s->label, sizeof s->label, "%s %u", story_span_kind_name(kind), number);
    snprintf(s->detail, sizeof s->detail, "of events %u and on", from);
    if (to != STORY_NONE) {
        story_span_end(&story, number, to);
    }
    return number;
}

static struct picture picture_of(unsigned connections)
{
    struct picture picture = {.story = &story,
                              .title = "A connection",
                              .subtitle =
                                  "of a test, whose second line is so long that it does not "
                                  "fit the width of the picture and goes on below, where "
                                  "as many lines follow as it takes to the end of it",
                              .side = {{"initiator", "10.0.0.1:40000"}, {"target", "[::1]:4791"}},
                              .connection_count = connections,
                              .connection_number = {3, 8},
                              .note = {"Two packets were left out.", "<And> \"another\" note."},
                              .note_count = 2};
    return picture;
}

static void tell_of_everything(unsigned connections)
{
    const unsigned other = connections - 1;
    uint32_t begin = event(0, STORY_START, 0, 0, 0, "SYN");
    event(0, STORY_START, 1, 0, 30 * NS_PER_US, "SYN ACK");
    event(other, STORY_SEND, 0, 0, 5 * NS_PER_US, "Send 64 octets");
    uint32_t write = event(0, STORY_WRITE, 0, 0, NS_PER_MS, "Write 0x1234 <at> & 0");
    story.event[write].len = 1000;
    event(0, STORY_WRITE, 0, STORY_EARLY, 1, "Write, beyond");
    uint32_t last = event(0, STORY_WRITE, 0, STORY_LATE | STORY_AGAIN, 1, "Write, late");
    span(STORY_MESSAGE, 0, write, last);
    span(STORY_HOLE, 1, write, last);
    uint32_t ask = event(0, STORY_READ_REQUEST, 1, 0, 3 * NS_PER_S, "Read Request");
    uint32_t more = event(other, STORY_READ_REQUEST, 1, 0, 1, "Read Request");
    event(other, STORY_READ_RESPONSE, 0, STORY_CUT, 70 * NS_PER_US, "Read Response");
    uint32_t answer = event(0, STORY_READ_RESPONSE, 0, 0, 1, "Read Response");
    uint32_t first = span(STORY_READ, 1, ask, answer), second = span(STORY_READ, 1, more, answer);
    story_span_at(&story, first)->group = 1;
    story_span_at(&story, second)->group = 2;
    story_span_at(&story, second)->connection = (uint8_t)other;
    event(0, STORY_ATOMIC, 0, 0, 1, "Atomic");
    event(0, STORY_CONTROL, 1, 0, 1, "ACK");
    event(0, STORY_TROUBLE, 1, STORY_AGAIN, 1, "Terminate");
    uint32_t message = ++story.message_count;
    for (unsigned i = 0; i < LAYOUT_FOLD_MIN + 3; i++) {
        uint32_t segment = event(0, STORY_SEGMENT, 0, 0, NS_PER_US, "segment");
        story.event[segment].message = message;
        story.event[segment].len = 1448;
        story.event[segment].fpdus = 1;
    }
    span(STORY_STAG, 0, begin, STORY_NONE);
    event(0, STORY_END, 0, 0, 90 * NS_PER_S, "FIN");
    story_finish(&story);
}

static void a_connection_is_drawn_as_it_was(void **state)
{
    tell_of_everything(1);
    struct picture picture = picture_of(1);
    golden_compare("draw/golden/one.svg", draw(&picture, false));
}

static void two_connections_are_told_apart_and_segments_fold(void **state)
{
    tell_of_everything(2);
    struct picture picture = picture_of(2);
    picture.folds = true;
    golden_compare("draw/golden/two.svg", draw(&picture, false));
}

/* ---- records --------------------------------------------------------------------------------- */

static uint64_t record_number;

static void record(struct works *w, unsigned side, const struct journal_record *r)
{
    at += 100;
    story_on_record(&story, ++record_number, at, 0);
    works_on_record(w, &story, side, r);
}

static struct journal_record of(enum journal_kind kind, uint64_t wr_id, uint64_t len)
{
    return (struct journal_record){.kind = kind, .qp_num = 5, .wr_id = wr_id, .len = len};
}

static void tell_of_a_read(struct works *w, uint64_t wr_id, uint64_t len, uint64_t rest_len)
{
    struct journal_record granted = of(JOURNAL_CONTEXT_GRANTED, wr_id, len),
                          gone = of(JOURNAL_CONTEXT_GONE, wr_id, rest_len);
    granted.opcode = gone.opcode = 4;
    record(w, 0, &granted);
    event(0, STORY_READ_REQUEST, 0, 0, NS_PER_US, "Read Request");
    event(0, STORY_READ_RESPONSE, 1, 0, NS_PER_US, "Read Response");
    record(w, 0, &gone);
}

static void what_programs_did_stands_beside_the_lines(void **state)
{
    static struct works works;
    struct journal_record post = of(JOURNAL_SEND_POSTED, 1, 4096),
                          done = of(JOURNAL_COMPLETED, 1, 0);
    event(0, STORY_START, 0, 0, 0, "SYN");
    for (unsigned i = 0; i < 300; i++) {
        record(&works, 1,
               &(struct journal_record){
                   .kind = JOURNAL_RECEIVE_POSTED, .wr_id = 0x100 + i, .len = 64});
    }
    post.opcode = 4;
    record(&works, 0, &post);
    post.wr_id = 2;
    record(&works, 0, &post);
    tell_of_a_read(&works, 1, 2048, 2048);
    tell_of_a_read(&works, 2, 4096, 0);
    tell_of_a_read(&works, 1, 1024, 1024);
    tell_of_a_read(&works, 1, 1024, 0); // it keeps the context
    done.opcode = 2;
    done.wr_id = 2; // 1 had none of its own
    record(&works, 0, &done);
    record(&works, 1, &(struct journal_record){.kind = JOURNAL_STAG_LENT, .key = 0xab, .len = 512});
    record(&works, 1, &(struct journal_record){.kind = JOURNAL_STAG_TAKEN_BACK, .key = 0xab});
    done = of(JOURNAL_COMPLETED, 0x100, 0);
    done.opcode = 128;
    done.status = 5;
    record(&works, 1, &done);
    story_finish(&story);
    struct picture picture = picture_of(1);
    golden_compare("draw/golden/records.svg", draw(&picture, false));
}

static void within_a_page_it_has_no_declaration(void **state)
{
    event(0, STORY_START, 0, 0, 0, "SYN");
    story_finish(&story);
    struct picture picture = picture_of(1);
    picture.note_count = 0;
    golden_compare("draw/golden/page.svg", draw(&picture, true));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_connection_is_drawn_as_it_was),
        CASE(two_connections_are_told_apart_and_segments_fold),
        CASE(what_programs_did_stands_beside_the_lines),
        CASE(within_a_page_it_has_no_declaration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What is told of an iWARP connection, segment by segment: FPDUs in order, beyond a hole, late,
// again, cut and wrong; streams that are lost and found again; holes that were none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "draw/iwarp.h"
#include "tests/iwarp/craft.h"
#include "wire/crc32c.h"

enum { STREAM_MAX = 1 << 18, FPDU_MAX = 4096, TOLD_MAX = 4096, SYN_SEQ = 0xffffff00 };

static struct story story;
static struct iwarp_connection connection;
static char told[TOLD_MAX];

// Of each side: what follows its start-up frame.
static struct stream {
    uint32_t seq; // of its first octet
    bool crc, markers;
    uint8_t octets[STREAM_MAX];
    size_t len, begin; // `begin`: of the FPDU that is being written
    size_t at[FPDU_MAX];
    unsigned count;
} stream[2];

/* ---- streams --------------------------------------------------------------------------------- */

static void stream_put(struct stream *s, const uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (s->markers && s->len % MPA_MARKER_INTERVAL == 0) {
            put_be32(s->octets + s->len, (uint32_t)(s->len - s->begin));
            s->len += MPA_MARKER_LEN;
        }
        s->octets[s->len++] = octets[i];
    }
}

// A Send of so many octets, a message by itself; returns where its FPDU begins.
static size_t sends(unsigned side, size_t len)
{
    static const uint8_t zeros[4];
    struct stream *s = &stream[side];
    struct craft c = craft_untagged(RDMAP_SEND, s->count + 1, 0, true, NULL, len);
    uint8_t head[MPA_LENGTH_LEN], tail[MPA_CRC_LEN] = {1, 2, 3, 4};
    put_be16(head, (uint16_t)c.len);
    s->begin = s->len;
    stream_put(s, head, sizeof head);
    stream_put(s, c.octets, c.len);
    stream_put(s, zeros, mpa_pad_len(c.len));
    if (s->markers && s->len % MPA_MARKER_INTERVAL == 0) { // that before the CRC is covered
        put_be32(s->octets + s->len, (uint32_t)(s->len - s->begin));
        s->len += MPA_MARKER_LEN;
    }
    if (s->crc) {
        crc32c_put(tail, crc32c(s->octets + s->begin, s->len - s->begin));
    }
    memcpy(s->octets + s->len, tail, sizeof tail);
    s->len += sizeof tail;
    s->at[s->count++] = s->begin;
    s->at[s->count] = s->len;
    return s->begin;
}

/* ---- segments -------------------------------------------------------------------------------- */

// What was told since the last time: labels, each with its flags, parted by bars.
static const char *news(void)
{
    static uint32_t first;
    static const char *const flags[] = {" early", " again", " late", " cut"};
    size_t len = 0;
    told[0] = '\0';
    first = first <= story.event_count ? first : 0;
    for (; first < story.event_count; first++) {
        const struct story_event *e = &story.event[first];
        len +=
            (size_t)snprintf(told + len, sizeof told - len, "%s%s", len > 0 ? " | " : "", e->label);
        for (unsigned i = 0; i < 4; i++) {
            len += (size_t)snprintf(told + len, sizeof told - len, "%s",
                                    e->flags & 1U << i ? flags[i] : "");
        }
        assert_true(len < sizeof told);
    }
    return told;
}

static const char *segment_of(unsigned side, uint32_t seq, uint32_t ack, uint8_t flags,
                              struct span octets, size_t cut_len)
{
    const struct frame f = {.kind = FRAME_TCP,
                            .tcp = {.seq = seq, .ack = ack, .flags = flags},
                            .payload = octets,
                            .cut_len = cut_len};
    static uint64_t number;
    number++;
    story_on_packet(&story, number, number, 0);
    iwarp_on_segment(&connection, side, &f);
    return news();
}

// Octets of a side's stream.
static const char *octets_come(unsigned side, size_t from, size_t to)
{
    struct stream *s = &stream[side];
    return segment_of(side, s->seq + (uint32_t)from, 0, 0, span_of(s->octets + from, to - from), 0);
}

// Its FPDUs, the first and those behind it.
static const char *come(unsigned side, unsigned first, unsigned count)
{
    const struct stream *s = &stream[side];
    return octets_come(side, s->at[first], s->at[first + count]);
}

static const char *acknowledges(unsigned side, unsigned fpdu)
{
    const struct stream *of = &stream[1 - side];
    return segment_of(side, stream[side].seq, of->seq + (uint32_t)of->at[fpdu], TCP_ACK,
                      (struct span){0}, 0);
}

static const char *control(unsigned side, uint32_t seq, uint8_t flags)
{
    return segment_of(side, seq, 0, flags, (struct span){0}, 0);
}

struct agreed {
    bool request_crc, reply_crc, markers;
};

static void fresh(void)
{
    static const struct story_bounds all = {
        .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = STORY_EVENT_MAX};
    memset(stream, 0, sizeof stream);
    assert_true(story_create(&story, &all, 0));
    assert_true(iwarp_create(&connection, &story));
    news();
}

static void start_up(unsigned side, const struct mpa_startup_frame *f)
{
    uint8_t octets[MPA_STARTUP_MAX_LEN];
    size_t len = mpa_startup_frame_emit(f, octets);
    segment_of(side, SYN_SEQ + 1, 0, 0, span_of(octets, len), 0);
    stream[side].seq = SYN_SEQ + 1 + (uint32_t)len;
}

// Up to an FPDU each way, which shows whether there are markers.
static void open_with(struct agreed a)
{
    const struct mpa_startup_frame request = {
        .kind = MPA_REQUEST, .crc = a.request_crc, .markers = a.markers, .revision = 1};
    const struct mpa_startup_frame reply = {
        .kind = MPA_REPLY, .crc = a.reply_crc, .markers = a.markers, .revision = 1};
    fresh();
    assert_string_equal(control(0, SYN_SEQ, TCP_SYN), "SYN");
    assert_string_equal(control(1, SYN_SEQ, TCP_SYN | TCP_ACK), "SYN ACK");
    start_up(0, &request);
    start_up(1, &reply);
    for (unsigned i = 0; i < 2; i++) {
        stream[i].crc = a.request_crc || a.reply_crc;
        stream[i].markers = a.markers;
        sends(i, 9);
        assert_string_equal(come(i, 0, 1), "Send · 9");
        stream[i].count = 0;
    }
}

static void open_usual(void)
{
    open_with((struct agreed){.request_crc = true, .reply_crc = true});
}

static int close_it(void **state)
{
    iwarp_destroy(&connection);
    iwarp_destroy(&connection); // nothing is left
    story_destroy(&story);
    return 0;
}

// The holes of the story by number; messages have spans too. NULL: there are not so many.
static const struct story_span *hole(unsigned number)
{
    for (uint32_t i = 0; i < story.span_count; i++) {
        if (story.span[i].kind == STORY_HOLE && number-- == 0) {
            return &story.span[i];
        }
    }
    return NULL;
}

// Its words, its side and the events that it lies between.
static void expect_hole(unsigned number, const char *label, unsigned side, uint32_t begin,
                        uint32_t end)
{
    const struct story_span *it = hole(number);
    assert_non_null(it);
    assert_string_equal(it->label, label);
    assert_int_equal(it->side, side);
    assert_int_equal(it->begin, begin);
    assert_int_equal(it->end, end);
}

/* ---- in order -------------------------------------------------------------------------------- */

static void an_fpdu_is_told_when_its_last_octet_comes(void **state)
{
    for (unsigned side = 0; side < 2; side++) {
        open_usual();
        size_t first = sends(side, 11), second = sends(side, 12);
        assert_string_equal(octets_come(side, first, first + 9), "");
        assert_string_equal(octets_come(side, first + 9, second - 1), "");
        assert_string_equal(octets_come(side, second - 1, second + 5), "Send · 11");
        assert_string_equal(octets_come(side, second + 5, stream[side].len), "Send · 12");
        assert_int_equal(story.event[story.event_count - 1].side, side);
        assert_int_equal(story.event[story.event_count - 1].kind, STORY_SEND);
        close_it(NULL);
    }
    open_usual();
}

// Who began did not know yet whether there are CRCs.
static void crcs_count_where_either_side_wants_them(void **state)
{
    static const struct {
        struct agreed agreed;
        const char *early;
    } rows[] = {
        {{.request_crc = true, .reply_crc = true}, "Send · 12 early"},
        {{.request_crc = true}, "Send · 12 early"},
        {{.reply_crc = true}, "Send · 12 early"},
        {{0}, "36 octets · beyond a hole, wait"},
    };
    for (unsigned i = 0; i < 8; i++) {
        unsigned side = i / 4;
        open_with(rows[i % 4].agreed);
        bool has_crc = stream[side].crc;
        sends(side, 11);
        sends(side, 12);
        assert_string_equal(come(side, 1, 1), rows[i % 4].early);
        assert_string_equal(come(side, 0, 1),
                            has_crc ? "Send · 11 late" : "Send · 11 late | Send · 12 late");
        stream[side].octets[stream[side].at[0] + 20] ^= 1;
        close_it(NULL);
    }
    open_usual();
}

static void a_wrong_fpdu_ends_the_telling_until_a_segment_begins_with_one(void **state)
{
    open_usual();
    for (size_t len = 11; len < 16; len++) {
        sends(0, len);
    }
    stream[0].octets[stream[0].at[1] + 25] ^= 1;
    assert_string_equal(come(0, 0, 1), "Send · 11");
    assert_string_equal(come(0, 1, 1), "FPDU · CRC does not match");
    assert_string_equal(octets_come(0, stream[0].at[2], stream[0].at[3] - 1), "");
    assert_string_equal(octets_come(0, stream[0].at[3] - 1, stream[0].at[4]), "");
    assert_string_equal(come(0, 4, 1), "Send · 15");
}

// Without CRC a segment must consist of FPDUs.
static void without_crc_only_a_segment_of_fpdus_is_found_again(void **state)
{
    static const struct {
        size_t from, to; // what is spoilt of the second FPDU, from its beginning
        const char *told;
    } rows[] = {
        {0, 0, "Send · 12 | Send · 13"},
        {36, 0, ""},   // too long by far
        {2, 0x7f, ""}, // no DDP
        {3, 0x4f, ""}, // no opcode
    };
    for (unsigned i = 0; i < 4; i++) {
        open_with((struct agreed){0});
        sends(0, 11);
        sends(0, 12);
        size_t at = sends(0, 13);
        sends(0, 14);
        struct frame jump = {.kind = FRAME_TCP, .tcp = {.seq = stream[0].seq + (1 << 24)}};
        jump.payload = span_of(stream[0].octets, 8);
        story_on_packet(&story, 100, 100, 0);
        iwarp_on_segment(&connection, 0, &jump);
        assert_string_equal(news(), "octets are missing in the capture");
        stream[0].seq += (1 << 24) + 8 - (uint32_t)stream[0].at[1];
        if (rows[i].from == 36) {
            put_be16(stream[0].octets + at, 37);
        } else if (rows[i].from != 0) {
            stream[0].octets[at + rows[i].from] = (uint8_t)rows[i].to;
        }
        assert_string_equal(come(0, 1, 2), rows[i].told);
        close_it(NULL);
    }
    open_usual();
}

/* ---- holes ----------------------------------------------------------------------------------- */

static void fpdus_beyond_a_hole_are_told_once(void **state)
{
    open_usual();
    for (size_t len = 11; len < 17; len++) {
        sends(0, len);
    }
    assert_string_equal(come(0, 4, 2), "Send · 15 early | Send · 16 early");
    assert_string_equal(come(0, 2, 1), "Send · 13 early");
    assert_string_equal(come(0, 2, 1), "40 octets again");
    assert_string_equal(come(0, 0, 1), "Send · 11");
    assert_string_equal(come(0, 1, 1), "Send · 12 late");
    assert_string_equal(come(0, 3, 1), "Send · 14 late");
    assert_null(hole(2));
    expect_hole(0, "hole, 2 early", 1, 6, 12);
    expect_hole(1, "hole, 1 early", 1, 8, 11);
    assert_string_equal(hole(1)->detail,
                        "A hole of 72 octets of the stream; 1 FPDUs behind it were placed early, "
                        "and delivered when it closed");
}

static void what_records_tell_of_holes_is_not_told_twice(void **state)
{
    open_usual();
    connection.side[1].tells_holes = true;
    for (unsigned side = 0; side < 2; side++) {
        sends(side, 11);
        sends(side, 12);
        come(side, 1, 1);
        come(side, 0, 1);
    }
    assert_int_equal(hole(0)->side, 0);
    assert_null(hole(1));
}

// As many as there is room for are early at a time; who came is forgotten.
static void early_fpdus_make_room_when_their_hole_closes(void **state)
{
    open_usual();
    for (unsigned i = 0; i < IWARP_EARLY_MAX + 8; i++) {
        sends(0, 1);
        sends(0, 2);
        assert_string_equal(come(0, 2 * i + 1, 1), "Send · 2 early");
        assert_string_equal(come(0, 2 * i, 1), "Send · 1 late");
    }
    assert_int_equal(connection.side[0].early_count, 0);
}

static void an_fpdu_that_begins_before_its_segment_is_not_early(void **state)
{
    open_usual();
    for (size_t len = 11; len < 15; len++) {
        sends(0, len);
    }
    assert_string_equal(octets_come(0, stream[0].at[1] + 4, stream[0].at[3]),
                        "72 octets · beyond a hole, wait");
    assert_string_equal(octets_come(0, stream[0].at[3], stream[0].at[4] - 4),
                        "36 octets · beyond a hole, wait");
    assert_string_equal(octets_come(0, stream[0].at[0], stream[0].at[1] + 4),
                        "Send · 11 late | Send · 12 late | Send · 13 late");
    assert_string_equal(octets_come(0, stream[0].at[4] - 4, stream[0].at[4]), "Send · 14");
    expect_hole(0, "hole, 0 early", 1, 6, 8);
}

// A marker says where an FPDU begins in a segment that does not begin with one.
static void markers_lead_to_fpdus_beyond_a_hole(void **state)
{
    open_with((struct agreed){.request_crc = true, .reply_crc = true, .markers = true});
    for (unsigned i = 0; i < 5; i++) {
        sends(0, 300 + i);
    }
    assert_string_equal(come(0, 0, 1), "Send · 300");
    assert_string_equal(octets_come(0, stream[0].at[2] + 100, stream[0].at[4]), "Send · 303 early");
    assert_string_equal(octets_come(0, stream[0].at[4] + 20, stream[0].at[4] + 60),
                        "40 octets · beyond a hole, wait");
    assert_string_equal(octets_come(0, stream[0].at[1], stream[0].at[2] + 100),
                        "Send · 301 late | Send · 302 late");
    assert_string_equal(come(0, 4, 1), "Send · 304 late");
}

/* ---- what was not captured ------------------------------------------------------------------- */

// The peer acknowledges it, so it has come.
static void what_the_peer_acknowledges_was_not_captured(void **state)
{
    for (unsigned is_early = 0; is_early < 2; is_early++) {
        open_usual();
        for (size_t len = 11; len < 16; len++) {
            sends(0, len);
        }
        const size_t end = is_early ? stream[0].at[4] : stream[0].at[3] - 1;
        assert_string_equal(octets_come(0, stream[0].at[2], end),
                            is_early ? "Send · 13 early | Send · 14 early"
                                     : "39 octets · beyond a hole, wait");
        assert_string_equal(acknowledges(1, 1), "");
        assert_int_equal(hole(0)->end, STORY_NONE);
        assert_string_equal(acknowledges(1, 2), "");
        expect_hole(0, "not captured", 1, 6, is_early ? 7 : 6);
        assert_string_equal(hole(0)->detail, "72 octets that the peer acknowledges, but that "
                                             "were not captured");
        assert_int_equal(story.event[6].flags & STORY_EARLY, 0);
        assert_string_equal(octets_come(0, end, stream[0].at[5]), is_early ? "Send · 15" : "");
        close_it(NULL);
    }
    open_usual();
}

// One hole is acknowledged, and the next one is not.
static void holes_behind_what_is_acknowledged_stay(void **state)
{
    open_usual();
    for (size_t len = 11; len < 17; len++) {
        sends(0, len);
    }
    come(0, 1, 1);
    come(0, 3, 1);
    come(0, 5, 1);
    assert_null(hole(3));
    assert_string_equal(acknowledges(1, 3), "");
    assert_string_equal(hole(0)->label, "not captured");
    assert_string_equal(hole(1)->label, "not captured");
    assert_string_equal(hole(2)->label, "hole");
    assert_int_equal(story.event[6].flags, 0);
    assert_int_equal(story.event[7].flags, 0);
    assert_int_equal(story.event[8].flags, STORY_EARLY);
    assert_string_equal(come(0, 4, 1), "Send · 15 late");
    assert_string_equal(hole(2)->label, "hole, 1 early");
}

// A segment at the first FPDU that was not there when the streams were opened.
static const char *cut_comes(const uint8_t *octets, size_t len, size_t captured_len)
{
    return segment_of(0, stream[0].seq + (uint32_t)stream[0].at[0], 0, 0, span_of(octets, len),
                      len - captured_len);
}

static void of_a_segment_that_was_cut_the_headers_are_told(void **state)
{
    static const struct {
        size_t captured; // of two FPDUs of 36 octets
        const char *told;
    } rows[] = {
        {8, "72 octets · no FPDU ends here"},
        {19, "72 octets · no FPDU ends here"},
        {20, "Send · 11 cut"},
        {31, "Send · 11 cut"},
        {36, "Send · 11"},
        {36 + 19, "Send · 11"},
        {36 + 20, "Send · 11 | Send · 12 cut"},
        {36 + 35, "Send · 11 | Send · 12 cut"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_usual();
        sends(0, 11);
        sends(0, 12);
        sends(0, 13);
        uint8_t captured[72] = {0};
        memcpy(captured, stream[0].octets + stream[0].at[0], rows[i].captured);
        assert_string_equal(cut_comes(captured, sizeof captured, rows[i].captured), rows[i].told);
        assert_string_equal(come(0, 2, 1), "Send · 13"); // segment by segment
        close_it(NULL);
    }
    open_usual();
}

static void a_cut_segment_tells_no_more_than_is_right(void **state)
{
    open_usual();
    sends(0, 11);
    sends(0, 12);
    uint8_t captured[72];
    memcpy(captured, stream[0].octets + stream[0].at[0], sizeof captured);
    captured[36 + 3] = 0x4f; // an opcode that nobody uses
    assert_string_equal(cut_comes(captured, sizeof captured, 68), "Send · 11");
    assert_null(hole(0));
    sends(0, 13);
    assert_string_equal(octets_come(0, stream[0].at[2], stream[0].len), "Send · 13");
}

static void a_cut_start_up_is_not_followed(void **state)
{
    uint8_t captured[64] = "MPA ID Req Frame";
    fresh();
    control(0, SYN_SEQ, TCP_SYN);
    assert_string_equal(segment_of(0, SYN_SEQ + 1, 0, 0, span_of(captured, sizeof captured), 40),
                        "64 octets · no FPDU ends here");
    stream[0].seq = SYN_SEQ + 1 + (uint32_t)sizeof captured;
    stream[0].crc = true;
    sends(0, 11);
    assert_string_equal(come(0, 0, 1), "Send · 11");
}

/* ---- beginnings and ends --------------------------------------------------------------------- */

// Where nobody saw the beginning, the first octets say what they are.
static void a_capture_may_begin_in_the_middle(void **state)
{
    static const uint8_t word[] = "MPA ID Re";
    fresh();
    stream[0].crc = true;
    stream[0].seq = 77;
    sends(0, 11);
    assert_string_equal(come(0, 0, 1), "Send · 11");
    close_it(NULL);
    for (size_t len = 8; len < 10; len++) {
        fresh();
        segment_of(0, 77, 0, 0, span_of(word, len), 0);
        assert_int_equal(connection.side[0].phase, len == 9 ? IWARP_START_UP : IWARP_LOST);
        close_it(NULL);
    }
    fresh();
}

static void each_end_is_told_once_and_a_second_syn_changes_nothing(void **state)
{
    open_usual();
    sends(0, 11);
    sends(0, 12);
    assert_string_equal(come(0, 0, 1), "Send · 11");
    assert_string_equal(control(0, SYN_SEQ, TCP_SYN), "SYN");
    assert_string_equal(come(0, 1, 1), "Send · 12");
    assert_string_equal(control(0, stream[0].seq, TCP_FIN), "FIN");
    assert_string_equal(control(0, stream[0].seq, TCP_FIN), "");
    assert_string_equal(control(1, stream[1].seq, TCP_FIN), "FIN");
    assert_string_equal(control(1, stream[1].seq, TCP_RST), "RST");
    assert_int_equal(story.event[story.event_count - 1].kind, STORY_END);
    assert_int_equal(story.event[story.event_count - 1].side, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, close_it)
    const struct CMUnitTest tests[] = {
        CASE(an_fpdu_is_told_when_its_last_octet_comes),
        CASE(crcs_count_where_either_side_wants_them),
        CASE(a_wrong_fpdu_ends_the_telling_until_a_segment_begins_with_one),
        CASE(without_crc_only_a_segment_of_fpdus_is_found_again),
        CASE(fpdus_beyond_a_hole_are_told_once),
        CASE(what_records_tell_of_holes_is_not_told_twice),
        CASE(early_fpdus_make_room_when_their_hole_closes),
        CASE(an_fpdu_that_begins_before_its_segment_is_not_early),
        CASE(markers_lead_to_fpdus_beyond_a_hole),
        CASE(what_the_peer_acknowledges_was_not_captured),
        CASE(holes_behind_what_is_acknowledged_stay),
        CASE(of_a_segment_that_was_cut_the_headers_are_told),
        CASE(a_cut_segment_tells_no_more_than_is_right),
        CASE(a_cut_start_up_is_not_followed),
        CASE(a_capture_may_begin_in_the_middle),
        CASE(each_end_is_told_once_and_a_second_syn_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What is told of each DDP segment: opcode by opcode, right and wrong, and which of them are one
// message. The words are compared with a golden file.
#include <inttypes.h>

#include "base/bytes.h"
#include "draw/ulpdu.h"
#include "tests/draw/told.h"
#include "tests/golden.h"
#include "tests/iwarp/craft.h"
#include "wire/extension.h"
#include "wire/oneshot.h"
#include "wire/terminate.h"

enum { STAG = 0x12345678, ONESHOT_FLAGS = 0x31, ONESHOT_OPCODES = 0x32 };

static struct story story;
static struct ulpdu_teller teller;

static void fresh(uint8_t oneshot, const struct story_bounds *bounds)
{
    static uint64_t number;
    teller = (struct ulpdu_teller){.story = &story, .oneshot = oneshot};
    assert_true(story_create(&story, bounds, 0));
    number++;
    story_on_packet(&story, number, number, 0);
}

static const struct story_bounds all = {
    .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 500};

static int setup(void **state)
{
    told_len = 0;
    fresh(0, &all);
    return 0;
}

static int teardown(void **state)
{
    story_destroy(&story);
    return 0;
}

// All that was told since the story began, and a fresh one.
static void say_story(const char *what, uint8_t oneshot)
{
    say("%s\n", what);
    for (uint32_t i = 0; i < story.event_count; i++) {
        const struct story_event *e = &story.event[i];
        say("  %" PRIu32 " %s %s fpdus %u flags %u message %" PRIu32 " len %" PRIu32
            " \"%s\" (%s)\n",
            i, e->side == 0 ? "->" : "<-", story_kind_name(e->kind), e->fpdus, e->flags, e->message,
            e->len, e->label, e->detail);
    }
    for (uint32_t i = 0; i < story.span_count; i++) {
        const struct story_span *p = &story.span[i];
        say("  %s of %u from %" PRIu32 " to %d \"%s\" (%s)\n", story_span_kind_name(p->kind),
            p->side, p->begin, (int)p->end, p->label, p->detail);
    }
    story_destroy(&story);
    fresh(oneshot, &all);
}

static void tell(unsigned side, const struct craft *c, unsigned flags)
{
    ulpdu_tell(&teller, side, span_of(c->octets, c->len), flags);
}

static void tell_send(unsigned side, enum rdmap_opcode opcode, bool last, size_t len,
                      unsigned flags)
{
    struct craft c = craft_untagged(opcode, 1, 0, last, NULL, len);
    put_be32(c.octets + DDP_UNTAGGED_OFF_RSVDULP_STAG, STAG);
    tell(side, &c, flags);
}

static void tell_part(uint32_t msn, bool last, size_t len, unsigned flags)
{
    struct craft c = craft_untagged(RDMAP_SEND, msn, 0, last, NULL, len);
    tell(0, &c, flags);
}

static void tell_tagged(unsigned side, enum rdmap_opcode opcode, bool last, uint64_t to, size_t len)
{
    struct craft c = craft_tagged(opcode, STAG, to, last, NULL, len);
    tell(side, &c, 0);
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static void sends_and_writes(void)
{
    static const enum rdmap_opcode opcodes[] = {RDMAP_SEND,      RDMAP_SEND_INV,
                                                RDMAP_SEND_SE,   RDMAP_SEND_SE_INV,
                                                RDMAP_IMMEDIATE, RDMAP_IMMEDIATE_SE};
    for (unsigned i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        tell_send(i % 2, opcodes[i], true, 8, 0);
    }
    say_story("sends", 0);
    tell_tagged(0, RDMAP_WRITE, false, 0x100, 16);
    tell_tagged(0, RDMAP_WRITE, true, 0x110, 4);
    tell_send(1, RDMAP_SEND_INV, false, 2, 0); // ends nothing yet
    tell_send(1, RDMAP_SEND_INV, true, 2, 0);
    tell_send(0, RDMAP_SEND_INV, true, 0, 0); // of its own side's memory
    say_story("writes, and the end of what they go to", 0);
}

static void reads(void)
{
    struct craft c = craft_read_request(1, STAG, 0x2000, 24);
    tell(0, &c, 0);
    c = craft_tagged(RDMAP_READ_RESPONSE, 0x5151, 0, false, NULL, 16);
    tell(1, &c, 0);
    c = craft_tagged(RDMAP_READ_RESPONSE, 0x5151, 16, true, NULL, 8);
    tell(1, &c, 0);
    say_story("a read", 0);
    c = craft_read_request(1, STAG, 0x2000, 24);
    c.len--;
    tell(0, &c, 0);
    say_story("a read request that is too short", 0);
}

static void atomics(void)
{
    const struct rdmap_atomic_response response = {.request_id = 7, .original = 0xabcdef};
    uint8_t octets[RDMAP_ATOMIC_RESPONSE_LEN];
    rdmap_atomic_response_emit(&response, octets);
    struct craft c = craft_atomic_request(1, RDMAP_ATOMIC_CMP_SWAP, STAG, 8);
    tell(0, &c, 0);
    c = craft_atomic_request(2, RDMAP_ATOMIC_FETCH_ADD, STAG, 16);
    tell(0, &c, 0);
    c.len--;
    tell(0, &c, 0);
    c = craft_untagged(RDMAP_ATOMIC_RESPONSE, 1, 0, true, octets, sizeof octets);
    tell(1, &c, 0);
    c.len--;
    tell(1, &c, 0);
    say_story("atomics", 0);
}

static void terminates(void)
{
    uint8_t octets[TERMINATE_MAX_LEN];
    struct terminate it = terminate_of(TERM_RDMAP_BOUNDS);
    struct craft c =
        craft_untagged(RDMAP_TERMINATE, 1, 0, true, octets, terminate_emit(&it, octets));
    tell(0, &c, 0);
    it.layer = 7;
    c = craft_untagged(RDMAP_TERMINATE, 1, 0, true, octets, terminate_emit(&it, octets));
    tell(1, &c, 0);
    c.len = DDP_UNTAGGED_HEADER_LEN + 3;
    tell(1, &c, 0);
    // As a little-endian machine's bit fields have it: the halves of the octet exchanged.
    c = craft_untagged(RDMAP_TERMINATE, 1, 0, true, (const uint8_t[]){0x20, 5, 0, 0}, 4);
    tell(0, &c, 0);
    c = craft_untagged(RDMAP_TERMINATE, 1, 0, true, (const uint8_t[]){0x02, 5, 0, 0}, 4);
    tell(0, &c, 0);
    say_story("terminates", 0);
}

static void extensions(void)
{
    static const struct extension_message rows[] = {
        {.kind = EXTENSION_CHOICES, .encoding = ONESHOT_FLAGS, .allotment_len = 65536},
        {.kind = EXTENSION_CHOICES, .encoding = ONESHOT_OPCODES},
        {.kind = EXTENSION_CHOICES},
        {.kind = EXTENSION_ALLOTMENT, .allotment_len = 4096},
        {.kind = EXTENSION_TAKEN, .allotment_len = 8192},
    };
    uint8_t octets[EXTENSION_MESSAGE_LEN];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = extension_message_emit(&rows[i], octets);
        struct craft c = craft_untagged(RDMAP_EXTENSION, 1, 0, true, octets, len);
        tell(0, &c, 0);
        if (rows[i].kind == EXTENSION_CHOICES) {
            assert_int_equal(teller.oneshot, rows[i].encoding);
        }
        c.len--;
        tell(1, &c, 0);
    }
    assert_int_equal(teller.oneshot, 0);
    say_story("extension messages", 0);
}

// Marks as they are agreed on, and where they are not.
static void oneshots(void)
{
    static const uint8_t agreed[] = {0, ONESHOT_FLAGS, ONESHOT_OPCODES};
    static const char *const names[] = {"one-shot, not agreed", "one-shot by flags",
                                        "one-shot by opcodes"};
    for (unsigned i = 0; i < 3; i++) {
        say_story("", agreed[i]);
        for (enum oneshot_mark mark = ONESHOT_ADVERTISE; mark <= ONESHOT_CLOSE; mark++) {
            for (unsigned part = 0; part < 2; part++) {
                struct ddp_header h = {
                    .last = part == 1, .rsvdulp = rdmap_control_emit(RDMAP_SEND), .msn = 1};
                oneshot_write(agreed[i] != 0 ? agreed[i] : ONESHOT_OPCODES, mark, STAG, &h);
                struct craft c = craft_of(&h, NULL, 5);
                tell(mark == ONESHOT_CLOSE, &c, 0);
            }
        }
        say_story(names[i], 0);
    }
}

static void each_opcode_has_its_words(void **state)
{
    sends_and_writes();
    reads();
    atomics();
    terminates();
    extensions();
    oneshots();
    golden_compare("draw/golden/ulpdu_words.txt", told);
}

/* ---- messages -------------------------------------------------------------------------------- */

// The numbers of the messages that the events are of.
static void expect_messages(const char *expected)
{
    char numbers[256];
    size_t len = 0;
    for (uint32_t i = 0; i < story.event_count; i++) {
        len += (size_t)snprintf(numbers + len, sizeof numbers - len, "%s%" PRIu32, i > 0 ? " " : "",
                                story.event[i].message);
    }
    assert_string_equal(numbers, expected);
}

// A message ends with its last segment; each side, each queue and either kind of tagged messages
// have one of their own under way.
static void segments_of_one_message_have_its_number(void **state)
{
    struct craft request = craft_read_request(1, STAG, 0, 8);
    tell_send(0, RDMAP_SEND, false, 10, 0);
    tell_send(1, RDMAP_SEND, false, 10, 0);
    tell_tagged(0, RDMAP_WRITE, false, 0, 20);
    tell_tagged(0, RDMAP_READ_RESPONSE, false, 0, 30);
    tell(0, &request, 0);
    tell_send(0, RDMAP_SEND, false, 11, 0);
    tell_send(0, RDMAP_SEND, true, 12, 0);
    tell_send(0, RDMAP_SEND, true, 13, 0);
    tell_tagged(0, RDMAP_READ_RESPONSE, true, 30, 31);
    tell_tagged(0, RDMAP_WRITE, true, 20, 21);
    tell_send(1, RDMAP_SEND, true, 14, 0);
    expect_messages("1 2 3 4 5 1 1 6 4 3 2");
    say_story("messages of several segments", 0);
    golden_compare("draw/golden/ulpdu_messages.txt", told);
}

// The last segment came early: the message goes on until no hole is left.
static void an_early_last_segment_does_not_end_a_message(void **state)
{
    tell_send(0, RDMAP_SEND, false, 10, 0);
    tell_send(0, RDMAP_SEND, true, 12, STORY_EARLY);
    tell_send(0, RDMAP_SEND, true, 7, STORY_EARLY); // the next one
    tell_send(0, RDMAP_SEND, false, 11, STORY_LATE);
    assert_int_equal(story.span_count, 0);
    ulpdu_settle(&teller, 1);
    ulpdu_settle(&teller, 0);
    expect_messages("1 1 2 1");
    assert_int_equal(story.span_count, 1);
    assert_string_equal(story.span[0].detail, "One message: 3 FPDUs, 33 octets");
    tell_send(0, RDMAP_SEND, true, 1, 0);
    ulpdu_settle(&teller, 0);
    expect_messages("1 1 2 1 3");
    assert_int_equal(story.span_count, 1);
}

// By their MSN: also before the last segment of the message under way has come, early or not.
static void early_segments_are_of_the_message_whose_msn_they_have(void **state)
{
    tell_part(1, false, 10, 0);
    tell_part(2, true, 7, STORY_EARLY);
    tell_part(1, true, 11, STORY_LATE);
    ulpdu_settle(&teller, 0);
    expect_messages("1 2 1");
    tell_part(3, false, 20, 0);
    tell_part(4, false, 30, STORY_EARLY);
    tell_part(3, true, 21, STORY_LATE);
    tell_part(4, false, 31, 0);
    tell_part(5, true, 1, STORY_EARLY);
    tell_part(4, true, 32, STORY_LATE);
    ulpdu_settle(&teller, 0);
    expect_messages("1 2 1 3 4 3 4 5 4");
    assert_int_equal(story.span_count, 3);
    assert_string_equal(story.span[0].detail, "One message: 2 FPDUs, 21 octets");
    assert_string_equal(story.span[1].detail, "One message: 2 FPDUs, 41 octets");
    assert_string_equal(story.span[2].detail, "One message: 3 FPDUs, 93 octets");
    tell_part(6, false, 1, 0);
    tell_part(7, true, 1, 0); // what was between was not captured
    expect_messages("1 2 1 3 4 3 4 5 4 6 7");
}

// What is left out is counted into its message all the same.
static void events_that_are_left_out_are_of_their_message(void **state)
{
    const struct story_bounds two = {.to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 2};
    story_destroy(&story);
    fresh(0, &two);
    tell_send(0, RDMAP_SEND, false, 10, 0);
    tell_send(0, RDMAP_SEND, false, 10, 0);
    tell_send(0, RDMAP_SEND_INV, true, 10, 0);
    struct craft request = craft_read_request(1, STAG, 0, 8);
    tell(1, &request, 0);
    request.len--;
    tell(1, &request, 0);
    ulpdu_tell(&teller, 1, span_of(request.octets, 3), 0);
    assert_int_equal(story.event_count, 2);
    assert_int_equal(story.left_out_behind, 4);
    assert_string_equal(story.span[0].detail, "One message: 3 FPDUs, 30 octets");
}

/* ---- what is none ---------------------------------------------------------------------------- */

static void what_no_opcode_is_of_is_trouble(void **state)
{
    static const struct {
        uint8_t octets[DDP_UNTAGGED_HEADER_LEN];
        size_t len;
        const char *label; // NULL: it is right
        bool is_likely;
    } rows[] = {
        {{0x41, 0x43}, 18, NULL, true},
        {{0x41, 0x43}, 17, "FPDU of 17 octets · ULPDU ends inside the DDP header", false},
        {{0x42, 0x43}, 18, "FPDU of 18 octets · invalid DDP version, untagged", false},
        {{0x41, 0x83}, 18, NULL, false}, // another version of RDMAP
        {{0x41, 0x4c}, 18, "FPDU of 18 octets · an opcode of RDMAP that is not in use", true},
        {{0x41, 0x4d}, 18, "FPDU of 18 octets · an opcode of RDMAP that is not in use", false},
        {{0x41, 0x4f}, 18, "FPDU of 18 octets · an opcode of RDMAP that is not in use", false},
        {{0xc1, 0x40}, 14, NULL, true},
        {{0xc1, 0x43}, 14, NULL, false}, // a tagged Send
        {{0x41, 0x40}, 18, NULL, false}, // an untagged Write
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct span ulpdu = span_of(rows[i].octets, rows[i].len);
        assert_int_equal(ulpdu_is_likely(ulpdu), rows[i].is_likely);
        ulpdu_tell(&teller, 1, ulpdu, STORY_LATE);
        assert_int_equal(story.event_count, i + 1);
        const struct story_event *e = &story.event[i];
        assert_int_equal(e->flags, STORY_LATE);
        assert_int_equal(e->fpdus, 1);
        assert_int_equal(e->side, 1);
        if (rows[i].label != NULL) {
            assert_string_equal(e->label, rows[i].label);
            assert_int_equal(e->kind, STORY_TROUBLE);
            assert_int_equal(e->len, rows[i].len);
        } else {
            assert_int_not_equal(e->kind, STORY_TROUBLE);
        }
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(each_opcode_has_its_words),
        CASE(segments_of_one_message_have_its_number),
        CASE(an_early_last_segment_does_not_end_a_message),
        CASE(early_segments_are_of_the_message_whose_msn_they_have),
        CASE(events_that_are_left_out_are_of_their_message),
        CASE(what_no_opcode_is_of_is_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

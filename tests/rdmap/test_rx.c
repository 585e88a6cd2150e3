// Segments in order: what an arrival says of itself, which are refused and why, what the stream
// remembers of them, and what placing them answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "rdmap/rx.h"
#include "tests/iwarp/craft.h"

enum { LEN = 4096, SINK = 0x100 };

static struct fixture {
    struct mem_table *mem;
    struct mem_asker asker;
    struct rdmap_stream stream;
    uint8_t memory[LEN];
    uint32_t stag;
} f;

static int setup(void **state)
{
    static const uint8_t key[STAG_KEY_LEN] = {7};
    memset(&f, 0, sizeof f);
    f.mem = mem_table_create(key, 2048, (struct mem_probe){0});
    f.asker.qp_num = 1;
    assert_int_equal(mem_pd_alloc(f.mem, &f.asker.pd), 0);
    uint32_t access = MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED;
    assert_int_equal(mem_region_register(f.mem, f.asker.pd, f.memory, LEN, 0, access, &f.stag), 0);
    rdmap_stream_init(&f.stream, f.mem, f.asker, 1000);
    return 0;
}

static int teardown(void **state)
{
    mem_table_destroy(f.mem);
    return 0;
}

static struct craft last; // holds the payload that the arrival points to

static enum rdmap_refusal check(struct craft c, struct rdmap_arrival *ret)
{
    last = c;
    memset(ret, 0xee, sizeof *ret); // what the check does not fill in shows
    return rdmap_rx_check(&f.stream, span_of(last.octets, last.len), ret);
}

static struct rdmap_arrival arrival(struct craft c)
{
    struct rdmap_arrival a;
    assert_int_equal(check(c, &a), RDMAP_ACCEPTED);
    return a;
}

static void expect_refusal(struct craft c, enum rdmap_refusal refusal)
{
    struct rdmap_arrival a;
    assert_int_equal(check(c, &a), refusal);
}

static struct craft with_stag(struct craft c, uint32_t stag)
{
    put_be32(c.octets + 2, stag); // what RDMAP keeps in an untagged header
    return c;
}

/* ---- what it says of itself ------------------------------------------------------------------ */

static void each_kind_of_send_says_what_it_is(void **state)
{
    static const struct {
        enum rdmap_opcode opcode;
        bool solicits, invalidates;
    } kinds[] = {{RDMAP_SEND, false, false},
                 {RDMAP_SEND_SE, true, false},
                 {RDMAP_SEND_INV, false, true},
                 {RDMAP_SEND_SE_INV, true, true}};
    for (unsigned i = 0; i < 4; i++) {
        struct rdmap_arrival a =
            arrival(with_stag(craft_untagged(kinds[i].opcode, 1, 0, true, "abc", 3), 0x1234567));
        assert_int_equal(a.opcode, kinds[i].opcode);
        assert_int_equal(a.mark, ONESHOT_NONE);
        assert_true(a.is_first && a.is_last);
        assert_int_equal(a.is_solicited, kinds[i].solicits);
        assert_int_equal(a.invalidates, kinds[i].invalidates);
        assert_int_equal(a.send_stag, 0x1234567);
        assert_int_equal(a.msn, 1);
        assert_int_equal(a.mo, 0);
        assert_false(a.has_immediate || a.has_reference);
        assert_int_equal(a.immediate | a.reference | a.written_len, 0);
        assert_int_equal(a.payload.len, 3);
        assert_memory_equal(a.payload.ptr, "abc", 3);
    }
}

static void a_message_begins_at_offset_zero_and_ends_with_last(void **state)
{
    struct rdmap_arrival a = arrival(craft_untagged(RDMAP_SEND, 1, 0, false, "ab", 2));
    assert_true(a.is_first && !a.is_last);
    rdmap_rx_accept(&f.stream, &a);
    a = arrival(craft_untagged(RDMAP_SEND, 1, 2, true, "c", 1));
    assert_true(!a.is_first && a.is_last);
    assert_int_equal(a.mo, 2);
    rdmap_rx_accept(&f.stream, &a);
    a = arrival(craft_untagged(RDMAP_SEND, 2, 0, true, NULL, 0));
    assert_int_equal(a.msn, 2);
}

static void a_tagged_segment_says_where_it_goes(void **state)
{
    struct rdmap_arrival a =
        arrival(craft_tagged(RDMAP_WRITE, 0xabcdef01, 0x123456789aULL, true, "abcd", 4));
    assert_int_equal(a.opcode, RDMAP_WRITE);
    assert_int_equal(a.stag, 0xabcdef01);
    assert_int_equal(a.to, 0x123456789aULL);
    assert_false(a.is_first); // only untagged messages have a first segment
    assert_true(a.is_last);
    assert_int_equal(a.payload.len, 4);
    a = arrival(craft_tagged(RDMAP_READ_RESPONSE, 5, 6, false, "x", 1));
    assert_int_equal(a.opcode, RDMAP_READ_RESPONSE);
    assert_false(a.is_last);
}

static void immediate_data_come_before_the_length_of_their_write(void **state)
{
    uint8_t octets[8] = {0xca, 0xfe, 0xba, 0xbe, 0, 1, 0, 2};
    struct rdmap_arrival a = arrival(craft_untagged(RDMAP_IMMEDIATE_SE, 1, 0, true, octets, 8));
    assert_true(a.has_immediate && a.is_solicited);
    assert_memory_equal(&a.immediate, octets, 4);
    assert_int_equal(a.written_len, 0x10002);
    a = arrival(craft_untagged(RDMAP_IMMEDIATE, 1, 0, true, octets, 8));
    assert_true(a.has_immediate && !a.is_solicited);
}

// Only between weft ends, by a bit of DDP's header that others leave zero.
static void a_send_may_carry_immediate_data_where_that_was_agreed(void **state)
{
    struct ddp_header h = {.last = true,
                           .rsvd = EXTENSION_RSVD_IMMEDIATE,
                           .rsvdulp = rdmap_control_emit(RDMAP_SEND_SE),
                           .rsvdulp_stag = 0xcafebabe,
                           .msn = 1};
    f.stream.extensions_agreed = true;
    struct rdmap_arrival a = arrival(craft_of(&h, "x", 1));
    assert_true(a.has_immediate);
    assert_int_equal(a.immediate, htobe32(0xcafebabe));
    h.rsvdulp = rdmap_control_emit(RDMAP_SEND_SE_INV); // the STag is one
    a = arrival(craft_of(&h, "x", 1));
    assert_false(a.has_immediate);
    f.stream.extensions_agreed = false;
    h.rsvdulp = rdmap_control_emit(RDMAP_SEND);
    a = arrival(craft_of(&h, "x", 1));
    assert_false(a.has_immediate);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void what_an_opcode_does_not_allow_is_refused(void **state)
{
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, "x", 1);
    c.octets[1] = 0x03; // RDMAP version 0
    expect_refusal(c, RDMAP_REFUSED_VERSION);
    c = craft_untagged(RDMAP_SEND, 1, 0, true, "x", 1);
    c.octets[1] = 0x4f; // an opcode that nobody knows
    expect_refusal(c, RDMAP_REFUSED_OPCODE);
    expect_refusal(craft_tagged(RDMAP_SEND, 1, 0, true, "x", 1), RDMAP_REFUSED_OPCODE_LAYOUT);
    expect_refusal(craft_untagged(RDMAP_WRITE, 1, 0, true, "x", 1), RDMAP_REFUSED_OPCODE_LAYOUT);
    struct ddp_header h = {.last = true,
                           .rsvdulp = rdmap_control_emit(RDMAP_SEND),
                           .qn = DDP_QN_READ_REQUEST,
                           .msn = 1};
    expect_refusal(craft_of(&h, NULL, RDMAP_READ_REQUEST_LEN), RDMAP_REFUSED_OPCODE_QUEUE);
}

static void an_extension_comes_only_where_it_may(void **state)
{
    struct craft c = craft_untagged(RDMAP_EXTENSION, 1, 0, true, NULL, EXTENSION_MESSAGE_LEN);
    expect_refusal(c, RDMAP_REFUSED_DDP_QN); // an RFC peer knows no such queue
    f.stream.extensions_may_come = true;
    struct rdmap_arrival a = arrival(c);
    struct extension_message message;
    assert_int_equal(a.opcode, RDMAP_EXTENSION);
    assert_false(rdmap_extension_of(&a, &message)); // all zeros are none
}

static void a_request_is_one_segment_of_its_own_length(void **state)
{
    enum { FIXED = RDMAP_READ_REQUEST_LEN };
    expect_refusal(craft_untagged(RDMAP_READ_REQUEST, 1, 0, true, NULL, FIXED - 1),
                   RDMAP_REFUSED_TRUNCATED);
    expect_refusal(craft_untagged(RDMAP_READ_REQUEST, 1, 0, true, NULL, FIXED + 1),
                   RDMAP_REFUSED_OVERLONG);
    expect_refusal(craft_untagged(RDMAP_READ_REQUEST, 1, 0, false, NULL, FIXED),
                   RDMAP_REFUSED_TRUNCATED);
    arrival(craft_untagged(RDMAP_READ_REQUEST, 1, 0, true, NULL, FIXED));
}

static void the_stream_expects_the_next_number_and_offset(void **state)
{
    expect_refusal(craft_untagged(RDMAP_SEND, 2, 0, true, "x", 1), RDMAP_REFUSED_DDP_MSN_RANGE);
    expect_refusal(craft_untagged(RDMAP_SEND, 1, 1, true, "x", 1), RDMAP_REFUSED_DDP_MO);
}

/* ---- what the stream remembers --------------------------------------------------------------- */

static void take(struct craft c, uint64_t written_len)
{
    struct rdmap_arrival a = arrival(c);
    rdmap_rx_accept(&f.stream, &a);
    assert_int_equal(a.written_len, written_len);
}

// Immediate Data of another peer speak of the Write before them.
static void a_send_is_told_the_length_of_the_write_before_it(void **state)
{
    take(craft_tagged(RDMAP_WRITE, f.stag, 0, false, NULL, 100), 0);
    take(craft_tagged(RDMAP_WRITE, f.stag, 100, true, NULL, 20), 0);
    take(craft_tagged(RDMAP_READ_RESPONSE, f.stag, 0, true, NULL, 7), 0); // is no Write
    take(craft_untagged(RDMAP_SEND, 1, 0, false, NULL, 5), 0);
    take(craft_untagged(RDMAP_SEND, 1, 5, true, NULL, 5), 120);
    take(craft_untagged(RDMAP_SEND, 2, 0, true, NULL, 5), 0); // none before this one
    take(craft_tagged(RDMAP_WRITE, f.stag, 0, true, NULL, 30), 0);
    take(craft_tagged(RDMAP_WRITE, f.stag, 0, true, NULL, 40), 0); // another: the last counts
    take(craft_untagged(RDMAP_READ_REQUEST, 1, 0, true, NULL, RDMAP_READ_REQUEST_LEN), 0);
    take(craft_untagged(RDMAP_SEND, 3, 0, true, NULL, 5), 40);
}

static void between_weft_ends_the_message_says_it(void **state)
{
    uint8_t octets[8] = {0, 0, 0, 1, 0, 0, 0, 77};
    f.stream.extensions_agreed = true;
    take(craft_tagged(RDMAP_WRITE, f.stag, 0, true, NULL, 30), 0);
    take(craft_untagged(RDMAP_IMMEDIATE, 1, 0, true, octets, 8), 77);
}

/* ---- placing --------------------------------------------------------------------------------- */

// A sink of 100 octets at SINK, of which 40 have come.
static struct rdmap_expected_response sink_open(const struct sge *sge)
{
    struct rdmap_expected_response e = {
        .sink_to = 7000, .length = sge->length, .arrived_len = 40, .least_len = sge->length};
    assert_int_equal(mem_sinks_reserve(f.mem, 1), 0);
    assert_int_equal(mem_sink_open(f.mem, f.asker, sge, 1, 0, sge->length, e.sink_to, &e.sink_stag),
                     0);
    return e;
}

static struct rdmap_arrival response(uint32_t stag, uint64_t to, bool is_last, uint32_t len)
{
    return arrival(craft_tagged(RDMAP_READ_RESPONSE, stag, to, is_last, NULL, len));
}

static void a_read_response_continues_its_window(void **state)
{
    const struct sge sge = {SINK, 100, f.stag};
    const struct rdmap_expected_response e = sink_open(&sge);
    struct rdmap_expected_response cut = e;
    uint64_t at = e.sink_to + 40;
    cut.least_len = 60;
    const struct {
        const struct rdmap_expected_response *expected;
        uint64_t to;
        bool is_last;
        uint32_t len;
        enum rdmap_refusal refusal;
    } rows[] = {
        {&e, at, true, 60, RDMAP_ACCEPTED},
        {&e, at, false, 59, RDMAP_ACCEPTED},
        {&e, at - 1, true, 60, RDMAP_REFUSED_RESPONSE_TO},
        {&e, at + 1, true, 59, RDMAP_REFUSED_RESPONSE_TO},
        {&e, at, true, 61, RDMAP_REFUSED_RESPONSE_LENGTH},
        {&e, at, false, 60, RDMAP_ACCEPTED}, // its end may follow by itself
        {&e, at, true, 59, RDMAP_REFUSED_RESPONSE_LAST},
        {&cut, at, true, 20, RDMAP_ACCEPTED},
        {&cut, at, true, 19, RDMAP_REFUSED_RESPONSE_SHORT},
        {&cut, at, false, 10, RDMAP_ACCEPTED},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rdmap_arrival a = response(e.sink_stag, rows[i].to, rows[i].is_last, rows[i].len);
        memset(f.memory, 0xaa, sizeof f.memory);
        assert_int_equal(rdmap_place_response(&f.stream, &a, rows[i].expected), rows[i].refusal);
        bool is_placed = rows[i].refusal == RDMAP_ACCEPTED;
        assert_int_equal(f.memory[SINK + 40], is_placed ? 0 : 0xaa);
        assert_int_equal(f.memory[SINK + 39], 0xaa);
    }
    struct rdmap_arrival a = response(e.sink_stag + 1, at, true, 60);
    assert_int_equal(rdmap_place_response(&f.stream, &a, &e), RDMAP_REFUSED_RESPONSE_STAG);
}

static void a_read_response_of_no_octets_may_name_anything(void **state)
{
    const struct sge sge = {SINK, 100, f.stag};
    struct rdmap_expected_response e = sink_open(&sge);
    struct rdmap_arrival a = response(0x12345678, UINT64_MAX, false, 0);
    assert_int_equal(rdmap_place_response(&f.stream, &a, &e), RDMAP_ACCEPTED);
    a.is_last = true;
    assert_int_equal(rdmap_place_response(&f.stream, &a, &e), RDMAP_REFUSED_RESPONSE_LAST);
    e.arrived_len = e.length;
    assert_int_equal(rdmap_place_response(&f.stream, &a, &e), RDMAP_ACCEPTED);
}

static void a_sink_whose_memory_is_gone_is_our_own_fault(void **state)
{
    const struct sge sge = {SINK, 100, f.stag};
    const struct rdmap_expected_response e = sink_open(&sge);
    struct rdmap_arrival a = response(e.sink_stag, e.sink_to + 40, true, 60);
    assert_int_equal(mem_region_deregister(f.mem, f.stag), 0);
    assert_int_equal(rdmap_place_response(&f.stream, &a, &e), RDMAP_REFUSED_SINK_LOCAL);
}

static void a_write_goes_where_its_stag_lets_it(void **state)
{
    struct rdmap_arrival a = arrival(craft_tagged(RDMAP_WRITE, f.stag, 16, true, "abcd", 4));
    assert_int_equal(rdmap_place_write(&f.stream, &a), RDMAP_ACCEPTED);
    assert_memory_equal(f.memory + 16, "abcd", 4);
    a.to = LEN - 3;
    assert_int_equal(rdmap_place_write(&f.stream, &a), RDMAP_REFUSED_DDP_BOUNDS);
    a.stag++;
    assert_int_equal(rdmap_place_write(&f.stream, &a), RDMAP_REFUSED_DDP_INVALID_STAG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_kind_of_send_says_what_it_is),
        TEST(a_message_begins_at_offset_zero_and_ends_with_last),
        TEST(a_tagged_segment_says_where_it_goes),
        TEST(immediate_data_come_before_the_length_of_their_write),
        TEST(a_send_may_carry_immediate_data_where_that_was_agreed),
        TEST(what_an_opcode_does_not_allow_is_refused),
        TEST(an_extension_comes_only_where_it_may),
        TEST(a_request_is_one_segment_of_its_own_length),
        TEST(the_stream_expects_the_next_number_and_offset),
        TEST(a_send_is_told_the_length_of_the_write_before_it),
        TEST(between_weft_ends_the_message_says_it),
        TEST(a_read_response_continues_its_window),
        TEST(a_read_response_of_no_octets_may_name_anything),
        TEST(a_sink_whose_memory_is_gone_is_our_own_fault),
        TEST(a_write_goes_where_its_stag_lets_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

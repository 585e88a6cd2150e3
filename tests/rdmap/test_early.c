// Segments beyond a hole: which of them may be placed, where, and what they hold back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rdmap/early.h"
#include "tests/iwarp/craft.h"

enum { LEN = 4096 };

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
    return rdmap_rx_check_early(&f.stream, span_of(last.octets, last.len), ret);
}

static struct rdmap_arrival arrival(struct craft c)
{
    struct rdmap_arrival a;
    assert_int_equal(check(c, &a), RDMAP_ACCEPTED);
    return a;
}

static struct place_counts held(struct craft c)
{
    struct place_counts counts = {0};
    struct rdmap_arrival a = arrival(c);
    rdmap_hold(&a, &counts);
    return counts;
}

static void later_messages_and_later_segments_are_let_through(void **state)
{
    struct rdmap_arrival a;
    f.stream.rx[DDP_QN_SEND] = (struct ddp_untagged_queue){.msn = 5, .mo = 100};
    assert_int_equal(check(craft_untagged(RDMAP_SEND, 5, 100, false, "x", 1), &a), RDMAP_ACCEPTED);
    assert_int_equal(check(craft_untagged(RDMAP_SEND, 5, 700, true, "x", 1), &a), RDMAP_ACCEPTED);
    assert_int_equal(check(craft_untagged(RDMAP_SEND, 9, 0, true, "x", 1), &a), RDMAP_ACCEPTED);
    assert_int_equal(check(craft_untagged(RDMAP_SEND, 5, 99, true, "x", 1), &a),
                     RDMAP_REFUSED_DDP_MO);
    assert_int_equal(check(craft_untagged(RDMAP_SEND, 4, 0, true, "x", 1), &a),
                     RDMAP_REFUSED_DDP_MSN_RANGE);
}

static void message_numbers_wrap(void **state)
{
    struct rdmap_arrival a;
    f.stream.rx[DDP_QN_SEND].msn = UINT32_MAX;
    assert_int_equal(check(craft_untagged(RDMAP_SEND, 0, 0, true, "x", 1), &a), RDMAP_ACCEPTED);
    assert_int_equal(check(craft_untagged(RDMAP_SEND, UINT32_MAX - 1, 0, true, "x", 1), &a),
                     RDMAP_REFUSED_DDP_MSN_RANGE);
}

static void what_the_header_tells_is_checked_as_in_order(void **state)
{
    struct rdmap_arrival a;
    struct craft c = craft_untagged(RDMAP_READ_REQUEST, 3, 0, true, NULL, 27);
    assert_int_equal(check(c, &a), RDMAP_REFUSED_TRUNCATED);
    c = craft_untagged(RDMAP_SEND, 3, 0, true, NULL, 4);
    c.octets[1] = 0x05; // another RDMAP version
    assert_int_equal(check(c, &a), RDMAP_REFUSED_VERSION);
}

static void some_messages_are_held_back_as_a_whole(void **state)
{
    f.stream.extensions_may_come = true;
    struct rdmap_arrival terminate = arrival(craft_untagged(RDMAP_TERMINATE, 1, 0, true, NULL, 4));
    assert_false(rdmap_may_place_early(&f.stream, &terminate));
    struct rdmap_arrival write = arrival(craft_tagged(RDMAP_WRITE, f.stag, 0, false, "x", 1));
    assert_true(rdmap_may_place_early(&f.stream, &write));
}

// Without the length in Immediate Data, the octets of a Write are counted in order at its end.
static void only_a_weft_peer_may_end_a_write_early(void **state)
{
    struct rdmap_arrival write = arrival(craft_tagged(RDMAP_WRITE, f.stag, 0, true, "x", 1));
    struct rdmap_arrival immediate =
        arrival(craft_untagged(RDMAP_IMMEDIATE, 1, 0, true, "abcd\0\1\0\2", 8));
    assert_false(rdmap_may_place_early(&f.stream, &write));
    assert_false(rdmap_may_place_early(&f.stream, &immediate));
    f.stream.extensions_agreed = true;
    assert_true(rdmap_may_place_early(&f.stream, &write));
    assert_true(rdmap_may_place_early(&f.stream, &immediate));
    assert_int_equal(immediate.written_len, 0x10002);
}

static void which_messages_may_be_placed_early_is_a_matter_of_their_opcode(void **state)
{
    enum { NEVER, AGREED, ALWAYS };
    static const struct {
        enum rdmap_opcode opcode;
        unsigned when, when_last;
    } table[] = {
        {RDMAP_WRITE, ALWAYS, AGREED},          {RDMAP_READ_REQUEST, ALWAYS, ALWAYS},
        {RDMAP_READ_RESPONSE, ALWAYS, ALWAYS},  {RDMAP_SEND, ALWAYS, ALWAYS},
        {RDMAP_SEND_INV, ALWAYS, ALWAYS},       {RDMAP_SEND_SE, ALWAYS, ALWAYS},
        {RDMAP_SEND_SE_INV, ALWAYS, ALWAYS},    {RDMAP_TERMINATE, NEVER, NEVER},
        {RDMAP_IMMEDIATE, AGREED, AGREED},      {RDMAP_IMMEDIATE_SE, AGREED, AGREED},
        {RDMAP_ATOMIC_REQUEST, ALWAYS, ALWAYS}, {RDMAP_ATOMIC_RESPONSE, ALWAYS, ALWAYS},
        {RDMAP_EXTENSION, NEVER, NEVER},
    };
    for (unsigned row = 0; row < sizeof table / sizeof table[0]; row++) {
        for (unsigned i = 0; i < 4; i++) {
            struct rdmap_arrival a = {.opcode = table[row].opcode, .is_last = i % 2 != 0};
            f.stream.extensions_agreed = i >= 2;
            unsigned when = a.is_last ? table[row].when_last : table[row].when;
            assert_int_equal(rdmap_may_place_early(&f.stream, &a),
                             when == ALWAYS || (when == AGREED && i >= 2));
        }
    }
}

static void each_message_is_counted_in_its_class(void **state)
{
    struct place_counts c = held(craft_untagged(RDMAP_SEND_SE, 3, 50, true, NULL, 20));
    assert_int_equal(c.n[RDMAP_HELD_SENDS], 1);
    assert_int_equal(c.n[RDMAP_HELD_SEND_OCTETS], 20);
    c = held(craft_untagged(RDMAP_SEND, 3, 50, false, NULL, 20));
    assert_int_equal(c.n[RDMAP_HELD_SENDS], 0);
    assert_int_equal(c.n[RDMAP_HELD_SEND_OCTETS], 20);
    static const enum rdmap_opcode ends[] = {RDMAP_SEND,      RDMAP_SEND_INV,
                                             RDMAP_SEND_SE,   RDMAP_SEND_SE_INV,
                                             RDMAP_IMMEDIATE, RDMAP_IMMEDIATE_SE};
    for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        c = held(craft_untagged(ends[i], 3, 0, true, NULL, 8));
        assert_int_equal(c.n[RDMAP_HELD_SENDS], 1);
        assert_int_equal(c.n[RDMAP_HELD_SEND_OCTETS], 8);
    }
    c = held(craft_read_request(3, f.stag, 0, 8));
    assert_int_equal(c.n[RDMAP_HELD_READ_REQUESTS], 1);
    c = held(craft_atomic_request(3, RDMAP_ATOMIC_FETCH_ADD, f.stag, 0));
    assert_int_equal(c.n[RDMAP_HELD_ATOMIC_REQUESTS], 1);
    c = held(craft_tagged(RDMAP_READ_RESPONSE, f.stag, 0, true, NULL, 9));
    assert_int_equal(c.n[RDMAP_HELD_READ_RESPONSES], 1);
    assert_int_equal(c.n[RDMAP_HELD_RESPONSE_OCTETS], 9);
    c = held(craft_tagged(RDMAP_WRITE, f.stag, 0, true, NULL, 9));
    assert_int_equal(c.n[RDMAP_HELD_WRITE_OCTETS], 9);
    const struct place_counts all = {.n = {1, 10, 100, 1000, 10000, 7, 7, 7}};
    assert_int_equal(rdmap_held_messages(&all), 11111); // octets are none
    for (unsigned i = 0; i < RDMAP_HELD_COUNT; i++) {
        assert_non_null(rdmap_held_name(i));
    }
}

static void write_is_noted_at_an_stag_that_can_be_taken_back(void **state)
{
    uint32_t window;
    assert_int_equal(mem_window_alloc(f.mem, MEM_WINDOW_TYPE_2, f.asker.pd, &window), 0);
    struct mem_binding binding = {
        .stag = window ^ 1, .lkey = f.stag, .length = 64, .access = MEM_ACCESS_REMOTE_WRITE};
    assert_int_equal(mem_window_bind(f.mem, f.asker, &binding), MEM_OK);
    struct rdmap_arrival a = arrival(craft_tagged(RDMAP_WRITE, window ^ 1, 8, false, "abcd", 4));
    f.stream.early_base = 1000; // of the streams before this one
    assert_int_equal(rdmap_place_write_early(&f.stream, &a, 500), RDMAP_ACCEPTED);
    assert_memory_equal(f.memory + 8, "abcd", 4);
    assert_true(rdmap_is_written_behind(&f.stream, window ^ 1, 499));
    assert_false(rdmap_is_written_behind(&f.stream, window ^ 1, 500));
    assert_false(rdmap_is_written_behind(&f.stream, f.stag, 0));
}

static void response_may_fill_any_part_of_its_window_but_no_more(void **state)
{
    struct sge sge = {0, 100, f.stag};
    struct rdmap_expected_response expected = {.length = 100, .arrived_len = 20, .least_len = 100};
    assert_int_equal(mem_sinks_reserve(f.mem, 1), 0);
    assert_int_equal(mem_sink_open(f.mem, f.asker, &sge, 1, 0, 100, 0, &expected.sink_stag), 0);
    const struct {
        uint64_t to;
        uint32_t len;
        bool is_last;
        enum rdmap_refusal refusal;
    } cases[] = {
        {20, 10, false, RDMAP_ACCEPTED},
        {60, 40, true, RDMAP_ACCEPTED},
        {19, 10, false, RDMAP_REFUSED_RESPONSE_TO},
        {101, 1, false, RDMAP_REFUSED_RESPONSE_TO},
        {UINT64_MAX, 1, false, RDMAP_REFUSED_RESPONSE_TO},
        {90, 11, true, RDMAP_REFUSED_RESPONSE_LENGTH},
        {60, 40, false, RDMAP_ACCEPTED},
        {60, 39, true, RDMAP_REFUSED_RESPONSE_LAST},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rdmap_arrival a =
            arrival(craft_tagged(RDMAP_READ_RESPONSE, expected.sink_stag, cases[i].to,
                                 cases[i].is_last, NULL, cases[i].len));
        assert_int_equal(rdmap_place_response_early(&f.stream, &a, &expected), cases[i].refusal);
    }
    assert_int_equal(mem_sink_close(f.mem, expected.sink_stag), 0);
}

static void stream_moves_on_by_what_was_held(void **state)
{
    struct place_counts counts = {0};
    counts.n[RDMAP_HELD_SENDS] = 3;
    counts.n[RDMAP_HELD_READ_REQUESTS] = 2;
    counts.n[RDMAP_HELD_ATOMIC_REQUESTS] = 1;
    counts.n[RDMAP_HELD_ATOMIC_RESPONSES] = 4;
    rdmap_rx_advance(&f.stream, &counts, 77);
    assert_int_equal(f.stream.rx[DDP_QN_SEND].msn, 4);
    assert_int_equal(f.stream.rx[DDP_QN_SEND].mo, 77);
    assert_int_equal(f.stream.rx[DDP_QN_READ_REQUEST].msn, 4);
    assert_int_equal(f.stream.rx[DDP_QN_ATOMIC_RESPONSE].msn, 5);
}

static void write_goes_on_where_its_early_octets_end(void **state)
{
    struct place_counts counts = {0};
    f.stream.is_write_open = false;
    f.stream.written_len = 99; // of one that has ended
    counts.n[RDMAP_HELD_WRITE_OCTETS] = 20;
    rdmap_rx_advance(&f.stream, &counts, 0);
    assert_int_equal(f.stream.written_len, 20);
    assert_true(f.stream.is_write_open);
    f.stream.is_write_open = true;
    f.stream.written_len = 10;
    counts.n[RDMAP_HELD_WRITE_OCTETS] = 50;
    rdmap_rx_advance(&f.stream, &counts, 0);
    assert_int_equal(f.stream.written_len, 60);
    counts.n[RDMAP_HELD_SENDS] = 1; // a Send between them: the next Write counts anew
    rdmap_rx_advance(&f.stream, &counts, 0);
    assert_int_equal(f.stream.written_len, 50);
}

int main(void)
{
#define EARLY_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EARLY_TEST(later_messages_and_later_segments_are_let_through),
        EARLY_TEST(message_numbers_wrap),
        EARLY_TEST(what_the_header_tells_is_checked_as_in_order),
        EARLY_TEST(some_messages_are_held_back_as_a_whole),
        EARLY_TEST(only_a_weft_peer_may_end_a_write_early),
        EARLY_TEST(which_messages_may_be_placed_early_is_a_matter_of_their_opcode),
        EARLY_TEST(each_message_is_counted_in_its_class),
        EARLY_TEST(write_is_noted_at_an_stag_that_can_be_taken_back),
        EARLY_TEST(response_may_fill_any_part_of_its_window_but_no_more),
        EARLY_TEST(stream_moves_on_by_what_was_held),
        EARLY_TEST(write_goes_on_where_its_early_octets_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

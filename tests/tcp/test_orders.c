// Every order of eight segments, and every way in which up to four holes lie in a window of
// sixteen: what is delivered after each segment is what a naive receiver would deliver, and each
// hole hands back what was counted in it. Who records holes is told of those that there are.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tcp/receive.h"

enum { LEN = 10, SEGMENTS_MAX = 16, IRS = -25 }; // sequence numbers wrap on the way

// Bit i: segment i.
static struct {
    struct tcp_receive receive;
    struct tcp_counters counters;
    unsigned buffered; // segments that are to be buffered beyond a hole
    unsigned placed, arrived, delivered;
    uint64_t handed;
    bool is_open[SEGMENTS_MAX + 2]; // holes, by number
} r;

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    unsigned first = (unsigned)(offer->position / LEN), count = (unsigned)(answer->len / LEN);
    (void)ctx;
    assert_int_equal(offer->position % LEN, 0);
    assert_int_equal(answer->len % LEN, 0);
    if (offer->order == PLACE_BEYOND_HOLE && (r.buffered >> first & 1) != 0) {
        return PLACE_BUFFER;
    }
    for (unsigned i = first; i < first + count; i++) {
        assert_int_equal(r.placed >> i & 1, 0);
        assert_int_equal(offer->octets.ptr[(i - first) * LEN], i);
        r.placed |= 1U << i;
    }
    if (offer->order == PLACE_BEYOND_HOLE) {
        answer->counts.n[first % PLACE_CLASS_COUNT] = 1U << first; // tells which it was
    } else {
        assert_int_equal(offer->position, r.handed);
        r.handed += answer->len;
    }
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    unsigned all = 0, expected = 0;
    (void)ctx;
    assert_int_equal(position, r.handed);
    for (unsigned i = 0; i < PLACE_CLASS_COUNT; i++) {
        all += counts->n[i];
    }
    for (uint64_t p = position; p < end; p += LEN) {
        expected |= 1U << (p / LEN);
    }
    assert_int_equal(all, expected);
    r.handed = end;
    return true;
}

static bool has_arrived(unsigned i)
{
    return (r.arrived >> i & 1) != 0;
}

// All of it is missing, and what is around it is there.
static void on_hole_opened(void *ctx, uint32_t number, uint64_t position, uint64_t len)
{
    unsigned first = (unsigned)(position / LEN), behind = (unsigned)((position + len) / LEN);
    assert_in_range(number, 0, SEGMENTS_MAX + 1);
    assert_false(r.is_open[number]);
    r.is_open[number] = true;
    assert_true(len > 0);
    assert_true(first == 0 || has_arrived(first - 1));
    assert_true(has_arrived(behind));
    for (unsigned i = first; i < behind; i++) {
        assert_false(has_arrived(i));
    }
}

static void on_hole_closed(void *ctx, uint32_t number, uint64_t len,
                           const struct place_counts *counts)
{
    unsigned held = 0;
    assert_in_range(number, 0, SEGMENTS_MAX + 1);
    assert_true(r.is_open[number]);
    r.is_open[number] = false;
    for (unsigned i = 0; i < PLACE_CLASS_COUNT; i++) {
        held += (unsigned)__builtin_popcount(counts->n[i]);
    }
    assert_true(held == 0 || held * LEN == len); // what was buffered is not counted
}

// As many as there are segments that have come behind one that has not.
static void check_open(void)
{
    unsigned told = 0, there = 0;
    for (unsigned i = 0; i < sizeof r.is_open / sizeof r.is_open[0]; i++) {
        told += r.is_open[i];
    }
    for (unsigned i = 1; i < SEGMENTS_MAX; i++) {
        there += has_arrived(i) && !has_arrived(i - 1);
    }
    assert_int_equal(told, there);
}

static _Alignas(CARVE_ALIGN) uint8_t memory[1 << 16];

static void begin(unsigned buffered)
{
    struct tcp_config config = tcp_config_default;
    config.window_len = config.buffer_len = SEGMENTS_MAX * LEN;
    config.range_max = SEGMENTS_MAX;
    config.place = (struct place_port){.place = on_place,
                                       .on_advance = on_advance,
                                       .on_hole_opened = on_hole_opened,
                                       .on_hole_closed = on_hole_closed};
    memset(&r, 0, sizeof r);
    r.buffered = buffered;
    tcp_receive_init(&r.receive, &config, &r.counters, &(struct carve){.block = memory});
    tcp_receive_begin(&r.receive, (uint32_t)IRS);
    tcp_receive_on_window_sent(&r.receive, config.window_len);
}

static void arrives(unsigned i)
{
    uint8_t octets[LEN] = {(uint8_t)i};
    r.arrived |= 1U << i;
    while ((r.arrived >> r.delivered & 1) != 0) {
        r.delivered++;
    }
    tcp_receive_octets(&r.receive, r.receive.first + i * LEN, span_of(octets, LEN));
    tcp_receive_check(&r.receive);
    assert_int_equal(r.handed, r.delivered * LEN);
    assert_int_equal(r.receive.nxt - r.receive.first, r.delivered * LEN);
    check_open();
}

static void end(unsigned count)
{
    assert_int_equal(r.handed, count * LEN);
    assert_int_equal(r.receive.ranges.count, 0);
    assert_int_equal(r.placed, (1U << count) - 1);
}

static void run_order(const unsigned *order, unsigned count, unsigned buffered)
{
    begin(buffered);
    for (unsigned i = 0; i < count; i++) {
        arrives(order[i]);
    }
    end(count);
}

static unsigned permute(unsigned *order, unsigned from, unsigned count, unsigned buffered)
{
    unsigned runs = 0;
    if (from == count) {
        run_order(order, count, buffered);
        return 1;
    }
    for (unsigned i = from; i < count; i++) {
        unsigned keep = order[from];
        order[from] = order[i];
        order[i] = keep;
        runs += permute(order, from + 1, count, buffered);
        order[i] = order[from];
        order[from] = keep;
    }
    return runs;
}

static void every_order_of_eight_segments(void **state)
{
    static const unsigned buffered[] = {0, 0xff, 0x5a};
    for (unsigned k = 0; k < sizeof buffered / sizeof buffered[0]; k++) {
        unsigned order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        assert_int_equal(permute(order, 0, 8, buffered[k]), 40320);
    }
}

static unsigned hole_count(unsigned arrived)
{
    unsigned holes = 0;
    for (unsigned i = 0; i < SEGMENTS_MAX; i++) {
        bool is_missing = (arrived >> i & 1) == 0, follows = i > 0 && (arrived >> (i - 1) & 1) == 0;
        holes += is_missing && !follows && arrived >> i != 0;
    }
    return holes;
}

// What has arrived lies there in ascending or descending order; then what is missing comes, last or
// first hole first.
static void run_holes(unsigned arrived, unsigned buffered, bool is_up, bool is_fill_up)
{
    begin(buffered);
    for (unsigned k = 0; k < SEGMENTS_MAX; k++) {
        unsigned i = is_up ? k : SEGMENTS_MAX - 1 - k;
        if ((arrived >> i & 1) != 0) {
            arrives(i);
        }
    }
    for (unsigned k = 0; k < SEGMENTS_MAX; k++) {
        unsigned i = is_fill_up ? k : SEGMENTS_MAX - 1 - k;
        if ((arrived >> i & 1) == 0) {
            arrives(i);
        }
    }
    end(SEGMENTS_MAX);
}

static void every_way_in_which_four_holes_lie_among_sixteen_segments(void **state)
{
    unsigned runs = 0;
    for (unsigned arrived = 0; arrived < 1U << SEGMENTS_MAX; arrived++) {
        if (hole_count(arrived) > 4) {
            continue;
        }
        unsigned buffered = arrived * 2654435761U >> 16; // some of them
        run_holes(arrived, runs % 3 == 0 ? 0 : buffered, arrived & 1, arrived >> 1 & 1);
        runs++;
    }
    assert_int_equal(runs, 50643);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_eight_segments),
        cmocka_unit_test(every_way_in_which_four_holes_lie_among_sixteen_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

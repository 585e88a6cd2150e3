// Segments in any order become octets in order, and holes open and close where they do.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "draw/direction.h"

enum { BEGIN = 0xffffff00, LEN = 5000 }; // sequence numbers wrap on the way

static uint8_t stream[LEN], taken[LEN];

static size_t take_all(struct direction *d, size_t at, struct span first)
{
    struct span more;
    memcpy(taken + at, first.ptr, first.len);
    at += first.len;
    while (direction_take(d, &more)) {
        assert_true(at + more.len <= LEN);
        memcpy(taken + at, more.ptr, more.len);
        at += more.len;
    }
    return at;
}

static struct direction_news arrive(struct direction *d, size_t from, size_t to)
{
    struct direction_news news;
    direction_arrive(d, BEGIN + (uint32_t)from, span_of(stream + from, to - from), &news);
    return news;
}

static int setup(void **state)
{
    static struct direction d;
    assert_true(direction_create(&d));
    direction_begin(&d, BEGIN);
    for (size_t i = 0; i < LEN; i++) {
        stream[i] = (uint8_t)(i * 7 + i / 256);
    }
    *state = &d;
    return 0;
}

static int teardown(void **state)
{
    direction_destroy(*state);
    return 0;
}

static void a_hole_opens_and_closes(void **state)
{
    struct direction *d = *state;
    struct direction_news n = arrive(d, 0, 100);
    assert_int_equal(n.arrival, DIRECTION_IN_ORDER);
    n = arrive(d, 300, 400);
    assert_int_equal(n.arrival, DIRECTION_BEYOND);
    assert_int_equal(n.opened_len, 200);
    n = arrive(d, 400, 500);
    assert_int_equal(n.arrival, DIRECTION_BEYOND);
    assert_int_equal(n.opened_len, 0);
    n = arrive(d, 100, 200);
    assert_int_equal(n.closed_count, 0);
    n = arrive(d, 200, 300);
    assert_int_equal(n.arrival, DIRECTION_IN_ORDER);
    assert_int_equal(n.closed_count, 1);
    assert_int_equal(take_all(d, 0, n.octets), 300);
    assert_int_equal(d->next, 500);
}

static void two_holes_are_two(void **state)
{
    struct direction *d = *state;
    assert_int_equal(arrive(d, 200, 300).opened_len, 200);
    assert_int_equal(arrive(d, 400, 500).opened_len, 100);
    struct direction_news n = arrive(d, 300, 400);
    assert_int_equal(n.arrival, DIRECTION_BEYOND);
    assert_int_equal(n.closed_count, 1);
    assert_int_equal(n.closed[0].left, 400);
    n = arrive(d, 0, 200);
    assert_int_equal(n.closed_count, 1);
}

static void what_came_before_is_old(void **state)
{
    struct direction *d = *state;
    arrive(d, 0, 100);
    assert_int_equal(arrive(d, 0, 100).arrival, DIRECTION_OLD);
    arrive(d, 200, 300);
    assert_int_equal(arrive(d, 220, 280).arrival, DIRECTION_OLD);
    struct direction_news n = arrive(d, 50, 150);
    assert_int_equal(n.arrival, DIRECTION_IN_ORDER);
    assert_true(n.has_old);
    assert_int_equal(n.octets.len, 50);
    assert_int_equal(n.position, 100);
}

// A segment that closes a hole may reach further than what came behind it, into the next hole or
// over it.
static void what_lies_beyond_a_closed_hole_is_kept(void **state)
{
    static const struct {
        size_t to, next; // where the segment ends, and how far the stream is whole then
        unsigned closed, ranges;
    } rows[] = {
        {299, 299, 0, 2}, {300, 400, 1, 1}, {350, 400, 1, 1}, {400, 400, 1, 1},
        {450, 450, 1, 1}, {500, 600, 2, 0}, {550, 600, 2, 0}, {700, 700, 2, 0},
    };
    struct direction *d = *state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        direction_begin(d, BEGIN);
        arrive(d, 300, 400);
        arrive(d, 500, 600);
        d->range[0].early = 2;
        d->range[1].early = 3;
        struct direction_news n = arrive(d, 0, rows[i].to);
        assert_int_equal(n.arrival, DIRECTION_IN_ORDER);
        assert_int_equal(n.closed_count, rows[i].closed);
        for (unsigned k = 0; k < n.closed_count; k++) {
            assert_int_equal(n.closed[k].early, 2 + k);
        }
        assert_int_equal(take_all(d, 0, n.octets), rows[i].next);
        assert_int_equal(d->range_count, rows[i].ranges);
        assert_memory_equal(taken, stream, rows[i].next);
    }
}

static void what_is_too_far_away_is_not_kept(void **state)
{
    struct direction *d = *state;
    struct direction_news n;
    direction_arrive(d, BEGIN + DIRECTION_WINDOW_LEN, span_of(stream, 1), &n);
    assert_int_equal(n.arrival, DIRECTION_UNREACHED);
    assert_int_equal(d->range_count, 0);
}

static void any_order_gives_the_stream(void **state)
{
    struct direction *d = *state;
    for (uint64_t seed = 1; seed < 200; seed++) {
        struct prng prng;
        prng_init(&prng, seed);
        direction_begin(d, BEGIN);
        memset(taken, 0, sizeof taken);
        size_t at = 0;
        for (unsigned tries = 0; at < LEN && tries < 100000; tries++) {
            size_t from = prng_below(&prng, LEN), len = 1 + prng_below(&prng, 300);
            struct direction_news n = arrive(d, from, from + len < LEN ? from + len : LEN);
            if (n.arrival == DIRECTION_IN_ORDER) {
                at = take_all(d, at, n.octets);
                assert_int_equal(at, d->next);
            }
        }
        assert_int_equal(at, LEN);
        assert_memory_equal(taken, stream, LEN);
        assert_int_equal(d->range_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_hole_opens_and_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(two_holes_are_two, setup, teardown),
        cmocka_unit_test_setup_teardown(what_came_before_is_old, setup, teardown),
        cmocka_unit_test_setup_teardown(what_lies_beyond_a_closed_hole_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_too_far_away_is_not_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(any_order_gives_the_stream, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

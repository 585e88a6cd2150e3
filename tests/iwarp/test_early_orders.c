// A stream with every kind of message, its segments in every order; and with every choice of up to
// four holes. make soak goes through all of them, make check through some.
#include <stdlib.h>

#include "base/sanitized.h"
#include "tests/iwarp/hole.h"

static bool is_soak(void)
{
    return getenv("WEFT_SOAK") != NULL;
}

// One of so many is run: with a sanitizer, which costs tenfold, fewer.
static unsigned stride(unsigned some, unsigned sanitized)
{
    if (is_soak()) {
        return 1;
    }
    return IS_SANITIZED ? sanitized : some;
}

// Runs go over the plain ledger and over tcp/ in turn; make soak has them all over both.
static bool is_over_tcp;

static unsigned transport_count(void)
{
    return is_soak() ? 2 : 1;
}

static struct hole *open_with_reads(bool markers, uint32_t *ret_sink)
{
    struct hole_options options = {.markers = markers, .tcp = is_over_tcp};
    struct hole *h = hole_open(&options);
    hole_post_receives(h, 6, 300);
    *ret_sink = hole_post_read(h, 1, 200);
    return h;
}

// Eight segments behind the first.
static struct hole *eight(bool markers)
{
    uint32_t sink;
    struct hole *h = open_with_reads(markers, &sink);
    uint32_t window = hole_bind_window(h);
    hole_write(h, window, hole_write_to(0), 80);
    hole_send(h, &(struct hole_send){.len = 150, .invalidates = true, .stag = window});
    hole_read_request(h, 300, 50);
    hole_read_response(h, sink, 200);
    hole_fetch_add(h, 0);
    hole_send(h, &(struct hole_send){.len = 20, .solicited = true});
    assert_int_equal(h->count, 1 + 8);
    return h;
}

static void run_order(const unsigned *order, bool markers)
{
    for (unsigned i = 0; i < transport_count(); i++) {
        is_over_tcp = !is_over_tcp;
        struct hole *h = eight(markers);
        hole_begin(h);
        for (unsigned k = 0; k < 8; k++) {
            hole_arrive(h, order[k], order[k] + 1);
        }
        assert_int_equal(h->placer.counters.early_buffered, 0);
        hole_close(h);
    }
}

// Heap's algorithm; `*left` counts down to the next order that is run.
static void permute(unsigned *order, unsigned n, bool markers, unsigned *left, unsigned *ret_count)
{
    if (n == 1) {
        if (--*left == 0) {
            *left = stride(11, 101);
            run_order(order, markers);
            ++*ret_count;
        }
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        permute(order, n - 1, markers, left, ret_count);
        unsigned other = n % 2 == 0 ? i : 0, last = order[n - 1];
        order[n - 1] = order[other];
        order[other] = last;
    }
}

static void every_order_of_eight_segments_delivers_the_same(void **state)
{
    for (int markers = 0; markers < 2; markers++) {
        unsigned order[] = {1, 2, 3, 4, 5, 6, 7, 8}, left = 1, count = 0;
        permute(order, 8, markers, &left, &count);
        print_message("%u orders of 8 segments, %s markers\n", count, markers ? "with" : "without");
    }
}

// Sixteen segments behind the first.
static struct hole *sixteen(bool markers)
{
    uint32_t sink;
    struct hole *h = open_with_reads(markers, &sink);
    hole_send(h, &(struct hole_send){.len = 250});
    hole_write(h, h->early.stag, hole_write_to(0), 150);
    hole_immediate(h, 150, true);
    hole_read_request(h, 0, 30);
    hole_read_response(h, sink, 200);
    hole_fetch_add(h, 1);
    hole_send(h, &(struct hole_send){.len = 20});
    hole_read_request(h, 400, 100);
    hole_write(h, h->early.stag, hole_write_to(600), 200);
    hole_send(h, &(struct hole_send){.len = 160});
    assert_int_equal(h->count, 1 + 16);
    return h;
}

// All but the holes arrive, then the holes are filled, forwards or backwards.
static void run_holes(uint32_t holes, bool markers, bool backwards)
{
    struct hole *h = sixteen(markers);
    hole_begin(h);
    for (unsigned i = 0; i < 16; i++) {
        if ((holes & 1U << i) == 0) {
            hole_arrive(h, 1 + i, 2 + i);
        }
    }
    for (unsigned k = 0; k < 16; k++) {
        unsigned i = backwards ? 15 - k : k;
        if ((holes & 1U << i) != 0) {
            hole_arrive(h, 1 + i, 2 + i);
        }
    }
    hole_close(h);
}

static void every_choice_of_four_holes_in_sixteen_segments_delivers_the_same(void **state)
{
    unsigned count = 0, left = 1;
    for (uint32_t holes = 0; holes < 1U << 16; holes++) {
        if (__builtin_popcount(holes) > 4 || --left != 0) {
            continue;
        }
        left = stride(3, 19);
        for (unsigned way = 0; way < 4 * transport_count(); way++) {
            is_over_tcp = !is_over_tcp;
            run_holes(holes, way & 1, way & 2);
            count++;
        }
        is_over_tcp = !is_over_tcp; // the other way round for the next choice
    }
    print_message("%u runs with up to four holes\n", count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_eight_segments_delivers_the_same),
        cmocka_unit_test(every_choice_of_four_holes_in_sixteen_segments_delivers_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

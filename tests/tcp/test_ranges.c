// The array of ranges against a naive model, and what a search in it costs.
#include "base/prng.h"
#include "tcp/ranges.h"
#include "tests/seeds.h"

enum { SPACE = 200, BASE = 1000 };

static _Alignas(CARVE_ALIGN) uint8_t memory[1 << 16];

// Every octet: 0 missing, 1 placed, 2 buffered; and what it holds back.
struct model {
    uint8_t kind[SPACE];
    uint32_t held[SPACE];
};

static void expect_same(const struct tcp_ranges *r, const struct model *m)
{
    unsigned i = 0;
    tcp_ranges_check(r);
    for (unsigned at = 0; at < SPACE;) {
        if (m->kind[at] == 0) {
            at++;
            continue;
        }
        unsigned end = at, held = 0;
        while (end < SPACE && m->kind[end] == m->kind[at]) {
            held += m->held[end++];
        }
        assert_true(i < r->count);
        assert_int_equal(r->range[i].left, BASE + at);
        assert_int_equal(r->range[i].right, BASE + end);
        assert_int_equal(r->range[i].is_buffered, m->kind[at] == 2);
        assert_int_equal(tcp_ranges_held(r, i)->n[3], held);
        i++;
        at = end;
    }
    assert_int_equal(i, r->count);
}

static void add_somewhere(struct prng *prng, struct tcp_ranges *r, struct model *m)
{
    unsigned left = prng_below(prng, SPACE), end = left;
    unsigned want = 1 + prng_below(prng, 12);
    bool is_buffered = prng_below(prng, 3) == 0;
    struct place_counts held = {.n = {[3] = 1 + prng_below(prng, 5)}};
    while (end < SPACE && end < left + want && m->kind[end] == 0) {
        m->kind[end++] = is_buffered ? 2 : 1;
    }
    if (end > left) {
        m->held[left] = held.n[3];
        unsigned index = tcp_ranges_find(r, BASE + left);
        tcp_ranges_add(r, &index, BASE + left, BASE + end, is_buffered, &held);
        assert_true(r->range[index].left <= BASE + left && BASE + end <= r->range[index].right);
    }
}

static void trim_front(struct prng *prng, struct tcp_ranges *r, struct model *m)
{
    if (r->count == 0) {
        return;
    }
    const struct tcp_range *first = &r->range[0];
    unsigned left = (unsigned)(first->left - BASE), right = (unsigned)(first->right - BASE);
    // A part of a range keeps what all of it holds back: only buffered ones are trimmed in part.
    unsigned to = first->is_buffered ? left + prng_below(prng, right - left + 1) : right;
    uint32_t held = 0;
    for (unsigned at = left; at < to; at++) {
        held += m->held[at];
        m->kind[at] = 0;
        m->held[at] = 0;
    }
    if (to < right) {
        m->held[to] += held;
    }
    tcp_ranges_trim_first(r, BASE + to);
}

static void run(uint64_t seed)
{
    struct prng prng;
    struct tcp_ranges r;
    struct model m = {{0}, {0}};
    uint64_t comparisons = 0;
    prng_init(&prng, seed);
    tcp_ranges_init(&r, SPACE, &comparisons, &(struct carve){.block = memory});
    for (unsigned step = 0; step < 300; step++) {
        if (prng_below(&prng, 5) == 0) {
            trim_front(&prng, &r, &m);
        } else {
            add_somewhere(&prng, &r, &m);
        }
        expect_same(&r, &m);
        unsigned at = prng_below(&prng, SPACE);
        unsigned i = tcp_ranges_find(&r, BASE + at);
        assert_true(i == r.count || r.range[i].right > BASE + at);
        assert_true(i == 0 || r.range[i - 1].right <= BASE + at);
    }
}

static void every_step_leaves_what_the_model_says(void **state)
{
    seeds_each(state);
}

static uint64_t comparisons_among(unsigned count, tcp_seq seq)
{
    static const struct place_counts none;
    struct tcp_ranges r;
    uint64_t comparisons = 0;
    tcp_ranges_init(&r, 512, &comparisons, &(struct carve){.block = memory});
    for (unsigned i = 0, at = 0; i < count; at = ++i) {
        tcp_ranges_add(&r, &at, BASE + 10 * i, BASE + 10 * i + 5, false, &none);
    }
    comparisons = 0;
    tcp_ranges_find(&r, seq);
    return comparisons;
}

static void search_among_256_takes_nine_comparisons_at_most(void **state)
{
    for (tcp_seq seq = BASE; seq < BASE + 2600; seq++) {
        assert_true(comparisons_among(256, seq) <= 9);
    }
    assert_int_equal(comparisons_among(1, BASE), 1);
}

static void counters_add_up_when_ranges_join(void **state)
{
    struct tcp_ranges r;
    uint64_t comparisons = 0;
    struct place_counts a = {{1, 0, 5}}, b = {{0, 2, 5}}, c = {{1, 1, 1}};
    tcp_ranges_init(&r, 4, &comparisons, &(struct carve){.block = memory});
    assert_int_equal(tcp_ranges_add(&r, &(unsigned){0}, 10, 20, false, &a), TCP_RANGES_OPENED);
    assert_int_equal(tcp_ranges_add(&r, &(unsigned){1}, 30, 40, false, &b), TCP_RANGES_OPENED);
    assert_int_equal(tcp_ranges_add(&r, &(unsigned){1}, 20, 30, false, &c), TCP_RANGES_JOINED);
    assert_int_equal(r.count, 1);
    assert_int_equal(tcp_ranges_held(&r, 0)->n[0], 2);
    assert_int_equal(tcp_ranges_held(&r, 0)->n[1], 3);
    assert_int_equal(tcp_ranges_held(&r, 0)->n[2], 11);
}

int main(void)
{
    struct seeds seeds = {.run = run, .count = 300};
    const struct CMUnitTest tests[] = {
        {.name = "every_step_leaves_what_the_model_says",
         .test_func = every_step_leaves_what_the_model_says,
         .teardown_func = seeds_name_the_failed,
         .initial_state = &seeds},
        cmocka_unit_test(search_among_256_takes_nine_comparisons_at_most),
        cmocka_unit_test(counters_add_up_when_ranges_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "ddp/coverage.h"

static struct ddp_coverage c;

static void add(uint64_t key, uint32_t from, uint32_t to)
{
    assert_true(ddp_coverage_add(&c, key, from, to));
    assert_true(ddp_coverage_check(&c));
}

static int setup(void **state)
{
    ddp_coverage_init(&c);
    return 0;
}

static void pieces_that_touch_become_one(void **state)
{
    add(7, 10, 20);
    add(7, 30, 40);
    assert_int_equal(c.count, 2);
    assert_false(ddp_coverage_holds(&c, 7, 10, 40));
    add(7, 20, 30);
    assert_int_equal(c.count, 1);
    assert_true(ddp_coverage_holds(&c, 7, 10, 40));
    assert_false(ddp_coverage_holds(&c, 7, 9, 40));
    assert_false(ddp_coverage_holds(&c, 7, 10, 41));
}

static void messages_are_told_apart(void **state)
{
    add(7, 10, 20);
    add(8, 20, 30);
    assert_int_equal(c.count, 2);
    assert_false(ddp_coverage_overlaps(&c, 8, 10, 20));
    assert_true(ddp_coverage_knows(&c, 8));
    assert_false(ddp_coverage_knows(&c, 9));
}

static void overlaps_are_seen_octet_by_octet(void **state)
{
    add(7, 10, 20);
    assert_false(ddp_coverage_overlaps(&c, 7, 0, 10));
    assert_true(ddp_coverage_overlaps(&c, 7, 0, 11));
    assert_true(ddp_coverage_overlaps(&c, 7, 19, 30));
    assert_false(ddp_coverage_overlaps(&c, 7, 20, 30));
    assert_false(ddp_coverage_overlaps(&c, 7, 15, 15));
}

static void delivered_octets_are_trimmed(void **state)
{
    add(7, 10, 20);
    add(7, 30, 40);
    add(8, 0, 5);
    ddp_coverage_trim(&c, 7, 15);
    assert_true(ddp_coverage_holds(&c, 7, 15, 20));
    assert_false(ddp_coverage_overlaps(&c, 7, 10, 15));
    ddp_coverage_trim(&c, 7, 40);
    assert_false(ddp_coverage_knows(&c, 7));
    assert_true(ddp_coverage_holds(&c, 8, 0, 5));
}

static void nothing_takes_no_room(void **state)
{
    add(7, 10, 10);
    assert_int_equal(c.count, 0);
    assert_true(ddp_coverage_holds(&c, 7, 10, 10));
}

static void full_table_still_takes_what_touches(void **state)
{
    for (uint32_t i = 0; i < DDP_COVERAGE_MAX; i++) {
        add(7, 10 * i, 10 * i + 5);
    }
    assert_false(ddp_coverage_add(&c, 7, 10 * DDP_COVERAGE_MAX, 10 * DDP_COVERAGE_MAX + 1));
    add(7, 5, 10);
    assert_int_equal(c.count, DDP_COVERAGE_MAX - 1);
}

// Against a table with a bit per octet.
static void random_messages_match_a_plain_model(void **state)
{
    enum { KEYS = 4, LEN = 64 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint8_t model[KEYS][LEN] = {0};
        struct prng prng;
        prng_init(&prng, seed);
        ddp_coverage_init(&c);
        for (unsigned i = 0; i < 200; i++) {
            uint32_t key = prng_below(&prng, KEYS), from = prng_below(&prng, LEN);
            uint32_t to = from + prng_below(&prng, LEN - from + 1);
            bool overlaps = memchr(model[key] + from, 1, to - from) != NULL;
            bool holds = memchr(model[key] + from, 0, to - from) == NULL;
            assert_int_equal(ddp_coverage_overlaps(&c, key, from, to), overlaps);
            assert_int_equal(ddp_coverage_holds(&c, key, from, to), holds);
            if (prng_below(&prng, 8) == 0) {
                memset(model[key], 0, to);
                ddp_coverage_trim(&c, key, to);
            } else if (!overlaps) {
                memset(model[key] + from, 1, to - from);
                add(key, from, to);
            }
            assert_int_equal(ddp_coverage_knows(&c, key), memchr(model[key], 1, LEN) != NULL);
        }
    }
}

// What every other test here relies on.
static void a_table_that_is_broken_is_seen(void **state)
{
    static const struct ddp_cover broken[][2] = {
        {{1, 0, 10}, {1, 10, 20}}, // touch: they would have been joined
        {{1, 0, 10}, {1, 5, 20}},  // overlap
        {{1, 5, 5}, {1, 10, 20}},  // empty
        {{1, 0, 10}, {2, 9, 8}},   // ends before it begins
        {{2, 0, 10}, {1, 20, 30}}, // out of order
    };
    struct ddp_coverage table;
    ddp_coverage_init(&table);
    table.count = 2;
    for (unsigned i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        memcpy(table.entry, broken[i], sizeof broken[i]);
        assert_false(ddp_coverage_check(&table));
    }
    memcpy(table.entry, (struct ddp_cover[2]){{1, 0, 10}, {2, 0, 10}}, sizeof broken[0]);
    assert_true(ddp_coverage_check(&table));
    table.count = DDP_COVERAGE_MAX + 1;
    assert_false(ddp_coverage_check(&table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pieces_that_touch_become_one, setup),
        cmocka_unit_test_setup(messages_are_told_apart, setup),
        cmocka_unit_test_setup(overlaps_are_seen_octet_by_octet, setup),
        cmocka_unit_test_setup(delivered_octets_are_trimmed, setup),
        cmocka_unit_test_setup(nothing_takes_no_room, setup),
        cmocka_unit_test_setup(full_table_still_takes_what_touches, setup),
        cmocka_unit_test(a_table_that_is_broken_is_seen),
        cmocka_unit_test(random_messages_match_a_plain_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

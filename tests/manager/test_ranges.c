#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/prng.h"
#include "manager/ranges.h"

enum { RANGES = 16 };

static void add(struct ranges *ranges, uint32_t key, uint64_t start, uint64_t len)
{
    ranges_add(ranges, (struct range){.key = key, .start = start, .len = len});
}

static const struct range *overlap_of_two(struct range a, struct range b)
{
    static struct range found;
    struct ranges ranges;
    ranges_init(&ranges);
    assert_true(ranges_resize(&ranges, 2));
    ranges_add(&ranges, a);
    ranges_add(&ranges, b);
    const struct range *overlap = ranges_find_overlap(&ranges);
    if (overlap != NULL) {
        found = *overlap;
    }
    ranges_fini(&ranges);
    return overlap != NULL ? &found : NULL;
}

static void ranges_that_touch_do_not_overlap(void **state)
{
    struct range low = {.start = 10, .len = 5}, high = {.start = 15, .len = 5};
    assert_null(overlap_of_two(low, high));
    assert_null(overlap_of_two(high, low));
}

static void one_octet_in_common_is_an_overlap(void **state)
{
    struct range low = {.start = 10, .len = 6}, high = {.start = 15, .len = 5};
    assert_int_equal(overlap_of_two(high, low)->start, 15);
}

static void ranges_of_different_keys_do_not_overlap(void **state)
{
    struct range a = {.start = 10, .len = 5, .key = 1}, b = {.start = 10, .len = 5, .key = 2};
    assert_null(overlap_of_two(a, b));
}

static void a_range_at_the_end_of_the_address_space_is_behind_others(void **state)
{
    struct range last = {.start = UINT64_MAX - 5, .len = 5}, first = {.start = 0, .len = 5};
    assert_null(overlap_of_two(last, first));
}

// Against a look at every pair.
static void any_order_and_any_place(void **state)
{
    struct ranges ranges;
    ranges_init(&ranges);
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct prng prng;
        struct range drawn[RANGES];
        bool overlaps = false;
        prng_init(&prng, seed);
        unsigned count = prng_below(&prng, RANGES + 1);
        assert_true(ranges_resize(&ranges, count));
        for (unsigned i = 0; i < count; i++) {
            drawn[i] = (struct range){.start = prng_below(&prng, 100),
                                      .len = 1 + prng_below(&prng, 6),
                                      .key = prng_below(&prng, 2)};
            add(&ranges, drawn[i].key, drawn[i].start, drawn[i].len);
            for (unsigned j = 0; j < i; j++) {
                overlaps |= drawn[i].key == drawn[j].key &&
                            drawn[i].start < drawn[j].start + drawn[j].len &&
                            drawn[j].start < drawn[i].start + drawn[i].len;
            }
        }
        if ((ranges_find_overlap(&ranges) != NULL) != overlaps) {
            fail_msg("seed %llu", (unsigned long long)seed);
        }
    }
    ranges_fini(&ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_that_touch_do_not_overlap),
        cmocka_unit_test(one_octet_in_common_is_an_overlap),
        cmocka_unit_test(ranges_of_different_keys_do_not_overlap),
        cmocka_unit_test(a_range_at_the_end_of_the_address_space_is_behind_others),
        cmocka_unit_test(any_order_and_any_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The generator gives the numbers of SplitMix64, so that a seed means the same everywhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/prng.h"

static void numbers_are_those_of_splitmix64(void **state)
{
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    struct prng p;
    prng_init(&p, 1234567);
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_true(prng_next(&p) == expected[i]);
    }
}

static void bounded_numbers_reach_all_below_and_no_other(void **state)
{
    struct prng p;
    unsigned seen[10] = {0};
    prng_init(&p, 1);
    for (unsigned i = 0; i < 1000; i++) {
        uint32_t number = prng_below(&p, 10);
        assert_true(number < 10);
        seen[number]++;
    }
    for (unsigned i = 0; i < 10; i++) {
        assert_true(seen[i] > 0);
    }
    assert_int_equal(prng_below(&p, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_splitmix64),
        cmocka_unit_test(bounded_numbers_reach_all_below_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The order in which numbers of queue pairs are given away.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rnic/qp/number.h"

enum { FIRST = 2, COUNT = 65534 };

static void each_number_comes_once_before_any_comes_again(void **state)
{
    static bool seen[FIRST + COUNT];
    struct qp_numbers numbers = {.first = FIRST, .count = COUNT, .is_shuffled = true, .key = {1}};
    uint32_t given = 0;
    memset(seen, 0, sizeof seen);
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t num = qp_number_next(&numbers);
        assert_in_range(num, FIRST, FIRST + COUNT - 1);
        assert_false(seen[num]);
        seen[num] = true;
        given++;
    }
    assert_int_equal(given, COUNT);
}

static void another_key_gives_another_order(void **state)
{
    struct qp_numbers one = {.first = FIRST, .count = COUNT, .is_shuffled = true, .key = {1}};
    struct qp_numbers other = {.first = FIRST, .count = COUNT, .is_shuffled = true, .key = {2}};
    unsigned same = 0;
    for (unsigned i = 0; i < 1000; i++) {
        same += qp_number_next(&one) == qp_number_next(&other);
    }
    assert_true(same < 10);
}

static void numbers_that_are_not_shuffled_go_up_and_around(void **state)
{
    struct qp_numbers numbers = {.first = 10, .count = 3, .next = 1};
    const uint32_t expected[] = {11, 12, 10, 11};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(qp_number_next(&numbers), expected[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_comes_once_before_any_comes_again),
        cmocka_unit_test(another_key_gives_another_order),
        cmocka_unit_test(numbers_that_are_not_shuffled_go_up_and_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

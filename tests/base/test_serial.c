// Serial numbers compare around the end of their 32 bits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/serial.h"

static void order_is_that_of_the_shorter_way_round(void **state)
{
    static const uint32_t starts[] = {0, 1, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    static const uint32_t ways[] = {1, 2, 1000, 0x7ffffffe, 0x7fffffff};
    for (unsigned i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        for (unsigned k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            uint32_t a = starts[i], b = a + ways[k];
            assert_true(serial_before(a, b) && serial_after(b, a));
            assert_false(serial_before(b, a) || serial_after(a, b));
            assert_int_equal(serial_diff(b, a), ways[k]);
            assert_int_equal(serial_diff(a, b), -(int64_t)ways[k]);
        }
    }
}

static void number_is_neither_before_nor_after_itself(void **state)
{
    assert_false(serial_before(7, 7) || serial_after(7, 7));
    assert_int_equal(serial_diff(UINT32_MAX, UINT32_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_the_shorter_way_round),
        cmocka_unit_test(number_is_neither_before_nor_after_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

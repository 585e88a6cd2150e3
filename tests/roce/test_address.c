// The source port of datagrams.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/address.h"

static void a_flow_label_is_folded_into_the_source_port(void **state)
{
    assert_int_equal(roce_source_port(0x00001, 5, 6), 0xc001);
    assert_int_equal(roce_source_port(0x12345, 5, 6), 0xc000 | (0x2345 ^ 0x04));
    assert_int_equal(roce_source_port(0xfffff, 5, 6), 0xc000 | (0x3fff ^ 0x3f));
}

static void without_a_label_both_numbers_say_it(void **state)
{
    assert_int_equal(roce_source_port(0, 3, 5), 0xc000 | 15);
    // 0xffffff squared: 0xfffffe000001, folded at 20 and at 40 bits
    uint64_t v = 0xfffffe000001;
    v ^= v >> 20;
    v ^= v >> 40;
    uint32_t label = v & 0xfffff;
    assert_int_equal(roce_source_port(0, 0xffffff, 0xffffff),
                     0xc000 | ((label & 0x3fff) ^ label >> 14));
}

static void bits_beyond_a_label_do_not_count(void **state)
{
    assert_int_equal(roce_source_port(0xfff12345, 5, 6), roce_source_port(0x12345, 5, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flow_label_is_folded_into_the_source_port),
        cmocka_unit_test(without_a_label_both_numbers_say_it),
        cmocka_unit_test(bits_beyond_a_label_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fnv.h"

// Names and numbers that others keep are made of it: vectors of the FNV draft (appendix C).
static void texts_have_the_numbers_that_all_others_give_them(void **state)
{
    assert_int_equal(fnv_text(FNV_START, ""), UINT64_C(0xcbf29ce484222325));
    assert_int_equal(fnv_text(FNV_START, "a"), UINT64_C(0xaf63dc4c8601ec8c));
    assert_int_equal(fnv_text(FNV_START, "foobar"), UINT64_C(0x85944171f73967e8));
}

static void text_in_parts_has_the_number_of_the_whole(void **state)
{
    assert_int_equal(fnv_text(fnv_text(FNV_START, "foo"), "bar"), fnv_text(FNV_START, "foobar"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_numbers_that_all_others_give_them),
        cmocka_unit_test(text_in_parts_has_the_number_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

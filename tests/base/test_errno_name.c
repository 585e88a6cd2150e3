#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/errno_name.h"

// glibc since 2.32, which has the names that its own headers define.
static void each_number_has_the_name_that_glibc_gives_it(void **state)
{
    for (int error = 1; error < 200; error++) {
        const char *known = strerrorname_np(error);
        assert_string_equal(errno_name(error), known != NULL ? known : "unknown");
    }
}

static void what_is_no_error_is_unknown(void **state)
{
    static const int others[] = {INT32_MIN, -1, 0, INT32_MAX};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_string_equal(errno_name(others[i]), "unknown");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_has_the_name_that_glibc_gives_it),
        cmocka_unit_test(what_is_no_error_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

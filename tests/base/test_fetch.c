// To ask for memory in advance changes nothing, wherever it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fetch.h"

static void what_is_no_memory_may_be_asked_for(void **state)
{
    fetch_ahead(NULL, 10000);
    fetch_ahead((const void *)(UINTPTR_MAX - 1), 10000);
}

static void octets_stay_as_they_are(void **state)
{
    uint8_t octets[3] = {1, 2, 3};
    fetch_ahead(octets, sizeof octets);
    fetch_ahead(octets, 0);
    assert_int_equal(octets[0] + octets[1] + octets[2], 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_memory_may_be_asked_for),
        cmocka_unit_test(octets_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Who connects, listens and ends in a process that has closed its standard descriptors.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/daemon.h"
#include "tests/verbs/roce.h"

static int daemon_run(void)
{
    struct loopback l;
    daemon_begin();
    loopback_open(&l);
    const int during = standard_in_use();
    loopback_close(&l);
    return during != 0 ? during : standard_in_use();
}

static int status_over(const char *wire, const char *link)
{
    setenv("WEFT_WIRE", wire, 1);
    setenv("WEFT_LINK", link, 1);
    return daemon_status("run");
}

static void test_no_descriptor_of_iwarp_has_a_standard_number(void **state)
{
    assert_int_equal(status_over("iwarp", "socket"), 0);
    assert_int_equal(status_over("iwarp", "udp"), 0);
}

static void test_no_descriptor_of_roce_has_a_standard_number(void **state)
{
    assert_int_equal(status_over("roce", "socket"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptor_of_iwarp_has_a_standard_number),
        cmocka_unit_test(test_no_descriptor_of_roce_has_a_standard_number),
    };
    if (argc == 2) {
        return daemon_run();
    }
    roce_port_of_own();
    return cmocka_run_group_tests_name("cm/daemon", tests, NULL, NULL);
}

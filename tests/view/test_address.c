// What is asked about this host's interfaces.
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "view/address.h"

enum { OTHER_MTU = 4200 };

static void an_interface_that_is_not_there_has_no_mtu(void **state)
{
    assert_int_equal(view_interface_mtu("no-such-one"), 0);
}

// /sys goes on showing the namespace that it was mounted in.
static void the_mtu_is_that_of_the_callers_network_namespace(void **state)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_mtu = OTHER_MTU};
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        skip();
    }
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(fd, SIOCSIFMTU, &request), 0);
    close(fd);
    assert_int_equal(view_interface_mtu("lo"), OTHER_MTU);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interface_that_is_not_there_has_no_mtu),
        cmocka_unit_test(the_mtu_is_that_of_the_callers_network_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

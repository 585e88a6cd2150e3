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

#include "tests/own_network.h"
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

static bool is_listed(const struct in6_addr *addr)
{
    struct view_address all[VIEW_ADDRESS_MAX];
    const unsigned count = view_addresses_find(identity_of(DEVICE_WIRE_ROCE), all);
    for (unsigned i = 0; i < count; i++) {
        if (memcmp(&all[i].addr, addr, sizeof *addr) == 0) {
            return true;
        }
    }
    return false;
}

// The kernel asks for a second whether anybody on the cable has it.
static void an_address_that_others_may_have_is_none_yet(void **state)
{
    static const struct in6_addr addr = {.s6_addr = {0x20, 1, 0xd, 0xb8, [15] = 5}};
    own_network_skip(own_network_enter());
    if (!own_network_ips("link add one type veth peer name two\nlink set two up\n"
                         "link set one up\naddress add 2001:db8::5/64 dev one\n")) {
        own_network_skip("no cable between interfaces, or no IPv6");
    }
    assert_false(is_listed(&addr));
    for (unsigned i = 0; i < 1000 && !is_listed(&addr); i++) {
        usleep(10000);
    }
    assert_true(is_listed(&addr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interface_that_is_not_there_has_no_mtu),
        cmocka_unit_test(an_address_that_others_may_have_is_none_yet),
        cmocka_unit_test(the_mtu_is_that_of_the_callers_network_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

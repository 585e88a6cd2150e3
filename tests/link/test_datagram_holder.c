// How many sockets an address has, as the system lists them, while others open and close theirs.
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/datagram/door.h"
#include "link/datagram/holder.h"
#include "tests/own_port.h"

enum { OURS = 20, THEIRS = 100, LOOKS = 2000 };

static const struct in6_addr ipv4 = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
static const struct in6_addr other = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 2}};
static const struct in6_addr ipv6 = IN6ADDR_LOOPBACK_INIT;
static bool lacks_netlink; // so /proc/net/udp is read

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (lacks_netlink && number == SYS_socket && a == AF_NETLINK) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

static int bound(const struct in6_addr *addr, uint16_t port)
{
    struct sockaddr_storage name;
    const int fd = datagram_socket(addr), on = 1;
    const socklen_t len = datagram_sockaddr(addr, 0, port, &name);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, len), 0);
    return fd;
}

// A process whose sockets come and go, at all places of the system's table.
static pid_t others_begin(void)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child != 0) {
        return child;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int fds[THEIRS];
        for (unsigned i = 0; i < THEIRS; i++) {
            fds[i] = bound(&other, 0);
        }
        for (unsigned i = 0; i < THEIRS; i++) {
            close(fds[i]);
        }
    }
}

static void all_are_counted_at(const struct in6_addr *addr)
{
    const uint16_t port = own_port();
    int fds[OURS];
    for (unsigned i = 0; i < OURS; i++) {
        fds[i] = bound(addr, port);
    }
    const pid_t others = others_begin();
    for (unsigned i = 0; i < LOOKS; i++) {
        assert_int_equal(datagram_port_sockets(addr, port), OURS);
    }
    kill(others, SIGKILL);
    assert_int_equal(waitpid(others, NULL, 0), others);
    for (unsigned i = 0; i < OURS; i++) {
        close(fds[i]);
    }
    assert_int_equal(datagram_port_sockets(addr, port), 0);
}

static void sockets_are_counted_while_others_come_and_go(void **state)
{
    all_are_counted_at(&ipv4);
    all_are_counted_at(&ipv6);
}

static void those_of_another_address_or_port_are_not(void **state)
{
    const uint16_t port = own_port();
    const int fds[] = {bound(&ipv4, port), bound(&other, port), bound(&ipv6, port),
                       bound(&ipv4, 0)};
    for (unsigned i = 0; i < 2; i++) {
        lacks_netlink = i == 1;
        assert_int_equal(datagram_port_sockets(&ipv4, port), 1);
        assert_int_equal(datagram_port_sockets(&ipv6, port), 1);
    }
    lacks_netlink = false;
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_are_counted_while_others_come_and_go),
        cmocka_unit_test(those_of_another_address_or_port_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

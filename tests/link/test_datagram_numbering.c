// How the kernel of this machine numbers packets, and what is seen of sockets that it numbers
// otherwise.
#include <netinet/in.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/datagram/numbering.h"

static int sender(int discover)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover), 0);
    return fd;
}

static void sockets_of_the_link_are_numbered_as_the_icrc_needs_it(void **state)
{
    assert_int_equal(datagram_numbering_find(), DATAGRAM_NUMBERED);
}

// What may be cut into fragments has a number of its own.
static void socket_that_is_numbered_otherwise_is_found_out(void **state)
{
    int fd = sender(IP_PMTUDISC_DONT), burn = sender(IP_PMTUDISC_DONT);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (unsigned i = 0; i < 3; i++) { // whatever the counter is, it is not 0 for all
        sendto(burn, &i, sizeof i, 0, (struct sockaddr *)&to, sizeof to);
    }
    enum datagram_numbering first = datagram_numbering_of(fd), second = datagram_numbering_of(fd);
    assert_true(first == DATAGRAM_NUMBERED_OTHERWISE || second == DATAGRAM_NUMBERED_OTHERWISE);
    close(burn);
    close(fd);
}

static void socket_that_is_none_is_not_known(void **state)
{
    assert_int_equal(datagram_numbering_of(-1), DATAGRAM_NUMBERING_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_of_the_link_are_numbered_as_the_icrc_needs_it),
        cmocka_unit_test(socket_that_is_numbered_otherwise_is_found_out),
        cmocka_unit_test(socket_that_is_none_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Whoever sends nonsense faster than it is read keeps a receiver from nothing else: one call reads
// so much of it, and no more.
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/port_datagram.h"
#include "link/datagram/udp.h"
#include "tests/own_port.h"
#include "wire/bth.h"

enum { FLOOD = 200, BAD_LEN = 17, WAIT_NS = 10 * NS_PER_MS };

static struct datagram_link *receiver;
static uint16_t port;

static int begin(void **state)
{
    port = own_port();
    const struct datagram_udp_config config = {.port = port};
    assert_int_equal(datagram_udp_create(&config, &receiver), 0);
    return datagram_open(receiver, &in6addr_loopback, 0);
}

static int end(void **state)
{
    datagram_destroy(receiver);
    return 0;
}

static void count_bad_lengths(void *ctx, const char *name, uint64_t value)
{
    if (strcmp(name, "bad_lengths") == 0) {
        *(uint64_t *)ctx = value;
    }
}

static uint64_t bad_lengths(void)
{
    uint64_t count = 0;
    datagram_counters(receiver, count_bad_lengths, &count);
    return count;
}

// Each for a queue pair of the receiver's, and of a length that is not of whole words.
static void flood(void)
{
    const struct sockaddr_in6 to = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    uint8_t packet[BAD_LEN] = {0};
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    put_be32(packet + BTH_OFF_DEST_QP - 1, receiver->qp_num_first);
    for (unsigned i = 0; i < FLOOD; i++) {
        assert_int_equal(
            sendto(fd, packet, sizeof packet, 0, (const struct sockaddr *)&to, sizeof to),
            sizeof packet);
    }
    close(fd);
}

static void flood_of_nonsense_is_read_by_and_by(void **state)
{
    struct datagram_rx rx;
    flood();
    while ((datagram_poll(receiver, 0) & DATAGRAM_READY_IN) == 0) {
        datagram_wait(receiver, WAIT_NS);
    }
    assert_int_equal(datagram_receive(receiver, &rx, 1, 0), 0);
    assert_in_range(bad_lengths(), 1, FLOOD - 1);
    assert_int_equal(datagram_next_deadline(receiver), 0); // the rest is there
    while ((datagram_poll(receiver, 0) & DATAGRAM_READY_IN) != 0) {
        assert_int_equal(datagram_receive(receiver, &rx, 1, 0), 0);
    }
    assert_int_equal(bad_lengths(), FLOOD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(flood_of_nonsense_is_read_by_and_by, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

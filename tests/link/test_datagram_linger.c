// Where and for how long a link over UDP sockets looks, by a clock that goes on by one at each look
// before a sleep.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "link/datagram/udp.h"
#include "tests/own_port.h"
#include "wire/bth.h"

enum { LINGER = 5 };

static const struct in6_addr here = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
static struct datagram_link *the_link;
static unsigned looks;

static instant_ns clock_of_looks(void *ctx)
{
    return looks++;
}

static int begin(void **state)
{
    const struct datagram_udp_config config = {
        .port = own_port(),
        .linger_ns = LINGER,
        .clock = clock_of_looks,
    };
    assert_int_equal(datagram_udp_create(&config, &the_link), 0);
    assert_int_equal(datagram_open(the_link, &here, 0), 0);
    return 0;
}

static int end(void **state)
{
    datagram_destroy(the_link);
    return 0;
}

static unsigned looks_of_a_wait(void)
{
    looks = 0;
    datagram_wait(the_link, NS_PER_MS);
    return looks;
}

static void send_to(const struct in6_addr *addr)
{
    const struct datagram_path path = {.local = here, .remote = *addr};
    uint8_t head[BTH_LEN] = {0x64};
    put_be32(head + BTH_OFF_DEST_QP - 1, the_link->qp_num_first);
    const struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    assert_true(datagram_put(the_link, &tx));
    assert_true(datagram_flush(the_link));
}

// The same, when a packet is there; it is taken.
static unsigned looks_of_a_find(void)
{
    struct datagram_rx rx;
    send_to(&here);
    const unsigned taken = looks_of_a_wait();
    while ((datagram_poll(the_link, 0) & DATAGRAM_READY_IN) == 0 ||
           datagram_receive(the_link, &rx, 1, 0) == 0) {
    }
    return taken;
}

// Who spins looks where the last packet came, and elsewhere once in a while.
static void who_looks_around_finds_what_came_to_another_address(void **state)
{
    struct in6_addr there = here;
    struct datagram_rx rx;
    there.s6_addr[15]++;
    assert_int_equal(datagram_open(the_link, &there, 0), 0);
    looks_of_a_find();
    assert_int_equal(datagram_poll(the_link, 0), 0); // which was the look around for the wait
    send_to(&there);
    datagram_look_around(the_link);
    assert_int_equal(datagram_poll(the_link, 0), DATAGRAM_READY_IN);
    assert_int_equal(datagram_receive(the_link, &rx, 1, 0), 1);
}

// For as long as the clock says, and then it sleeps; not any more when that was for nothing four
// times, but before one sleep in sixteen.
static void who_waits_looks_on_for_a_while_as_long_as_that_pays(void **state)
{
    looks_of_a_find();
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(looks_of_a_wait(), 1 + LINGER);
    }
    for (unsigned i = 1; i < 16; i++) {
        assert_int_equal(looks_of_a_wait(), 0);
    }
    assert_int_equal(looks_of_a_find(), 2);
    assert_int_equal(looks_of_a_wait(), 1 + LINGER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_waits_looks_on_for_a_while_as_long_as_that_pays, begin,
                                        end),
        cmocka_unit_test_setup_teardown(who_looks_around_finds_what_came_to_another_address, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// A process that has just come to an address: a link there sends it nothing that is sent once
// until it knows its socket, whose room holds it back. Here the newcomer is a share alone, so that
// what it says, and when, is up to the test.
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/port_datagram.h"
#include "link/datagram/door.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp.h"
#include "tests/own_port.h"
#include "wire/bth.h"

enum { LINK_SLOT, NEWCOMER_SLOT, NOBODY_SLOT, LOOKS = 1000 };
enum { DEST_QP_OFF = 4 };

static struct datagram_link *sender;
static struct datagram_share newcomer;
static int its_socket;

static int begin(void **state)
{
    const uint16_t port = own_port();
    const struct datagram_udp_config config = {.port = port};
    assert_int_equal(datagram_udp_create(&config, &sender), 0);
    assert_int_equal(datagram_open(sender, &in6addr_loopback, 0), 0);
    assert_int_equal(datagram_share_init(&newcomer, port), 0);
    assert_int_equal(newcomer.slot, NEWCOMER_SLOT);
    its_socket = datagram_socket(&in6addr_loopback);
    assert_true(its_socket >= 0);
    datagram_door_enter(its_socket, 0);
    return 0;
}

static int end(void **state)
{
    close(its_socket);
    datagram_share_fini(&newcomer);
    datagram_destroy(sender);
    return 0;
}

static bool has_room(uint32_t slot, bool is_sent_once)
{
    const struct datagram_path path = {.local = in6addr_loopback, .remote = in6addr_loopback};
    uint8_t head[BTH_LEN] = {0};
    put_be32(head + DEST_QP_OFF, slot << DATAGRAM_SLOT_SHIFT | 2);
    const struct datagram_tx tx = {
        .path = &path, .head = span_of(head, sizeof head), .is_sent_once = is_sent_once};
    return datagram_has_room(sender, &tx);
}

static void read_what_is_said(void)
{
    struct datagram_rx rx;
    assert_true(datagram_poll(sender, 0) & DATAGRAM_READY_IN);
    assert_int_equal(datagram_receive(sender, &rx, 1, 0), 0);
}

static void its_socket_is_waited_for(void **state)
{
    assert_false(has_room(NEWCOMER_SLOT, true));
    assert_int_equal(datagram_share_give(&newcomer, LINK_SLOT, &in6addr_loopback, 0,
                                         DATAGRAM_DOOR_SLOTS + NEWCOMER_SLOT, &its_socket, 1),
                     0);
    assert_false(has_room(NEWCOMER_SLOT, true)); // it was not read yet
    read_what_is_said();
    assert_true(has_room(NEWCOMER_SLOT, true));
}

static void it_is_asked_once_for_its_socket(void **state)
{
    static struct datagram_share_message m;
    int fds[DATAGRAM_SHARE_FDS];
    m.fds = fds;
    has_room(NEWCOMER_SLOT, true);
    has_room(NEWCOMER_SLOT, true);
    datagram_share_receive(&newcomer, 0, &m);
    assert_int_equal(m.kind, DATAGRAM_SHARE_ASK);
    assert_int_equal(m.first, DATAGRAM_DOOR_SLOTS + NEWCOMER_SLOT);
    datagram_share_receive(&newcomer, 0, &m);
    assert_int_equal(m.kind, DATAGRAM_SHARE_NOTHING);
}

static void who_never_says_a_word_is_not_waited_for_for_ever(void **state)
{
    for (unsigned i = 0; i < LOOKS; i++) {
        assert_false(has_room(NEWCOMER_SLOT, true));
    }
    datagram_poll(sender, NS_PER_S);
    assert_true(has_room(NEWCOMER_SLOT, true));
}

static void what_is_sent_again_waits_for_no_word(void **state)
{
    assert_true(has_room(NEWCOMER_SLOT, false));
}

static void a_slot_of_nobody_is_not_waited_for(void **state)
{
    assert_true(has_room(NOBODY_SLOT, true));
    assert_true(has_room(DATAGRAM_SHARE_SLOTS, true));
}

int main(void)
{
#define NEWCOMER_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        NEWCOMER_TEST(its_socket_is_waited_for),
        NEWCOMER_TEST(it_is_asked_once_for_its_socket),
        NEWCOMER_TEST(who_never_says_a_word_is_not_waited_for_for_ever),
        NEWCOMER_TEST(what_is_sent_again_waits_for_no_word),
        NEWCOMER_TEST(a_slot_of_nobody_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// TCP of our own over UDP sockets, over loopback.
#include <stdlib.h>
#include <time.h>

#include "link/packet.h"
#include "link/udp.h"
#include "tests/link/contract.h"
#include "tests/link/counted.h"

static instant_ns real_clock(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static int make_settling_link(bool settles_when_acknowledged, struct link **ret)
{
    struct device *device;
    struct device_udp_config udp = {0};
    struct link_packet_config config = {.tcp = tcp_config_default,
                                        .clock = real_clock,
                                        .secret = "sixteen octets!",
                                        .linger_ns = 10 * NS_PER_S,
                                        .settles_when_acknowledged = settles_when_acknowledged,
                                        .refusal_is_reset = true};
    int error = device_udp_create(&udp, &device);
    return error != 0 ? error : link_packet_create(&config, device, ret);
}

static int make_link(struct link **ret)
{
    return make_settling_link(false, ret);
}

static int begin(void **state)
{
    (void)state;
    return make_link(&the_link);
}

static int end(void **state)
{
    (void)state;
    the_link->ops->destroy(the_link);
    return 0;
}

/* ---- placing --------------------------------------------------------------------------------- */

struct taker {
    char got[32];
    size_t got_len;
    uint64_t position; // of the first octet offered
    bool is_stalled;
    unsigned offers;
};

static enum place_verdict take(void *ctx, const struct place_offer *offer,
                               struct place_answer *answer)
{
    struct taker *t = ctx;
    (void)answer;
    t->offers++;
    if (t->is_stalled) {
        return PLACE_BUFFER;
    }
    if (t->got_len == 0) {
        t->position = offer->position;
    }
    assert_true(t->got_len + offer->octets.len <= sizeof t->got);
    memcpy(t->got + t->got_len, offer->octets.ptr, offer->octets.len);
    t->got_len += offer->octets.len;
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t last,
                       const struct place_counts *counts)
{
    (void)ctx;
    (void)position;
    (void)last;
    (void)counts;
    return true;
}

static void set_taker(struct taker *t)
{
    struct place_port port = {.place = take, .on_advance = on_advance, .ctx = t};
    the_link->ops->set_place(l.passive, &port);
}

static void octets_go_to_the_port_once_there_is_one(void **state)
{
    (void)state;
    struct taker t = {.got_len = 0};
    char none[8];
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "frame");
    assert_int_equal(recv_some(l.passive, none, sizeof none), 5);
    set_taker(&t);
    send_text(l.active, "fpdu");
    assert_int_equal(recv_some(l.passive, none, sizeof none), 4);
    assert_int_equal(t.position, 5);
    assert_memory_equal(t.got, "fpdu", 4);
    the_link->ops->shutdown(l.active);
    assert_int_equal(recv_some(l.passive, none, sizeof none), 0);
}

static void octets_that_waited_are_offered_to_the_port(void **state)
{
    (void)state;
    struct taker t = {.got_len = 0};
    char some[4];
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "framefpdu");
    assert_int_equal(recv_some(l.passive, some, sizeof some), 4);
    set_taker(&t);
    assert_int_equal(recv_some(l.passive, some, sizeof some), 5);
    assert_int_equal(t.position, 4);
    assert_memory_equal(t.got, "efpdu", 5);
}

static void stalled_port_goes_on_when_it_says_so(void **state)
{
    (void)state;
    struct taker t = {.is_stalled = true};
    char none[8];
    loop_open(&l, the_link, AF_INET);
    set_taker(&t);
    send_text(l.active, "later");
    recv_some(l.passive, none, sizeof none);
    assert_int_equal(t.offers, 1);
    assert_quiet(the_link);
    assert_int_equal(t.offers, 1); // nobody asks before
    t.is_stalled = false;
    the_link->ops->resume(l.passive);
    assert_memory_equal(t.got, "later", 5);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void port_is_not_shared_with_another_process_either(void **state)
{
    (void)state;
    struct link *other;
    struct link_stream *stream;
    struct sockaddr_storage addr;
    loop_open(&l, the_link, AF_INET); // the listener has a connection
    assert_int_equal(make_link(&other), 0);
    the_link->ops->local_addr(l.listener, &addr);
    assert_int_equal(other->ops->bind(other, addr_of(&addr), LINK_BIND_REUSE, NULL, &stream),
                     -EADDRINUSE);
    other->ops->destroy(other);
}

static void peer_that_vanished_is_found_when_something_is_sent(void **state)
{
    (void)state;
    struct link *other;
    struct link_stream *lost, *listener;
    struct sockaddr_storage addr = loopback(AF_INET);
    char got[4];
    assert_int_equal(make_link(&other), 0);
    assert_int_equal(other->ops->bind(other, addr_of(&addr), 0, NULL, &listener), 0);
    assert_int_equal(other->ops->listen(listener, 1), 0);
    other->ops->local_addr(listener, &addr);
    the_link->ops->bind(the_link, NULL, 0, NULL, &lost);
    assert_int_equal(the_link->ops->connect(lost, addr_of(&addr)), -EINPROGRESS);
    for (int turn = 0; turn < 100 && the_link->ops->connect_result(lost) != 0; turn++) {
        struct link_ready ready[4];
        other->ops->poll(other, ready, 4); // answers the SYN
        the_link->ops->wait(the_link, 100 * NS_PER_MS);
        the_link->ops->poll(the_link, ready, 4);
    }
    assert_int_equal(the_link->ops->connect_result(lost), 0);
    other->ops->abandon(other); // as by SIGKILL: nothing is said
    send_text(lost, "anybody?");
    assert_int_equal(recv_some(lost, got, sizeof got), -ECONNRESET);
    other->ops->destroy(other);
}

static void datagrams_are_counted_on_both_sides(void **state)
{
    (void)state;
    char got[8];
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "octets");
    assert_int_equal(recv_some(l.passive, got, sizeof got), 6);
    uint64_t count;
    unsigned turn = 0;
    do { // until the last acknowledgement has arrived
        assert_quiet(the_link);
        count = packets_counted(the_link, "packets_out");
    } while (packets_counted(the_link, "packets_in") != count && ++turn < 100);
    assert_true(count >= 4); // a handshake and the octets
    assert_int_equal(packets_counted(the_link, "packets_in"), count);
    assert_int_equal(packets_counted(the_link, "segments"), count);
    assert_int_equal(packets_counted(the_link, "bad_checksums"), 0);
    assert_int_equal(tcp_counted(the_link, l.active, "octets_out"), 6);
    assert_int_equal(tcp_counted(the_link, l.passive, "octets_in"), 6);
}

static void both_ends_send_segments_as_long_as_the_path_takes(void **state)
{
    (void)state;
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->emss(l.active), the_link->ops->emss(l.passive));
}

static void octets_are_settled_when_they_are_acknowledged(void **state)
{
    (void)state;
    struct link *settling;
    struct loop own = {0};
    unsigned what = 0;
    char got[4];
    assert_int_equal(make_settling_link(true, &settling), 0);
    loop_open(&own, settling, AF_INET);
    send_text(own.active, "abc");
    assert_int_equal(settling->ops->unsettled(own.active), 3);
    assert_int_equal(recv_some(own.passive, got, sizeof got), 3);
    for (unsigned turn = 0; turn < 100 && (what & LINK_READY_SETTLED) == 0; turn++) {
        settling->ops->recv(own.passive, mspan_of(got, 1)); // nothing more: it is waited for
        what = ready_of(settling, own.active);
        settling->ops->recv(own.active, mspan_of(got, 1)); // an ACK is no octets
    }
    assert_true((what & LINK_READY_SETTLED) != 0);
    assert_int_equal(settling->ops->unsettled(own.active), 0);
    settling->ops->destroy(settling);
}

static void octets_of_a_link_that_does_not_say_are_settled_at_once(void **state)
{
    (void)state;
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "abc");
    assert_int_equal(the_link->ops->unsettled(l.active), 0);
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)         LINK_TEST(name),
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(X) LINK_TEST(octets_go_to_the_port_once_there_is_one),
        LINK_TEST(octets_that_waited_are_offered_to_the_port),
        LINK_TEST(stalled_port_goes_on_when_it_says_so),
        LINK_TEST(port_is_not_shared_with_another_process_either),
        LINK_TEST(peer_that_vanished_is_found_when_something_is_sent),
        LINK_TEST(datagrams_are_counted_on_both_sides),
        LINK_TEST(both_ends_send_segments_as_long_as_the_path_takes),
        LINK_TEST(octets_of_a_link_that_does_not_say_are_settled_at_once),
        cmocka_unit_test(octets_are_settled_when_they_are_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

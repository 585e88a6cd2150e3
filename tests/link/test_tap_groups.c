// A tap link behind a switch that looks on (a Linux bridge with multicast_snooping) and asks: what
// goes to a group comes to who has reported it, and not before.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/port_datagram.h"
#include "clock/clock.h"
#include "host/clock.h"
#include "link/datagram/tap.h"
#include "link/datagram/udp.h"
#include "tests/link/counted.h"
#include "tests/own_network.h"

enum { PATIENCE = 1000, TURN_MS = 10 };

static const char *why_not; // no namespace, no bridge or no device here
static struct datagram_link *the_link;
static int talker = -1; // the kernel's end of the bridge

static struct in6_addr addr(const char *text)
{
    struct in6_addr ret;
    assert_int_equal(inet_pton(AF_INET6, text, &ret), 1);
    return ret;
}

static uint64_t counted(const char *name)
{
    struct counted c = {.name = name};
    datagram_counters(the_link, counted_take, &c);
    assert_int_equal(c.found, 1);
    return c.value;
}

/* ---- the switch ------------------------------------------------------------------------------ */

// In hundredths of a second: until answers may be there all is flooded. That counts from when it
// begins to ask.
#define SWITCH                                                                    \
    "link add br0 type bridge mcast_snooping 1 mcast_query_response_interval 10 " \
    "mcast_last_member_interval 10 "

static bool switch_make(const char *versions)
{
    char lines[1000];
    snprintf(lines, sizeof lines,
             SWITCH "%s\n"
                    "link set br0 type bridge mcast_querier 1\n"
                    "link set br0 addrgenmode none\n"
                    "tuntap add dev weft0 mode tap\n"
                    "link set weft0 addrgenmode none master br0 up\n"
                    "addr add 10.9.0.1/24 dev br0\n"
                    "addr add fe80::1/64 dev br0 nodad\n"
                    "addr add fd09::1/64 dev br0 nodad\n"
                    "link set br0 up\n"
                    "route add 239.0.0.0/8 dev br0\n"
                    "route add multicast ff0e::/16 dev br0 table local\n",
             versions);
    return own_network_ips(lines);
}

static void link_make(void)
{
    struct datagram_tap_config config = {.clock = host_clock};
    assert_true(device_tap_config_parse("tap:weft0,10.9.0.2/24,fd09::2/64", &config.interface));
    config.interface.seed = 0x1234567;
    assert_int_equal(datagram_tap_create(&config, &the_link), 0);
    const struct in6_addr own[] = {addr("::ffff:10.9.0.2"), addr("fd09::2")};
    assert_int_equal(datagram_open(the_link, &own[0], 0), 0);
    assert_int_equal(datagram_open(the_link, &own[1], 0), 0);
}

static void talker_make(void)
{
    const int off = 0;
    talker = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(talker, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
}

static int begin(const char *versions)
{
    if (why_not == NULL && !switch_make(versions)) {
        why_not = "no bridge that looks on";
    }
    if (why_not == NULL) {
        link_make();
        talker_make();
    }
    return 0;
}

static int begin_newest(void **state)
{
    return begin("mcast_igmp_version 3 mcast_mld_version 2");
}

static int begin_older(void **state)
{
    return begin("mcast_igmp_version 2 mcast_mld_version 1");
}

static int end(void **state)
{
    if (why_not == NULL) {
        close(talker);
        datagram_destroy(the_link);
        assert_true(own_network_ips("link del weft0\nlink del br0\n"));
    }
    return 0;
}

/* ---- what comes ------------------------------------------------------------------------------ */

// Lives for a while: answers, and counts what comes.
static void live(void)
{
    const instant_ns end = clock_now() + TURN_MS * NS_PER_MS;
    for (instant_ns now; (now = clock_now()) < end;) {
        struct datagram_rx rx;
        if ((datagram_poll(the_link, now) & DATAGRAM_READY_IN) != 0) {
            datagram_receive(the_link, &rx, 1, now);
        }
        const instant_ns due = instant_min(end, datagram_next_deadline(the_link));
        datagram_wait(the_link, due > now ? due - now : 0);
    }
}

// No packet of RoCEv2: it is counted, and goes no further.
static void say_to(const char *text)
{
    const struct sockaddr_in6 to = {
        .sin6_family = AF_INET6, .sin6_port = htons(DATAGRAM_UDP_PORT), .sin6_addr = addr(text)};
    sendto(talker, "word", 4, 0, (const struct sockaddr *)&to, sizeof to);
}

static uint64_t came_to_none_of_ours(void)
{
    return counted("not_open");
}

static uint64_t came_to_us(void)
{
    return counted("bad_lengths");
}

// The switch has begun to keep back what nobody asked for.
static void await_keeping(const char *foreign)
{
    unsigned kept = 0;
    for (unsigned turn = 0; turn < PATIENCE && kept < 3; turn++) {
        const uint64_t before = came_to_none_of_ours();
        say_to(foreign);
        live();
        kept = came_to_none_of_ours() == before && counted("queries_in") > 0 ? kept + 1 : 0;
    }
    assert_int_equal(kept, 3);
}

static bool is_heard(const char *text)
{
    const uint64_t before = came_to_us();
    for (unsigned turn = 0; turn < PATIENCE && came_to_us() == before; turn++) {
        say_to(text);
        live();
    }
    return came_to_us() > before;
}

static void group_comes_once_it_is_reported(const char *ours, const char *foreign,
                                            const char *local)
{
    const struct in6_addr group = addr(ours), own = addr(local);
    own_network_skip(why_not);
    await_keeping(foreign);
    const uint64_t before = came_to_none_of_ours();
    say_to(ours); // not joined: it does not come either
    live();
    assert_int_equal(came_to_none_of_ours(), before);
    const uint64_t reports = counted("reports_out");
    assert_int_equal(datagram_join(the_link, &group, &own, 0), 0);
    assert_true(counted("reports_out") > reports);
    assert_true(is_heard(ours));
    await_keeping(foreign);
    datagram_leave(the_link, &group, &own, 0);
    await_keeping(ours);
}

static void group_of_ipv4_comes_once_it_is_reported(void **state)
{
    group_comes_once_it_is_reported("::ffff:239.9.9.9", "::ffff:239.8.8.8", "::ffff:10.9.0.2");
    assert_int_equal(counted("bad_queries"), 0);
}

static void group_of_ipv6_comes_once_it_is_reported(void **state)
{
    group_comes_once_it_is_reported("ff0e::9999", "ff0e::8888", "fd09::2");
}

// Its neighbours' questions go to a group, which the switch keeps back likewise.
static void ipv6_address_is_found_behind_the_switch(void **state)
{
    own_network_skip(why_not);
    await_keeping("ff0e::8888");
    assert_true(is_heard("fd09::2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(group_of_ipv4_comes_once_it_is_reported, begin_newest, end),
        cmocka_unit_test_setup_teardown(group_of_ipv6_comes_once_it_is_reported, begin_newest, end),
        cmocka_unit_test_setup_teardown(ipv6_address_is_found_behind_the_switch, begin_newest, end),
        cmocka_unit_test_setup_teardown(group_of_ipv4_comes_once_it_is_reported, begin_older, end),
        cmocka_unit_test_setup_teardown(group_of_ipv6_comes_once_it_is_reported, begin_older, end),
    };
    why_not = access("/dev/net/tun", F_OK) == 0 ? own_network_enter() : "no /dev/net/tun";
    return cmocka_run_group_tests_name("tap_groups", tests, NULL, NULL);
}

// What the settings of a process make of the link that carries packets of RoCE.
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/device_wire.h"
#include "host/datagram.h"
#include "tests/own_port.h"

enum { HEAD_LEN = 12, MANY = 100, TURNS = 50, CAPTURE_HEADER_LEN = 24 };

static struct host_settings settings;
static struct rnic_port the_port;
static struct datagram_link *the_link;
static const struct in6_addr here = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 77}};

static int begin(void **state)
{
    the_port = (struct rnic_port){.addrs = {{.addr = here}}, .addr_count = 1};
    settings = (struct host_settings){.roce_port = own_port(), .rnic.crc = true};
    return 0;
}

static int end(void **state)
{
    datagram_destroy(the_link);
    return 0;
}

static void make(void)
{
    assert_int_equal(host_datagram_link_create(&settings, NULL, &the_port, &the_link), 0);
    assert_int_equal(datagram_open(the_link, &here, 0), 0);
}

// How many packets to itself come back.
static unsigned cross(unsigned count)
{
    struct datagram_path path = {.local = here, .remote = here};
    uint8_t head[HEAD_LEN] = {0x64};
    struct datagram_rx rx[8];
    unsigned got = 0;
    put_be32(head + 4, the_link->qp_num_first);
    struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    for (unsigned i = 0; i < count; i++) {
        assert_true(datagram_put(the_link, &tx));
    }
    assert_true(datagram_flush(the_link));
    for (unsigned turn = 0; turn < TURNS && got < count; turn++) {
        datagram_wait(the_link, 10 * NS_PER_MS);
        datagram_poll(the_link, 0);
        got += datagram_receive(the_link, rx, 8, 0);
    }
    return got;
}

static void packets_cross_whole_where_nothing_is_set(void **state)
{
    make();
    assert_int_equal(cross(1), 1);
}

static void packets_are_lost_as_the_setting_says(void **state)
{
    snprintf(settings.fault, sizeof settings.fault, "loss=100%%");
    make();
    assert_int_equal(cross(1), 0);
}

static void packets_are_changed_as_the_setting_says(void **state)
{
    snprintf(settings.fault, sizeof settings.fault, "corrupt=100%%");
    make();
    assert_true(cross(MANY) < MANY / 2);
}

static void icrcs_are_not_looked_at_if_the_setting_says_so(void **state)
{
    snprintf(settings.fault, sizeof settings.fault, "corrupt=100%%");
    settings.rnic.crc = false;
    make();
    assert_true(cross(MANY) > MANY / 2); // but for those whose queue pair was changed
}

static void packets_are_recorded_where_the_setting_says(void **state)
{
    struct stat file;
    snprintf(settings.pcap_path, sizeof settings.pcap_path, "/tmp/weft-test-host-%d",
             (int)getpid());
    make();
    assert_int_equal(cross(1), 1);
    assert_int_equal(stat(settings.pcap_path, &file), 0);
    assert_true(file.st_size > CAPTURE_HEADER_LEN + 2 * HEAD_LEN);
    unlink(settings.pcap_path);
}

static void capture_that_cannot_be_is_gone_without(void **state)
{
    snprintf(settings.pcap_path, sizeof settings.pcap_path, "/nowhere/at/all");
    make();
    assert_int_equal(cross(1), 1);
}

// A socket that is none of weft's, at the address and this port. -1: somebody has it.
static int take(uint32_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    memcpy(&name.sin_addr, here.s6_addr + 12, sizeof name.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&name, sizeof name) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void packets_have_the_port_that_the_setting_says(void **state)
{
    int other = take(settings.roce_port + 1);
    assert_true(other >= 0);
    make();
    assert_int_equal(take(settings.roce_port), -1);
    assert_int_equal(cross(1), 1);
    close(other);
}

/* ---- within this host ------------------------------------------------------------------------ */

static void take_lanes(void *ctx, const char *name, uint64_t value)
{
    *(uint64_t *)ctx += strcmp(name, "local_lanes_made") == 0 ? value : 0;
}

// Ways through memory that are made to another process, which a second link stands for.
static uint64_t lanes_made(void)
{
    struct datagram_link *other;
    const struct datagram_path path = {.local = here, .remote = here};
    uint8_t head[HEAD_LEN] = {0x64};
    uint64_t made = 0;
    make();
    assert_int_equal(host_datagram_link_create(&settings, NULL, &the_port, &other), 0);
    put_be32(head + 4, other->qp_num_first + 9);
    const struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(datagram_put(the_link, &tx));
    }
    datagram_counters(the_link, take_lanes, &made);
    datagram_destroy(other);
    return made;
}

static void packets_within_the_host_go_by_memory_if_the_setting_says_so(void **state)
{
    settings.local = true;
    assert_int_equal(lanes_made(), 1);
}

static void packets_within_the_host_go_by_udp_if_the_setting_says_so(void **state)
{
    settings.local = false;
    assert_int_equal(lanes_made(), 0);
}

// Both are about the wire.
static void packets_within_the_host_are_recorded(void **state)
{
    settings.local = true;
    snprintf(settings.pcap_path, sizeof settings.pcap_path, "/tmp/weft-test-host-%d",
             (int)getpid());
    assert_int_equal(lanes_made(), 0);
    unlink(settings.pcap_path);
}

static void packets_within_the_host_are_lost(void **state)
{
    settings.local = true;
    snprintf(settings.fault, sizeof settings.fault, "loss=1%%");
    assert_int_equal(lanes_made(), 0);
}

// An interface is one device's: where there are streams, it is theirs.
static void tap_interface_is_left_to_streams_where_there_are_any(void **state)
{
    settings.wires = 1U << DEVICE_WIRE_IWARP | 1U << DEVICE_WIRE_ROCE;
    snprintf(settings.link, sizeof settings.link, "tap:weft9,10.9.0.2/24");
    make();
    assert_string_equal(the_link->ops->name, "udp");
    assert_memory_equal(&the_port.addrs[0].addr, &here, sizeof here); // the host's, as they were
}

static void tap_interface_that_cannot_be_had_is_no_link(void **state)
{
    struct datagram_link *none;
    settings.wires = 1U << DEVICE_WIRE_ROCE;
    snprintf(settings.link, sizeof settings.link, "tap:lo,10.9.0.2/24"); // another kind of one
    assert_int_not_equal(host_datagram_link_create(&settings, NULL, &the_port, &none), 0);
    settings.link[0] = '\0';
    make(); // to be destroyed
}

int main(void)
{
#define HOST_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        HOST_TEST(packets_cross_whole_where_nothing_is_set),
        HOST_TEST(packets_have_the_port_that_the_setting_says),
        HOST_TEST(packets_are_lost_as_the_setting_says),
        HOST_TEST(packets_are_changed_as_the_setting_says),
        HOST_TEST(icrcs_are_not_looked_at_if_the_setting_says_so),
        HOST_TEST(packets_are_recorded_where_the_setting_says),
        HOST_TEST(capture_that_cannot_be_is_gone_without),
        HOST_TEST(packets_within_the_host_go_by_memory_if_the_setting_says_so),
        HOST_TEST(packets_within_the_host_go_by_udp_if_the_setting_says_so),
        HOST_TEST(packets_within_the_host_are_recorded),
        HOST_TEST(packets_within_the_host_are_lost),
        HOST_TEST(tap_interface_is_left_to_streams_where_there_are_any),
        HOST_TEST(tap_interface_that_cannot_be_had_is_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

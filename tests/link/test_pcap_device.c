// The capture of our own TCP's segments over UDP, read back; and all that a link does, through it.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "link/device/fault.h"
#include "link/device/udp.h"
#include "link/packet/cut.h"
#include "link/packet/packet.h"
#include "link/pcap/pcap.h"
#include "tests/link/capture.h"
#include "tests/link/contract.h"
#include "tests/link/counted.h"

static char path[64];

static instant_ns real_clock(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static int make_link(const char *faults)
{
    struct device *device;
    struct device_udp_config udp = {.transport = &packet_transport};
    struct fault_config bad;
    descriptors_note();
    struct link_packet_config config = {.tcp = tcp_config_default,
                                        .clock = real_clock,
                                        .secret = "sixteen octets!",
                                        .linger_ns = 10 * NS_PER_S,
                                        .refusal_is_reset = true};
    snprintf(path, sizeof path, "/tmp/weft-test-pcap-device-%d", (int)getpid());
    assert_true(fault_config_parse(faults, &bad));
    assert_int_equal(device_udp_create(&udp, &device), 0);
    assert_int_equal(device_pcap_wrap(device, path, &device), 0);
    assert_int_equal(device_fault_wrap(device, &bad, &device), 0);
    return link_packet_create(&config, device, &the_link);
}

static int begin(void **state)
{
    return make_link("");
}

static int begin_where_all_is_lost(void **state)
{
    return make_link("loss=100%,side=out");
}

static int end(void **state)
{
    the_link->ops->destroy(the_link);
    descriptors_check();
    return unlink(path);
}

// What one direction of the capture holds.
struct side {
    uint16_t port;
    unsigned syns, fins;
    uint32_t first_seq; // of octets
    size_t len;
    char octets[64];
};

// Segments of a good path, once each, on one connection: 0 is who opened it.
static void capture_sum_up(struct side sides[2], int family)
{
    size_t at = CAPTURE_BEGIN;
    struct packet p;
    memset(sides, 0, 2 * sizeof sides[0]);
    capture_read(path);
    while (packet_next(&at, &p)) {
        if (p.tcp.flags == TCP_SYN) {
            sides[0].port = p.tcp.src_port;
        }
        struct side *s = &sides[p.tcp.src_port != sides[0].port];
        assert_int_equal(p.family, family);
        if ((p.tcp.flags & TCP_SYN) != 0) {
            s->syns++;
            s->first_seq = p.tcp.seq + 1;
        }
        s->fins += (p.tcp.flags & TCP_FIN) != 0;
        assert_true(p.payload.len <= sizeof s->octets - (p.tcp.seq - s->first_seq));
        memcpy(s->octets + (p.tcp.seq - s->first_seq), p.payload.ptr, p.payload.len);
        s->len += p.payload.len;
    }
}

static void exchange(int family)
{
    char got[16];
    loop_open(&l, the_link, family);
    send_text(l.active, "question");
    assert_int_equal(recv_some(l.passive, got, sizeof got), 8);
    send_text(l.passive, "answer");
    assert_int_equal(recv_some(l.active, got, sizeof got), 6);
}

// Octets that were sent again for a slow machine's sake count twice, and lie in the same place.
static void assert_exchange(int family)
{
    struct side sides[2];
    capture_sum_up(sides, family);
    assert_true(sides[0].syns >= 1);
    assert_true(sides[1].syns >= 1);
    assert_true(sides[0].len >= 8);
    assert_true(sides[1].len >= 6);
    assert_memory_equal(sides[0].octets, "question", 9);
    assert_memory_equal(sides[1].octets, "answer", 7);
}

static void segments_are_recorded_as_they_are(void **state)
{
    exchange(AF_INET);
    assert_exchange(AF_INET);
}

static void segments_over_ipv6_are_recorded(void **state)
{
    exchange(AF_INET6);
    assert_exchange(AF_INET6);
}

static uint64_t packets_recorded(void)
{
    uint64_t count = 0;
    size_t at = CAPTURE_BEGIN;
    struct packet p;
    capture_read(path);
    while (packet_next(&at, &p)) {
        count++;
    }
    return count;
}

static void what_crosses_within_the_process_is_recorded_once(void **state)
{
    exchange(AF_INET);
    assert_quiet(the_link);
    assert_true(packets_recorded() >= 5);
    assert_int_equal(packets_recorded(), packets_counted(the_link, "packets_out"));
}

static void what_a_fault_takes_away_does_not_cross_the_wire(void **state)
{
    struct sockaddr_storage to = loopback(AF_INET);
    struct link_stream *stream;
    ((struct sockaddr_in *)&to)->sin_port = htons(9);
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &stream), 0);
    assert_int_equal(the_link->ops->connect(stream, addr_of(&to)), -EINPROGRESS);
    assert_int_equal(packets_recorded(), 0);
}

static void octets_may_still_be_placed(void **state)
{
    assert_int_equal(the_link->facts, LINK_HAS_SEGMENTS | LINK_HAS_PLACES | LINK_IS_OF_PROCESS);
}

static void file_that_cannot_be_made_is_refused(void **state)
{
    struct device_udp_config udp = {.transport = &packet_transport};
    struct device *device, *wrapped = NULL;
    assert_int_equal(device_udp_create(&udp, &device), 0);
    assert_int_equal(device_pcap_wrap(device, "/nowhere/file", &wrapped), -ENOENT);
    assert_null(wrapped);
    device->ops->destroy(device);
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)         LINK_TEST(name),
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(X) LINK_TEST(segments_are_recorded_as_they_are),
        LINK_TEST(segments_over_ipv6_are_recorded),
        LINK_TEST(what_crosses_within_the_process_is_recorded_once),
        cmocka_unit_test_setup_teardown(what_a_fault_takes_away_does_not_cross_the_wire,
                                        begin_where_all_is_lost, end),
        LINK_TEST(octets_may_still_be_placed),
        cmocka_unit_test(file_that_cannot_be_made_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

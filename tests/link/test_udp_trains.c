// Segments of one call: trains of them, out and in, and where the kernel takes none.
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "tests/link/contract.h"
#include "tests/link/counted.h"
#include "tests/link/stranger.h"

enum { RECORDS = 60, RECORD_LEN = 1000 };

// Reads until `len` octets have come, which are those that were sent.
static void expect_octets(const uint8_t *octets, size_t len)
{
    uint8_t got[4096];
    for (size_t in = 0; in < len;) {
        ssize_t taken = recv_some(l.passive, got, sizeof got);
        the_link->ops->recv(l.active, mspan_of(got + sizeof got - 1, 1)); // its window opens
        assert_true(taken == -EAGAIN || (taken > 0 && (size_t)taken <= len - in));
        assert_true(taken < 0 || memcmp(got, octets + in, (size_t)taken) == 0);
        in += taken > 0 ? (size_t)taken : 0;
    }
}

static uint8_t records[RECORDS * RECORD_LEN];

// Octets of l.active in records, each of two elements.
static void send_records(void)
{
    struct iovec iov[2 * RECORDS];
    uint16_t ends[RECORDS];
    for (unsigned i = 0; i < RECORDS; i++) {
        memset(records + i * RECORD_LEN, (int)i, RECORD_LEN);
        iov[2 * i] = (struct iovec){records + i * RECORD_LEN, 20};
        iov[2 * i + 1] = (struct iovec){records + i * RECORD_LEN + 20, RECORD_LEN - 20};
        ends[i] = (uint16_t)(2 * i + 2);
    }
    const struct link_tx tx = {iov, 2 * RECORDS, ends, RECORDS};
    assert_int_equal(the_link->ops->send(l.active, &tx), RECORDS * RECORD_LEN);
}

static void records_cross_and_what_carried_them_is_counted(void **state)
{
    loop_open(&l, the_link, AF_INET);
    send_records();
    expect_octets(records, sizeof records);
    assert_in_range(packets_counted(the_link, "trains_out"), 4,
                    packets_counted(the_link, "packets_out"));
    assert_in_range(packets_counted(the_link, "trains_in"), 4,
                    packets_counted(the_link, "packets_in"));
    assert_int_equal(packets_counted(the_link, "not_sent"), 0);
}

static void segments_alike_leave_in_one_call(void **state)
{
    static uint8_t octets[2500]; // of the stranger's segments: two, and a shorter one
    static const size_t lens[] = {1000, 1000, 500};
    struct iovec iov = {octets, sizeof octets};
    const struct link_tx tx = {.iov = &iov, .iov_count = 1};
    uint8_t heard[2000];
    uint16_t port;
    int fd = stranger_socket(&port);
    for (size_t i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)(i % 251);
    }
    loop_listen(&l, the_link, AF_INET);
    stranger_window = 20000;
    uint32_t seq = stranger_connects(fd, port);
    stranger_window = 1000;
    uint64_t trains = packets_counted(the_link, "trains_out");
    uint64_t packets = packets_counted(the_link, "packets_out");
    assert_int_equal(the_link->ops->send(l.passive, &tx), sizeof octets);
    for (size_t i = 0, at = 0; i < 3; at += lens[i++]) {
        struct tcp_header h;
        size_t header_len;
        ssize_t len = recv(fd, heard, sizeof heard, 0);
        assert_int_equal(tcp_header_parse(span_of(heard, (size_t)len), &h, &header_len), 0);
        assert_int_equal(h.seq, seq + at);
        assert_int_equal((size_t)len - header_len, lens[i]);
        assert_memory_equal(heard + header_len, octets + at, lens[i]);
    }
    assert_int_equal(packets_counted(the_link, "trains_out") - trains, 1);
    assert_int_equal(packets_counted(the_link, "packets_out") - packets, 3);
    close(fd);
}

// Three segments in one call, the last shorter: each is told apart again.
static void segments_that_come_together_are_told_apart(void **state)
{
    enum { LEN = 500, LAST_LEN = 300, EACH = TCP_HEADER_LEN + LEN };
    uint8_t train[3 * EACH], got[3 * LEN];
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = {0};
    struct sockaddr_storage to;
    uint16_t port, each = EACH;
    int fd = stranger_socket(&port);
    loop_listen(&l, the_link, AF_INET);
    uint32_t ack = stranger_connects(fd, port);
    assert_int_equal(the_link->ops->local_addr(l.listener, &to), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct tcp_header h = {.src_port = port,
                               .dst_port = ntohs(((struct sockaddr_in *)&to)->sin_port),
                               .seq = 1001 + i * LEN,
                               .ack = ack,
                               .flags = TCP_ACK,
                               .window = 1000};
        assert_int_equal(tcp_header_emit(&h, train + i * EACH), TCP_HEADER_LEN);
        memset(train + i * EACH + TCP_HEADER_LEN, (int)('a' + i), LEN);
    }
    struct iovec iov = {train, sizeof train - LEN + LAST_LEN};
    struct msghdr msg = {.msg_name = &to,
                         .msg_namelen = sizeof(struct sockaddr_in),
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    header->cmsg_level = IPPROTO_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof each);
    memcpy(CMSG_DATA(header), &each, sizeof each);
    uint64_t trains = packets_counted(the_link, "trains_in");
    uint64_t packets = packets_counted(the_link, "packets_in");
    assert_int_equal(sendmsg(fd, &msg, 0), iov.iov_len);
    size_t in = 0;
    while (in < 2 * LEN + LAST_LEN) {
        ssize_t len = recv_some(l.passive, got + in, sizeof got - in);
        assert_true(len > 0);
        in += (size_t)len;
    }
    assert_int_equal(in, 2 * LEN + LAST_LEN);
    for (size_t i = 0; i < in; i++) {
        assert_int_equal(got[i], 'a' + i / LEN);
    }
    assert_int_equal(packets_counted(the_link, "trains_in") - trains, 1);
    assert_int_equal(packets_counted(the_link, "packets_in") - packets, 3);
    close(fd);
}

// Three segments of no transport that exists: a header of ports and checksum, and some octets.
enum { PLAIN_HEADER_LEN = 8, PLAIN_CHECKSUM_OFF = 6, PLAIN_COUNT = 3 };
static const struct net_transport plain = {
    .protocol = 253, .checksum_off = PLAIN_CHECKSUM_OFF, .header_len = PLAIN_HEADER_LEN};

struct plain_segments {
    struct net_segment at[PLAIN_COUNT];
    struct iovec iov[2 * PLAIN_COUNT];
    uint8_t headers[PLAIN_COUNT][NET_HEADROOM + PLAIN_HEADER_LEN];
};

static struct net_segments plain_make(struct plain_segments *p, const uint32_t lens[PLAIN_COUNT])
{
    *p = (struct plain_segments){.at = {{NULL}}};
    for (unsigned i = 0; i < PLAIN_COUNT; i++) {
        struct iovec *iov = &p->iov[2 * i];
        iov[0] = (struct iovec){p->headers[i] + NET_HEADROOM, PLAIN_HEADER_LEN};
        iov[1] = (struct iovec){records, lens[i]};
        p->at[i] = (struct net_segment){
            .iov = iov, .iov_count = 2, .len = PLAIN_HEADER_LEN + lens[i], .part_count = 1};
    }
    return (struct net_segments){&plain, p->at, PLAIN_COUNT};
}

// Through a device of their own, to the stranger.
static void plain_send(bool checksums, int times, const uint32_t lens[PLAIN_COUNT], uint16_t port)
{
    const struct device_udp_config config = {.transport = &plain, .checksums = checksums};
    const uint8_t loopback_octets[] = {127, 0, 0, 1};
    struct net_flow flow = {.local = net_addr_from_ipv4(loopback_octets),
                            .remote = net_addr_from_ipv4(loopback_octets)};
    struct plain_segments p;
    struct net_segments segments = plain_make(&p, lens);
    struct device *device;
    struct channel *channel;
    assert_int_equal(device_udp_create(&config, &device), 0);
    assert_int_equal(device_open(device, &flow, 0, &channel), 0);
    flow.remote_port = port;
    assert_int_equal(device_connect(device, channel, &flow), 0);
    while (times-- > 0) {
        assert_int_equal(device_send(device, channel, &flow, &segments, 0), PLAIN_COUNT);
    }
    device_close(device, channel);
    device_destroy(device);
}

// A train's are alike but for the last: what follows a shorter one leaves in a call of its own.
static void segments_of_any_lengths_are_datagrams_of_these_lengths(void **state)
{
    static const uint32_t lens[][PLAIN_COUNT] = {
        {100, 100, 100}, {100, 100, 50}, {100, 50, 100}, {50, 100, 100}, {50, 50, 100}};
    uint8_t heard[200];
    uint16_t port;
    int fd = stranger_socket(&port);
    for (unsigned k = 0; k < sizeof lens / sizeof lens[0]; k++) {
        plain_send(false, 1, lens[k], port);
        for (unsigned i = 0; i < PLAIN_COUNT; i++) {
            assert_int_equal(recv(fd, heard, sizeof heard, 0), PLAIN_HEADER_LEN + lens[k][i]);
        }
    }
    close(fd);
}

static void segment_that_is_sent_again_has_its_checksum_again(void **state)
{
    static const uint32_t lens[PLAIN_COUNT] = {10, 11, 12};
    uint8_t heard[2 * PLAIN_COUNT][64];
    uint16_t port;
    int fd = stranger_socket(&port);
    plain_send(true, 2, lens, port);
    for (unsigned i = 0; i < 2 * PLAIN_COUNT; i++) {
        assert_int_equal(recv(fd, heard[i], sizeof heard[i], 0),
                         PLAIN_HEADER_LEN + lens[i % PLAIN_COUNT]);
        assert_true(heard[i][PLAIN_CHECKSUM_OFF] != 0 || heard[i][PLAIN_CHECKSUM_OFF + 1] != 0);
    }
    for (unsigned i = 0; i < PLAIN_COUNT; i++) {
        assert_memory_equal(heard[i], heard[PLAIN_COUNT + i], PLAIN_HEADER_LEN + lens[i]);
    }
    close(fd);
}

// The mark that the first of three segments arrives with, which leave one device with `sent`.
static enum ip_ecn ecn_across(const struct net_addr *addr, enum ip_ecn sent)
{
    static const uint32_t lens[PLAIN_COUNT] = {10, 10, 10};
    const struct device_udp_config config = {.transport = &plain};
    struct net_flow from = {.local = *addr}, to = {.local = *addr};
    struct plain_segments p;
    struct net_segments segments = plain_make(&p, lens);
    struct device *device[2];
    struct channel *channel[2];
    struct device_event e = {.kind = DEVICE_EVENT_READABLE};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(device_udp_create(&config, &device[i]), 0);
        assert_int_equal(device_open(device[i], i == 0 ? &from : &to, 0, &channel[i]), 0);
    }
    from.remote = *addr;
    from.remote_port = to.local_port;
    for (unsigned i = 0; i < PLAIN_COUNT; i++) {
        put_be16(p.headers[i] + NET_HEADROOM, from.local_port);
        put_be16(p.headers[i] + NET_HEADROOM + 2, to.local_port);
    }
    segments.ecn = sent;
    assert_int_equal(device_send(device[0], channel[0], &from, &segments, 0), PLAIN_COUNT);
    while (e.kind != DEVICE_EVENT_SEGMENT) {
        device_wait(device[1], NS_PER_S);
        assert_true(device_poll(device[1], 0));
        device_receive(device[1], channel[1], SIZE_MAX);
        assert_true(device_next(device[1], 0, &e));
    }
    for (unsigned i = 0; i < 2; i++) {
        device_close(device[i], channel[i]);
        device_destroy(device[i]);
    }
    return e.ecn;
}

static void marks_cross(void **state)
{
    static const char *const addrs[] = {"127.0.0.1", "::1"};
    for (unsigned k = 0; k < 2; k++) {
        struct net_addr addr;
        assert_true(net_addr_parse(addrs[k], &addr));
        assert_int_equal(ecn_across(&addr, IP_ECN_NOT_ECT), IP_ECN_NOT_ECT);
        assert_int_equal(ecn_across(&addr, IP_ECN_ECT_0), IP_ECN_ECT_0);
        assert_int_equal(ecn_across(&addr, IP_ECN_CE), IP_ECN_CE);
    }
}

// A kernel that takes no trains: its sockets send without checksums, with which it refuses them.
static void refuse_trains(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        int type = 0;
        socklen_t len = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_DGRAM) {
            setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &(int){1}, sizeof(int));
        }
    }
}

// What was in the train TCP will send again; whatever leaves from then on is in a call of its own.
static void trains_that_the_kernel_refuses_leave_one_by_one(void **state)
{
    static uint8_t octets[3000]; // of the stranger's segments: three
    struct iovec iov = {octets, sizeof octets};
    const struct link_tx tx = {.iov = &iov, .iov_count = 1};
    uint16_t port;
    int fd = stranger_socket(&port);
    loop_listen(&l, the_link, AF_INET);
    stranger_window = 20000;
    stranger_connects(fd, port);
    stranger_window = 1000;
    refuse_trains();
    assert_int_equal(the_link->ops->send(l.passive, &tx), sizeof octets);
    assert_int_equal(stranger_datagrams(fd), 0);
    assert_int_equal(the_link->ops->send(l.passive, &tx), sizeof octets);
    assert_int_equal(stranger_datagrams(fd), 3);
    assert_int_equal(packets_counted(the_link, "not_sent"), 0); // none was lost for good
    close(fd);
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, udp_link_begin, udp_link_end)
    const struct CMUnitTest tests[] = {
        LINK_TEST(records_cross_and_what_carried_them_is_counted),
        LINK_TEST(segments_alike_leave_in_one_call),
        LINK_TEST(segments_that_come_together_are_told_apart),
        LINK_TEST(trains_that_the_kernel_refuses_leave_one_by_one),
        cmocka_unit_test(segments_of_any_lengths_are_datagrams_of_these_lengths),
        cmocka_unit_test(segment_that_is_sent_again_has_its_checksum_again),
        cmocka_unit_test(marks_cross),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "tests/link/stranger.h"

#include <time.h>

#include "link/packet/cut.h"
#include "link/packet/packet.h"
#include "tests/link/contract.h"
#include "tests/link/counted.h"

static instant_ns real_clock(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

instant_ns udp_link_ahead_ns;

static instant_ns clock_of_link(void *ctx)
{
    return real_clock(ctx) + udp_link_ahead_ns;
}

struct device_udp_config udp_link_config = {.transport = &packet_transport};

int udp_link_make_settling(bool settles_when_acknowledged, struct link **ret)
{
    struct device *device;
    struct link_packet_config config = {.tcp = tcp_config_default,
                                        .clock = clock_of_link,
                                        .secret = "sixteen octets!",
                                        .linger_ns = 10 * NS_PER_S,
                                        .settles_when_acknowledged = settles_when_acknowledged,
                                        .refusal_is_reset = true,
                                        .answers_once = true};
    int error = device_udp_create(&udp_link_config, &device);
    return error != 0 ? error : link_packet_create(&config, device, ret);
}

int udp_link_make(struct link **ret)
{
    return udp_link_make_settling(false, ret);
}

int udp_link_begin(void **state)
{
    l = (struct loop){0};
    udp_link_config = (struct device_udp_config){.transport = &packet_transport};
    descriptors_note();
    return udp_link_make(&the_link);
}

int udp_link_end(void **state)
{
    the_link->ops->destroy(the_link);
    descriptors_check();
    return 0;
}

int stranger_socket(uint16_t *ret_port)
{
    struct sockaddr_storage addr = loopback(AF_INET);
    socklen_t len = sizeof(struct sockaddr_in);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, addr_of(&addr), len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    *ret_port = ntohs(((struct sockaddr_in *)&addr)->sin_port);
    return fd;
}

uint16_t stranger_window = 1000;

void stranger_sends(int fd, const struct tcp_header *h)
{
    struct sockaddr_storage to;
    struct tcp_header whole = *h;
    uint8_t octets[TCP_HEADER_MAX_LEN];
    assert_int_equal(the_link->ops->local_addr(l.listener, &to), 0);
    whole.dst_port = ntohs(((struct sockaddr_in *)&to)->sin_port);
    whole.window = stranger_window;
    size_t len = tcp_header_emit(&whole, octets);
    assert_int_equal(sendto(fd, octets, len, 0, addr_of(&to), sizeof(struct sockaddr_in)), len);
}

void stranger_sends_syn(int fd, uint16_t src_port)
{
    struct tcp_header syn = {
        .src_port = src_port, .seq = 1000, .flags = TCP_SYN, .options = {.mss = 1000}};
    stranger_sends(fd, &syn);
}

struct tcp_header stranger_hears(int fd)
{
    uint8_t octets[200];
    struct tcp_header h;
    size_t header_len;
    ssize_t len = recv(fd, octets, sizeof octets, 0);
    assert_true(len > 0);
    assert_int_equal(tcp_header_parse(span_of(octets, (size_t)len), &h, &header_len), 0);
    return h;
}

unsigned stranger_datagrams(int fd)
{
    uint8_t octets[100];
    unsigned count = 0;
    while (recv(fd, octets, sizeof octets, MSG_DONTWAIT) >= 0) {
        count++;
    }
    return count;
}

void stranger_was_heard(uint64_t count)
{
    struct link_ready ready[4];
    for (unsigned turn = 0; turn < 200 && packets_counted(the_link, "packets_in") < count; turn++) {
        the_link->ops->wait(the_link, 100 * NS_PER_MS);
        the_link->ops->poll(the_link, ready, 4);
        if (l.passive != NULL) { // a stream's are left to who reads it
            uint8_t octet;
            assert_int_equal(the_link->ops->recv(l.passive, mspan_of(&octet, 1)), -EAGAIN);
        }
    }
    assert_int_equal(packets_counted(the_link, "packets_in"), count);
}

struct tcp_header stranger_connects_asking(int fd, uint16_t port, uint8_t flags)
{
    const struct tcp_header syn = {
        .src_port = port, .seq = 1000, .flags = TCP_SYN | flags, .options = {.mss = 1000}};
    stranger_sends(fd, &syn);
    stranger_was_heard(1);
    struct tcp_header answer = stranger_hears(fd);
    const struct tcp_header ack = {
        .src_port = port, .seq = 1001, .ack = answer.seq + 1, .flags = TCP_ACK};
    stranger_sends(fd, &ack);
    stranger_was_heard(2);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    return answer;
}

uint32_t stranger_connects(int fd, uint16_t port)
{
    return stranger_connects_asking(fd, port, 0).seq + 1;
}

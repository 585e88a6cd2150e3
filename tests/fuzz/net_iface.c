// An interface and a network that sends it anything: Ethernet, ARP, IPv4, IPv6, neighbour
// discovery, ICMP, as far as TCP. What is handed up lies within the frame and is for one of its
// addresses; what leaves fits the MTU.
//
// The input: an octet of mode, then frames, each behind an octet that says how it comes and its
// length in two. Frames may have their checksums put right, which no fuzzer would guess.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "link/packet/cut.h"
#include "net/iface.h"
#include "wire/icmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MODE_ETHERNET = 1, MODE_OFFLOADS = 2, MODE_GROUPS = 4 };
enum { FRAME_IS_CHECKED = 1, FRAME_CHECKSUMS_RIGHT = 2, FRAME_THEN_SEND = 4, FRAME_LATER = 8 };
enum { MTU = 1500 };

static struct net_iface iface;

static bool on_send(void *ctx, const struct net_frame *frame)
{
    size_t len = 0;
    for (unsigned i = 0; i < frame->iov_count; i++) {
        len += frame->iov[i].iov_len;
    }
    CHECK(len > 0);
    CHECK(frame->segment_len > 0 || len <= ETH_HEADER_LEN + MTU);
    return true;
}

static struct net_addr v4(uint8_t last)
{
    const uint8_t octets[] = {10, 7, 0, last};
    return net_addr_from_ipv4(octets);
}

static struct net_addr v6(uint8_t last)
{
    return (struct net_addr){{0xfd, 0, [15] = last}};
}

static void make(uint8_t mode)
{
    struct net_iface_config config = {
        .addrs = {{v4(1), 24}, {v6(1), 64}},
        .addr_count = 2,
        .gateway_ipv4 = v4(9),
        .mtu = MTU,
        .has_ethernet = (mode & MODE_ETHERNET) != 0,
        .eth = {{2, 0, 0, 0, 0, 1}},
        .offloads = (mode & MODE_OFFLOADS) != 0,
        .reports_groups = (mode & MODE_GROUPS) != 0,
        .port = {.send = on_send},
    };
    net_iface_init(&iface, &config);
    const uint8_t group_ipv4[] = {239, 1, 2, 3};
    const struct net_addr groups[] = {net_addr_from_ipv4(group_ipv4), {{0xff, 0x0e, [15] = 9}}};
    for (unsigned i = 0; i < 2; i++) {
        CHECK(net_iface_join(&iface, &groups[i], NS_PER_S));
    }
}

static void put_checksum(struct mspan octets, size_t at, uint64_t sum)
{
    if (octets.len >= at + 2) {
        put_be16(octets.ptr + at, 0);
        put_be16(octets.ptr + at, inet_sum_fold(inet_sum_add(sum, mspan_read(octets))));
    }
}

static void ipv4_put_right(struct mspan packet)
{
    size_t header_len = (size_t)(packet.ptr[0] & 15) * 4;
    size_t total = get_be16(packet.ptr + IPV4_OFF_TOTAL_LEN);
    if (header_len < IPV4_HEADER_LEN || header_len > packet.len) {
        return;
    }
    put_checksum(mspan_of(packet.ptr, header_len), IPV4_OFF_CHECKSUM, 0);
    total = total < packet.len ? total : packet.len;
    if (total > header_len) {
        put_checksum(mspan_of(packet.ptr + header_len, total - header_len), ICMP_OFF_CHECKSUM, 0);
    }
}

static void ipv6_put_right(struct mspan packet)
{
    struct ipv6_header h = {.next_header = packet.ptr[IPV6_OFF_NEXT_HEADER]};
    size_t len = get_be16(packet.ptr + IPV6_OFF_PAYLOAD_LEN), left = packet.len - IPV6_HEADER_LEN;
    memcpy(h.src, packet.ptr + IPV6_OFF_SRC, sizeof h.src);
    memcpy(h.dst, packet.ptr + IPV6_OFF_DST, sizeof h.dst);
    len = len < left ? len : left;
    put_checksum(mspan_of(packet.ptr + IPV6_HEADER_LEN, len), ICMP_OFF_CHECKSUM,
                 inet_sum_ipv6(&h, (uint32_t)len));
}

static void checksums_put_right(struct mspan frame)
{
    size_t skip = iface.config.has_ethernet ? ETH_HEADER_LEN : 0;
    if (frame.len < skip + IPV4_HEADER_LEN) {
        return;
    }
    struct mspan packet = mspan_of(frame.ptr + skip, frame.len - skip);
    if (packet.ptr[0] >> 4 == 4) {
        ipv4_put_right(packet);
    } else if (packet.len >= IPV6_HEADER_LEN) {
        ipv6_put_right(packet);
    }
}

static void expect_sense(const struct net_arrival *a, struct span frame)
{
    if (a->kind == NET_ARRIVAL_SEGMENT) {
        CHECK(a->segment.ptr >= frame.ptr);
        CHECK((size_t)(a->segment.ptr - frame.ptr) <= frame.len);
        CHECK(a->segment.len <= frame.len - (size_t)(a->segment.ptr - frame.ptr));
    }
    if (a->kind != NET_ARRIVAL_NOTHING && a->kind != NET_ARRIVAL_ROOM) {
        CHECK(net_iface_has_addr(&iface, &a->flow.local));
    }
    CHECK(a->kind != NET_ARRIVAL_UNREACHABLE || a->error < 0);
    if (a->kind == NET_ARRIVAL_UNREACHABLE || a->kind == NET_ARRIVAL_PATH) {
        CHECK(a->quoted.ptr >= frame.ptr && a->quoted.len >= NET_QUOTED_LEN);
        CHECK(a->quoted.ptr + a->quoted.len <= frame.ptr + frame.len);
    }
}

// To a neighbour of either family, so that the frames find somebody who is asked for.
static void send_some(instant_ns now)
{
    struct iovec iov = {(void *)"octets", 6};
    struct tcp_batch batch = {.header = {.flags = TCP_ACK},
                              .segment_count = 1,
                              .segment_len = 6,
                              .payload_len = 6,
                              .iov = &iov,
                              .iov_count = 1};
    static struct packet_cut cut;
    const struct net_segments *segments = packet_cut(&cut, &batch, iface.config.offloads);
    for (unsigned i = 0; i < 2; i++) {
        struct net_flow flow = {.local = i == 0 ? v4(1) : v6(1),
                                .remote = i == 0 ? v4(2) : v6(2),
                                .local_port = 7471,
                                .remote_port = 40000};
        unsigned count;
        net_iface_send(&iface, &flow, 0, segments, now, &count);
        CHECK(count <= 1);
    }
}

// In memory of just its length, so that a sanitizer sees the first octet read beyond it.
static void give(const uint8_t *octets, size_t len, uint8_t how, instant_ns now)
{
    uint8_t *exact = malloc(len > 0 ? len : 1);
    struct net_arrival arrival;
    CHECK(exact != NULL);
    memcpy(exact, octets, len);
    if ((how & FRAME_CHECKSUMS_RIGHT) != 0) {
        checksums_put_right(mspan_of(exact, len));
    }
    struct span frame = span_of(exact, len);
    const uint64_t reports = iface.counters.reports_out;
    net_iface_on_frame(&iface, frame, (how & FRAME_IS_CHECKED) != 0, now, &arrival);
    expect_sense(&arrival, frame);
    CHECK(iface.counters.reports_out == reports); // answers have their time
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    instant_ns now = NS_PER_S;
    size_t at = 1;
    if (size == 0) {
        return 0;
    }
    make(data[0]);
    while (size - at >= 3) {
        uint8_t how = data[at];
        size_t len = get_be16(data + at + 1);
        at += 3;
        len = len < size - at ? len : size - at;
        if ((how & FRAME_THEN_SEND) != 0) {
            send_some(now);
        }
        now += (how & FRAME_LATER) != 0 ? NS_PER_S : 0;
        if (net_iface_next_deadline(&iface) <= now) {
            net_iface_on_deadline(&iface, now);
            CHECK(net_iface_next_deadline(&iface) > now);
        }
        give(data + at, len, how, now);
        at += len;
    }
    return 0;
}

// Two interfaces on one wire: what one sends is given to the other, or looked at.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "link/packet/cut.h"
#include "net/iface.h"
#include "wire/icmp.h"

enum { FRAME_MAX = 4096, FRAMES_MAX = 16, MTU = 1500 };

struct frame {
    uint8_t octets[FRAME_MAX];
    size_t len;
    struct net_frame as; // without its elements
};

static struct net_iface end[2];
static struct frame sent[FRAMES_MAX]; // by either
static unsigned sent_count;
static unsigned room; // frames that the device takes yet

static bool on_send(void *ctx, const struct net_frame *frame)
{
    (void)ctx;
    if (room == 0) {
        return false;
    }
    room--;
    assert_true(sent_count < FRAMES_MAX);
    struct frame *f = &sent[sent_count++];
    f->len = 0;
    f->as = *frame;
    f->as.iov = NULL; // the caller's
    for (unsigned i = 0; i < frame->iov_count; i++) {
        assert_true(f->len + frame->iov[i].iov_len <= FRAME_MAX);
        if (frame->iov[i].iov_len > 0) {
            memcpy(f->octets + f->len, frame->iov[i].iov_base, frame->iov[i].iov_len);
        }
        f->len += frame->iov[i].iov_len;
    }
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

// Hosts 1 and 2 of 10.7.0.0/24 and fd00::/64; the first has a gateway, 10.7.0.9.
static void make(bool has_ethernet, bool offloads)
{
    room = FRAMES_MAX;
    sent_count = 0;
    for (uint8_t i = 0; i < 2; i++) {
        struct net_iface_config config = {
            .addrs = {{v4((uint8_t)(i + 1)), 24}, {v6((uint8_t)(i + 1)), 64}},
            .addr_count = 2,
            .gateway_ipv4 = i == 0 ? v4(9) : (struct net_addr){{0}},
            .mtu = MTU,
            .has_ethernet = has_ethernet,
            .eth = {{2, 0, 0, 0, 0, (uint8_t)(i + 1)}},
            .offloads = offloads,
            .port = {.send = on_send},
        };
        net_iface_init(&end[i], &config);
    }
}

static void fresh_interface_has_nothing_to_wait_for(void **state)
{
    make(true, false);
    assert_int_equal(net_iface_next_deadline(&end[0]), INSTANT_NEVER);
}

static struct net_arrival arrival;

static enum net_arrival_kind give(struct net_iface *to, const struct frame *f)
{
    static struct frame copy; // what `arrival` refers to must outlive this call
    copy = *f;
    net_iface_on_frame(to, span_of(copy.octets, copy.len), false, 0, &arrival);
    if (arrival.kind == NET_ARRIVAL_SEGMENT) {
        // ... and the next one: the frame given.
        const uint8_t *segment = f->octets + (arrival.segment.ptr - copy.octets);
        arrival.segment = span_of(segment, arrival.segment.len);
    }
    return arrival.kind;
}

static struct net_flow flow_between(struct net_addr local, struct net_addr remote)
{
    return (struct net_flow){
        .local = local, .remote = remote, .local_port = 7471, .remote_port = 40000};
}

static const struct net_segments *segments_of(size_t len, uint32_t segment_len)
{
    static uint8_t octets[FRAME_MAX];
    struct iovec iov = {octets, len};
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(i * 7);
    }
    struct tcp_batch batch = {
        .header = {.src_port = 7471, .dst_port = 40000, .seq = 5, .flags = TCP_ACK},
        .segment_count = (unsigned)((len + segment_len - 1) / segment_len),
        .segment_len = segment_len,
        .payload_len = (uint32_t)len,
        .iov = &iov,
        .iov_count = 1};
    static struct packet_cut cut;
    return packet_cut(&cut, &batch, end[0].config.offloads);
}

static enum net_sent send_octets(const struct net_flow *flow, size_t len, uint32_t segment_len,
                                 unsigned *ret_count)
{
    return net_iface_send(&end[0], flow, 0, segments_of(len, segment_len), 0, ret_count);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void segments_cross(struct net_addr local, struct net_addr remote)
{
    struct net_flow flow = flow_between(local, remote);
    unsigned count;
    assert_int_equal(send_octets(&flow, 2500, 1000, &count), NET_SENT);
    assert_int_equal(count, 3);
    assert_int_equal(sent_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        struct tcp_header h;
        size_t header_len;
        assert_true(sent[i].len <= MTU);
        assert_int_equal(sent[i].as.checksum_at, 0);
        assert_int_equal(give(&end[1], &sent[i]), NET_ARRIVAL_SEGMENT);
        assert_true(net_addr_equal(&arrival.flow.local, &remote));
        assert_true(net_addr_equal(&arrival.flow.remote, &local));
        assert_int_equal(tcp_header_parse(arrival.segment, &h, &header_len), TCP_PARSE_OK);
        assert_int_equal(h.seq, 5 + 1000 * i);
        assert_int_equal(arrival.segment.len - header_len, i < 2 ? 1000 : 500);
        assert_int_equal(arrival.segment.ptr[header_len], (uint8_t)(i * 7000));
    }
}

static void segments_cross_in_ipv4(void **state)
{
    make(false, false);
    segments_cross(v4(1), v4(2));
}

static void segments_cross_in_ipv6(void **state)
{
    make(false, false);
    segments_cross(v6(1), v6(2));
}

static void device_that_cuts_gets_one_large_packet(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(2));
    unsigned count;
    make(false, true);
    send_octets(&flow, 2500, 1000, &count);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].as.segment_len, 1000);
    assert_int_equal(sent[0].as.header_len, IPV4_HEADER_LEN + TCP_HEADER_LEN);
    assert_int_equal(sent[0].as.checksum_at, IPV4_HEADER_LEN);
    // What is left to do: the sum from there on, over the pseudo-header that stands in its place.
    uint8_t *tcp = sent[0].octets + IPV4_HEADER_LEN;
    size_t len = sent[0].len - IPV4_HEADER_LEN;
    uint16_t checksum = inet_sum_fold(inet_sum_add(0, span_of(tcp, len)));
    put_be16(tcp + sent[0].as.checksum_off, checksum);
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_SEGMENT);
}

// Behind whichever headers: where the checksum belongs, and where the payload begins.
static void device_that_cuts_is_told_where_the_headers_end(void **state)
{
    struct net_flow flow = flow_between(v6(1), v6(2));
    unsigned count;
    make(true, true);
    send_octets(&flow, 2500, 1000, &count); // a question to the neighbour
    assert_int_equal(count, 0);
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_ROOM);
    assert_int_equal(give(&end[0], &sent[1]), NET_ARRIVAL_ROOM);        // its answer
    assert_int_equal(send_octets(&flow, 1500, 1000, &count), NET_SENT); // a run of two
    assert_int_equal(send_octets(&flow, 900, 1000, &count), NET_SENT);
    for (unsigned i = 2; i < 4; i++) {
        assert_true(sent[i].as.is_ipv6);
        assert_int_equal(sent[i].as.checksum_at, ETH_HEADER_LEN + IPV6_HEADER_LEN);
        assert_int_equal(sent[i].as.header_len, ETH_HEADER_LEN + IPV6_HEADER_LEN + TCP_HEADER_LEN);
    }
    assert_int_equal(sent[2].as.segment_len, 1000);
    assert_int_equal(sent[3].as.segment_len, 0); // there is nothing to cut
}

// The same octets leave again: whoever sends changes nothing of a segment.
static void segments_may_be_sent_again(void **state)
{
    struct net_flow flow = flow_between(v6(1), v6(2));
    unsigned count;
    make(false, false);
    const struct net_segments *segments = segments_of(2500, 1000);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(net_iface_send(&end[0], &flow, 0, segments, 0, &count), NET_SENT);
        assert_int_equal(count, 3);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(sent[i].len, sent[3 + i].len);
        assert_memory_equal(sent[i].octets, sent[3 + i].octets, sent[i].len);
        assert_int_equal(give(&end[1], &sent[3 + i]), NET_ARRIVAL_SEGMENT);
    }
    assert_int_equal(end[0].counters.frames_out, 6);
}

static void device_with_room_for_some_takes_the_first_ones(void **state)
{
    struct net_flow flow = flow_between(v6(1), v6(2));
    unsigned count;
    make(false, false);
    room = 2;
    assert_int_equal(send_octets(&flow, 2500, 1000, &count), NET_SENT_NO_ROOM);
    assert_int_equal(count, 2);
    assert_int_equal(sent_count, 2);
    assert_int_equal(end[0].counters.frames_out, 2);
}

static void packets_say_their_class_and_that_they_may_be_marked(void **state)
{
    const struct net_flow flows[] = {flow_between(v4(1), v4(2)), flow_between(v6(1), v6(2))};
    unsigned count;
    make(false, false);
    for (unsigned i = 0; i < 2; i++) {
        struct net_segments segments = *segments_of(10, 10);
        segments.ecn = IP_ECN_ECT_0;
        net_iface_send(&end[0], &flows[i], 0x48, &segments, 0, &count);
        assert_int_equal(give(&end[1], &sent[i]), NET_ARRIVAL_SEGMENT);
        assert_int_equal(arrival.ecn, IP_ECN_ECT_0);
    }
    assert_int_equal(sent[0].octets[1], 0x48 | IP_ECN_ECT_0);
    assert_int_equal(get_be16(sent[1].octets), 0x6000 | (0x48 | IP_ECN_ECT_0) << 4);
}

static void segment_with_a_wrong_checksum_is_dropped(void **state)
{
    struct net_flow flow = flow_between(v6(1), v6(2));
    unsigned count;
    make(false, false);
    send_octets(&flow, 101, 1000, &count);
    sent[0].octets[sent[0].len - 1] ^= 1;
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.bad_checksums, 1);
}

static void full_device_takes_nothing_more(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(2));
    unsigned count;
    make(false, false);
    room = 0;
    assert_int_equal(send_octets(&flow, 100, 100, &count), NET_SENT_NO_ROOM);
    assert_int_equal(count, 0);
}

static void packets_of_others_and_from_nobody_are_dropped(void **state)
{
    struct net_flow flows[] = {
        flow_between(v4(1), v4(77)),   // to somebody else
        flow_between(v4(2), v4(2)),    // from the receiver itself
        flow_between(v4(0xff), v4(2)), // from all of its network
        flow_between(v4(0xfe), v4(2))  // from another host: that is fine
    };
    make(false, false);
    for (unsigned i = 0; i < 4; i++) {
        unsigned count;
        sent_count = 0;
        send_octets(&flows[i], 10, 10, &count);
        assert_int_equal(give(&end[1], &sent[0]),
                         i == 3 ? NET_ARRIVAL_SEGMENT : NET_ARRIVAL_NOTHING);
    }
    assert_int_equal(end[1].counters.of_others, 1);
    assert_int_equal(end[1].counters.bad_senders, 2);
}

static void fragments_are_counted(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(2));
    unsigned count;
    make(false, false);
    send_octets(&flow, 10, 10, &count);
    uint8_t *ip = sent[0].octets;
    put_be16(ip + IPV4_OFF_FLAGS, 0x2000);
    put_be16(ip + IPV4_OFF_CHECKSUM, 0);
    put_be16(ip + IPV4_OFF_CHECKSUM, inet_sum_fold(inet_sum_add(0, span_of(ip, IPV4_HEADER_LEN))));
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.fragments, 1);
}

static void packets_of_a_broken_header_are_counted(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(2));
    unsigned count;
    make(false, false);
    send_octets(&flow, 10, 10, &count);
    sent[0].octets[IPV4_OFF_CHECKSUM] ^= 1;
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.bad_packets, 1);
}

// A segment over IPv4 whose header has these four octets of options.
static enum net_arrival_kind give_with_options(const uint8_t options[4])
{
    enum { OPTIONS_LEN = 4, WORDS = (IPV4_HEADER_LEN + OPTIONS_LEN) / 4 };
    const struct net_flow flow = flow_between(v4(1), v4(2));
    struct frame *f = &sent[0];
    unsigned count;
    make(false, false);
    send_octets(&flow, 10, 10, &count);
    uint8_t *ip = f->octets, *body = ip + IPV4_HEADER_LEN;
    memmove(body + OPTIONS_LEN, body, f->len - IPV4_HEADER_LEN);
    memcpy(body, options, OPTIONS_LEN);
    f->len += OPTIONS_LEN;
    ip[0] = 4 << 4 | WORDS;
    put_be16(ip + IPV4_OFF_TOTAL_LEN, (uint16_t)f->len);
    put_be16(ip + IPV4_OFF_CHECKSUM, 0);
    put_be16(ip + IPV4_OFF_CHECKSUM, inet_sum_fold(inet_sum_add(0, span_of(ip, 4UL * WORDS))));
    return give(&end[1], f);
}

// RFC 9293 section 3.9.2 (MUST-50).
static void unknown_options_of_ip_are_passed_over(void **state)
{
    static const uint8_t router_alert[] = {148, 4, 0, 0}, unheard_of[] = {0x5e, 3, 7, 0};
    assert_int_equal(give_with_options(router_alert), NET_ARRIVAL_SEGMENT);
    assert_int_equal(give_with_options(unheard_of), NET_ARRIVAL_SEGMENT);
    assert_int_equal(end[1].counters.bad_packets, 0);
}

// RFC 7126, where RFC 9293 has MUST-51 to 53: no answer goes where a stranger says.
static void packets_with_a_route_of_their_sender_are_refused(void **state)
{
    static const uint8_t loose[] = {131, 3, 4, 0}, strict[] = {137, 3, 4, 0};
    assert_int_equal(give_with_options(loose), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.bad_packets, 1);
    assert_int_equal(give_with_options(strict), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.bad_packets, 1);
}

static void what_is_no_protocol_of_ours_is_counted(void **state)
{
    enum { UDP_LITE = 136, ETH_TYPE_LLDP = 0x88cc };
    struct net_flow flow = flow_between(v6(1), v6(2));
    unsigned count;
    make(false, false);
    send_octets(&flow, 10, 10, &count);
    sent[0].octets[IPV6_OFF_NEXT_HEADER] = UDP_LITE;
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.other_protocols, 1);
    make(true, false);
    sent_count = 0;
    send_octets(&flow, 10, 10, &count); // a question, to a group
    put_be16(sent[0].octets + ETH_OFF_TYPE, ETH_TYPE_LLDP);
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.other_protocols, 1);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void route_is_by_the_local_network_or_the_gateway(void **state)
{
    static const uint8_t far_octets[] = {192, 0, 2, 1};
    struct net_addr local, far = net_addr_from_ipv4(far_octets), far6 = {{0x20, 1}};
    struct net_addr near = v4(50), near6 = v6(50), own = v4(1), own_of_other = v4(2);
    make(true, false);
    assert_true(net_iface_route(&end[0], &near, &local));
    assert_true(net_addr_equal(&local, &own));
    assert_true(net_iface_route(&end[0], &near6, &local));
    assert_false(net_addr_is_ipv4(&local));
    assert_true(net_iface_route(&end[0], &far, &local)); // by the gateway
    assert_true(net_addr_equal(&local, &own));
    assert_false(net_iface_route(&end[1], &far, &local)); // has none
    assert_false(net_iface_route(&end[0], &far6, &local));
    assert_false(net_iface_route(&end[0], &own, &local));
    assert_true(net_iface_route(&end[0], &own_of_other, &local));
}

static void no_route_leads_to_a_group_or_to_all_of_a_network(void **state)
{
    static const uint8_t group_octets[] = {224, 0, 0, 1}, of_others_octets[] = {192, 0, 2, 255};
    struct net_addr local, group = net_addr_from_ipv4(group_octets), group6 = {{0xff, 2}};
    struct net_addr all = v4(255), of_others = net_addr_from_ipv4(of_others_octets);
    make(true, false);
    assert_false(net_iface_route(&end[0], &group, &local));
    assert_false(net_iface_route(&end[0], &group6, &local));
    assert_false(net_iface_route(&end[0], &all, &local));
    assert_true(net_iface_route(&end[0], &of_others, &local)); // whose prefix is not known here
}

/* ---- neighbours ------------------------------------------------------------------------------ */

// A segment waits for the question and its answer, then leaves.
static void neighbour_is_found(struct net_addr local, struct net_addr remote)
{
    struct net_flow flow = flow_between(local, remote);
    unsigned count;
    make(true, false);
    assert_int_equal(send_octets(&flow, 10, 10, &count), NET_SENT_NO_ROOM);
    assert_int_equal(sent_count, 1); // the question
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_ROOM);
    assert_int_equal(sent_count, 2); // the answer
    assert_int_equal(give(&end[0], &sent[1]), NET_ARRIVAL_ROOM);
    assert_int_equal(send_octets(&flow, 10, 10, &count), NET_SENT);
    assert_int_equal(give(&end[1], &sent[2]), NET_ARRIVAL_SEGMENT);
    assert_int_equal(end[0].counters.questions_out, 1);
    assert_int_equal(end[1].counters.questions_in, 1);
}

static void neighbour_is_found_by_arp(void **state)
{
    neighbour_is_found(v4(1), v4(2));
}

static void neighbour_is_found_by_solicitation(void **state)
{
    neighbour_is_found(v6(1), v6(2));
}

static void far_hosts_are_reached_by_asking_for_the_gateway(void **state)
{
    static const uint8_t far[] = {192, 0, 2, 1};
    struct net_flow flow = flow_between(v4(1), net_addr_from_ipv4(far));
    struct eth_header eth;
    struct arp_packet arp;
    struct span body;
    unsigned count;
    make(true, false);
    send_octets(&flow, 10, 10, &count);
    assert_true(eth_header_parse(span_of(sent[0].octets, sent[0].len), &eth, &body));
    assert_true(eth_addr_equal(&eth.dst, &eth_broadcast));
    assert_int_equal(arp_packet_parse(body, &arp), ARP_PARSE_OK);
    assert_int_equal(arp.target_ip[3], 9);
}

static void segments_to_who_does_not_answer_are_dropped(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(2));
    unsigned count;
    make(true, false);
    send_octets(&flow, 10, 10, &count);
    assert_false(net_iface_on_deadline(&end[0], 1 * NS_PER_S));
    assert_false(net_iface_on_deadline(&end[0], 2 * NS_PER_S));
    assert_int_equal(sent_count, 3);
    assert_true(net_iface_on_deadline(&end[0], 3 * NS_PER_S));
    assert_int_equal(send_octets(&flow, 30, 10, &count), NET_SENT_UNREACHABLE);
    assert_int_equal(count, 3);
    assert_int_equal(end[0].counters.unreachable, 3);
}

static void segments_to_where_no_route_leads_are_dropped(void **state)
{
    const struct net_addr far = {{0x20, 1, 0xd, 0xb8, [15] = 1}};
    struct net_flow flow = flow_between(v6(1), far);
    unsigned count;
    make(true, false);
    assert_int_equal(send_octets(&flow, 30, 10, &count), NET_SENT_UNREACHABLE);
    assert_int_equal(count, 3);
    assert_int_equal(sent_count, 0); // nobody is asked
    assert_int_equal(end[0].counters.unreachable, 3);
}

static void forwarded_neighbour_messages_are_refused(void **state)
{
    struct net_flow flow = flow_between(v6(1), v6(2));
    unsigned count;
    make(true, false);
    send_octets(&flow, 10, 10, &count);
    sent[0].octets[ETH_HEADER_LEN + IPV6_OFF_HOP_LIMIT] = 254;
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.bad_icmp, 1);
    assert_int_equal(sent_count, 1);
}

static void question_for_somebody_else_is_not_answered(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(3));
    unsigned count;
    make(true, false);
    send_octets(&flow, 10, 10, &count);
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(sent_count, 1);
}

static void frames_to_other_stations_are_dropped(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(2));
    unsigned count;
    make(true, false);
    send_octets(&flow, 10, 10, &count);
    memset(sent[0].octets, 0, ETH_ADDR_LEN);
    assert_int_equal(give(&end[1], &sent[0]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.of_others, 1);
}

// Its reset would answer everybody's, RFC 1122 section 3.3.6.
static void segments_in_frames_for_everybody_are_dropped(void **state)
{
    struct net_flow flow = flow_between(v4(1), v4(2));
    unsigned count;
    make(true, false);
    send_octets(&flow, 10, 10, &count);
    give(&end[1], &sent[0]); // who has that address
    give(&end[0], &sent[1]);
    send_octets(&flow, 10, 10, &count);
    assert_int_equal(give(&end[1], &sent[2]), NET_ARRIVAL_SEGMENT);
    memset(sent[2].octets, 0xff, ETH_ADDR_LEN);
    assert_int_equal(give(&end[1], &sent[2]), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[1].counters.of_others, 1);
}

/* ---- ICMP ------------------------------------------------------------------------------------ */

// A message from `remote` to `local`, without Ethernet.
static struct frame icmp_frame(struct net_addr remote, struct net_addr local,
                               const struct icmp_header *h, const uint8_t *body, size_t body_len)
{
    struct frame f = {.len = 0};
    size_t len = ICMP_HEADER_LEN + body_len;
    if (net_addr_is_ipv4(&remote)) {
        struct ipv4_header ip = {.total_len = (uint16_t)(IPV4_HEADER_LEN + len),
                                 .ttl = 60,
                                 .protocol = IP_PROTOCOL_ICMP};
        memcpy(ip.src, net_addr_ipv4(&remote), IPV4_ADDR_LEN);
        memcpy(ip.dst, net_addr_ipv4(&local), IPV4_ADDR_LEN);
        f.len = ipv4_header_emit(&ip, f.octets);
        f.len += icmp_header_emit(h, span_of(body, body_len), 0, f.octets + f.len);
    } else {
        struct ipv6_header ip = {
            .payload_len = (uint16_t)len, .next_header = IP_PROTOCOL_ICMPV6, .hop_limit = 60};
        memcpy(ip.src, remote.octets, IPV6_ADDR_LEN);
        memcpy(ip.dst, local.octets, IPV6_ADDR_LEN);
        f.len = ipv6_header_emit(&ip, f.octets);
        f.len += icmp_header_emit(h, span_of(body, body_len), inet_sum_ipv6(&ip, (uint32_t)len),
                                  f.octets + f.len);
    }
    memcpy(f.octets + f.len, body, body_len);
    f.len += body_len;
    return f;
}

static void echo_is_answered(void **state)
{
    struct icmp_header request = {.type = ICMP_ECHO_REQUEST, .rest = 0x12340001};
    struct frame f = icmp_frame(v4(2), v4(1), &request, (const uint8_t *)"ping", 4);
    make(false, false);
    give(&end[0], &f);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].len, f.len);
    assert_int_equal(sent[0].octets[IPV4_HEADER_LEN], ICMP_ECHO_REPLY);
    assert_memory_equal(sent[0].octets + IPV4_OFF_DST, f.octets + IPV4_OFF_SRC, IPV4_ADDR_LEN);
    assert_int_equal(inet_sum_fold(inet_sum_add(0, span_of(sent[0].octets + IPV4_HEADER_LEN, 12))),
                     0);
    request.type = ICMPV6_ECHO_REQUEST;
    f = icmp_frame(v6(2), v6(1), &request, (const uint8_t *)"ping", 4);
    give(&end[0], &f);
    assert_int_equal(sent[1].octets[IPV6_HEADER_LEN], ICMPV6_ECHO_REPLY);
    assert_int_equal(end[0].counters.echoes, 2);
}

// As it arrives at the first host from the second, in a frame to `to`.
static enum net_arrival_kind give_in_frame(const struct frame *packet, struct eth_addr to)
{
    const struct eth_header eth = {.dst = to, .src = {{2, 0, 0, 0, 0, 2}}, .type = ETH_TYPE_IPV4};
    struct frame f = {.len = ETH_HEADER_LEN + packet->len};
    eth_header_emit(&eth, f.octets);
    memcpy(f.octets + ETH_HEADER_LEN, packet->octets, packet->len);
    return give(&end[0], &f);
}

static struct frame datagram_frame(struct net_addr remote, struct net_addr local)
{
    static const uint8_t udp[] = {0xd0, 0x0d, 0x12, 0xb7, 0, 12, 0, 0, 'w', 'e', 'f', 't'};
    struct ipv4_header ip = {
        .total_len = IPV4_HEADER_LEN + sizeof udp, .ttl = 60, .protocol = IP_PROTOCOL_UDP};
    struct frame f;
    memcpy(ip.src, net_addr_ipv4(&remote), IPV4_ADDR_LEN);
    memcpy(ip.dst, net_addr_ipv4(&local), IPV4_ADDR_LEN);
    f.len = ipv4_header_emit(&ip, f.octets) + sizeof udp;
    memcpy(f.octets + IPV4_HEADER_LEN, udp, sizeof udp);
    return f;
}

// RFC 1122 section 3.3.6: of UDP and ICMP too.
static void packets_to_one_host_in_frames_for_everybody_are_dropped(void **state)
{
    static const uint8_t all_octets[] = {255, 255, 255, 255};
    const struct eth_addr all = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, ours = {{2, [5] = 1}};
    const struct icmp_header request = {.type = ICMP_ECHO_REQUEST, .rest = 0x12340001};
    const struct frame ping = icmp_frame(v4(2), v4(1), &request, (const uint8_t *)"ping", 4);
    const struct frame datagram = datagram_frame(v4(2), v4(1));
    const struct frame to_all = datagram_frame(v4(2), net_addr_from_ipv4(all_octets));
    make(true, false);
    end[0].config.takes_datagrams = true;
    assert_int_equal(give_in_frame(&ping, all), NET_ARRIVAL_NOTHING);
    assert_int_equal(give_in_frame(&datagram, all), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[0].counters.of_others, 2);
    assert_int_equal(end[0].counters.echoes, 0);
    assert_int_equal(give_in_frame(&datagram, ours), NET_ARRIVAL_DATAGRAM);
    assert_int_equal(give_in_frame(&to_all, all), NET_ARRIVAL_DATAGRAM);
    give_in_frame(&ping, ours);
    assert_int_equal(end[0].counters.echoes, 1);
}

// `quoted`: how much of a segment of ours the message carries.
static enum net_arrival_kind complain(struct net_addr local, struct net_addr remote,
                                      const struct icmp_header *h, size_t quoted)
{
    struct net_flow flow = flow_between(local, remote);
    unsigned count;
    make(false, false);
    send_octets(&flow, 100, 100, &count);
    struct frame f = icmp_frame(remote, local, h, sent[0].octets, quoted);
    return give(&end[0], &f);
}

static void message_about_a_segment_names_its_connection(void **state)
{
    struct icmp_header h = {.type = ICMP_UNREACHABLE, .code = ICMP_PORT_UNREACHABLE};
    assert_int_equal(complain(v4(1), v4(2), &h, IPV4_HEADER_LEN + 8), NET_ARRIVAL_UNREACHABLE);
    struct net_flow flow = flow_between(v4(1), v4(2));
    assert_memory_equal(&arrival.flow, &flow, sizeof flow);
    assert_int_equal(get_be32(arrival.quoted.ptr + TCP_OFF_SEQ), 5);
    assert_int_equal(arrival.quoted.len, 8);
    assert_int_equal(arrival.error, -ECONNREFUSED);
    h = (struct icmp_header){.type = ICMPV6_UNREACHABLE, .code = ICMPV6_NO_ROUTE};
    assert_int_equal(complain(v6(1), v6(2), &h, IPV6_HEADER_LEN + 8), NET_ARRIVAL_UNREACHABLE);
    assert_int_equal(arrival.error, -ENETUNREACH);
}

static void smaller_mtu_of_a_path_is_told_within_bounds(void **state)
{
    struct icmp_header v4_says = {.type = ICMP_UNREACHABLE, .code = ICMP_FRAGMENTATION_NEEDED};
    struct icmp_header v6_says = {.type = ICMPV6_TOO_BIG};
    v4_says.rest = 1400;
    assert_int_equal(complain(v4(1), v4(2), &v4_says, IPV4_HEADER_LEN + 8), NET_ARRIVAL_PATH);
    assert_int_equal(arrival.segment_len_max, 1400 - IPV4_HEADER_LEN);
    v4_says.rest = 68;
    complain(v4(1), v4(2), &v4_says, IPV4_HEADER_LEN + 8);
    assert_int_equal(arrival.segment_len_max, NET_MTU_MIN - IPV4_HEADER_LEN);
    v6_says.rest = 1300;
    assert_int_equal(complain(v6(1), v6(2), &v6_says, IPV6_HEADER_LEN + 8), NET_ARRIVAL_PATH);
    assert_int_equal(arrival.segment_len_max, 1300 - IPV6_HEADER_LEN);
    v6_says.rest = 100;
    complain(v6(1), v6(2), &v6_says, IPV6_HEADER_LEN + 8);
    assert_int_equal(arrival.segment_len_max, 1280 - IPV6_HEADER_LEN);
}

static void messages_about_nothing_of_ours_are_refused(void **state)
{
    struct icmp_header h = {.type = ICMP_UNREACHABLE, .code = ICMP_HOST_UNREACHABLE};
    assert_int_equal(complain(v4(1), v4(2), &h, IPV4_HEADER_LEN + 7), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[0].counters.bad_icmp, 1);
    assert_int_equal(complain(v4(3), v4(2), &h, IPV4_HEADER_LEN + 8), NET_ARRIVAL_NOTHING);
    h.type = ICMP_TIME_EXCEEDED; // no reason to give up
    assert_int_equal(complain(v4(1), v4(2), &h, IPV4_HEADER_LEN + 8), NET_ARRIVAL_NOTHING);
    assert_int_equal(end[0].counters.bad_icmp, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_interface_has_nothing_to_wait_for),
        cmocka_unit_test(segments_cross_in_ipv4),
        cmocka_unit_test(segments_cross_in_ipv6),
        cmocka_unit_test(device_that_cuts_gets_one_large_packet),
        cmocka_unit_test(device_that_cuts_is_told_where_the_headers_end),
        cmocka_unit_test(segments_may_be_sent_again),
        cmocka_unit_test(device_with_room_for_some_takes_the_first_ones),
        cmocka_unit_test(packets_say_their_class_and_that_they_may_be_marked),
        cmocka_unit_test(segment_with_a_wrong_checksum_is_dropped),
        cmocka_unit_test(full_device_takes_nothing_more),
        cmocka_unit_test(packets_of_others_and_from_nobody_are_dropped),
        cmocka_unit_test(fragments_are_counted),
        cmocka_unit_test(packets_of_a_broken_header_are_counted),
        cmocka_unit_test(unknown_options_of_ip_are_passed_over),
        cmocka_unit_test(packets_with_a_route_of_their_sender_are_refused),
        cmocka_unit_test(what_is_no_protocol_of_ours_is_counted),
        cmocka_unit_test(route_is_by_the_local_network_or_the_gateway),
        cmocka_unit_test(no_route_leads_to_a_group_or_to_all_of_a_network),
        cmocka_unit_test(neighbour_is_found_by_arp),
        cmocka_unit_test(neighbour_is_found_by_solicitation),
        cmocka_unit_test(far_hosts_are_reached_by_asking_for_the_gateway),
        cmocka_unit_test(segments_to_who_does_not_answer_are_dropped),
        cmocka_unit_test(segments_to_where_no_route_leads_are_dropped),
        cmocka_unit_test(forwarded_neighbour_messages_are_refused),
        cmocka_unit_test(question_for_somebody_else_is_not_answered),
        cmocka_unit_test(frames_to_other_stations_are_dropped),
        cmocka_unit_test(segments_in_frames_for_everybody_are_dropped),
        cmocka_unit_test(echo_is_answered),
        cmocka_unit_test(packets_to_one_host_in_frames_for_everybody_are_dropped),
        cmocka_unit_test(message_about_a_segment_names_its_connection),
        cmocka_unit_test(smaller_mtu_of_a_path_is_told_within_bounds),
        cmocka_unit_test(messages_about_nothing_of_ours_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

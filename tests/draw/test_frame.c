// What a captured packet is: links, segments of either IP, and datagrams that hold several packets
// of RoCE, as a capture sees them before they are cut.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "draw/frame.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/roce.h"
#include "wire/tcp.h"
#include "wire/udp_header.h"

enum { LINK_RAW = 101, HEADERS_LEN = IPV4_HEADER_LEN + UDP_HEADER_LEN, PACKET_MAX = 2048 };

static uint8_t packet[PACKET_MAX], scratch[FRAME_SCRATCH_LEN];
static size_t len;

static int setup(void **state)
{
    memset(packet, 0, sizeof packet);
    put_be16(packet + IPV4_HEADER_LEN + UDP_OFF_DST_PORT, FRAME_ROCE_PORT);
    len = HEADERS_LEN;
    return 0;
}

// A packet for queue pair 0x123 behind what the datagram holds, its ICRC as wrong as it is of all
// packets in a datagram of several.
static void join(uint8_t opcode, uint32_t psn, size_t packet_len)
{
    const struct bth bth = {
        .opcode = opcode, .pkey = BTH_PKEY_DEFAULT, .dest_qp = 0x123, .psn = psn};
    bth_emit(&bth, packet + len);
    len += packet_len;
}

static struct frame parsed(void)
{
    ipv4_header_emit(&(struct ipv4_header){.total_len = (uint16_t)len,
                                           .ttl = 64,
                                           .protocol = IP_PROTOCOL_UDP,
                                           .src = {127, 0, 0, 1},
                                           .dst = {127, 0, 0, 1}},
                     packet);
    put_be16(packet + IPV4_HEADER_LEN + UDP_OFF_LEN, (uint16_t)(len - IPV4_HEADER_LEN));
    const struct capture_packet captured = {
        .link_type = LINK_RAW, .octets = span_of(packet, len), .len = (uint32_t)len};
    struct frame f;
    assert_int_equal(frame_parse(&captured, FRAME_ROCE_PORT, scratch, &f), FRAME_OK);
    assert_int_equal(f.kind, FRAME_ROCE);
    return f;
}

static void expect_opcode(const struct frame *f, uint8_t opcode, size_t packet_len)
{
    struct bth bth;
    assert_int_equal(bth_parse(f->payload, &bth), ROCE_PARSE_OK);
    assert_int_equal(bth.opcode, opcode);
    assert_int_equal(f->payload.len, packet_len - 4); // the ICRC
    assert_false(f->is_icrc_wrong);
}

static void packets_of_one_message_are_taken_apart(void **state)
{
    join(ROCE_RC | ROCE_WRITE_MIDDLE, 0xffffff, 272);
    join(ROCE_RC | ROCE_WRITE_LAST, 0, 144); // PSNs wrap
    struct frame f = parsed();
    expect_opcode(&f, ROCE_RC | ROCE_WRITE_MIDDLE, 272);
    assert_true(frame_next(&f));
    expect_opcode(&f, ROCE_RC | ROCE_WRITE_LAST, 144);
    assert_false(frame_next(&f));
}

// What a queue pair asks and what it answers have PSNs that have nothing to do with each other.
static void a_request_and_an_acknowledgement_are_taken_apart(void **state)
{
    join(ROCE_RC | ROCE_READ_REQUEST, 0x500000, 32);
    join(ROCE_RC | ROCE_ACKNOWLEDGE, 7, 20);
    struct frame f = parsed();
    expect_opcode(&f, ROCE_RC | ROCE_READ_REQUEST, 32);
    assert_true(frame_next(&f));
    expect_opcode(&f, ROCE_RC | ROCE_ACKNOWLEDGE, 20);
    assert_false(frame_next(&f));
}

static void a_damaged_packet_is_one_with_a_wrong_icrc(void **state)
{
    join(ROCE_RC | ROCE_SEND_ONLY, 7, 80);
    struct frame f = parsed();
    assert_true(f.is_icrc_wrong);
    assert_int_equal(f.payload.len, 76);
    assert_false(frame_next(&f));
}

/* ---- links ----------------------------------------------------------------------------------- */

struct link_row {
    uint32_t link_type;
    uint8_t head[24];
    uint32_t len;
    enum frame_verdict verdict;
};

static const struct link_row links[] = {
    {1, {[12] = 0x08, 0x00}, 14, FRAME_OK},
    {1, {[12] = 0x08, 0x06}, 14, FRAME_NOT_IP},
    {1, {[12] = 0x81, 0x00, 0, 7, 0x08, 0x00}, 18, FRAME_OK},
    {1, {[12] = 0x88, 0xa8, 0, 7, 0x81, 0x00, 0, 8, 0x08, 0x00}, 22, FRAME_OK},
    {1, {[12] = 0x88, 0xa8, 0, 7, 0x81, 0x00, 0, 8, 0x81, 0x00}, 22, FRAME_CUT},
    {113, {[14] = 0x08, 0x00}, 16, FRAME_OK},
    {113, {[14] = 0x86, 0xdd}, 16, FRAME_OK},
    {276, {0x08, 0x00}, 20, FRAME_OK},
    {276, {0x08, 0x06}, 20, FRAME_NOT_IP},
    {0, {2}, 4, FRAME_OK},
    {108, {2}, 4, FRAME_OK},
    {12, {0}, 0, FRAME_OK},
    {14, {0}, 0, FRAME_OK},
    {101, {0}, 0, FRAME_OK},
    {228, {0}, 0, FRAME_OK},
    {229, {0}, 0, FRAME_OK},
    {147, {0}, 0, FRAME_LINK_TYPE},
};
enum { LINK_COUNT = sizeof links / sizeof links[0], SOME_PORT = 0x1234, OTHER_PORT = 0x5678 };

// The first `there` octets of a packet of this link: behind its header stands a datagram.
static enum frame_verdict parse_behind(const struct link_row *link, uint32_t there,
                                       uint16_t dst_port, uint16_t udp_len, struct frame *ret)
{
    uint8_t octets[64] = {0};
    uint8_t *ip = octets + link->len;
    memcpy(octets, link->head, link->len);
    ipv4_header_emit(&(struct ipv4_header){.total_len = HEADERS_LEN,
                                           .ttl = 64,
                                           .protocol = IP_PROTOCOL_UDP,
                                           .src = {127, 0, 0, 1},
                                           .dst = {127, 0, 0, 1}},
                     ip);
    put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_SRC_PORT, SOME_PORT);
    put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_DST_PORT, dst_port);
    put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_LEN, udp_len);
    const struct capture_packet captured = {
        .link_type = link->link_type, .octets = span_of(octets, there), .len = there};
    return frame_parse(&captured, FRAME_ROCE_PORT, scratch, ret);
}

static void each_link_has_a_header_of_its_own_length(void **state)
{
    for (unsigned i = 0; i < LINK_COUNT; i++) {
        struct frame f;
        assert_int_equal(
            parse_behind(&links[i], links[i].len + HEADERS_LEN, OTHER_PORT, UDP_HEADER_LEN, &f),
            links[i].verdict);
        if (links[i].verdict == FRAME_OK) {
            assert_int_equal(f.src.port, SOME_PORT);
            assert_int_equal(f.dst.port, OTHER_PORT);
            assert_int_equal(f.kind, FRAME_OTHER);
        }
    }
}

static void a_header_of_a_link_that_is_cut_is_told(void **state)
{
    for (unsigned i = 0; i < LINK_COUNT; i++) {
        struct frame f;
        for (uint32_t cut = 0; links[i].verdict == FRAME_OK && cut < links[i].len; cut++) {
            assert_int_equal(parse_behind(&links[i], cut, OTHER_PORT, UDP_HEADER_LEN, &f),
                             FRAME_CUT);
        }
    }
}

static void a_datagram_of_another_length_than_its_packet_is_refused(void **state)
{
    for (unsigned i = 0; i < LINK_COUNT; i++) {
        struct frame f;
        if (links[i].verdict == FRAME_OK) {
            assert_int_equal(parse_behind(&links[i], links[i].len + HEADERS_LEN, FRAME_ROCE_PORT,
                                          UDP_HEADER_LEN + 1, &f),
                             FRAME_UDP);
        }
    }
}

static void a_datagram_without_room_for_its_headers_is_refused(void **state)
{
    struct frame f;
    for (uint32_t body = 0; body < UDP_HEADER_LEN + ICRC_LEN; body++) {
        const uint32_t all = IPV4_HEADER_LEN + body;
        ipv4_header_emit(&(struct ipv4_header){.total_len = (uint16_t)all,
                                               .ttl = 64,
                                               .protocol = IP_PROTOCOL_UDP,
                                               .src = {127, 0, 0, 1},
                                               .dst = {127, 0, 0, 1}},
                         packet);
        put_be16(packet + IPV4_HEADER_LEN + UDP_OFF_LEN, (uint16_t)body);
        const struct capture_packet captured = {
            .link_type = LINK_RAW, .octets = span_of(packet, all), .len = all};
        assert_int_equal(frame_parse(&captured, FRAME_ROCE_PORT, scratch, &f), FRAME_UDP);
    }
}

/* ---- TCP ------------------------------------------------------------------------------------- */

enum { SRC_PORT = 40001, DST_PORT = 4420, PAYLOAD_LEN = 10 };

enum carrier { OVER_IPV4, OVER_IPV6, OVER_UDP, OVER_OTHER_PORTS, CARRIER_COUNT };

static const struct tcp_header segment_header = {
    .src_port = SRC_PORT, .dst_port = DST_PORT, .seq = 7, .flags = TCP_ACK};

// A segment with so many octets, and what carries it; returns the packet's length.
static size_t segment(enum carrier carrier, uint8_t *octets, size_t payload_len)
{
    const bool is_udp = carrier == OVER_UDP || carrier == OVER_OTHER_PORTS;
    const uint8_t protocol = is_udp ? IP_PROTOCOL_UDP : IP_PROTOCOL_TCP;
    const size_t udp_len = is_udp ? UDP_HEADER_LEN : 0;
    const size_t body_len = udp_len + TCP_HEADER_LEN + payload_len;
    const struct ipv4_header v4 = {.total_len = (uint16_t)(IPV4_HEADER_LEN + body_len),
                                   .ttl = 64,
                                   .protocol = protocol,
                                   .src = {192, 0, 2, 1},
                                   .dst = {192, 0, 2, 2}};
    const struct ipv6_header v6 = {.payload_len = (uint16_t)body_len,
                                   .next_header = protocol,
                                   .hop_limit = 64,
                                   .src = {0x20, 1, 0xd, 0xb8, [15] = 1},
                                   .dst = {0x20, 1, 0xd, 0xb8, [15] = 2}};
    size_t at =
        carrier == OVER_IPV6 ? ipv6_header_emit(&v6, octets) : ipv4_header_emit(&v4, octets);
    if (is_udp) {
        put_be16(octets + at + UDP_OFF_SRC_PORT, SRC_PORT);
        put_be16(octets + at + UDP_OFF_DST_PORT, DST_PORT + (carrier == OVER_OTHER_PORTS));
        put_be16(octets + at + UDP_OFF_LEN, (uint16_t)body_len);
        at += UDP_HEADER_LEN;
    }
    at += tcp_header_emit(&segment_header, octets + at);
    memset(octets + at, 'p', payload_len);
    return at + payload_len;
}

static enum frame_verdict parse_captured(const uint8_t *octets, size_t captured, size_t all,
                                         struct frame *ret)
{
    const struct capture_packet it = {
        .link_type = LINK_RAW, .octets = span_of(octets, captured), .len = (uint32_t)all};
    return frame_parse(&it, FRAME_ROCE_PORT, scratch, ret);
}

// Of IPv4, of IPv6, and in datagrams of the same ports.
static void segments_come_in_packets_of_either_ip_and_in_datagrams(void **state)
{
    static const char *const ends[CARRIER_COUNT][2] = {
        [OVER_IPV4] = {"192.0.2.1:40001", "192.0.2.2:4420"},
        [OVER_IPV6] = {"[2001:db8::1]:40001", "[2001:db8::2]:4420"},
        [OVER_UDP] = {"192.0.2.1:40001", "192.0.2.2:4420"},
        [OVER_OTHER_PORTS] = {"192.0.2.1:40001", "192.0.2.2:4421"},
    };
    for (enum carrier c = 0; c < CARRIER_COUNT; c++) {
        for (size_t payload_len = 0; payload_len <= PAYLOAD_LEN; payload_len += PAYLOAD_LEN) {
            char text[FRAME_END_TEXT_MAX];
            uint8_t octets[128];
            struct frame f;
            size_t all = segment(c, octets, payload_len);
            assert_int_equal(parse_captured(octets, all, all, &f), FRAME_OK);
            assert_string_equal(frame_end_format(&f.src, text), ends[c][0]);
            assert_string_equal(frame_end_format(&f.dst, text), ends[c][1]);
            assert_int_equal(f.kind, c == OVER_OTHER_PORTS ? FRAME_OTHER : FRAME_TCP);
            assert_int_equal(f.payload.len, c == OVER_OTHER_PORTS ? 0 : payload_len);
            assert_int_equal(f.cut_len, 0);
        }
    }
}

// What was not captured is zero, and is said to be; headers must be there.
static void what_was_not_captured_of_a_segment_is_counted(void **state)
{
    for (enum carrier c = OVER_IPV4; c <= OVER_UDP; c++) {
        uint8_t octets[128];
        const size_t all = segment(c, octets, PAYLOAD_LEN), headers = all - PAYLOAD_LEN;
        for (size_t captured = headers - 1; captured <= all; captured++) {
            static const uint8_t zeros[PAYLOAD_LEN];
            struct frame f;
            if (captured < headers) {
                assert_int_equal(parse_captured(octets, captured, all, &f), FRAME_CUT);
                continue;
            }
            assert_int_equal(parse_captured(octets, captured, all, &f), FRAME_OK);
            assert_int_equal(f.payload.len, PAYLOAD_LEN);
            assert_int_equal(f.cut_len, all - captured);
            assert_memory_equal(f.payload.ptr, octets + headers, captured - headers);
            assert_memory_equal(f.payload.ptr + captured - headers, zeros, all - captured);
        }
    }
}

// What a lower layer padded is none of it; what is said to be longer than any packet is as long as
// it was captured.
static void a_segment_ends_where_its_packet_does(void **state)
{
    uint8_t octets[128] = {0};
    struct frame f;
    size_t all = segment(OVER_IPV4, octets, PAYLOAD_LEN);
    assert_int_equal(parse_captured(octets, all + 6, all + 6, &f), FRAME_OK);
    assert_int_equal(f.payload.len, PAYLOAD_LEN);
    assert_int_equal(parse_captured(octets, all, FRAME_SCRATCH_LEN + 1, &f), FRAME_OK);
    assert_int_equal(f.payload.len, PAYLOAD_LEN);
    assert_int_equal(f.cut_len, 0);
    assert_int_equal(parse_captured(octets, all, FRAME_SCRATCH_LEN, &f), FRAME_OK);
    assert_int_equal(f.cut_len, 0);
}

static void each_verdict_has_its_words(void **state)
{
    static const char *const words[] = {
        [FRAME_OK] = "ok",
        [FRAME_LINK_TYPE] = "a link type that weft does not know",
        [FRAME_NOT_IP] = "not IP",
        [FRAME_CUT] = "captured too short for its headers",
        [FRAME_UDP] = "a UDP length that is not the packet's",
    };
    uint8_t octets[128];
    struct frame f = {0};
    for (enum frame_verdict v = 0; v < FRAME_VERDICT_COUNT; v++) {
        if (words[v] != NULL) {
            assert_string_equal(frame_verdict_text(v, &f), words[v]);
        }
    }
    size_t all = segment(OVER_IPV4, octets, 0);
    octets[IPV4_HEADER_LEN + 12] = 0x40; // four words
    assert_int_equal(parse_captured(octets, all, all, &f), FRAME_TCP_HEADER);
    assert_string_equal(frame_verdict_text(FRAME_TCP_HEADER, &f),
                        tcp_parse_verdict_name(TCP_PARSE_DATA_OFFSET));
    assert_int_equal(parse_captured(octets, 8, 8, &f), FRAME_IP);
    assert_string_equal(frame_verdict_text(FRAME_IP, &f),
                        ip_parse_verdict_name(IP_PARSE_TOO_SHORT));
    assert_int_equal(parse_captured(octets, 0, 0, &f), FRAME_IP);
}

/* ---- several packets of RoCE ----------------------------------------------------------------- */

// What is for another queue pair, of another partition, of no opcode or far ahead is no packet
// behind the first, and the whole is one that is wrong.
static void only_packets_of_one_queue_pair_are_taken_apart(void **state)
{
    static const struct {
        struct bth second;
        bool is_taken;
    } rows[] = {
        {{.opcode = 2, .pkey = 0xffff, .dest_qp = 0x123, .psn = 8}, true},
        {{.opcode = 2, .pkey = 0xffff, .dest_qp = 0x124, .psn = 8}, false},
        {{.opcode = 2, .pkey = 0xfffe, .dest_qp = 0x123, .psn = 8}, false},
        {{.opcode = 0x1f, .pkey = 0xffff, .dest_qp = 0x123, .psn = 8}, false},
        {{.opcode = 2, .pkey = 0xffff, .dest_qp = 0x123, .psn = 6}, false},
        {{.opcode = 2, .pkey = 0xffff, .dest_qp = 0x123, .psn = 7 + 0xffff}, true},
        {{.opcode = 2, .pkey = 0xffff, .dest_qp = 0x123, .psn = 7 + 0x10000}, false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(NULL);
        join(ROCE_RC | ROCE_SEND_FIRST, 7, 272);
        bth_emit(&rows[i].second, packet + len);
        len += 272;
        struct frame f = parsed();
        assert_int_equal(f.is_icrc_wrong, !rows[i].is_taken);
        assert_int_equal(frame_next(&f), rows[i].is_taken);
        assert_false(frame_next(&f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(packets_of_one_message_are_taken_apart, setup),
        cmocka_unit_test_setup(a_request_and_an_acknowledgement_are_taken_apart, setup),
        cmocka_unit_test_setup(a_damaged_packet_is_one_with_a_wrong_icrc, setup),
        cmocka_unit_test_setup(each_link_has_a_header_of_its_own_length, setup),
        cmocka_unit_test_setup(a_header_of_a_link_that_is_cut_is_told, setup),
        cmocka_unit_test_setup(a_datagram_of_another_length_than_its_packet_is_refused, setup),
        cmocka_unit_test_setup(a_datagram_without_room_for_its_headers_is_refused, setup),
        cmocka_unit_test(segments_come_in_packets_of_either_ip_and_in_datagrams),
        cmocka_unit_test(what_was_not_captured_of_a_segment_is_counted),
        cmocka_unit_test(a_segment_ends_where_its_packet_does),
        cmocka_unit_test(each_verdict_has_its_words),
        cmocka_unit_test(only_packets_of_one_queue_pair_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

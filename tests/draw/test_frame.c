// Datagrams that hold several packets, as a capture sees them before they are cut.
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
#include "wire/udp.h"

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

// Behind the header of each kind of link stands a datagram that is none of RDMA's.
static void each_link_has_a_header_of_its_own_length(void **state)
{
    static const struct {
        uint32_t link_type;
        uint8_t head[24];
        uint32_t len;
        enum frame_verdict verdict;
    } rows[] = {
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
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t octets[64];
        struct frame f;
        const uint32_t all = rows[i].len + HEADERS_LEN;
        uint8_t *ip = octets + rows[i].len;
        memset(octets, 0, sizeof octets);
        memcpy(octets, rows[i].head, rows[i].len);
        ipv4_header_emit(&(struct ipv4_header){.total_len = HEADERS_LEN,
                                               .ttl = 64,
                                               .protocol = IP_PROTOCOL_UDP,
                                               .src = {127, 0, 0, 1},
                                               .dst = {127, 0, 0, 1}},
                         ip);
        put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_SRC_PORT, 0x1234);
        put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_DST_PORT, 0x5678);
        put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_LEN, UDP_HEADER_LEN);
        const struct capture_packet captured = {
            .link_type = rows[i].link_type, .octets = span_of(octets, all), .len = all};
        assert_int_equal(frame_parse(&captured, FRAME_ROCE_PORT, scratch, &f), rows[i].verdict);
        if (rows[i].verdict == FRAME_OK) {
            assert_int_equal(f.src.port, 0x1234);
            assert_int_equal(f.dst.port, 0x5678);
            assert_int_equal(f.kind, FRAME_OTHER);
        }
        for (uint32_t cut = 0; rows[i].verdict == FRAME_OK && cut < rows[i].len; cut++) {
            const struct capture_packet less = {
                .link_type = rows[i].link_type, .octets = span_of(octets, cut), .len = cut};
            assert_int_equal(frame_parse(&less, FRAME_ROCE_PORT, scratch, &f), FRAME_CUT);
        }
        put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_DST_PORT, FRAME_ROCE_PORT);
        put_be16(ip + IPV4_HEADER_LEN + UDP_OFF_LEN, UDP_HEADER_LEN + 1);
        if (rows[i].verdict == FRAME_OK) { // a length that is not the packet's
            assert_int_equal(frame_parse(&captured, FRAME_ROCE_PORT, scratch, &f), FRAME_UDP);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(packets_of_one_message_are_taken_apart, setup),
        cmocka_unit_test_setup(a_request_and_an_acknowledgement_are_taken_apart, setup),
        cmocka_unit_test_setup(a_damaged_packet_is_one_with_a_wrong_icrc, setup),
        cmocka_unit_test_setup(each_link_has_a_header_of_its_own_length, setup),
        cmocka_unit_test_setup(a_datagram_without_room_for_its_headers_is_refused, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

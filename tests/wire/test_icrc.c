// The ICRC, held against two packets that were captured from others (a soft RNIC and a
// ConnectX-4 Lx), and against itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/icrc_known.h"
#include "wire/ip.h"
#include "wire/roce.h"
#include "wire/udp_header.h"

// Of a soft RNIC: UC SEND ONLY, 18 octets and 2 of pad.
static const uint8_t captured_uc[] = {
    0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd4, 0xc0, 0xa8, 0x00, 0x07,
    0xc0, 0xa8, 0x00, 0x07, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0x00, 0x00, 0x24, 0x60, 0xff, 0xff,
    0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10, 0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9,
    0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3};
// Of a ConnectX-4 Lx: CNP.
static const uint8_t captured_cnp[] = {
    0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11,
    0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00,
    0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a};

static uint32_t icrc_of(const uint8_t *packet, size_t len)
{
    uint32_t icrc;
    assert_true(icrc_of_packet(span_of(packet, len), &icrc));
    return icrc;
}

static void captured_packets_have_the_icrc_that_they_carry(void **state)
{
    const struct span packets[] = {span_of(captured_uc, sizeof captured_uc),
                                   span_of(captured_cnp, sizeof captured_cnp)};
    for (unsigned i = 0; i < 2; i++) {
        size_t len = packets[i].len - ICRC_LEN;
        uint8_t wire[ICRC_LEN];
        icrc_put(wire, icrc_of(packets[i].ptr, len));
        assert_memory_equal(wire, packets[i].ptr + len, ICRC_LEN);
        assert_int_equal(icrc_get(packets[i].ptr + len), icrc_of(packets[i].ptr, len));
    }
}

/* ---- packets of our own ---------------------------------------------------------------------- */

enum { BODY_LEN = 700, UDP_LEN = UDP_HEADER_LEN + BTH_LEN + BODY_LEN + ICRC_LEN };

struct sample {
    struct in6_addr src, dst;
    struct icrc_outer outer;
    uint8_t packet[IPV6_HEADER_LEN + UDP_LEN]; // as it would be on the wire
    size_t ip_len, len;                        // `len` without ICRC
};

static struct in6_addr address(bool is_ipv4, uint8_t last)
{
    struct in6_addr a = {.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = last}};
    struct in6_addr mapped = {.s6_addr = {[10] = 0xff, 0xff, 10, 1, 2, last}};
    return is_ipv4 ? mapped : a;
}

static size_t emit_ip(struct sample *s, bool is_ipv4)
{
    struct ipv4_header v4 = {.tos = 2,
                             .total_len = IPV4_HEADER_LEN + UDP_LEN,
                             .id = 0x1234,
                             .ttl = 64,
                             .protocol = IP_PROTOCOL_UDP};
    struct ipv6_header v6 = {.traffic_class = 1,
                             .flow_label = 0x54321,
                             .payload_len = UDP_LEN,
                             .next_header = IP_PROTOCOL_UDP,
                             .hop_limit = 64};
    memcpy(v4.src, &s->src.s6_addr[12], 4);
    memcpy(v4.dst, &s->dst.s6_addr[12], 4);
    memcpy(v6.src, &s->src, 16);
    memcpy(v6.dst, &s->dst, 16);
    return is_ipv4 ? ipv4_header_emit(&v4, s->packet) : ipv6_header_emit(&v6, s->packet);
}

static void make_sample(struct sample *s, bool is_ipv4)
{
    *s = (struct sample){.src = address(is_ipv4, 7), .dst = address(is_ipv4, 8)};
    s->outer = (struct icrc_outer){.src = &s->src,
                                   .dst = &s->dst,
                                   .id = 0x1234,
                                   .fragment = ICRC_DF,
                                   .src_port = 0xc123,
                                   .dst_port = ROCE_UDP_PORT,
                                   .udp_len = UDP_LEN};
    s->ip_len = emit_ip(s, is_ipv4);
    uint8_t *udp = s->packet + s->ip_len;
    put_be16(udp + UDP_OFF_SRC_PORT, 0xc123);
    put_be16(udp + UDP_OFF_DST_PORT, ROCE_UDP_PORT);
    put_be16(udp + UDP_OFF_LEN, UDP_LEN);
    struct bth bth = {.opcode = ROCE_RC | ROCE_SEND_ONLY, .dest_qp = 5, .psn = 6, .ack_req = true};
    bth_emit(&bth, udp + UDP_HEADER_LEN);
    struct prng prng;
    prng_init(&prng, 1);
    for (size_t i = 0; i < BODY_LEN; i++) {
        udp[UDP_HEADER_LEN + BTH_LEN + i] = (uint8_t)prng_next(&prng);
    }
    s->len = s->ip_len + UDP_LEN - ICRC_LEN;
}

static uint8_t *bth_of(struct sample *s)
{
    return s->packet + s->ip_len + UDP_HEADER_LEN;
}

static void beginning_from_addresses_is_that_of_the_packet(void **state)
{
    for (unsigned is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
        struct sample s;
        make_sample(&s, is_ipv4);
        uint32_t icrc = icrc_finish(icrc_begin(&s.outer), bth_of(&s), BTH_LEN + BODY_LEN);
        assert_int_equal(icrc, icrc_of(s.packet, s.len));
    }
}

static void packet_is_left_as_it_was(void **state)
{
    struct sample s, before;
    make_sample(&s, true);
    before = s;
    icrc_finish(icrc_begin(&s.outer), bth_of(&s), BTH_LEN + BODY_LEN);
    assert_memory_equal(s.packet, before.packet, s.len);
}

static void pieces_give_the_value_of_the_whole(void **state)
{
    struct sample s;
    make_sample(&s, true);
    const uint8_t *body = bth_of(&s) + BTH_LEN;
    uint32_t whole = icrc_of(s.packet, s.len);
    for (size_t cut = 0; cut <= BODY_LEN; cut++) {
        uint32_t icrc = icrc_finish(icrc_begin(&s.outer), bth_of(&s), BTH_LEN + cut);
        assert_int_equal(icrc_update(icrc, body + cut, BODY_LEN - cut), whole);
    }
}

// Bit 0 is the highest of the first octet.
static bool routers_change(size_t ip_len, size_t bit)
{
    size_t octet = bit / 8;
    bool in_ip = ip_len == IPV4_HEADER_LEN ? octet == 1 || octet == 8 || octet == 10 || octet == 11
                                           : (bit >= 4 && bit < 32) || octet == 7;
    size_t udp = ip_len, bth = ip_len + UDP_HEADER_LEN;
    return in_ip || octet == udp + 6 || octet == udp + 7 || octet == bth + 4;
}

static void every_bit_counts_but_those_that_routers_change(void **state)
{
    for (unsigned is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
        struct sample s;
        make_sample(&s, is_ipv4);
        uint32_t right = icrc_of(s.packet, s.len);
        for (size_t bit = 0; bit < s.len * 8; bit++) {
            s.packet[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
            uint32_t icrc;
            if (icrc_of_packet(span_of(s.packet, s.len), &icrc)) {
                assert_int_equal(icrc == right, routers_change(s.ip_len, bit));
            }
            s.packet[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
        }
    }
}

static void other_packets_have_no_icrc(void **state)
{
    for (unsigned is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
        struct sample s;
        uint32_t icrc;
        make_sample(&s, is_ipv4);
        size_t shortest = s.ip_len + UDP_HEADER_LEN + BTH_LEN;
        assert_true(icrc_of_packet(span_of(s.packet, shortest), &icrc));
        for (size_t cut = 0; cut < shortest; cut++) {
            assert_false(icrc_of_packet(span_of(s.packet, cut), &icrc));
        }
        uint8_t *protocol = s.packet + (is_ipv4 ? IPV4_OFF_PROTOCOL : IPV6_OFF_NEXT_HEADER);
        *protocol = IP_PROTOCOL_TCP;
        assert_false(icrc_of_packet(span_of(s.packet, s.len), &icrc));
        *protocol = IP_PROTOCOL_UDP;
        s.packet[0] = is_ipv4 ? 0x46 : 0x50; // options; a version that is not
        assert_false(icrc_of_packet(span_of(s.packet, s.len), &icrc));
    }
}

/* ---- identifications ------------------------------------------------------------------------- */

static struct icrc_ids ids;

static int init_ids(void **state)
{
    icrc_ids_init(&ids);
    return 0;
}

static uint32_t with_id(struct sample *s, uint16_t id, uint16_t udp_len)
{
    s->outer.id = id;
    s->outer.udp_len = udp_len;
    size_t behind_bth = udp_len - UDP_HEADER_LEN - BTH_LEN - ICRC_LEN;
    static const uint8_t octets[DATAGRAM_LEN_MAX] = {1, 2, 3};
    return icrc_update(icrc_finish(icrc_begin(&s->outer), bth_of(s), BTH_LEN), octets, behind_bth);
}

static void identification_is_found_at_every_length(void **state)
{
    struct sample s;
    make_sample(&s, true);
    for (uint16_t len = ICRC_ID_UDP_LEN_MIN; len <= ICRC_ID_UDP_LEN_MAX; len += 4) {
        uint16_t id = (uint16_t)(len * 40503U), found;
        uint32_t difference = with_id(&s, id, len) ^ with_id(&s, 0, len);
        assert_true(icrc_ids_find(&ids, len, difference, &found));
        assert_int_equal(found, id);
    }
}

static void every_identification_is_found(void **state)
{
    struct sample s;
    make_sample(&s, true);
    uint32_t zero = with_id(&s, 0, 1064);
    for (unsigned id = 0; id < 0x10000; id++) {
        uint16_t found;
        assert_true(icrc_ids_find(&ids, 1064, with_id(&s, (uint16_t)id, 1064) ^ zero, &found));
        assert_int_equal(found, id);
    }
}

static void part_of_an_identification_is_what_it_changes_of_the_beginning(void **state)
{
    struct sample s;
    make_sample(&s, true);
    s.outer.id = 0;
    uint32_t zero = icrc_begin(&s.outer);
    for (unsigned id = 0; id < 0x10000; id++) {
        s.outer.id = (uint16_t)id;
        assert_int_equal(icrc_begin(&s.outer) ^ zero, icrc_ids_part(&ids, (uint16_t)id));
    }
}

static void damage_has_hardly_an_identification(void **state)
{
    struct prng prng;
    prng_init(&prng, 3);
    unsigned passed = 0;
    for (unsigned i = 0; i < 1 << 20; i++) {
        uint16_t found;
        passed += icrc_ids_find(&ids, 1064, (uint32_t)prng_next(&prng), &found);
    }
    assert_in_range(passed, 8, 24); // of 2^20, one in 2^16: sixteen are expected
}

static void lengths_that_no_packet_has_are_not_looked_for(void **state)
{
    uint16_t found;
    assert_true(icrc_ids_find(&ids, ICRC_ID_UDP_LEN_MIN, 0, &found));
    assert_false(icrc_ids_find(&ids, ICRC_ID_UDP_LEN_MIN - 4, 0, &found));
    assert_false(icrc_ids_find(&ids, ICRC_ID_UDP_LEN_MIN + 2, 0, &found));
    assert_true(icrc_ids_find(&ids, ICRC_ID_UDP_LEN_MAX, 0, &found));
    assert_false(icrc_ids_find(&ids, ICRC_ID_UDP_LEN_MAX + 4, 0, &found));
}

// Headers that differ in one thing alone, in turn with those that they differ from.
static void where_known_headers_begin_is_where_theirs_does(void **state)
{
    static struct icrc_known known;
    const struct in6_addr a = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};
    const struct in6_addr b = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
    const struct icrc_outer first = {&a, &b, 0, ICRC_DF, 0xc000, 4791, 88};
    struct icrc_outer others[] = {first, first, first, first, first, first, first, first};
    others[0].src = &b;
    others[1].dst = &a;
    others[2].id = 1;
    others[3].fragment = 0;
    others[4].src_port += ICRC_KNOWN_COUNT; // the same place
    others[5].dst_port = 4792;
    others[6].udp_len += 4 * ICRC_KNOWN_COUNT;
    others[7].udp_len = 28;
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(icrc_known_begin(&known, &first), icrc_begin(&first));
        assert_int_equal(icrc_known_begin(&known, &others[i]), icrc_begin(&others[i]));
        assert_int_equal(icrc_known_begin(&known, &others[i]), icrc_begin(&others[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_packets_have_the_icrc_that_they_carry),
        cmocka_unit_test(beginning_from_addresses_is_that_of_the_packet),
        cmocka_unit_test(where_known_headers_begin_is_where_theirs_does),
        cmocka_unit_test(packet_is_left_as_it_was),
        cmocka_unit_test(pieces_give_the_value_of_the_whole),
        cmocka_unit_test(every_bit_counts_but_those_that_routers_change),
        cmocka_unit_test(other_packets_have_no_icrc),
        cmocka_unit_test(identification_is_found_at_every_length),
        cmocka_unit_test(every_identification_is_found),
        cmocka_unit_test(part_of_an_identification_is_what_it_changes_of_the_beginning),
        cmocka_unit_test(damage_has_hardly_an_identification),
        cmocka_unit_test(lengths_that_no_packet_has_are_not_looked_for),
    };
    return cmocka_run_group_tests(tests, init_ids, NULL);
}

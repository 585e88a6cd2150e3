#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "wire/ip.h"

// The example of many textbooks: UDP from 192.168.0.1 to 192.168.0.199, checksum 0xb861.
static void ipv4_header_has_the_known_checksum(void **state)
{
    static const uint8_t known[] = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                    0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};
    struct ipv4_header h = {.total_len = 0x73,
                            .ttl = 64,
                            .protocol = 17,
                            .src = {192, 168, 0, 1},
                            .dst = {192, 168, 0, 199}};
    uint8_t buf[IPV4_HEADER_LEN];
    assert_int_equal(ipv4_header_emit(&h, buf), sizeof known);
    assert_memory_equal(buf, known, sizeof known);
}

static void mark_leaves_a_good_checksum_and_is_for_who_heeds_it(void **state)
{
    static const uint8_t rows[][2] = {{0x00, 0x00}, {0x49, 0x4b}, {0x4a, 0x4b}, {0x4b, 0x4b}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ipv4_header h = {.tos = rows[i][0], .total_len = IPV4_HEADER_LEN, .ttl = 64}, read;
        struct span body;
        uint8_t buf[IPV4_HEADER_LEN];
        ipv4_header_emit(&h, buf);
        assert_int_equal(ipv4_mark(buf), i > 0);
        assert_int_equal(ipv4_header_parse(span_of(buf, sizeof buf), &read, &body), IP_PARSE_OK);
        assert_int_equal(read.tos, rows[i][1]);
    }
}

static void ipv6_header_has_every_field_in_its_place(void **state)
{
    static const uint8_t known[8] = {0x6a, 0xb1, 0x23, 0x45, 0x01, 0x02, 6, 63};
    struct ipv6_header h = {.traffic_class = 0xab,
                            .flow_label = 0x12345,
                            .payload_len = 0x102,
                            .next_header = IP_PROTOCOL_TCP,
                            .hop_limit = 63,
                            .src = {0xfe, 0x80, [15] = 1},
                            .dst = {0xfe, 0x80, [15] = 2}};
    uint8_t buf[IPV6_HEADER_LEN];
    assert_int_equal(ipv6_header_emit(&h, buf), IPV6_HEADER_LEN);
    assert_memory_equal(buf, known, sizeof known);
    assert_memory_equal(buf + IPV6_OFF_SRC, h.src, IPV6_ADDR_LEN);
    assert_memory_equal(buf + IPV6_OFF_DST, h.dst, IPV6_ADDR_LEN);
}

// RFC 1071 section 3: the words 0001 f203 f4f5 f6f7 add up to ddf2.
static void sum_is_as_in_rfc_1071(void **state)
{
    static const uint8_t octets[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    assert_int_equal(inet_sum_fold(inet_sum_add(0, span_of(octets, 8))), 0xffff & ~0xddf2);
}

static void last_odd_octet_counts_as_the_upper_half_of_a_word(void **state)
{
    static const uint8_t padded[] = {1, 2, 3, 4, 5, 6, 7, 0};
    assert_int_equal(inet_sum_fold(inet_sum_add(0, span_of(padded, 7))),
                     inet_sum_fold(inet_sum_add(0, span_of(padded, 8))));
}

// Every length and start gives what adding up 16-bit words one by one gives.
static void sum_agrees_with_adding_word_by_word(void **state)
{
    uint8_t octets[80];
    for (size_t i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)(0xff - i * 37);
    }
    for (size_t from = 0; from < 8; from++) {
        for (size_t len = 0; len + from <= sizeof octets; len++) {
            uint64_t slow = 1;
            for (size_t i = 0; i < len; i++) {
                slow += (uint64_t)octets[from + i] << (i % 2 == 0 ? 8 : 0);
            }
            assert_int_equal(inet_sum_fold(inet_sum_add(1, span_of(octets + from, len))),
                             inet_sum_fold(slow));
        }
    }
}

// The words 0a00 0001 0a00 0002 0006 0014, and those of fe80::1 and fe80::2.
// Carries come out of every step.
static void sum_of_the_largest_words_carries(void **state)
{
    for (size_t len = 0; len <= 64; len++) {
        for (unsigned last = 0xfd; last <= 0xff; last++) {
            uint8_t octets[64];
            uint32_t words = 0;
            memset(octets, 0xff, sizeof octets);
            octets[0] = (uint8_t)last;
            octets[len > 0 ? len - 1 : 0] = (uint8_t)last;
            for (size_t i = 0; i < len; i++) {
                words += i % 2 == 0 ? (uint32_t)octets[i] << 8 : octets[i];
                words = (words & 0xffff) + (words >> 16);
            }
            uint64_t sum = inet_sum_add(0, span_of(octets, len));
            assert_true(sum <= 0xffff);
            assert_int_equal(inet_sum_fold(sum), (uint16_t)~words);
        }
    }
}

static void pseudo_header_counts_both_addresses_protocol_and_length(void **state)
{
    const struct ipv4_header v4 = {
        .protocol = IP_PROTOCOL_TCP, .src = {10, 0, 0, 1}, .dst = {10, 0, 0, 2}};
    const struct ipv6_header v6 = {.next_header = IP_PROTOCOL_TCP,
                                   .src = {0xfe, 0x80, [15] = 1},
                                   .dst = {0xfe, 0x80, [15] = 2}};
    assert_int_equal(inet_sum_fold(inet_sum_ipv4(&v4, 20)), 0xffff & ~0x141d);
    assert_int_equal(inet_sum_fold(inet_sum_ipv6(&v6, 20)), 0xffff & ~0xfd1e);
}

/* ---- parsing --------------------------------------------------------------------------------- */

enum { BODY_LEN = 5, PAD_LEN = 3, ROOM = 200 };

struct packet {
    uint8_t octets[ROOM];
    size_t len;
};

// With a body of 1, 2, … and octets behind it that a lower layer padded.
static struct packet ipv4_template(void)
{
    struct packet p = {.len = IPV4_HEADER_LEN + BODY_LEN + PAD_LEN};
    struct ipv4_header h = {.total_len = IPV4_HEADER_LEN + BODY_LEN,
                            .id = 7,
                            .ttl = 9,
                            .protocol = IP_PROTOCOL_TCP,
                            .src = {10, 0, 0, 1},
                            .dst = {10, 0, 0, 2}};
    ipv4_header_emit(&h, p.octets);
    for (uint8_t i = 0; i < BODY_LEN; i++) {
        p.octets[IPV4_HEADER_LEN + i] = (uint8_t)(i + 1);
    }
    return p;
}

static void ipv4_checksum_again(struct packet *p)
{
    size_t len = (size_t)(p->octets[0] & 0xf) * 4;
    put_be16(p->octets + IPV4_OFF_CHECKSUM, 0);
    put_be16(p->octets + IPV4_OFF_CHECKSUM,
             inet_sum_fold(inet_sum_add(0, span_of(p->octets, len))));
}

// Makes room for options in front of the body.
static void ipv4_options_insert(struct packet *p, const uint8_t *options, size_t len)
{
    memmove(p->octets + IPV4_HEADER_LEN + len, p->octets + IPV4_HEADER_LEN,
            p->len - IPV4_HEADER_LEN);
    memcpy(p->octets + IPV4_HEADER_LEN, options, len);
    p->len += len;
    p->octets[0] = (uint8_t)(p->octets[0] + len / 4);
    put_be16(p->octets + IPV4_OFF_TOTAL_LEN,
             (uint16_t)(get_be16(p->octets + IPV4_OFF_TOTAL_LEN) + len));
    ipv4_checksum_again(p);
}

static enum ip_parse_verdict ipv4_parse(const struct packet *p)
{
    struct ipv4_header h;
    struct span body;
    return ipv4_header_parse(span_of(p->octets, p->len), &h, &body);
}

static void ipv4_body_is_what_the_header_says(void **state)
{
    struct packet p = ipv4_template();
    struct ipv4_header h;
    struct span body;
    static const uint8_t router_alert[] = {148, 4, 0, 0, 1, 0, 0, 0};
    ipv4_options_insert(&p, router_alert, sizeof router_alert);
    assert_int_equal(ipv4_header_parse(span_of(p.octets, p.len), &h, &body), IP_PARSE_OK);
    assert_int_equal(body.len, BODY_LEN);
    assert_int_equal(body.ptr[0], 1);
    assert_int_equal(h.protocol, IP_PROTOCOL_TCP);
    assert_int_equal(h.ttl, 9);
    assert_int_equal(h.id, 7);
    assert_int_equal(h.src[3], 1);
    assert_int_equal(h.dst[3], 2);
}

static void ipv4_that_ends_early_is_too_short(void **state)
{
    struct packet p = ipv4_template();
    for (p.len = 0; p.len < IPV4_HEADER_LEN + BODY_LEN; p.len++) {
        assert_int_equal(ipv4_parse(&p), IP_PARSE_TOO_SHORT);
    }
    assert_int_equal(ipv4_parse(&p), IP_PARSE_OK);
}

static void ipv4_header_may_not_contradict_itself(void **state)
{
    struct packet p = ipv4_template();
    p.octets[0] = 0x44;
    assert_int_equal(ipv4_parse(&p), IP_PARSE_HEADER_LEN);
    p = ipv4_template();
    put_be16(p.octets + IPV4_OFF_TOTAL_LEN, IPV4_HEADER_LEN - 1);
    assert_int_equal(ipv4_parse(&p), IP_PARSE_HEADER_LEN);
    p = ipv4_template();
    p.octets[0] = 0x65;
    assert_int_equal(ipv4_parse(&p), IP_PARSE_VERSION);
    p = ipv4_template();
    p.octets[IPV4_OFF_TTL]++;
    assert_int_equal(ipv4_parse(&p), IP_PARSE_CHECKSUM);
}

// A packet may be all header, and one option may be all that it has.
static void ipv4_may_end_with_its_header(void **state)
{
    static const uint8_t option[] = {148, 4, 0, 0};
    for (size_t len = 0; len <= sizeof option; len += sizeof option) {
        struct ipv4_header h = {.tos = 0xb9, .total_len = (uint16_t)(IPV4_HEADER_LEN + len)};
        struct span body;
        struct packet p = {.len = IPV4_HEADER_LEN + len};
        ipv4_header_emit(&h, p.octets);
        memcpy(p.octets + IPV4_HEADER_LEN, option, len);
        p.octets[0] = (uint8_t)(4 << 4 | (5 + len / 4));
        ipv4_checksum_again(&p);
        h = (struct ipv4_header){0};
        assert_int_equal(ipv4_header_parse(span_of(p.octets, p.len), &h, &body), IP_PARSE_OK);
        assert_int_equal(h.tos, 0xb9);
        assert_int_equal(body.len, 0);
    }
}

static void ipv4_fragments_are_refused(void **state)
{
    static const uint16_t flags[] = {0x2000, 0x0001, 0x1fff};
    for (unsigned i = 0; i < 3; i++) {
        struct packet p = ipv4_template();
        put_be16(p.octets + IPV4_OFF_FLAGS, flags[i]);
        ipv4_checksum_again(&p);
        assert_int_equal(ipv4_parse(&p), IP_PARSE_FRAGMENT);
    }
}

static void ipv4_options_are_refused_where_they_route_or_do_not_end(void **state)
{
    static const struct {
        uint8_t options[4];
        enum ip_parse_verdict verdict;
    } cases[] = {
        {{131, 3, 4, 0}, IP_PARSE_SOURCE_ROUTE}, {{1, 137, 3, 4}, IP_PARSE_SOURCE_ROUTE},
        {{7, 1, 0, 0}, IP_PARSE_EXTENSION},      {{7, 5, 0, 0}, IP_PARSE_EXTENSION},
        {{1, 1, 1, 7}, IP_PARSE_EXTENSION},      {{0, 131, 9, 9}, IP_PARSE_OK},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct packet p = ipv4_template();
        ipv4_options_insert(&p, cases[i].options, 4);
        assert_int_equal(ipv4_parse(&p), cases[i].verdict);
    }
}

// `extensions` stand between header and body; the first is of kind `first`.
static enum ip_parse_verdict ipv6_parse(uint8_t first, const uint8_t *extensions, size_t len,
                                        size_t cut, struct ipv6_header *ret, struct span *ret_body)
{
    static uint8_t buf[ROOM + 16 * IP_EXTENSIONS_MAX];
    struct ipv6_header h = {.traffic_class = 0xab,
                            .flow_label = 0x12345,
                            .payload_len = (uint16_t)(len + BODY_LEN),
                            .next_header = first,
                            .hop_limit = 63,
                            .src = {1, [15] = 2},
                            .dst = {3, [15] = 4}};
    ipv6_header_emit(&h, buf);
    if (len > 0) {
        memcpy(buf + IPV6_HEADER_LEN, extensions, len);
    }
    memset(buf + IPV6_HEADER_LEN + len, 0x77, BODY_LEN);
    return ipv6_header_parse(span_of(buf, IPV6_HEADER_LEN + len + BODY_LEN - cut), ret, ret_body);
}

static void ipv6_body_stands_behind_extension_headers(void **state)
{
    static const uint8_t extensions[] = {
        43, 0, 1,  4, 0, 0, 0, 0,                         // hop by hop: padding
        44, 1, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // routing, no segments left
        60, 0, 0,  0, 1, 2, 3, 4,                         // an atomic fragment
        6,  0, 3,  2, 9, 9, 0, 0,                         // destination: an option to pass over
    };
    struct ipv6_header h;
    struct span body;
    assert_int_equal(ipv6_parse(0, extensions, sizeof extensions, 0, &h, &body), IP_PARSE_OK);
    assert_int_equal(h.next_header, IP_PROTOCOL_TCP);
    assert_int_equal(body.len, BODY_LEN);
    assert_int_equal(body.ptr[0], 0x77);
    assert_int_equal(h.traffic_class, 0xab);
    assert_int_equal(h.flow_label, 0x12345);
    assert_int_equal(h.hop_limit, 63);
    assert_int_equal(h.src[15], 2);
    assert_int_equal(h.dst[15], 4);
}

static void ipv6_extensions_are_refused_by_name(void **state)
{
    static const struct {
        uint8_t first;
        uint8_t extension[8];
        enum ip_parse_verdict verdict;
    } cases[] = {
        {44, {6, 0, 0, 1, 0, 0, 0, 1}, IP_PARSE_FRAGMENT},
        {44, {6, 0, 0, 8, 0, 0, 0, 1}, IP_PARSE_FRAGMENT},
        {43, {6, 0, 0, 1, 0, 0, 0, 0}, IP_PARSE_SOURCE_ROUTE},
        {60, {6, 0, 0x80, 4, 0, 0, 0, 0}, IP_PARSE_EXTENSION},
        {60, {6, 0, 3, 5, 0, 0, 0, 0}, IP_PARSE_HEADER_LEN},
        {60, {6, 2, 1, 4, 0, 0, 0, 0}, IP_PARSE_TOO_SHORT},
    };
    struct ipv6_header h;
    struct span body;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ipv6_parse(cases[i].first, cases[i].extension, 8, 0, &h, &body),
                         cases[i].verdict);
    }
}

// Options that fill their header, and packets that end with their last header, are right.
static void ipv6_options_may_fill_their_header_and_headers_the_packet(void **state)
{
    static const struct {
        uint8_t first;
        uint8_t extension[16];
        size_t len;
        enum ip_parse_verdict verdict;
    } cases[] = {
        {6, {0}, 0, IP_PARSE_OK},
        {60, {6, 0, 1, 4, 0, 0, 0, 0}, 8, IP_PARSE_OK},
        {60, {6, 0, 5, 2, 9, 9, 1, 0}, 8, IP_PARSE_OK},
        {60, {6, 0, 1, 3, 0, 0, 0, 9}, 8, IP_PARSE_HEADER_LEN}, // an option of one octet
        {60, {6, 1, 30, 12}, 16, IP_PARSE_OK},
        {60, {6, 1, 30, 12}, 8, IP_PARSE_TOO_SHORT},
        {60, {6, 0, 1, 4, 0, 0, 0, 0}, 7, IP_PARSE_TOO_SHORT},
        {44, {6, 9, 0, 0, 0, 0, 0, 1}, 8, IP_PARSE_OK}, // a fragment header has no length
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t buf[IPV6_HEADER_LEN + 16];
        struct ipv6_header h = {.payload_len = (uint16_t)cases[i].len,
                                .next_header = cases[i].first};
        struct span body;
        ipv6_header_emit(&h, buf);
        memcpy(buf + IPV6_HEADER_LEN, cases[i].extension, cases[i].len);
        const struct span packet = span_of(buf, IPV6_HEADER_LEN + cases[i].len);
        assert_int_equal(ipv6_header_parse(packet, &h, &body), cases[i].verdict);
        if (cases[i].verdict == IP_PARSE_OK) {
            assert_int_equal(h.next_header, 6);
            assert_int_equal(body.len, 0);
        }
    }
}

static void ipv6_extension_headers_are_counted(void **state)
{
    uint8_t extensions[(IP_EXTENSIONS_MAX + 1) * 8] = {0};
    struct ipv6_header h;
    struct span body;
    for (unsigned i = 0; i <= IP_EXTENSIONS_MAX; i++) {
        extensions[8 * i] = 60;
        extensions[8 * i + 2] = 1;
        extensions[8 * i + 3] = 4;
    }
    assert_int_equal(ipv6_parse(60, extensions, sizeof extensions, 0, &h, &body),
                     IP_PARSE_EXTENSION);
}

// RFC 2113: 94 04 00 00; RFC 2711, in a hop-by-hop options header: 05 02 00 00.
static void alert_for_routers_reads_as_it_is_written(void **state)
{
    static const uint8_t option[] = {0x94, 4, 0, 0}, header[] = {58, 0, 5, 2, 0, 0, 1, 0};
    uint8_t p[IPV6_HEADER_LEN + IPV6_ALERT_LEN];
    struct ipv4_header v4 = {.total_len = IPV4_HEADER_LEN + IPV4_ALERT_LEN,
                             .protocol = IP_PROTOCOL_IGMP};
    struct ipv6_header v6 = {.payload_len = IPV6_ALERT_LEN, .next_header = IP_PROTOCOL_ICMPV6};
    struct span body;
    v4.has_alert = v6.has_alert = true;
    assert_int_equal(ipv4_header_emit(&v4, p), IPV4_HEADER_LEN + IPV4_ALERT_LEN);
    assert_memory_equal(p + IPV4_HEADER_LEN, option, sizeof option);
    assert_int_equal(ipv4_header_parse(span_of(p, v4.total_len), &v4, &body), IP_PARSE_OK);
    assert_true(v4.has_alert);
    assert_int_equal(body.len, 0);
    assert_int_equal(ipv6_header_emit(&v6, p), sizeof p);
    assert_int_equal(p[IPV6_OFF_NEXT_HEADER], 0);
    assert_memory_equal(p + IPV6_HEADER_LEN, header, sizeof header);
    assert_int_equal(ipv6_header_parse(span_of(p, sizeof p), &v6, &body), IP_PARSE_OK);
    assert_true(v6.has_alert);
    assert_int_equal(v6.next_header, IP_PROTOCOL_ICMPV6);
    p[IPV6_HEADER_LEN + 5] = 1; // for another protocol than that of listeners
    assert_int_equal(ipv6_header_parse(span_of(p, sizeof p), &v6, &body), IP_PARSE_OK);
    assert_false(v6.has_alert);
    p[IPV6_HEADER_LEN + 5] = 0;
    p[IPV6_OFF_NEXT_HEADER] = 60; // options for the destination
    assert_int_equal(ipv6_header_parse(span_of(p, sizeof p), &v6, &body), IP_PARSE_OK);
    assert_false(v6.has_alert);
}

static void ipv6_that_ends_early_is_too_short(void **state)
{
    struct ipv6_header h;
    struct span body;
    for (size_t cut = 1; cut <= IPV6_HEADER_LEN + BODY_LEN; cut++) {
        assert_int_equal(ipv6_parse(6, NULL, 0, cut, &h, &body), IP_PARSE_TOO_SHORT);
    }
}

static void verdicts_have_names(void **state)
{
    for (unsigned i = 0; i < IP_PARSE_VERDICT_COUNT; i++) {
        assert_string_not_equal(ip_parse_verdict_name(i), "?");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_header_has_the_known_checksum),
        cmocka_unit_test(mark_leaves_a_good_checksum_and_is_for_who_heeds_it),
        cmocka_unit_test(ipv6_header_has_every_field_in_its_place),
        cmocka_unit_test(alert_for_routers_reads_as_it_is_written),
        cmocka_unit_test(sum_is_as_in_rfc_1071),
        cmocka_unit_test(last_odd_octet_counts_as_the_upper_half_of_a_word),
        cmocka_unit_test(sum_agrees_with_adding_word_by_word),
        cmocka_unit_test(sum_of_the_largest_words_carries),
        cmocka_unit_test(pseudo_header_counts_both_addresses_protocol_and_length),
        cmocka_unit_test(ipv4_body_is_what_the_header_says),
        cmocka_unit_test(ipv4_that_ends_early_is_too_short),
        cmocka_unit_test(ipv4_header_may_not_contradict_itself),
        cmocka_unit_test(ipv4_may_end_with_its_header),
        cmocka_unit_test(ipv4_fragments_are_refused),
        cmocka_unit_test(ipv4_options_are_refused_where_they_route_or_do_not_end),
        cmocka_unit_test(ipv6_body_stands_behind_extension_headers),
        cmocka_unit_test(ipv6_extensions_are_refused_by_name),
        cmocka_unit_test(ipv6_options_may_fill_their_header_and_headers_the_packet),
        cmocka_unit_test(ipv6_extension_headers_are_counted),
        cmocka_unit_test(ipv6_that_ends_early_is_too_short),
        cmocka_unit_test(verdicts_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "wire/ip.h"
#include "wire/tcp.h"

static const struct tcp_header syn = {.src_port = 40000,
                                      .dst_port = 7471,
                                      .seq = 0x01020304,
                                      .flags = TCP_SYN,
                                      .window = 0xfffe,
                                      .options = {.mss = 1460}};

static void header_has_every_field_in_its_place(void **state)
{
    static const uint8_t known[] = {0x9c, 0x40, 0x1d, 0x2f, 1,    2,    3, 4, 0, 0, 0,    0,
                                    0x60, 0x02, 0xff, 0xfe, 0x00, 0x00, 0, 0, 2, 4, 0x05, 0xb4};
    uint8_t buf[TCP_HEADER_MAX_LEN];
    assert_int_equal(tcp_header_emit(&syn, buf), sizeof known);
    assert_memory_equal(buf, known, sizeof known);
}

static void header_without_options_is_of_the_least_length(void **state)
{
    uint8_t buf[TCP_HEADER_MAX_LEN];
    struct tcp_header ack = {.seq = 1, .ack = 2, .flags = TCP_ACK};
    assert_int_equal(tcp_header_emit(&ack, buf), TCP_HEADER_LEN);
    assert_int_equal(buf[TCP_OFF_DATA_OFFSET], 0x50);
}

static void segment_sums_up_to_nothing_with_its_checksum(void **state)
{
    static const uint8_t payload[] = {9, 8, 7};
    uint8_t buf[TCP_HEADER_MAX_LEN + sizeof payload];
    struct ipv4_header ip = {
        .protocol = IP_PROTOCOL_TCP, .src = {127, 0, 0, 1}, .dst = {127, 0, 0, 2}};
    size_t len = tcp_header_emit(&syn, buf);
    uint64_t pseudo = inet_sum_ipv4(&ip, (uint32_t)(len + sizeof payload));
    tcp_checksum_put(mspan_of(buf, len), span_of(payload, sizeof payload), pseudo);
    memcpy(buf + len, payload, sizeof payload);
    assert_true(tcp_checksum_is_good(span_of(buf, len + sizeof payload), pseudo));
    buf[len] ^= 1;
    assert_false(tcp_checksum_is_good(span_of(buf, len + sizeof payload), pseudo));
}

// Each by itself, padded in front to a multiple of four octets: emitted so, and read as nothing
// else.
static void each_option_has_its_octets(void **state)
{
    static const struct {
        struct tcp_options options;
        size_t len;
        uint8_t octets[TCP_OPTIONS_MAX_LEN];
        const char *words;
    } rows[] = {
        {{0}, 0, {0}, ""},
        {{.mss = 0x5b4}, 4, {2, 4, 5, 0xb4}, " mss 1460"},
        {{.has_scale = true, .scale = 7}, 4, {1, 3, 3, 7}, " scale 7"},
        {{.sack_permitted = true}, 4, {1, 1, 4, 2}, " sack-ok"},
        {{.has_timestamps = true, .ts_value = 0x01020304, .ts_echo = 0x05060708},
         12,
         {1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8},
         ""},
        {{.sack_count = 1, .sack = {{1, 258}}},
         12,
         {1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 1, 2},
         " sack 1-258"},
        {{.mss = 1, .has_scale = true, .scale = 2}, 8, {2, 4, 0, 1, 1, 3, 3, 2}, " mss 1 scale 2"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t buf[TCP_HEADER_MAX_LEN];
        char line[200], expected[200];
        const struct tcp_header h = {.options = rows[i].options};
        struct tcp_header found;
        size_t len;
        memset(buf, 0xee, sizeof buf);
        assert_int_equal(tcp_header_emit(&h, buf), TCP_HEADER_LEN + rows[i].len);
        assert_memory_equal(buf + TCP_HEADER_LEN, rows[i].octets, rows[i].len);
        assert_int_equal(tcp_header_parse(span_of(buf, TCP_HEADER_LEN + rows[i].len), &found, &len),
                         TCP_PARSE_OK);
        memset(buf, 0xee, sizeof buf);
        assert_int_equal(tcp_header_emit(&found, buf), TCP_HEADER_LEN + rows[i].len);
        assert_memory_equal(buf + TCP_HEADER_LEN, rows[i].octets, rows[i].len);
        snprintf(expected, sizeof expected, "0 > 0  seq 0 ack 0 win 0%s", rows[i].words);
        assert_string_equal(tcp_header_format(&found, line, sizeof line), expected);
    }
}

// A SYN with every option, in the order in which Linux sends them.
static const uint8_t linux_syn[] = {0xb9, 0x3c, 0x1d, 0x2f, 0x87, 0x65, 0x43, 0x21, 0x00, 0x00,
                                    0x00, 0x00, 0xa0, 0x02, 0xff, 0xd7, 0xfe, 0x30, 0x00, 0x00,
                                    0x02, 0x04, 0xff, 0xd7, 0x04, 0x02, 0x08, 0x0a, 0x11, 0x22,
                                    0x33, 0x44, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07};

static void every_option_of_a_syn_is_read(void **state)
{
    struct tcp_header h;
    size_t len;
    assert_int_equal(tcp_header_parse(span_of(linux_syn, sizeof linux_syn), &h, &len),
                     TCP_PARSE_OK);
    assert_int_equal(len, sizeof linux_syn);
    assert_int_equal(h.seq, 0x87654321);
    assert_int_equal(h.options.mss, 65495);
    assert_true(h.options.sack_permitted);
    assert_true(h.options.has_timestamps);
    assert_int_equal(h.options.ts_value, 0x11223344);
    assert_true(h.options.has_scale);
    assert_int_equal(h.options.scale, 7);
}

static void parse_reads_what_emit_wrote(void **state)
{
    struct tcp_header in = {.src_port = 1,
                            .dst_port = 65535,
                            .seq = 0xfffffff0,
                            .ack = 7,
                            .flags = TCP_ACK | TCP_PSH,
                            .window = 1,
                            .options = {.has_timestamps = true,
                                        .ts_value = 5,
                                        .ts_echo = 6,
                                        .sack_count = 3,
                                        .sack = {{1, 2}, {0xffffffff, 3}, {9, 10}}}};
    struct tcp_header out;
    uint8_t buf[TCP_HEADER_MAX_LEN];
    size_t len = tcp_header_emit(&in, buf), parsed_len;
    assert_int_equal(len, TCP_HEADER_MAX_LEN);
    assert_int_equal(tcp_header_parse(span_of(buf, len), &out, &parsed_len), TCP_PARSE_OK);
    assert_int_equal(parsed_len, len);
    assert_int_equal(tcp_options_len(&out.options), len - TCP_HEADER_LEN);
    uint8_t again[TCP_HEADER_MAX_LEN];
    assert_int_equal(tcp_header_emit(&out, again), len);
    assert_memory_equal(again, buf, len);
}

static enum tcp_parse_verdict parse_option_octets(const uint8_t *octets, size_t len)
{
    uint8_t buf[TCP_HEADER_MAX_LEN] = {[TCP_OFF_DATA_OFFSET] = (uint8_t)((5 + len / 4) << 4)};
    struct tcp_header h;
    size_t header_len;
    memcpy(buf + TCP_HEADER_LEN, octets, len);
    return tcp_header_parse(span_of(buf, TCP_HEADER_LEN + len), &h, &header_len);
}

static void impossible_option_lengths_are_refused(void **state)
{
    static const uint8_t bad[][4] = {
        {TCP_OPTION_MSS, 0, 0, 0},  // no length at all
        {99, 1, 0, 0},              // shorter than kind and length
        {99, 5, 0, 0},              // longer than the header
        {1, 1, 1, 99},              // a kind without a length
        {TCP_OPTION_MSS, 3, 5, 0},  // known, and of another length
        {TCP_OPTION_SACK, 3, 0, 0}, // no whole blocks
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse_option_octets(bad[i], 4), TCP_PARSE_OPTION_LEN);
    }
}

static void unknown_options_and_what_follows_the_end_are_passed_over(void **state)
{
    static const uint8_t octets[] = {1, 99, 3, 77, TCP_OPTION_END, 2, 0, 0};
    assert_int_equal(parse_option_octets(octets, sizeof octets), TCP_PARSE_OK);
}

// The first kind behind those whose lengths are known is 9.
static void an_unknown_option_may_be_of_any_length(void **state)
{
    for (unsigned kind = TCP_OPTION_TIMESTAMPS + 1; kind <= UINT8_MAX; kind++) {
        for (uint8_t len = 2; len <= 40; len++) {
            uint8_t octets[40] = {(uint8_t)kind, len};
            assert_int_equal(parse_option_octets(octets, (size_t)(len + 3) / 4 * 4), TCP_PARSE_OK);
        }
    }
}

static void cut_header_is_refused(void **state)
{
    struct tcp_header h;
    size_t len;
    for (size_t cut = 0; cut < sizeof linux_syn; cut++) {
        assert_int_equal(tcp_header_parse(span_of(linux_syn, cut), &h, &len), TCP_PARSE_TOO_SHORT);
    }
}

static void header_shorter_than_itself_is_refused(void **state)
{
    uint8_t buf[TCP_HEADER_LEN] = {[TCP_OFF_DATA_OFFSET] = 0x40};
    struct tcp_header h;
    size_t len;
    assert_int_equal(tcp_header_parse(span_of(buf, sizeof buf), &h, &len), TCP_PARSE_DATA_OFFSET);
}

static void line_names_flags_and_options(void **state)
{
    char line[200];
    assert_string_equal(tcp_header_format(&syn, line, sizeof line),
                        "40000 > 7471 S seq 16909060 ack 0 win 65534 mss 1460");
    const struct tcp_header all = {
        .src_port = 1,
        .dst_port = 2,
        .seq = 3,
        .ack = 4,
        .window = 5,
        .flags = TCP_SYN | TCP_FIN | TCP_RST | TCP_PSH | TCP_ACK,
        .options = {.has_scale = true,
                    .scale = 7,
                    .sack_permitted = true,
                    .sack_count = 2,
                    .sack = {{10, 20}, {30, 40}}},
    };
    assert_string_equal(tcp_header_format(&all, line, sizeof line),
                        "1 > 2 SFRPA seq 3 ack 4 win 5 scale 7 sack-ok sack 10-20 sack 30-40");
    assert_string_equal(tcp_header_format(&(struct tcp_header){0}, line, sizeof line),
                        "0 > 0  seq 0 ack 0 win 0");
}

static void verdicts_have_names(void **state)
{
    static const char *const names[] = {"ok", "too short", "data offset", "option length", "?"};
    for (unsigned i = 0; i <= TCP_PARSE_VERDICT_COUNT; i++) {
        assert_string_equal(tcp_parse_verdict_name((enum tcp_parse_verdict)i), names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_every_field_in_its_place),
        cmocka_unit_test(header_without_options_is_of_the_least_length),
        cmocka_unit_test(segment_sums_up_to_nothing_with_its_checksum),
        cmocka_unit_test(each_option_has_its_octets),
        cmocka_unit_test(every_option_of_a_syn_is_read),
        cmocka_unit_test(parse_reads_what_emit_wrote),
        cmocka_unit_test(impossible_option_lengths_are_refused),
        cmocka_unit_test(unknown_options_and_what_follows_the_end_are_passed_over),
        cmocka_unit_test(an_unknown_option_may_be_of_any_length),
        cmocka_unit_test(cut_header_is_refused),
        cmocka_unit_test(header_shorter_than_itself_is_refused),
        cmocka_unit_test(line_names_flags_and_options),
        cmocka_unit_test(verdicts_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Whole RoCE packets. The table of opcodes is golden/opcodes.txt; a packet of each opcode, with
// every header that it has, is golden/packets.txt: its octets, and what is read in them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "tests/golden.h"
#include "tests/wire/roce_samples.h"
#include "wire/roce.h"

// Captured: a congestion notification of a ConnectX-4 Lx, and a UC SEND ONLY of 18 octets.
static const uint8_t captured_cnp[CNP_LEN] = {0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18};
static const uint8_t captured_uc[BTH_LEN + 20] = {
    0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10, 0x46, 0x30, 0x81, 0x8b,
    0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00};

static void each_known_opcode(void (*body)(uint8_t opcode))
{
    unsigned known = 0;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (roce_opcode_facts((uint8_t)opcode)->is_known) {
            known++;
            body((uint8_t)opcode);
        }
    }
    assert_int_equal(known, 23 + 12 + 2 + 1);
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static const char *payload_name(enum roce_payload payload)
{
    static const char *const names[] = {
        [ROCE_PAYLOAD_NONE] = "none",
        [ROCE_PAYLOAD_PMTU] = "=pmtu",
        [ROCE_PAYLOAD_1_TO_PMTU] = "1..pmtu",
        [ROCE_PAYLOAD_UP_TO_PMTU] = "0..pmtu",
    };
    return names[payload];
}

static int print_headers(unsigned headers, char *text, size_t len)
{
    static const char *const names[] = {"DETH",         "RETH",  "AtomicETH", "AETH",
                                        "AtomicAckETH", "ImmDt", "IETH",      "reserved"};
    int at = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (headers & 1U << i) {
            at += snprintf(text + at, len - (size_t)at, " %s", names[i]);
        }
    }
    return at;
}

static void table_of_opcodes_is_the_golden_one(void **state)
{
    static char text[1 << 14];
    size_t at = 0;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const struct roce_opcode_facts *f = roce_opcode_facts((uint8_t)opcode);
        if (!f->is_known) {
            continue;
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "%02x %s: head %u", opcode, f->name,
                               f->header_len);
        at += (size_t)print_headers(f->headers, text + at, sizeof text - at);
        at += (size_t)snprintf(text + at, sizeof text - at, ", payload %s%s%s%s%s\n",
                               payload_name(f->payload), f->begins ? ", begins" : "",
                               f->ends ? ", ends" : "", f->claims_receive ? ", claims" : "",
                               f->is_response ? ", response" : "");
    }
    golden_compare("wire/golden/opcodes.txt", text);
}

static void payload_fits_by_its_class(void **state)
{
    static const struct {
        uint8_t opcode;
        bool fits[5]; // 0, 1, 1023, 1024, 1025 octets
    } rows[] = {
        {ROCE_RC | ROCE_SEND_FIRST, {false, false, false, true, false}},
        {ROCE_RC | ROCE_WRITE_MIDDLE, {false, false, false, true, false}},
        {ROCE_RC | ROCE_SEND_LAST, {false, true, true, true, false}},
        {ROCE_RC | ROCE_SEND_ONLY, {true, true, true, true, false}},
        {ROCE_RC | ROCE_ACKNOWLEDGE, {true, false, false, false, false}},
    };
    static const size_t lens[] = {0, 1, 1023, 1024, 1025};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t j = 0; j < 5; j++) {
            const struct roce_opcode_facts *facts = roce_opcode_facts(rows[i].opcode);
            assert_int_equal(roce_payload_fits(facts, lens[j], 1024), rows[i].fits[j]);
        }
    }
}

/* ---- packets --------------------------------------------------------------------------------- */

// Breaks a line at its blanks, so that none is longer than the house has them.
static void wrap(char *line)
{
    size_t start = 0;
    char *blank = NULL;
    for (size_t i = 0; line[i] != '\0'; i++) {
        if (i - start > 90 && blank != NULL) {
            *blank = '\n';
            start = (size_t)(blank - line);
            blank = NULL;
        }
        blank = line[i] == ' ' ? &line[i] : blank;
    }
}

static void packet_of_each_opcode_is_the_golden_one(void **state)
{
    static char text[1 << 15];
    size_t at = 0;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (!roce_opcode_facts((uint8_t)opcode)->is_known) {
            continue;
        }
        uint8_t octets[SAMPLE_MAX_LEN];
        char line[400];
        struct roce_packet p;
        size_t len = roce_sample_emit((uint8_t)opcode, octets);
        assert_int_equal(roce_packet_parse(span_of(octets, len), &p), ROCE_PARSE_OK);
        roce_packet_format(&p, line, sizeof line);
        wrap(line);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\n   ", line);
        for (size_t i = 0; i < len; i++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%02x", i % 4 == 0 ? " " : "",
                                   octets[i]);
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "\n");
    }
    golden_compare("wire/golden/packets.txt", text);
}

static void captured_packets_are_read(void **state)
{
    struct roce_packet p;
    assert_int_equal(roce_packet_parse(span_of(captured_uc, sizeof captured_uc), &p),
                     ROCE_PARSE_OK);
    assert_string_equal(p.facts->name, "UC SEND ONLY");
    assert_int_equal(p.payload.len, 18);
    assert_ptr_equal(p.payload.ptr, captured_uc + BTH_LEN);
    assert_int_equal(roce_packet_parse(span_of(captured_cnp, sizeof captured_cnp), &p),
                     ROCE_PARSE_OK);
    assert_int_equal(p.facts->kind, ROCE_KIND_CNP);
    assert_true(p.bth.becn);
    assert_int_equal(p.payload.len, 0);
}

static void notification_is_the_captured_one(void **state)
{
    uint8_t out[CNP_LEN];
    assert_int_equal(cnp_emit(0x118, out), CNP_LEN);
    out[BTH_OFF_FLAGS] &= (uint8_t)~BTH_MIG_REQ; // which that card leaves 0 in these
    assert_memory_equal(out, captured_cnp, CNP_LEN);
}

static void packet_is_emitted_as_it_was_read_by(uint8_t opcode)
{
    uint8_t octets[SAMPLE_MAX_LEN], out[ROCE_HEAD_MAX_LEN];
    struct roce_packet p;
    size_t len = roce_sample_emit(opcode, octets);
    assert_int_equal(roce_packet_parse(span_of(octets, len), &p), ROCE_PARSE_OK);
    assert_int_equal(roce_head_emit(&p, out), p.facts->header_len);
    assert_memory_equal(out, octets, p.facts->header_len);
}

static void packet_is_emitted_as_it_was_read(void **state)
{
    each_known_opcode(packet_is_emitted_as_it_was_read_by);
}

static void packet_is_too_short_inside_its_headers_by(uint8_t opcode)
{
    uint8_t octets[SAMPLE_MAX_LEN];
    struct roce_packet p;
    roce_sample_emit(opcode, octets);
    for (size_t cut = 0; cut < roce_opcode_facts(opcode)->header_len; cut++) {
        assert_int_equal(roce_packet_parse(span_of(octets, cut), &p), ROCE_PARSE_TOO_SHORT);
    }
}

static void packet_is_too_short_inside_its_headers(void **state)
{
    each_known_opcode(packet_is_too_short_inside_its_headers_by);
}

#define IS_TOO_SHORT_BELOW(len_, parse, header)                                \
    for (size_t cut = 0; cut <= (len_); cut++) {                               \
        header h;                                                              \
        assert_int_equal(parse(span_of(octets, cut), &h),                      \
                         cut < (len_) ? ROCE_PARSE_TOO_SHORT : ROCE_PARSE_OK); \
    }

static void each_header_alone_may_be_too_short(void **state)
{
    const uint8_t octets[ATOMICETH_LEN] = {0};
    IS_TOO_SHORT_BELOW(RETH_LEN, reth_parse, struct reth);
    IS_TOO_SHORT_BELOW(ATOMICETH_LEN, atomiceth_parse, struct atomiceth);
    IS_TOO_SHORT_BELOW(ATOMICACKETH_LEN, atomicacketh_parse, struct atomicacketh);
    IS_TOO_SHORT_BELOW(DETH_LEN, deth_parse, struct deth);
    IS_TOO_SHORT_BELOW(IMMDT_LEN, immdt_parse, struct immdt);
    IS_TOO_SHORT_BELOW(IETH_LEN, ieth_parse, struct ieth);
}

static void reserved_opcodes_are_refused_with_their_bth(void **state)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (roce_opcode_facts((uint8_t)opcode)->is_known) {
            continue;
        }
        uint8_t octets[64] = {(uint8_t)opcode};
        put_be24(octets + BTH_OFF_PSN, 77);
        struct roce_packet p;
        assert_int_equal(roce_packet_parse(span_of(octets, sizeof octets), &p), ROCE_PARSE_OPCODE);
        assert_int_equal(p.bth.psn, 77);
    }
}

static void pad_longer_than_the_payload_is_refused(void **state)
{
    uint8_t octets[BTH_LEN + 4] = {ROCE_RC | ROCE_SEND_ONLY, 3 << BTH_PAD_SHIFT};
    struct roce_packet p;
    assert_int_equal(roce_packet_parse(span_of(octets, BTH_LEN), &p), ROCE_PARSE_PAD);
    assert_int_equal(roce_packet_parse(span_of(octets, BTH_LEN + 4), &p), ROCE_PARSE_OK);
    assert_int_equal(p.payload.len, 1);
}

static void packet_that_is_not_padded_is_refused(void **state)
{
    uint8_t octets[BTH_LEN + 8] = {ROCE_RC | ROCE_SEND_ONLY};
    struct roce_packet p;
    for (size_t len = 0; len <= 8; len++) {
        assert_int_equal(roce_packet_parse(span_of(octets, BTH_LEN + len), &p),
                         len % 4 == 0 ? ROCE_PARSE_OK : ROCE_PARSE_ALIGNMENT);
    }
}

static void other_versions_are_refused(void **state)
{
    uint8_t octets[BTH_LEN] = {ROCE_RC | ROCE_SEND_ONLY, 1};
    struct roce_packet p;
    assert_int_equal(roce_packet_parse(span_of(octets, sizeof octets), &p), ROCE_PARSE_TVER);
}

static void line_of_a_packet_is_cut_to_its_room(void **state)
{
    uint8_t octets[SAMPLE_MAX_LEN];
    char whole[400], line[400];
    struct roce_packet p;
    size_t len = roce_sample_emit(ROCE_RC | ROCE_WRITE_ONLY_IMM, octets);
    assert_int_equal(roce_packet_parse(span_of(octets, len), &p), ROCE_PARSE_OK);
    size_t whole_len = strlen(roce_packet_format(&p, whole, sizeof whole));
    for (size_t room = 1; room <= whole_len + 1; room++) {
        memset(line, 'x', sizeof line);
        roce_packet_format(&p, line, room);
        assert_int_equal(strlen(line), room - 1);
        assert_memory_equal(line, whole, room - 1);
        for (size_t i = room; i < sizeof line; i++) {
            assert_int_equal(line[i], 'x');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_of_opcodes_is_the_golden_one),
        cmocka_unit_test(payload_fits_by_its_class),
        cmocka_unit_test(packet_of_each_opcode_is_the_golden_one),
        cmocka_unit_test(captured_packets_are_read),
        cmocka_unit_test(notification_is_the_captured_one),
        cmocka_unit_test(packet_is_emitted_as_it_was_read),
        cmocka_unit_test(packet_is_too_short_inside_its_headers),
        cmocka_unit_test(each_header_alone_may_be_too_short),
        cmocka_unit_test(reserved_opcodes_are_refused_with_their_bth),
        cmocka_unit_test(pad_longer_than_the_payload_is_refused),
        cmocka_unit_test(packet_that_is_not_padded_is_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(line_of_a_packet_is_cut_to_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/bth.h"
#include "wire/psn.h"

// Of a UC SEND ONLY that was captured between two hosts.
static const uint8_t captured[BTH_LEN] = {0x24, 0x60, 0xff, 0xff, 0x00, 0x00,
                                          0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10};

static struct bth parsed(const uint8_t *octets)
{
    struct bth h;
    assert_int_equal(bth_parse(span_of(octets, BTH_LEN), &h), ROCE_PARSE_OK);
    return h;
}

static void captured_header_is_read(void **state)
{
    struct bth h = parsed(captured);
    assert_int_equal(h.opcode, 0x24);
    assert_true(h.mig_req);
    assert_false(h.solicited || h.fecn || h.becn || h.ack_req);
    assert_int_equal(h.pad_len, 2);
    assert_int_equal(h.pkey, BTH_PKEY_DEFAULT);
    assert_int_equal(h.dest_qp, 0xd3);
    assert_int_equal(h.psn, 13571856);
}

static void emit_gives_the_parsed_octets_back(void **state)
{
    struct bth h = parsed(captured);
    uint8_t out[BTH_LEN];
    assert_int_equal(bth_emit(&h, out), BTH_LEN);
    assert_memory_equal(out, captured, BTH_LEN);
}

static void every_field_has_its_place(void **state)
{
    const struct bth h = {.opcode = 0x05,
                          .solicited = true,
                          .pad_len = 3,
                          .pkey = 0x8001,
                          .fecn = true,
                          .dest_qp = 0xa1b2c3,
                          .ack_req = true,
                          .greeting = 0x15,
                          .psn = 0xd4e5f6};
    const uint8_t expected[BTH_LEN] = {0x05, 0xb0, 0x80, 0x01, 0x80, 0xa1,
                                       0xb2, 0xc3, 0x95, 0xd4, 0xe5, 0xf6};
    uint8_t out[BTH_LEN];
    bth_emit(&h, out);
    assert_memory_equal(out, expected, BTH_LEN);
    struct bth back = parsed(expected);
    assert_true(back.solicited && back.fecn && back.ack_req);
    assert_false(back.mig_req || back.becn);
    assert_int_equal(back.dest_qp, h.dest_qp);
    assert_int_equal(back.greeting, h.greeting);
    assert_int_equal(back.psn, h.psn);
}

static void reserved_bits_are_passed_over(void **state)
{
    uint8_t in[BTH_LEN];
    memcpy(in, captured, BTH_LEN);
    in[BTH_OFF_ECN] = 0x3f;
    in[BTH_OFF_ACK_REQ] = 0x7f;
    struct bth h = parsed(in);
    assert_false(h.fecn || h.becn || h.ack_req);
}

static void header_that_ends_early_is_too_short(void **state)
{
    struct bth h;
    for (size_t cut = 0; cut < BTH_LEN; cut++) {
        assert_int_equal(bth_parse(span_of(captured, cut), &h), ROCE_PARSE_TOO_SHORT);
    }
}

static void other_versions_are_refused(void **state)
{
    uint8_t in[BTH_LEN];
    struct bth h;
    memcpy(in, captured, BTH_LEN);
    for (uint8_t tver = 1; tver < 16; tver++) {
        in[BTH_OFF_FLAGS] = 0x60 | tver;
        assert_int_equal(bth_parse(span_of(in, BTH_LEN), &h), ROCE_PARSE_TVER);
    }
}

static void format_speaks_the_words_of_the_field(void **state)
{
    char line[120];
    struct bth h = parsed(captured);
    assert_string_equal(bth_format(&h, line, sizeof line),
                        "opcode=0x24 qp=0x0000d3 psn=13571856 pkey=0xffff migreq pad=2");
}

static void psns_are_compared_over_the_wrap(void **state)
{
    assert_true(psn_before(0xfffffe, 1));
    assert_true(psn_after(1, 0xfffffe));
    assert_false(psn_before(7, 7) || psn_after(7, 7));
    assert_int_equal(psn_diff(1, 0xfffffe), 3);
    assert_int_equal(psn_diff(0xfffffe, 1), -3);
    assert_int_equal(psn_add(0xffffff, 2), 1);
}

static void psn_without_wrap_is_the_nearest(void **state)
{
    const uint64_t near = (UINT64_C(5) << 24) + 3;
    assert_true(psn_extend(near, 5) == near + 2);
    assert_true(psn_extend(near, 0xffffff) == near - 4);
    assert_true(psn_extend(near, 3 + 0x7fffff) == near + 0x7fffff);
    assert_true(psn_extend(near, 3 + 0x800000) == near - 0x800000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_header_is_read),
        cmocka_unit_test(emit_gives_the_parsed_octets_back),
        cmocka_unit_test(every_field_has_its_place),
        cmocka_unit_test(reserved_bits_are_passed_over),
        cmocka_unit_test(header_that_ends_early_is_too_short),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(format_speaks_the_words_of_the_field),
        cmocka_unit_test(psns_are_compared_over_the_wrap),
        cmocka_unit_test(psn_without_wrap_is_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

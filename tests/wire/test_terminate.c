#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/terminate.h"

static struct terminate parsed(struct span message, enum terminate_order order,
                               enum terminate_verdict expected)
{
    struct terminate t;
    memset(&t, 0xaa, sizeof t);
    assert_int_equal(terminate_parse(message, order, &t), expected);
    return t;
}

static void control_field_is_read_in_the_order_of_the_rfc(void **state)
{
    const uint8_t in[] = {0x02, 0x06, 0x00, 0x00};
    struct terminate t = parsed(span_of(in, 4), TERMINATE_ORDER_RFC, TERMINATE_OK);
    assert_int_equal(terminate_cause_find(t.layer, t.etype, t.code), TERM_RDMAP_OPCODE);
    assert_false(t.has_len || t.has_ddp || t.has_rdmap);
}

// "Unexpected opcode" as the kernel's siw puts it on the wire.
static void control_field_is_read_in_the_order_of_siw(void **state)
{
    const uint8_t in[] = {0x20, 0x06, 0x00, 0x00};
    struct terminate t = parsed(span_of(in, 4), TERMINATE_ORDER_SIW, TERMINATE_OK);
    assert_int_equal(terminate_cause_find(t.layer, t.etype, t.code), TERM_RDMAP_OPCODE);
    t = parsed(span_of(in, 4), TERMINATE_ORDER_RFC, TERMINATE_OK);
    assert_int_equal(t.layer, TERMINATE_LAYER_LLP); // the misreading that tshark shows
}

static void header_bits_of_siw_are_the_lowest(void **state)
{
    uint8_t in[4 + 2 + 14] = {0x10, 0x01, 0x03, 0x00, 0x00, 0x40, 0xc1, 0x40};
    struct terminate t = parsed(span_of(in, sizeof in), TERMINATE_ORDER_SIW, TERMINATE_OK);
    assert_int_equal(terminate_cause_find(t.layer, t.etype, t.code), TERM_RDMAP_BOUNDS);
    assert_true(t.has_len && t.has_ddp);
    assert_int_equal(t.ddp_segment_len, 0x40);
    assert_int_equal(t.ddp_header_len, DDP_TAGGED_HEADER_LEN);
}

static void all_parts_survive_the_round_trip(void **state)
{
    struct terminate in = terminate_of(TERM_RDMAP_ACCESS), out;
    in.has_len = in.has_ddp = in.has_rdmap = true;
    in.ddp_segment_len = 46;
    in.ddp_header[0] = 0x41;
    in.ddp_header[17] = 0x99;
    in.ddp_header_len = DDP_UNTAGGED_HEADER_LEN;
    memset(in.read_request, 0x5a, sizeof in.read_request);
    uint8_t buf[TERMINATE_MAX_LEN];
    assert_int_equal(terminate_emit(&in, buf), TERMINATE_MAX_LEN);
    assert_memory_equal(buf, "\x01\x02\xe0\x00\x00\x2e\x41", 7);
    assert_int_equal(terminate_parse(span_of(buf, sizeof buf), TERMINATE_ORDER_RFC, &out),
                     TERMINATE_OK);
    uint8_t again[TERMINATE_MAX_LEN];
    assert_int_equal(terminate_emit(&out, again), sizeof again);
    assert_memory_equal(again, buf, sizeof buf);
}

static void cause_alone_takes_four_octets(void **state)
{
    struct terminate t = terminate_of(TERM_MPA_CRC);
    uint8_t buf[TERMINATE_MAX_LEN];
    assert_int_equal(terminate_emit(&t, buf), TERMINATE_MIN_LEN);
    assert_memory_equal(buf, "\x20\x02\x00\x00", 4);
}

static void message_without_control_field_is_too_short(void **state)
{
    uint8_t in[3] = {0};
    for (size_t len = 0; len < TERMINATE_MIN_LEN; len++) {
        parsed(span_of(in, len), TERMINATE_ORDER_RFC, TERMINATE_TOO_SHORT);
    }
}

static void missing_headers_leave_the_cause_known(void **state)
{
    uint8_t in[TERMINATE_MAX_LEN] = {0x11, 0x01, 0xe0};
    for (size_t len = TERMINATE_MIN_LEN; len < TERMINATE_MAX_LEN; len++) {
        struct terminate t = parsed(span_of(in, len), TERMINATE_ORDER_RFC, TERMINATE_CUT);
        assert_int_equal(terminate_cause_find(t.layer, t.etype, t.code), TERM_DDP_BOUNDS);
        assert_int_equal(t.has_len, len >= TERMINATE_OFF_DDP_HEADER);
        assert_int_equal(t.has_ddp, len >= TERMINATE_OFF_DDP_HEADER + DDP_UNTAGGED_HEADER_LEN);
        assert_false(t.has_rdmap);
    }
    parsed(span_of(in, sizeof in), TERMINATE_ORDER_RFC, TERMINATE_OK);
}

static void every_cause_is_found_by_its_numbers(void **state)
{
    for (unsigned cause = TERM_NONE + 1; cause < TERM_CAUSE_COUNT; cause++) {
        const struct terminate_cause_facts *f = terminate_cause_facts(cause);
        assert_int_equal(terminate_cause_find(f->layer, f->etype, f->code), cause);
        assert_non_null(f->text);
    }
}

static void numbers_that_no_rfc_gives_are_no_cause(void **state)
{
    assert_int_equal(terminate_cause_find(0, 1, 0x05), TERM_NONE);
    assert_int_equal(terminate_cause_find(1, 3, 0), TERM_NONE);
    assert_int_equal(terminate_cause_find(2, 0, 0), TERM_NONE);
    assert_int_equal(terminate_cause_find(15, 0, 0), TERM_NONE);
}

static void local_catastrophic_errors_take_any_code(void **state)
{
    assert_int_equal(terminate_cause_find(0, 0, 0x77), TERM_RDMAP_LOCAL);
    assert_int_equal(terminate_cause_find(1, 0, 0xff), TERM_DDP_LOCAL);
}

// RFC 5040 figure 10.
static void headers_go_with_the_causes_that_take_them(void **state)
{
    assert_true(terminate_cause_facts(TERM_RDMAP_BOUNDS)->takes_rdmap);
    assert_true(terminate_cause_facts(TERM_RDMAP_BOUNDS)->takes_ddp);
    assert_true(terminate_cause_facts(TERM_RDMAP_OPCODE)->takes_ddp);
    assert_false(terminate_cause_facts(TERM_RDMAP_OPCODE)->takes_rdmap);
    assert_true(terminate_cause_facts(TERM_DDP_BOUNDS)->takes_ddp);
    assert_false(terminate_cause_facts(TERM_RDMAP_LOCAL)->takes_ddp);
    assert_false(terminate_cause_facts(TERM_MPA_CRC)->takes_ddp);
}

static void format_names_layer_and_error(void **state)
{
    char line[160];
    struct terminate t = terminate_of(TERM_DDP_BOUNDS);
    assert_string_equal(terminate_format(&t, line, sizeof line),
                        "DDP tagged buffer: base or bounds violation (layer 1 etype 1 code 0x01)");
    t = (struct terminate){.layer = 9, .etype = 8, .code = 7, .has_ddp = true, .has_rdmap = true};
    assert_string_equal(
        terminate_format(&t, line, sizeof line),
        "unknown error (layer 9 etype 8 code 0x07), DDP header, Read Request header");
    for (int v = TERMINATE_OK; v <= TERMINATE_CUT; v++) {
        assert_non_null(terminate_verdict_name(v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_field_is_read_in_the_order_of_the_rfc),
        cmocka_unit_test(control_field_is_read_in_the_order_of_siw),
        cmocka_unit_test(header_bits_of_siw_are_the_lowest),
        cmocka_unit_test(all_parts_survive_the_round_trip),
        cmocka_unit_test(cause_alone_takes_four_octets),
        cmocka_unit_test(message_without_control_field_is_too_short),
        cmocka_unit_test(missing_headers_leave_the_cause_known),
        cmocka_unit_test(every_cause_is_found_by_its_numbers),
        cmocka_unit_test(numbers_that_no_rfc_gives_are_no_cause),
        cmocka_unit_test(local_catastrophic_errors_take_any_code),
        cmocka_unit_test(headers_go_with_the_causes_that_take_them),
        cmocka_unit_test(format_names_layer_and_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

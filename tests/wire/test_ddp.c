#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/ddp.h"

// The DDP header of RFC 5044 figure 5: a Send, Last, queue 0, MSN 1, MO 0.
static const uint8_t send_header[] = {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
// A Write by hand: T, Last, STag 0x11223344, TO 0x0102030405060708.
static const uint8_t write_header[] = {0xc1, 0x40, 0x11, 0x22, 0x33, 0x44, 1, 2, 3, 4, 5, 6, 7, 8};

static void untagged_header_is_read(void **state)
{
    struct ddp_header h;
    size_t len;
    assert_int_equal(ddp_header_parse(span_of(send_header, sizeof send_header), &h, &len),
                     DDP_PARSE_OK);
    assert_int_equal(len, DDP_UNTAGGED_HEADER_LEN);
    assert_false(h.tagged);
    assert_true(h.last);
    assert_int_equal(h.rsvdulp, 0x43);
    assert_int_equal(h.qn, 0);
    assert_int_equal(h.msn, 1);
    assert_int_equal(h.mo, 0);
}

static void tagged_header_is_read(void **state)
{
    struct ddp_header h;
    size_t len;
    assert_int_equal(ddp_header_parse(span_of(write_header, sizeof write_header), &h, &len),
                     DDP_PARSE_OK);
    assert_int_equal(len, DDP_TAGGED_HEADER_LEN);
    assert_true(h.tagged);
    assert_int_equal(h.stag, 0x11223344);
    assert_true(h.to == 0x0102030405060708ULL);
}

static void emit_gives_the_parsed_octets_back(void **state)
{
    const struct span headers[] = {span_of(send_header, sizeof send_header),
                                   span_of(write_header, sizeof write_header)};
    for (unsigned i = 0; i < 2; i++) {
        struct ddp_header h;
        size_t len;
        uint8_t out[DDP_HEADER_MAX_LEN];
        assert_int_equal(ddp_header_parse(headers[i], &h, &len), DDP_PARSE_OK);
        assert_int_equal(ddp_header_emit(&h, out), len);
        assert_int_equal(ddp_header_len(&h), len);
        assert_memory_equal(out, headers[i].ptr, len);
    }
}

static void every_field_survives_the_round_trip(void **state)
{
    const struct ddp_header in = {
        .rsvd = 0xc, .rsvdulp = 0x44, .rsvdulp_stag = 0xa1b2c3d4, .qn = 5, .msn = 6, .mo = 7};
    struct ddp_header out;
    uint8_t buf[DDP_HEADER_MAX_LEN];
    size_t len;
    assert_int_equal(ddp_header_parse(span_of(buf, ddp_header_emit(&in, buf)), &out, &len),
                     DDP_PARSE_OK);
    assert_int_equal(buf[0], 0x31); // bits 13 and 12 of the control word, DV 1
    assert_memory_equal(&in, &out, sizeof in);
}

static void header_that_ends_early_is_too_short(void **state)
{
    struct ddp_header h;
    size_t len;
    for (size_t cut = 0; cut < sizeof send_header; cut++) {
        assert_int_equal(ddp_header_parse(span_of(send_header, cut), &h, &len),
                         DDP_PARSE_TOO_SHORT);
    }
    for (size_t cut = 0; cut < sizeof write_header; cut++) {
        assert_int_equal(ddp_header_parse(span_of(write_header, cut), &h, &len),
                         DDP_PARSE_TOO_SHORT);
    }
}

static void other_versions_are_refused_by_layout(void **state)
{
    struct ddp_header h;
    size_t len;
    for (uint8_t version = 0; version < 4; version++) {
        if (version == DDP_VERSION) {
            continue;
        }
        uint8_t tagged[18] = {0x80 | version}, untagged[18] = {version};
        assert_int_equal(ddp_header_parse(span_of(tagged, 18), &h, &len), DDP_PARSE_VERSION_TAGGED);
        assert_true(h.tagged);
        assert_int_equal(ddp_header_parse(span_of(untagged, 18), &h, &len),
                         DDP_PARSE_VERSION_UNTAGGED);
        assert_false(h.tagged);
    }
}

static void format_speaks_the_words_of_the_rfc(void **state)
{
    char line[160];
    struct ddp_header h = {.tagged = true, .last = true, .rsvdulp = 0x40, .stag = 7, .to = 0x20};
    assert_string_equal(ddp_header_format(&h, line, sizeof line),
                        "tagged last rsvdulp=0x40 stag=0x00000007 to=0x20");
    h = (struct ddp_header){.rsvdulp = 0x43, .qn = 1, .msn = 2, .mo = 3, .rsvd = 4};
    assert_string_equal(ddp_header_format(&h, line, sizeof line),
                        "untagged rsvdulp=0x43,0x00000000 qn=1 msn=2 mo=3 rsvd=0x4");
}

static void every_verdict_has_a_name(void **state)
{
    for (int v = DDP_PARSE_OK; v <= DDP_PARSE_VERSION_UNTAGGED; v++) {
        assert_non_null(ddp_parse_verdict_name(v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untagged_header_is_read),
        cmocka_unit_test(tagged_header_is_read),
        cmocka_unit_test(emit_gives_the_parsed_octets_back),
        cmocka_unit_test(every_field_survives_the_round_trip),
        cmocka_unit_test(header_that_ends_early_is_too_short),
        cmocka_unit_test(other_versions_are_refused_by_layout),
        cmocka_unit_test(format_speaks_the_words_of_the_rfc),
        cmocka_unit_test(every_verdict_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

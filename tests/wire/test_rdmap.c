#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/ddp.h"
#include "wire/rdmap.h"

// By hand after RFC 5040 figure 6.
static const uint8_t read_request[RDMAP_READ_REQUEST_LEN] = {
    0xa1, 0xa2, 0xa3, 0xa4,                         // SinkSTag
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // SinkTO
    0x00, 0x01, 0x00, 0x00,                         // RDMARDSZ 65536
    0xb1, 0xb2, 0xb3, 0xb4,                         // SrcSTag
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // SrcTO
};

// By hand after RFC 7306 figure 4.
static const uint8_t atomic_request[RDMAP_ATOMIC_REQUEST_LEN] = {
    0x00, 0x00, 0x00, 0x02,                         // CmpSwap
    0x00, 0x00, 0x00, 0x2a,                         // Request Identifier 42
    0xc1, 0xc2, 0xc3, 0xc4,                         // Remote STag
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x08, // Remote Tagged Offset
    0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, // Swap Data
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, // Swap Mask
    0x02, 0x02, 0x02, 0x02, 0x02, 0x02, 0x02, 0x02, // Compare Data
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, // Compare Mask
};

// By hand after RFC 7306 figure 6.
static const uint8_t atomic_response[RDMAP_ATOMIC_RESPONSE_LEN] = {
    0x00, 0x00, 0x00, 0x2a,                         // Original Request Identifier 42
    0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, // Original Remote Data Value
};

static void control_octet_has_version_and_opcode(void **state)
{
    assert_int_equal(rdmap_control_emit(RDMAP_SEND), 0x43); // as in RFC 5044 figure 5
    assert_int_equal(rdmap_control_version(0x43), 1);
    assert_int_equal(rdmap_control_opcode(0x43), RDMAP_SEND);
    assert_int_equal(rdmap_control_version(0xb6), 2);
    assert_int_equal(rdmap_control_opcode(0x76), RDMAP_SEND_SE_INV);
}

// RFC 5040 figure 4 and RFC 7306 figure 2, written down a second time.
static void opcode_facts_are_those_of_the_rfcs(void **state)
{
    static const struct {
        uint8_t opcode;
        bool tagged, invalidates, solicits;
        uint32_t qn, fixed_len;
    } rows[] = {
        {0x0, true, false, false, 0, 0},   {0x1, false, false, false, 1, 28},
        {0x2, true, false, false, 0, 0},   {0x3, false, false, false, 0, 0},
        {0x4, false, true, false, 0, 0},   {0x5, false, false, true, 0, 0},
        {0x6, false, true, true, 0, 0},    {0x7, false, false, false, 2, 0},
        {0x8, false, false, false, 0, 8},  {0x9, false, false, true, 0, 8},
        {0xa, false, false, false, 1, 52}, {0xb, false, false, false, 3, 12},
        {0xe, false, false, false, 4, 16},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct rdmap_opcode_facts *f = rdmap_opcode_facts(rows[i].opcode);
        assert_true(f->is_known);
        assert_int_equal(f->is_tagged, rows[i].tagged);
        assert_int_equal(f->invalidates, rows[i].invalidates);
        assert_int_equal(f->solicits, rows[i].solicits);
        assert_int_equal(f->qn, rows[i].qn);
        assert_int_equal(f->fixed_len, rows[i].fixed_len);
    }
}

static void unassigned_opcodes_are_unknown(void **state)
{
    assert_false(rdmap_opcode_facts(0xc)->is_known);
    assert_false(rdmap_opcode_facts(0xd)->is_known);
    assert_false(rdmap_opcode_facts(0xf)->is_known);
}

static void every_opcode_has_a_name(void **state)
{
    for (uint8_t opcode = 0; opcode < RDMAP_OPCODE_COUNT; opcode++) {
        assert_non_null(rdmap_opcode_facts(opcode)->name);
    }
}

static void read_request_is_read_and_written(void **state)
{
    struct rdmap_read_request r;
    uint8_t out[RDMAP_READ_REQUEST_LEN];
    assert_int_equal(rdmap_read_request_parse(span_of(read_request, sizeof read_request), &r),
                     RDMAP_PARSE_OK);
    assert_int_equal(r.sink_stag, 0xa1a2a3a4);
    assert_true(r.sink_to == 0x0102030405060708ULL);
    assert_int_equal(r.rdmardsz, 65536);
    assert_int_equal(r.src_stag, 0xb1b2b3b4);
    assert_true(r.src_to == 0x1112131415161718ULL);
    assert_int_equal(rdmap_read_request_emit(&r, out), sizeof out);
    assert_memory_equal(out, read_request, sizeof out);
}

static void atomic_request_is_read_and_written(void **state)
{
    struct rdmap_atomic_request r;
    uint8_t out[RDMAP_ATOMIC_REQUEST_LEN];
    assert_int_equal(rdmap_atomic_request_parse(span_of(atomic_request, sizeof atomic_request), &r),
                     RDMAP_PARSE_OK);
    assert_int_equal(r.opcode, RDMAP_ATOMIC_CMP_SWAP);
    assert_int_equal(r.request_id, 42);
    assert_int_equal(r.stag, 0xc1c2c3c4);
    assert_true(r.to == 0x1008);
    assert_true(r.add_swap == 0x0101010101010101ULL);
    assert_true(r.add_swap_mask == 0xfffffffffffffffeULL);
    assert_true(r.compare == 0x0202020202020202ULL);
    assert_true(r.compare_mask == 0xfffffffffffffffdULL);
    assert_int_equal(rdmap_atomic_request_emit(&r, out), sizeof out);
    assert_memory_equal(out, atomic_request, sizeof out);
}

static void reserved_bits_of_an_atomic_request_are_ignored(void **state)
{
    struct rdmap_atomic_request r;
    uint8_t in[RDMAP_ATOMIC_REQUEST_LEN];
    memcpy(in, atomic_request, sizeof in);
    memset(in, 0xff, 3);
    in[3] = 0xf0;
    assert_int_equal(rdmap_atomic_request_parse(span_of(in, sizeof in), &r), RDMAP_PARSE_OK);
    assert_int_equal(r.opcode, RDMAP_ATOMIC_FETCH_ADD);
}

static void atomic_response_is_read_and_written(void **state)
{
    struct rdmap_atomic_response r;
    uint8_t out[RDMAP_ATOMIC_RESPONSE_LEN];
    assert_int_equal(
        rdmap_atomic_response_parse(span_of(atomic_response, sizeof atomic_response), &r),
        RDMAP_PARSE_OK);
    assert_int_equal(r.request_id, 42);
    assert_true(r.original == 0x0f0e0d0c0b0a0908ULL);
    assert_int_equal(rdmap_atomic_response_emit(&r, out), sizeof out);
    assert_memory_equal(out, atomic_response, sizeof out);
}

static void headers_of_fixed_length_refuse_any_other(void **state)
{
    uint8_t in[64] = {0};
    struct rdmap_read_request read;
    struct rdmap_atomic_request request;
    struct rdmap_atomic_response response;
    assert_int_equal(rdmap_read_request_parse(span_of(in, 27), &read), RDMAP_PARSE_TOO_SHORT);
    assert_int_equal(rdmap_read_request_parse(span_of(in, 29), &read), RDMAP_PARSE_TOO_LONG);
    assert_int_equal(rdmap_atomic_request_parse(span_of(in, 51), &request), RDMAP_PARSE_TOO_SHORT);
    assert_int_equal(rdmap_atomic_request_parse(span_of(in, 53), &request), RDMAP_PARSE_TOO_LONG);
    assert_int_equal(rdmap_atomic_response_parse(span_of(in, 11), &response),
                     RDMAP_PARSE_TOO_SHORT);
    assert_int_equal(rdmap_atomic_response_parse(span_of(in, 13), &response), RDMAP_PARSE_TOO_LONG);
    assert_string_equal(rdmap_parse_verdict_name(RDMAP_PARSE_OK), "ok");
}

static void formats_speak_the_words_of_the_rfcs(void **state)
{
    char line[240];
    struct rdmap_read_request r = {1, 0x10, 64, 2, 0x20};
    assert_string_equal(
        rdmap_read_request_format(&r, line, sizeof line),
        "sink_stag=0x00000001 sink_to=0x10 rdmardsz=64 src_stag=0x00000002 src_to=0x20");
    struct rdmap_atomic_request a = {.opcode = 0, .request_id = 3, .stag = 4, .to = 8};
    rdmap_atomic_request_format(&a, line, sizeof line);
    assert_non_null(strstr(line, "FetchAdd(0) request_id=3 stag=0x00000004 to=0x8"));
    a.opcode = 7;
    assert_non_null(strstr(rdmap_atomic_request_format(&a, line, sizeof line), "AOpCode(7)"));
    struct rdmap_atomic_response o = {.request_id = 3, .original = 0xff};
    assert_string_equal(rdmap_atomic_response_format(&o, line, sizeof line),
                        "request_id=3 original=0xff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_octet_has_version_and_opcode),
        cmocka_unit_test(opcode_facts_are_those_of_the_rfcs),
        cmocka_unit_test(unassigned_opcodes_are_unknown),
        cmocka_unit_test(every_opcode_has_a_name),
        cmocka_unit_test(read_request_is_read_and_written),
        cmocka_unit_test(atomic_request_is_read_and_written),
        cmocka_unit_test(reserved_bits_of_an_atomic_request_are_ignored),
        cmocka_unit_test(atomic_response_is_read_and_written),
        cmocka_unit_test(headers_of_fixed_length_refuse_any_other),
        cmocka_unit_test(formats_speak_the_words_of_the_rfcs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

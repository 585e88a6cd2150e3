#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/extension.h"

static const uint8_t golden_block[EXTENSION_BLOCK_LEN] = {
    'w',  'e',  'f',  't',  0x0d, 0x0a, 0x1a, 0x01, // magic
    0xde, 0xad, 0xbe, 0xef,                         // CRC32C of the Request
    0x01, 0x33, 0x01, 0x00,                         // version, both encodings and parts, wish
    0x00, 0x01, 0x00, 0x00,                         // allotment 65536
    0x00, 0x00, 0x00, 0x00,
};

static const uint8_t golden_message[EXTENSION_MESSAGE_LEN] = {
    0x01, 0x01, 0x12, 0x00, // version, choices, opcode encoding: advertise
    0x00, 0x00, 0x10, 0x00, // allotment 4096
};

static enum extension_verdict block_verdict(const uint8_t *octets, size_t len, uint32_t crc)
{
    struct extension_block b;
    return extension_block_parse(span_of(octets, len), crc, &b);
}

static enum extension_message_verdict message_verdict(const uint8_t *octets, size_t len)
{
    struct extension_message m;
    return extension_message_parse(span_of(octets, len), &m);
}

static void block_is_read_and_written(void **state)
{
    struct extension_block b;
    uint8_t out[EXTENSION_BLOCK_LEN];
    assert_int_equal(extension_block_parse(span_of(golden_block, 24), 0xdeadbeef, &b),
                     EXTENSION_OK);
    assert_int_equal(b.encodings, EXTENSION_ONESHOT_ENCODINGS | EXTENSION_ONESHOT_PARTS);
    assert_true(b.marker_wish);
    assert_int_equal(b.allotment_len, 65536);
    assert_int_equal(extension_block_emit(&b, out), sizeof out);
    assert_memory_equal(out, golden_block, sizeof out);
}

static void block_is_the_end_of_the_private_data(void **state)
{
    uint8_t in[10 + EXTENSION_BLOCK_LEN] = "some data";
    memcpy(in + 10, golden_block, EXTENSION_BLOCK_LEN);
    assert_int_equal(block_verdict(in, sizeof in, 0xdeadbeef), EXTENSION_OK);
}

static void short_private_data_holds_no_block(void **state)
{
    assert_int_equal(block_verdict(golden_block, 23, 0xdeadbeef), EXTENSION_ABSENT);
    assert_int_equal(block_verdict(golden_block, 0, 0xdeadbeef), EXTENSION_ABSENT);
}

static void any_other_magic_is_no_block(void **state)
{
    for (unsigned i = 0; i < 8; i++) {
        uint8_t in[EXTENSION_BLOCK_LEN];
        memcpy(in, golden_block, sizeof in);
        in[i] ^= 0x20;
        assert_int_equal(block_verdict(in, sizeof in, 0xdeadbeef), EXTENSION_BAD_MAGIC);
    }
}

static void block_for_another_request_is_refused(void **state)
{
    assert_int_equal(block_verdict(golden_block, 24, 0xdeadbeee), EXTENSION_WRONG_REQUEST);
}

static void block_of_another_version_is_refused(void **state)
{
    uint8_t in[EXTENSION_BLOCK_LEN];
    memcpy(in, golden_block, sizeof in);
    in[EXTENSION_OFF_VERSION] = 2;
    assert_int_equal(block_verdict(in, sizeof in, 0xdeadbeef), EXTENSION_VERSION_OTHER);
}

static void message_is_read_and_written(void **state)
{
    struct extension_message m;
    uint8_t out[EXTENSION_MESSAGE_LEN];
    assert_int_equal(extension_message_parse(span_of(golden_message, 16), &m),
                     EXTENSION_MESSAGE_OK);
    assert_int_equal(m.kind, EXTENSION_CHOICES);
    assert_int_equal(m.encoding, EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_ADVERTISE);
    assert_int_equal(m.allotment_len, 4096);
    assert_int_equal(extension_message_emit(&m, out), sizeof out);
    assert_memory_equal(out, golden_message, sizeof out);
}

static void notices_of_the_allotment_are_read_and_written(void **state)
{
    static const uint8_t golden[2][EXTENSION_MESSAGE_LEN] = {
        {0x01, 0x02, 0x00, 0x04, 0x00, 0x04, 0x00, 0x00}, // version, changed: pipe; 262144
        {0x01, 0x03, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00}, // version, taken; 262144
    };
    static const enum extension_kind kinds[2] = {EXTENSION_ALLOTMENT, EXTENSION_TAKEN};
    for (unsigned i = 0; i < 2; i++) {
        struct extension_message m;
        uint8_t out[EXTENSION_MESSAGE_LEN];
        assert_int_equal(extension_message_parse(span_of(golden[i], 16), &m), EXTENSION_MESSAGE_OK);
        assert_int_equal(m.kind, kinds[i]);
        assert_int_equal(m.why, i == 0 ? ALLOTMENT_PIPE : 0);
        assert_int_equal(m.allotment_len, 262144);
        assert_int_equal(extension_message_emit(&m, out), sizeof out);
        assert_memory_equal(out, golden[i], sizeof out);
    }
}

static void message_of_another_length_is_refused(void **state)
{
    uint8_t in[17] = {1, 1};
    assert_int_equal(message_verdict(in, 15), EXTENSION_MESSAGE_BAD_LEN);
    assert_int_equal(message_verdict(in, 17), EXTENSION_MESSAGE_BAD_LEN);
}

static void message_of_another_version_is_refused(void **state)
{
    uint8_t in[16] = {2, 1};
    assert_int_equal(message_verdict(in, 16), EXTENSION_MESSAGE_VERSION);
}

static void message_of_an_unknown_kind_is_refused(void **state)
{
    uint8_t in[16] = {1, 0}, other[16] = {1, 4};
    assert_int_equal(message_verdict(in, 16), EXTENSION_MESSAGE_KIND);
    assert_int_equal(message_verdict(other, 16), EXTENSION_MESSAGE_KIND);
}

static void message_chooses_one_encoding_and_a_part_or_nothing(void **state)
{
    static const uint8_t right[] = {0, 0x11, 0x21, 0x31, 0x12, 0x22, 0x32};
    for (unsigned encoding = 0; encoding < 256; encoding++) {
        uint8_t in[16] = {1, EXTENSION_CHOICES, (uint8_t)encoding};
        bool is_right = memchr(right, (int)encoding, sizeof right) != NULL;
        assert_int_equal(message_verdict(in, 16),
                         is_right ? EXTENSION_MESSAGE_OK : EXTENSION_MESSAGE_ENCODING);
    }
    uint8_t in[16] = {1, EXTENSION_ALLOTMENT, 0x11};
    assert_int_equal(message_verdict(in, 16), EXTENSION_MESSAGE_ENCODING);
}

static void what_two_sets_have_in_common(void **state)
{
    static const struct {
        uint8_t ours, theirs, common;
    } cases[] = {
        {0x33, 0x33, 0x31}, // `flags` before `opcode`
        {0x33, 0x32, 0x32}, {0x31, 0x32, 0}, {0x31, 0x13, 0x11}, {0x13, 0x23, 0},
        {0x33, 0x30, 0},    {0, 0x33, 0},    {0xff, 0xff, 0x31},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(extension_oneshot_common(cases[i].ours, cases[i].theirs), cases[i].common);
        assert_int_equal(extension_oneshot_common(cases[i].theirs, cases[i].ours), cases[i].common);
    }
}

static void formats_and_names(void **state)
{
    char line[160];
    struct extension_block b = {.encodings = 0x31, .marker_wish = true, .allotment_len = 5};
    assert_string_equal(
        extension_block_format(&b, line, sizeof line),
        "extensions: request_crc=0x00000000 oneshot-flags advertise close marker-wish "
        "allotment=5");
    struct extension_message m = {.kind = EXTENSION_ALLOTMENT, .allotment_len = 6};
    assert_string_equal(extension_message_format(&m, line, sizeof line),
                        "extension message: allotment changed allotment=6");
    for (int v = 0; v < EXTENSION_VERDICT_COUNT; v++) {
        assert_non_null(extension_verdict_name(v));
    }
    for (int v = 0; v < EXTENSION_MESSAGE_VERDICT_COUNT; v++) {
        assert_non_null(extension_message_verdict_name(v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_is_read_and_written),
        cmocka_unit_test(block_is_the_end_of_the_private_data),
        cmocka_unit_test(short_private_data_holds_no_block),
        cmocka_unit_test(any_other_magic_is_no_block),
        cmocka_unit_test(block_for_another_request_is_refused),
        cmocka_unit_test(block_of_another_version_is_refused),
        cmocka_unit_test(message_is_read_and_written),
        cmocka_unit_test(notices_of_the_allotment_are_read_and_written),
        cmocka_unit_test(message_of_another_length_is_refused),
        cmocka_unit_test(message_of_another_version_is_refused),
        cmocka_unit_test(message_of_an_unknown_kind_is_refused),
        cmocka_unit_test(message_chooses_one_encoding_and_a_part_or_nothing),
        cmocka_unit_test(what_two_sets_have_in_common),
        cmocka_unit_test(formats_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

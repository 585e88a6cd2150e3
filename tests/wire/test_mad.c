// The common header of management datagrams.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/mad.h"

static const uint8_t golden[MAD_LEN] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x12, 0x13, 0x14,
    0x15, 0x16, 0x17, 0x18, 0x00, 0x10, 0x00, 0x00, 0x21, 0x22, 0x23, 0x24,
};
static const struct mad_header header = {
    .management_class = MAD_CLASS_CM,
    .class_version = MAD_CLASS_VERSION_CM,
    .method = MAD_METHOD_SEND,
    .status = 0x1c,
    .transaction_id = 0x1112131415161718,
    .attribute = 0x10,
    .modifier = 0x21222324,
};

static void a_header_is_emitted_as_the_figure_has_it(void **state)
{
    uint8_t buf[MAD_HEADER_LEN];
    memset(buf, 0xee, sizeof buf);
    assert_int_equal(mad_emit(&header, buf), sizeof buf);
    assert_memory_equal(buf, golden, sizeof buf);
}

static void a_header_is_parsed(void **state)
{
    struct mad_header h;
    char line[120];
    assert_int_equal(mad_parse(span_of(golden, sizeof golden), &h), MAD_OK);
    assert_int_equal(h.management_class, header.management_class);
    assert_int_equal(h.class_version, header.class_version);
    assert_int_equal(h.method, header.method);
    assert_int_equal(h.status, header.status);
    assert_int_equal(h.transaction_id, header.transaction_id);
    assert_int_equal(h.attribute, header.attribute);
    assert_int_equal(h.modifier, header.modifier);
    assert_string_equal(mad_format(&h, line, sizeof line),
                        "class=0x07 version=2 method=0x03 status=28 tid=0x1112131415161718 "
                        "attribute=0x0010");
}

static void other_lengths_are_refused(void **state)
{
    uint8_t longer[MAD_LEN + 1] = {0};
    struct mad_header h;
    memcpy(longer, golden, sizeof golden);
    for (size_t len = 0; len <= sizeof longer; len++) {
        assert_int_equal(mad_parse(span_of(longer, len), &h),
                         len == MAD_LEN ? MAD_OK : MAD_BAD_LEN);
    }
}

static void other_base_versions_are_refused(void **state)
{
    uint8_t other[MAD_LEN];
    struct mad_header h;
    memcpy(other, golden, sizeof golden);
    for (unsigned version = 0; version < 256; version++) {
        other[MAD_OFF_BASE_VERSION] = (uint8_t)version;
        assert_int_equal(mad_parse(span_of(other, sizeof other), &h),
                         version == 1 ? MAD_OK : MAD_BAD_VERSION);
    }
}

static void every_verdict_has_a_name(void **state)
{
    for (unsigned v = 0; v < MAD_VERDICT_COUNT; v++) {
        assert_non_null(mad_verdict_name((enum mad_verdict)v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_emitted_as_the_figure_has_it),
        cmocka_unit_test(a_header_is_parsed),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(other_base_versions_are_refused),
        cmocka_unit_test(every_verdict_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The start-up data of rsockets, octet by octet.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "rsocket/rsocket.h"

// On a little-endian host: version 1, iomaps known, 384 credits, no iomap entries.
static const uint8_t octets[RS_HELLO_LEN] = {
    0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00,                         //
    0x00, 0x00, 0x7f, 0x01, 0x02, 0x03, 0x04, 0x05, 0xaa, 0xbb, 0xcc, 0xdd, //
    0x00, 0x00, 0x00, 0x02,                                                 //
    0x00, 0x00, 0x7f, 0x11, 0x12, 0x13, 0x14, 0x15, 0x01, 0x02, 0x03, 0x04, //
    0x00, 0x01, 0x00, 0x00,
};

static const struct rs_hello hello = {
    .credits = 384,
    .list = {.addr = 0x7f0102030405, .key = 0xaabbccdd, .length = 2},
    .first = {.addr = 0x7f1112131415, .key = 0x01020304, .length = 65536},
};

static void test_emit(void **state)
{
    uint8_t buf[RS_HELLO_LEN];
    rs_hello_emit(&hello, buf);
    assert_memory_equal(buf, octets, sizeof octets);
}

static void test_parse(void **state)
{
    struct rs_hello parsed;
    assert_int_equal(rs_hello_parse(octets, sizeof octets, &parsed), 0);
    assert_memory_equal(&parsed, &hello, sizeof hello);
}

static void test_refusals(void **state)
{
    static const struct {
        size_t at;
        uint8_t octet;
        int error;
    } rows[] = {
        {0, 2, ENOTSUP}, // another version
        {1, 3, ENOTSUP}, // a big-endian host
        {23, 0, EPROTO}, // an empty list
    };
    struct rs_hello parsed;
    assert_int_equal(rs_hello_parse(octets, sizeof octets - 1, &parsed), EPROTO);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t changed[RS_HELLO_LEN];
        memcpy(changed, octets, sizeof changed);
        changed[rows[i].at] = rows[i].octet;
        assert_int_equal(rs_hello_parse(changed, sizeof changed, &parsed), rows[i].error);
    }
}

static void test_counts_of_iomaps_survive_their_octet(void **state)
{
    static const struct {
        uint32_t wanted;
        uint16_t fit;
    } rows[] = {
        {0, 0}, {1, 1}, {128, 128}, {129, 256}, {256, 256}, {300, 256}, {40000, RS_IOMAP_MAX},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rs_hello sent = hello, parsed;
        uint8_t buf[RS_HELLO_LEN];
        assert_int_equal(rs_iomap_count_fit(rows[i].wanted), rows[i].fit);
        sent.iomap_count = rows[i].fit;
        rs_hello_emit(&sent, buf);
        assert_int_equal(rs_hello_parse(buf, sizeof buf, &parsed), 0);
        assert_int_equal(parsed.iomap_count, rows[i].fit);
    }
}

static void test_messages(void **state)
{
    assert_int_equal(rs_message(RS_OP_DATA, 65536), 0x00010000);
    assert_int_equal(rs_message(RS_OP_CREDIT, 384), 0x80000180);
    assert_int_equal(rs_message(RS_OP_IOMAP, 3), 0xc0000003);
    assert_int_equal(rs_message(RS_OP_CONTROL, RS_CONTROL_SHUTDOWN), 0xe0000002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emit),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_counts_of_iomaps_survive_their_octet),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

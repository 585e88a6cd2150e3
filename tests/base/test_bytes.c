// Network order at every alignment, and nothing beside the octets that are meant.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/span.h"

enum { ROOM = 24 };

static void big_endian_is_written_most_significant_first(void **state)
{
    static const uint8_t octets[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    for (unsigned at = 1; at < 9; at++) {
        uint8_t buf[ROOM];
        memset(buf, 0xee, sizeof buf);
        put_be64(buf + at, 0x0123456789abcdef);
        assert_memory_equal(buf + at, octets, 8);
        assert_true(buf[at - 1] == 0xee && buf[at + 8] == 0xee);
        assert_true(get_be64(buf + at) == 0x0123456789abcdef);
        put_be32(buf + at, 0xf00dcafe);
        assert_true(get_be32(buf + at) == 0xf00dcafe);
        assert_memory_equal(buf + at + 4, octets + 4, 4);
        put_be16(buf + at, 0xbeef);
        assert_int_equal(get_be16(buf + at), 0xbeef);
        assert_memory_equal(buf + at, "\xbe\xef\xca\xfe", 4);
    }
}

static void little_endian_is_written_least_significant_first(void **state)
{
    uint8_t buf[6] = {0};
    put_le32(buf + 1, 0x01020304);
    assert_memory_equal(buf, "\0\4\3\2\1\0", 6);
    assert_int_equal(get_le32(buf + 1), 0x01020304);
}

static void span_is_cut_at_either_end(void **state)
{
    uint8_t octets[] = "abcdef";
    struct span all = mspan_read(mspan_of(octets, 6));
    struct span first = span_first(all, 2), rest = span_skip(all, 2);
    assert_int_equal(first.len, 2);
    assert_memory_equal(first.ptr, "ab", 2);
    assert_int_equal(rest.len, 4);
    assert_memory_equal(rest.ptr, "cdef", 4);
    assert_int_equal(span_skip(all, 6).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(big_endian_is_written_most_significant_first),
        cmocka_unit_test(little_endian_is_written_least_significant_first),
        cmocka_unit_test(span_is_cut_at_either_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

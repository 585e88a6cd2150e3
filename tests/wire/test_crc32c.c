#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/crc32c.h"

// RFC 3720 appendix B.4.
static void rfc3720_examples(void **state)
{
    uint8_t octets[32];
    memset(octets, 0, sizeof octets);
    assert_int_equal(crc32c(octets, sizeof octets), 0x8a9136aa);
    memset(octets, 0xff, sizeof octets);
    assert_int_equal(crc32c(octets, sizeof octets), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++) {
        octets[i] = (uint8_t)i;
    }
    assert_int_equal(crc32c(octets, sizeof octets), 0x46dd794e);
    for (unsigned i = 0; i < 32; i++) {
        octets[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c(octets, sizeof octets), 0x113fdb5c);
}

static void check_string_of_the_literature(void **state)
{
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c("", 0), 0);
}

static void pieces_give_the_value_of_the_whole(void **state)
{
    uint8_t octets[700];
    for (unsigned i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)(i * 37 + 11);
    }
    uint32_t whole = crc32c(octets, sizeof octets);
    for (size_t cut = 0; cut <= sizeof octets; cut++) {
        uint32_t s = crc32c_update(crc32c_init(), octets, cut);
        s = crc32c_update(s, octets + cut, sizeof octets - cut);
        assert_int_equal(crc32c_final(s), whole);
    }
}

static void value_stands_least_significant_octet_first(void **state)
{
    uint8_t wire[CRC32C_LEN];
    crc32c_put(wire, 0x8a9136aa);
    assert_memory_equal(wire, "\xaa\x36\x91\x8a", 4);
    assert_int_equal(crc32c_get(wire), 0x8a9136aa);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc3720_examples),
        cmocka_unit_test(check_string_of_the_literature),
        cmocka_unit_test(pieces_give_the_value_of_the_whole),
        cmocka_unit_test(value_stands_least_significant_octet_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

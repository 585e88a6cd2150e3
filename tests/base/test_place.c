// Placement: every octet at its place and none beside it, at any alignment.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/place.h"

enum { BUFFER_LEN = 64 };

static void octets_land_at_any_alignment_and_length(void **state)
{
    uint8_t payload[BUFFER_LEN];
    for (unsigned i = 0; i < BUFFER_LEN; i++) {
        payload[i] = (uint8_t)(i * 5 + 1) | 1;
    }
    for (size_t at = 0; at < 9; at++) {
        for (size_t len = 0; len < 40; len++) {
            for (size_t from = 0; from < 3; from++) {
                _Alignas(8) uint8_t buffer[BUFFER_LEN] = {0}, expected[BUFFER_LEN] = {0};
                place_octets(buffer + at, span_of(payload + from, len));
                memcpy(expected + at, payload + from, len);
                assert_memory_equal(buffer, expected, BUFFER_LEN);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_land_at_any_alignment_and_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

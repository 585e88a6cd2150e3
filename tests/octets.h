// Octets as texts of hexadecimal digits.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static inline uint8_t octets_digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

// Into `ret`, of that many octets; blanks part them as the reader likes. Returns how many they are.
static inline size_t octets_of(const char *text, uint8_t *ret, size_t capacity)
{
    size_t digits = 0;
    for (; *text != '\0'; text++) {
        if (*text != ' ') {
            assert_true(digits / 2 < capacity);
            uint8_t *at = &ret[digits++ / 2];
            *at = (uint8_t)(*at << 4 | octets_digit(*text));
        }
    }
    assert_true(digits % 2 == 0);
    return digits / 2;
}

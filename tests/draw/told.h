// What a test is told, line by line, to be compared with a golden file in the end.
#pragma once

#include <stdarg.h>

#include "tests/golden.h"

static char told[1 << 16];
static size_t told_len;

static inline __attribute__((format(printf, 1, 2))) void say(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    told_len += (size_t)vsnprintf(told + told_len, sizeof told - told_len, format, words);
    va_end(words);
    assert_true(told_len < sizeof told);
}

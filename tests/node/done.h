// What the stand-ins around the one that is tested were asked and told, in their order, and what of
// it is expected. They note it, a line or a word each.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static char done[8192];

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    size_t len = strlen(done);
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(done + len, sizeof done - len, format, arguments);
    va_end(arguments);
    assert_true(len + (size_t)more < sizeof done);
}

// This has been done since it was last asked, and nothing else.
static void expect(const char *words)
{
    assert_string_equal(done, words);
    done[0] = '\0';
}

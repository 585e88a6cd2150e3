// Three kinds of failure, three mechanisms: a programmer's error stops the program here; a peer's
// error is a verdict that leads to a Terminate; an error of the environment is a negative errno.
//
// A CHECK is in every build, whatever NDEBUG says, and its condition has no side effect.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(it)               ((it) ? (void)0 : check_failed(__FILE__, __LINE__, #it))
#define STATIC_CHECK(condition) _Static_assert(condition, #condition)

_Noreturn __attribute__((cold)) static inline void check_failed(const char *file, int line,
                                                                const char *condition)
{
    fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
    abort();
}

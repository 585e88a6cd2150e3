// Three kinds of failure, three mechanisms: a programmer's error stops the program here; a peer's
// error is a verdict that leads to a Terminate; an error of the environment is a negative errno.
#pragma once

#include <assert.h>

#define CHECK(condition)        assert(condition)
#define STATIC_CHECK(condition) _Static_assert(condition, #condition)

// A window that a test drives. A round trip is 100 us where nothing else is said.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "congestion/window.h"

#define RTT_NS (100 * NS_PER_US)
#define US     NS_PER_US

struct bench {
    struct congestion c;
    instant_ns now;
};

static inline struct bench begin(void)
{
    const struct congestion_config config = {0};
    struct bench b = {.now = 100 * NS_PER_S};
    congestion_init(&b.c, &config);
    return b;
}

static inline void assert_window(const struct bench *b, double expected)
{
    assert_true(b->c.window > expected - 0.01 && b->c.window < expected + 0.01);
}

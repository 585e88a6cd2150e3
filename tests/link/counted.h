// One counter of a link, looked up by its name.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/port_link.h"

struct counted {
    const char *name;
    uint64_t value;
    unsigned found; // how many have this name
};

static inline void counted_take(void *ctx, const char *name, uint64_t value)
{
    struct counted *c = ctx;
    if (strcmp(name, c->name) == 0) {
        c->value = value;
        c->found++;
    }
}

// Of the stream's connection; NULL: of all that were closed.
static inline uint64_t tcp_counted(const struct link *link, const struct link_stream *stream,
                                   const char *name)
{
    struct counted c = {.name = name};
    link->ops->stream_counters(link, stream, counted_take, &c);
    assert_int_equal(c.found, 1);
    return c.value;
}

static inline uint64_t packets_counted(const struct link *link, const char *name)
{
    struct counted c = {.name = name};
    link->ops->packet_counters(link, counted_take, &c);
    assert_int_equal(c.found, 1);
    return c.value;
}

// Who serialises the calls on an engine's object, for whoever has several threads: a door that is
// for one caller at a time checks that this one is it. The object itself knows no thread, no lock.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct guard {
    bool (*is_held)(const void *ctx); // by the calling thread; NULL: there is one thread only
    const void *ctx;
};

static inline bool guard_is_held(const struct guard *guard)
{
    return guard->is_held == NULL || guard->is_held(guard->ctx);
}

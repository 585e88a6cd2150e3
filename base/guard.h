// Who serialises the calls on an engine's object, for whoever has several threads: a door that is
// for one caller at a time checks that this one is it. The object itself knows no lock. Threads are
// told apart by their thread pointers: that is no call.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/thread.h"

struct guard {
    const void *const _Atomic *holder; // the thread that may call; NULL: there is one thread only
};

static inline bool guard_is_held(const struct guard *guard)
{
    return guard->holder == NULL ||
           atomic_load_explicit(guard->holder, memory_order_relaxed) == thread_pointer();
}

// Memory that will be looked at in a moment is asked for in advance: lines that no cache has come
// side by side then, not one behind the other. Where the caches have them it is for nothing, and
// costs an instruction or two a line.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { FETCH_LINE_LEN = 64 };

// Harmless wherever it is, NULL included.
static inline void fetch_ahead(const void *at, size_t len)
{
    const uintptr_t begin = (uintptr_t)at;
    for (size_t offset = 0; offset < len; offset += FETCH_LINE_LEN) {
        __builtin_prefetch((const void *)(begin + offset));
    }
}

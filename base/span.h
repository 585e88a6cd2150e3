// A run of octets that somebody else owns: a pointer and a length, never a terminator.
// `span` is read, `mspan` may be written. Both are passed by value.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct span {
    const uint8_t *ptr;
    size_t len; // octets
};

struct mspan {
    uint8_t *ptr;
    size_t len; // octets
};

static inline struct span span_of(const void *ptr, size_t len)
{
    return (struct span){.ptr = ptr, .len = len};
}

static inline struct mspan mspan_of(void *ptr, size_t len)
{
    return (struct mspan){.ptr = ptr, .len = len};
}

static inline struct span mspan_read(struct mspan m)
{
    return (struct span){.ptr = m.ptr, .len = m.len};
}

// The first `len` octets of `s`; `len` must not exceed `s.len`.
static inline struct span span_first(struct span s, size_t len)
{
    return (struct span){.ptr = s.ptr, .len = len};
}

// What is left of `s` behind its first `skip` octets; `skip` must not exceed `s.len`.
static inline struct span span_skip(struct span s, size_t skip)
{
    return (struct span){.ptr = s.ptr + skip, .len = s.len - skip};
}

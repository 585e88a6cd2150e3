// An allocator before libc's, also for shared libraries, as of a program that brings its own: the
// Nth call of this thread fails, and the blocks of all threads that are out are counted. For tests
// with `fronts` that no sanitizer is in, which brings one itself.
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

static _Thread_local uint64_t memory_calls, memory_fails_at; // counted from 1; 0: none fails
static _Atomic int64_t memory_blocks;

void *__libc_malloc(size_t len);
void *__libc_calloc(size_t count, size_t len);
void *__libc_realloc(void *old, size_t len);
void *__libc_memalign(size_t alignment, size_t len);
void __libc_free(void *block);

static inline void memory_fail_at(uint64_t call)
{
    memory_calls = 0;
    memory_fails_at = call;
}

// Whether that call has come.
static inline bool memory_has_failed(void)
{
    return memory_calls >= memory_fails_at;
}

static bool memory_is_failing(void)
{
    const bool it_is = ++memory_calls == memory_fails_at;
    errno = it_is ? ENOMEM : errno;
    return it_is;
}

static void *memory_counted(void *block)
{
    atomic_fetch_add_explicit(&memory_blocks, block != NULL, memory_order_relaxed);
    return block;
}

void *malloc(size_t len)
{
    return memory_is_failing() ? NULL : memory_counted(__libc_malloc(len));
}

void *calloc(size_t count, size_t len)
{
    return memory_is_failing() ? NULL : memory_counted(__libc_calloc(count, len));
}

void *realloc(void *old, size_t len)
{
    if (memory_is_failing()) {
        return NULL;
    }
    void *block = __libc_realloc(old, len);
    return old == NULL ? memory_counted(block) : block;
}

void *aligned_alloc(size_t alignment, size_t len)
{
    return memory_is_failing() ? NULL : memory_counted(__libc_memalign(alignment, len));
}

int posix_memalign(void **ret, size_t alignment, size_t len)
{
    void *block = aligned_alloc(alignment, len);
    *ret = block != NULL ? block : *ret;
    return block != NULL ? 0 : ENOMEM;
}

void free(void *block)
{
    atomic_fetch_sub_explicit(&memory_blocks, block != NULL, memory_order_relaxed);
    __libc_free(block);
}

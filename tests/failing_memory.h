// An allocator between the rooms and libc whose Nth call fails, and that counts the blocks that are
// out, for each thread by itself. For programs with the link_args memory_wraps: what rooms that are
// linked into them ask for passes here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static _Thread_local uint64_t memory_calls, memory_fails_at; // counted from 1; 0: none fails
static _Thread_local int64_t memory_blocks;

void *__real_malloc(size_t len);
void *__real_calloc(size_t count, size_t len);
void *__real_realloc(void *old, size_t len);
void *__real_aligned_alloc(size_t alignment, size_t len);
void __real_free(void *block);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t count, size_t len);
void *__wrap_realloc(void *old, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
void __wrap_free(void *block);

static inline void memory_fail_at(uint64_t call)
{
    memory_calls = 0;
    memory_fails_at = call;
}

static bool memory_is_failing(void)
{
    return ++memory_calls == memory_fails_at;
}

static void *memory_counted(void *block)
{
    memory_blocks += block != NULL;
    return block;
}

void *__wrap_malloc(size_t len)
{
    return memory_is_failing() ? NULL : memory_counted(__real_malloc(len));
}

void *__wrap_calloc(size_t count, size_t len)
{
    return memory_is_failing() ? NULL : memory_counted(__real_calloc(count, len));
}

void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
    return memory_is_failing() ? NULL : memory_counted(__real_aligned_alloc(alignment, len));
}

void *__wrap_realloc(void *old, size_t len)
{
    if (memory_is_failing()) {
        return NULL;
    }
    void *block = __real_realloc(old, len);
    memory_blocks += old == NULL && block != NULL;
    return block;
}

void __wrap_free(void *block)
{
    memory_blocks -= block != NULL;
    __real_free(block);
}

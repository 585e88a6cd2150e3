// Words of tables in memory that another process sees (key_mirror.h, gate_mirror.h), where what
// orders them is a fence, or another word of the same entry.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

static inline uint64_t word_load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void word_store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

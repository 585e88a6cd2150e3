// A ring of entries of one size between the program, which posts, and the engine, which consumes
// in order; they are freed in order. Indices run on and wrap at 2^32; the capacity is a power of
// two.
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_LINE_LEN = 64 };

struct wqe_ring {
    uint8_t *memory;
    uint32_t stride; // octets
    uint32_t capacity;
    _Alignas(CACHE_LINE_LEN) _Atomic uint32_t posted; // program writes
    uint32_t freed_seen;                              // program's last look at `freed`
    _Alignas(CACHE_LINE_LEN) _Atomic uint32_t freed;  // all before it may be reused: the engine
                                                      // writes it, for receives who polls
};

int wqe_ring_init(struct wqe_ring *ring, uint32_t capacity, size_t entry_len);
void wqe_ring_fini(struct wqe_ring *ring);
// Program.
void *wqe_ring_slot(struct wqe_ring *ring, unsigned ahead);
void wqe_ring_commit(struct wqe_ring *ring, unsigned count);
// Engine.
static inline uint32_t wqe_ring_posted(const struct wqe_ring *ring)
{
    return atomic_load_explicit(&ring->posted, memory_order_acquire);
}
static inline uint32_t wqe_ring_head(const struct wqe_ring *ring)
{
    return atomic_load_explicit(&ring->freed, memory_order_relaxed);
}
static inline void *wqe_ring_at(const struct wqe_ring *ring, uint32_t index)
{
    return ring->memory + (size_t)(index & (ring->capacity - 1)) * ring->stride;
}
static inline void wqe_ring_free_to(struct wqe_ring *ring, uint32_t index)
{
    atomic_store_explicit(&ring->freed, index, memory_order_release);
}

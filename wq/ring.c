#include "wq/ring.h"

#include <errno.h>
#include <stdlib.h>

enum { PAGE_LEN = 4096 };

// A ring of a page or more has pages of its own, so that entries which nothing was ever posted in
// have no memory, as most have where there are many connections.
static uint8_t *memory_create(size_t len)
{
    const size_t unit = len < PAGE_LEN ? CACHE_LINE_LEN : PAGE_LEN;
    return aligned_alloc(unit, (len + unit - 1) / unit * unit);
}

int wqe_ring_init(struct wqe_ring *ring, uint32_t capacity, size_t entry_len)
{
    ring->stride = (uint32_t)((entry_len + CACHE_LINE_LEN - 1) / CACHE_LINE_LEN * CACHE_LINE_LEN);
    ring->capacity = 1;
    while (ring->capacity < capacity) {
        ring->capacity *= 2;
    }
    ring->memory = memory_create((size_t)ring->capacity * ring->stride);
    if (ring->memory == NULL) {
        return -ENOMEM;
    }
    ring->freed_seen = 0;
    atomic_init(&ring->posted, 0);
    atomic_init(&ring->freed, 0);
    return 0;
}

void wqe_ring_fini(struct wqe_ring *ring)
{
    free(ring->memory);
}

void *wqe_ring_slot(struct wqe_ring *ring, unsigned ahead)
{
    uint32_t index = atomic_load_explicit(&ring->posted, memory_order_relaxed) + ahead;
    if (index - ring->freed_seen >= ring->capacity) {
        ring->freed_seen = atomic_load_explicit(&ring->freed, memory_order_acquire);
        if (index - ring->freed_seen >= ring->capacity) {
            return NULL;
        }
    }
    return wqe_ring_at(ring, index);
}

void wqe_ring_commit(struct wqe_ring *ring, unsigned count)
{
    uint32_t posted = atomic_load_explicit(&ring->posted, memory_order_relaxed);
    atomic_store_explicit(&ring->posted, posted + count, memory_order_release);
}

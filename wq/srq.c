#include "wq/srq.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/sge.h"

enum { LINE_LEN = 64 };

// Slots wander from the program to the engine in a ring of slot numbers, and come back, from
// whoever is done with one, on a stack that the program takes as a whole when its own ring of free
// ones is empty. (What is taken whole cannot be mistaken for an older state of itself.)
struct srq {
    struct srq_config config;
    uint8_t *memory;
    uint32_t stride;
    uint32_t capacity; // a power of two
    uint32_t *free_ring, *posted_ring;
    uint32_t *below;                                // of each slot given back: number + 1, or 0
    uint32_t limit;                                 // engine
    uint32_t posted_head;                           // engine
    _Alignas(LINE_LEN) _Atomic uint32_t given_back; // top of the stack: number + 1; 0: empty
    _Atomic uint32_t out_count;                     // claimed and not given back
    _Alignas(LINE_LEN) uint32_t free_head;          // program
    uint32_t free_tail;                             // program
    _Atomic uint32_t posted_tail;                   // program writes
};

static struct recv_wqe *slot_at(const struct srq *srq, uint32_t number)
{
    return (struct recv_wqe *)(void *)(srq->memory + (size_t)number * srq->stride);
}

int srq_create(const struct srq_config *config, struct srq **ret)
{
    if (config->max_wr == 0 || config->max_wr > 1U << 30 || config->max_sge > SGE_COUNT_MAX) {
        return -EINVAL;
    }
    struct srq *srq = aligned_alloc(LINE_LEN, sizeof *srq);
    if (srq == NULL) {
        return -ENOMEM;
    }
    *srq = (struct srq){.config = *config, .capacity = 1};
    while (srq->capacity < config->max_wr) {
        srq->capacity *= 2;
    }
    size_t entry_len = sizeof(struct recv_wqe) + config->max_sge * sizeof(struct sge);
    srq->stride = (uint32_t)((entry_len + LINE_LEN - 1) / LINE_LEN * LINE_LEN);
    srq->memory = aligned_alloc(LINE_LEN, (size_t)srq->capacity * srq->stride);
    srq->free_ring = malloc(srq->capacity * sizeof *srq->free_ring);
    srq->posted_ring = malloc(srq->capacity * sizeof *srq->posted_ring);
    srq->below = malloc(srq->capacity * sizeof *srq->below);
    if (srq->memory == NULL || srq->free_ring == NULL || srq->posted_ring == NULL ||
        srq->below == NULL) {
        srq_destroy(srq);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < srq->capacity; i++) {
        srq->free_ring[i] = i;
    }
    srq->free_tail = srq->capacity;
    atomic_init(&srq->given_back, 0);
    atomic_init(&srq->out_count, 0);
    atomic_init(&srq->posted_tail, 0);
    *ret = srq;
    return 0;
}

void srq_destroy(struct srq *srq)
{
    if (srq == NULL) {
        return;
    }
    free(srq->below);
    free(srq->posted_ring);
    free(srq->free_ring);
    free(srq->memory);
    free(srq);
}

uint32_t srq_max_wr(const struct srq *srq)
{
    return srq->capacity;
}

uint32_t srq_pd(const struct srq *srq)
{
    return srq->config.pd;
}

static void collect(struct srq *srq)
{
    uint32_t top = atomic_exchange_explicit(&srq->given_back, 0, memory_order_acquire);
    while (top != 0) {
        srq->free_ring[srq->free_tail++ & (srq->capacity - 1)] = top - 1;
        top = srq->below[top - 1];
    }
}

struct recv_wqe *srq_slot(struct srq *srq, unsigned ahead)
{
    if (srq->free_tail - srq->free_head <= ahead) {
        collect(srq);
        if (srq->free_tail - srq->free_head <= ahead) {
            return NULL;
        }
    }
    return slot_at(srq, srq->free_ring[(srq->free_head + ahead) & (srq->capacity - 1)]);
}

void srq_commit(struct srq *srq, unsigned count)
{
    uint32_t mask = srq->capacity - 1;
    uint32_t tail = atomic_load_explicit(&srq->posted_tail, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        srq->posted_ring[(tail + i) & mask] = srq->free_ring[(srq->free_head + i) & mask];
    }
    srq->free_head += count;
    atomic_store_explicit(&srq->posted_tail, tail + count, memory_order_release);
}

uint32_t srq_posted_count(const struct srq *srq)
{
    return atomic_load_explicit(&srq->posted_tail, memory_order_acquire) - srq->posted_head;
}

static void check_limit(struct srq *srq)
{
    if (srq->limit == 0 || srq_posted_count(srq) >= srq->limit) {
        return;
    }
    srq->limit = 0;
    if (srq->config.port.on_limit_reached != NULL) {
        srq->config.port.on_limit_reached(srq->config.port.ctx);
    }
}

struct recv_wqe *srq_claim(struct srq *srq)
{
    CHECK(guard_is_held(&srq->config.guard));
    if (srq_posted_count(srq) == 0) {
        return NULL;
    }
    uint32_t number = srq->posted_ring[srq->posted_head & (srq->capacity - 1)];
    srq->posted_head++;
    atomic_fetch_add_explicit(&srq->out_count, 1, memory_order_relaxed);
    check_limit(srq);
    return slot_at(srq, number);
}

void srq_free(struct srq *srq, struct recv_wqe *wqe)
{
    uint32_t number = (uint32_t)((size_t)((uint8_t *)wqe - srq->memory) / srq->stride);
    uint32_t top = atomic_load_explicit(&srq->given_back, memory_order_relaxed);
    uint32_t out_count = atomic_fetch_sub_explicit(&srq->out_count, 1, memory_order_relaxed);
    CHECK(out_count > 0);
    do {
        srq->below[number] = top;
    } while (!atomic_compare_exchange_weak_explicit(&srq->given_back, &top, number + 1,
                                                    memory_order_release, memory_order_relaxed));
}

void srq_set_limit(struct srq *srq, uint32_t limit)
{
    CHECK(guard_is_held(&srq->config.guard));
    srq->limit = limit;
    check_limit(srq);
}

uint32_t srq_limit(const struct srq *srq)
{
    return srq->limit;
}

bool srq_check(const struct srq *srq)
{
    uint32_t posted = srq_posted_count(srq);
    uint32_t out = atomic_load_explicit(&srq->out_count, memory_order_relaxed);
    return posted <= srq->capacity && out <= srq->capacity - posted;
}

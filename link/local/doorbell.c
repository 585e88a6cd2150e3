#include "link/local/doorbell.h"

#include <stdatomic.h>

typedef _Atomic uint64_t word;

static word *word_at(uint8_t *memory, unsigned level, unsigned index)
{
    return (word *)(void *)(memory + level + 8UL * index);
}

/* ---- who marks ------------------------------------------------------------------------------- */

// False: there was something before, which whoever marked it has told of.
static bool set(word *bits, unsigned index)
{
    uint64_t bit = UINT64_C(1) << (index % 64);
    return atomic_fetch_or_explicit(bits, bit, memory_order_seq_cst) == 0;
}

bool doorbell_mark(uint8_t *memory, uint32_t number)
{
    unsigned leaf = number / 64, branch = leaf / 64;
    word *sleeps = word_at(memory, DOORBELL_SLEEPS, 0);
    if (set(word_at(memory, DOORBELL_LEAF, leaf), number) &&
        set(word_at(memory, DOORBELL_BRANCH, branch), leaf)) {
        set(word_at(memory, DOORBELL_ROOT, 0), branch);
    }
    return atomic_load_explicit(sleeps, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(sleeps, 0, memory_order_seq_cst) != 0;
}

bool doorbell_other_sleeps(uint8_t *memory)
{
    return atomic_load_explicit(word_at(memory, DOORBELL_SLEEPS, 0), memory_order_relaxed) != 0;
}

/* ---- who takes ------------------------------------------------------------------------------- */

static uint64_t take(word *bits)
{
    if (atomic_load_explicit(bits, memory_order_relaxed) == 0) {
        return 0;
    }
    return atomic_exchange_explicit(bits, 0, memory_order_seq_cst);
}

static unsigned pop(uint64_t *bits)
{
    unsigned index = (unsigned)__builtin_ctzll(*bits);
    *bits &= *bits - 1;
    return index;
}

static bool has_more(const struct doorbell_taker *t)
{
    return (t->root | t->branch | t->leaf) != 0;
}

void doorbell_begin(struct doorbell_taker *t)
{
    if (!has_more(t)) {
        uint64_t all = (UINT64_C(1) << DOORBELL_BRANCHES) - 1;
        t->root = take(word_at(t->memory, DOORBELL_ROOT, 0)) & all;
    }
}

bool doorbell_next(struct doorbell_taker *t, uint32_t *ret_number)
{
    while (has_more(t)) {
        if (t->leaf != 0) {
            *ret_number = t->leaf_index * 64 + pop(&t->leaf);
            return true;
        }
        if (t->branch != 0) {
            t->leaf_index = t->branch_index * 64 + pop(&t->branch);
            t->leaf = take(word_at(t->memory, DOORBELL_LEAF, t->leaf_index));
        } else {
            t->branch_index = pop(&t->root);
            t->branch = take(word_at(t->memory, DOORBELL_BRANCH, t->branch_index));
        }
    }
    return false;
}

bool doorbell_is_marked(const struct doorbell_taker *t)
{
    return has_more(t) ||
           atomic_load_explicit(word_at(t->memory, DOORBELL_ROOT, 0), memory_order_seq_cst) != 0;
}

bool doorbell_sleep(struct doorbell_taker *t)
{
    atomic_store_explicit(word_at(t->memory, DOORBELL_SLEEPS, 0), 1, memory_order_seq_cst);
    if (!doorbell_is_marked(t)) {
        return true;
    }
    doorbell_rise(t);
    return false;
}

bool doorbell_rise(struct doorbell_taker *t)
{
    return atomic_exchange_explicit(word_at(t->memory, DOORBELL_SLEEPS, 0), 0,
                                    memory_order_seq_cst) == 0;
}

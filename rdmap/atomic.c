#include "base/check.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "rdmap/refusal.h"
#include "rdmap/rx.h"
#include "wire/rdmap.h"

enum { ATOMIC_LEN = 8 };

// RFC 7306 section 5.1.1: each bit of `mask` ends a field, out of which no carry goes. So the sum
// of all bits but the fields' highest ones cannot cross a field; the highest are added without
// carry.
static uint64_t masked_sum(uint64_t a, uint64_t b, uint64_t mask)
{
    uint64_t low = (a & ~mask) + (b & ~mask);
    return low ^ ((a ^ b) & mask);
}

static uint64_t result_of(const struct rdmap_atomic_request *r, uint64_t original)
{
    if (r->opcode == RDMAP_ATOMIC_FETCH_ADD) {
        return masked_sum(original, r->add_swap, r->add_swap_mask);
    }
    // Section 5.1.2.
    if (((r->compare ^ original) & r->compare_mask) != 0) {
        return original;
    }
    return (original & ~r->add_swap_mask) | (r->add_swap & r->add_swap_mask);
}

enum rdmap_refusal rdmap_atomic_execute(const struct rdmap_stream *stream,
                                        const struct rdmap_atomic_request *r,
                                        uint64_t *ret_original)
{
    if (r->opcode != RDMAP_ATOMIC_FETCH_ADD && r->opcode != RDMAP_ATOMIC_CMP_SWAP) {
        return RDMAP_REFUSED_ATOMIC_OPCODE;
    }
    struct mspan place;
    unsigned count;
    enum mem_verdict verdict = mem_resolve(stream->mem, stream->asker, r->stag, r->to, ATOMIC_LEN,
                                           MEM_ACCESS_REMOTE_ATOMIC, &place, 1, &count);
    if (verdict != MEM_OK) {
        return rdmap_refusal_of_request(verdict);
    }
    // The offset must stand for an address that is aligned; an offset of a region with its own
    // numbering may be aligned where the address is not.
    if ((uintptr_t)place.ptr % ATOMIC_LEN != 0) {
        return RDMAP_REFUSED_ATOMIC_ALIGNMENT;
    }
    uint64_t *word = (uint64_t *)(void *)place.ptr;
    uint64_t original = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(word, &original, result_of(r, original), true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    *ret_original = original;
    return RDMAP_ACCEPTED;
}

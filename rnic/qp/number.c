#include "rnic/qp/number.h"

#include "base/span.h"

enum { ROUNDS = 4, HALF_BITS = 8, HALF_MASK = (1 << HALF_BITS) - 1 };

// A permutation of 16 bits: a Feistel network, which is one whatever its function is.
static uint32_t permuted(const struct qp_numbers *numbers, uint32_t place)
{
    uint32_t left = place >> HALF_BITS, right = place & HALF_MASK;
    for (uint8_t round = 0; round < ROUNDS; round++) {
        const uint8_t octets[] = {round, (uint8_t)right};
        const uint64_t hash = siphash(numbers->key, span_of(octets, sizeof octets));
        const uint32_t mixed = left ^ (uint32_t)(hash & HALF_MASK);
        left = right;
        right = mixed;
    }
    return left << HALF_BITS | right;
}

uint32_t qp_number_next(struct qp_numbers *numbers)
{
    const uint32_t place = numbers->next;
    numbers->next = (place + 1) % numbers->count;
    if (!numbers->is_shuffled) {
        return numbers->first + place;
    }
    uint32_t at = permuted(numbers, place);
    while (at >= numbers->count) { // outside of the range: where that leads, until it is inside
        at = permuted(numbers, at);
    }
    return numbers->first + at;
}

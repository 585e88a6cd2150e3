// The numbers that queue pairs get: each of a range once before any comes again, in an order that
// who has seen some cannot go on with.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"

struct qp_numbers {
    uint32_t first, count; // the range; shuffled ones are at most 65,536
    uint32_t next;         // place in the order
    bool is_shuffled;      // by `key`; false: they go up
    uint8_t key[SIPHASH_KEY_LEN];
};

// The next one; whether somebody has it, the caller knows.
uint32_t qp_number_next(struct qp_numbers *numbers);

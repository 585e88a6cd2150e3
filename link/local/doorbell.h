// Which of many streams have news: numbers that one process marks and another takes, in memory of
// both, so that who looks finds all of them in one place however many there are.
//
//   who marks   mark                   `mark` tells whether the other sleeps and is to be woken
//   who takes   begin, next ... next   the numbers that were marked
//               sleep, rise            before sleeping, and when awake again
//
// Three levels of bits: a leaf has a bit for each of 64 numbers, a branch one for each of 64
// leaves, the root one for each branch. Who marks goes up as far as there was nothing before, who
// takes comes down from the root; so a number that was marked is found by a turn that begins later,
// or was taken by one that has not ended.
//
// **What the other side writes is hostile.** All bits are possible; what they name may not exist.
// A turn ends: it looks at each level once. Marks that the other side takes away are its own loss.
//
// No I/O, no allocation. A side is one thread's at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    DOORBELL_BRANCHES = 16,
    DOORBELL_LEAVES = DOORBELL_BRANCHES * 64,
    DOORBELL_NUMBERS = DOORBELL_LEAVES * 64,
};

// In octets. Zeroed memory: nothing is marked, nobody sleeps.
enum doorbell_offset {
    DOORBELL_ROOT = 0,     // 64 bits, of which DOORBELL_BRANCHES count
    DOORBELL_SLEEPS = 128, // 64 bits: not 0: who takes is to be woken
    DOORBELL_BRANCH = 256, // DOORBELL_BRANCHES words
    DOORBELL_LEAF = 4096,  // DOORBELL_LEAVES words
    DOORBELL_LEN = DOORBELL_LEAF + DOORBELL_LEAVES * 8,
};

// Of who takes. `memory` has DOORBELL_LEN octets, aligned to a cache line.
struct doorbell_taker {
    uint8_t *memory;
    uint64_t root, branch, leaf;       // bits taken in this turn and not handed out
    unsigned branch_index, leaf_index; // ... of these
};

// Marks a number (below DOORBELL_NUMBERS). True: the other side sleeps and must be woken; said once
// per sleep.
bool doorbell_mark(uint8_t *memory, uint32_t number);

// The other side is to be woken for whatever is marked next.
bool doorbell_other_sleeps(uint8_t *memory);

// A turn begins, unless the one before has not come to its end.
void doorbell_begin(struct doorbell_taker *t);
// False: all that was marked before the turn has been handed out.
bool doorbell_next(struct doorbell_taker *t, uint32_t *ret_number);
// Something is marked, as far as can be seen without a turn.
bool doorbell_is_marked(const struct doorbell_taker *t);
// From now on who marks wakes us. False: something is marked already, and nobody is to sleep.
bool doorbell_sleep(struct doorbell_taker *t);
// True: who marks wakes us, or has done so already.
bool doorbell_rise(struct doorbell_taker *t);

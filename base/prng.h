// A small deterministic generator (SplitMix64). One 64-bit seed draws everything in a simulation;
// in production the seed comes from the kernel. Not for keys: STags use a keyed permutation.
#pragma once

#include <stdint.h>

struct prng {
    uint64_t state;
};

static inline void prng_init(struct prng *p, uint64_t seed)
{
    p->state = seed;
}

static inline uint64_t prng_next(struct prng *p)
{
    uint64_t z = (p->state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

// A number below `bound` (bound > 0). The bias of the multiply is below 2^-32: good enough here.
static inline uint32_t prng_below(struct prng *p, uint32_t bound)
{
    return (uint32_t)(((prng_next(p) >> 32) * bound) >> 32);
}

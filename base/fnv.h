// FNV-1a of 64 bits: texts as numbers that are the same everywhere and for ever. No secret: who
// wants two texts of one number finds them.
#pragma once

#include <stdint.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

// Goes on from `hash`: FNV_START, or that of the text before it.
static inline uint64_t fnv_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

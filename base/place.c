#include "base/place.h"

#include <string.h>

// The longest aligned word that ends where the placement ends: 1, 2, 4 or 8 octets.
static size_t tail_len_of(uintptr_t end, size_t len)
{
    for (size_t word_len = 8; word_len > 1; word_len /= 2) {
        if (end % word_len == 0 && len >= word_len) {
            return word_len;
        }
    }
    return 1;
}

static void place_tail(uint8_t *place, const uint8_t *from, size_t len)
{
    if (len == 8) {
        uint64_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint64_t *)(void *)place, word, __ATOMIC_RELEASE);
    } else if (len == 4) {
        uint32_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint32_t *)(void *)place, word, __ATOMIC_RELEASE);
    } else if (len == 2) {
        uint16_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint16_t *)(void *)place, word, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(place, *from, __ATOMIC_RELEASE);
    }
}

void place_octets(uint8_t *place, struct span payload)
{
    if (payload.len == 0) {
        return;
    }
    size_t tail_len = tail_len_of((uintptr_t)place + payload.len, payload.len);
    size_t body_len = payload.len - tail_len;
    memcpy(place, payload.ptr, body_len);
    place_tail(place + body_len, payload.ptr + body_len, tail_len);
}

#include "mem/stag.h"

#include "base/bytes.h"
#include "base/check.h"

enum {
    NAME_BITS = 24,
    HALF_BITS = NAME_BITS / 2,
    HALF_MASK = (1 << HALF_BITS) - 1,
    LOW_GENERATION_BITS = NAME_BITS - STAG_INDEX_BITS,
    LOW_GENERATION_MASK = (1 << LOW_GENERATION_BITS) - 1,
    NAME_MIN = 1 << 8, // STags below 65,536 are what careless programs and probes try first
    NAME_ALL_ONES = (1 << NAME_BITS) - 1,
};

STATIC_CHECK(STAG_GENERATION_BITS == LOW_GENERATION_BITS + 8);

// What a value of the keyed function is for; part of its input, so that no two uses ever share one.
enum prf_use {
    PRF_ROUND,  // a Feistel round
    PRF_OCTETS, // the shuffle of the key octets
    PRF_TWEAK,  // where in that shuffle a name starts
};

static uint64_t rotate_left(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

// SipHash-1-3 (Aumasson, Bernstein 2012) of one 64-bit word: short input, 128-bit key, and outputs
// that tell nothing about the key.
static uint64_t prf(const struct stag_cipher *cipher, uint64_t word)
{
    uint64_t a = cipher->key[0] ^ 0x736f6d6570736575ULL;
    uint64_t b = cipher->key[1] ^ 0x646f72616e646f6dULL;
    uint64_t c = cipher->key[0] ^ 0x6c7967656e657261ULL;
    uint64_t d = cipher->key[1] ^ 0x7465646279746573ULL ^ word;
    for (unsigned round = 0; round < 4; round++) {
        a += b;
        c += d;
        b = rotate_left(b, 13) ^ a;
        d = rotate_left(d, 16) ^ c;
        a = rotate_left(a, 32) + d;
        c += b;
        d = rotate_left(d, 21) ^ a;
        b = rotate_left(b, 17) ^ c;
        c = rotate_left(c, 32);
        if (round == 0) {
            a ^= word;
            c ^= 0xff;
        }
    }
    return a ^ b ^ c ^ d;
}

static uint64_t prf_for(const struct stag_cipher *cipher, enum prf_use use, uint32_t tweak,
                        uint32_t value)
{
    return prf(cipher, (uint64_t)use << 56 | (uint64_t)tweak << 32 | value);
}

void stag_cipher_init(struct stag_cipher *cipher, const uint8_t key[STAG_KEY_LEN])
{
    cipher->key[0] = get_be64(key);
    cipher->key[1] = get_be64(key + 8);
    for (unsigned i = 0; i < 256; i++) {
        cipher->octets[i] = (uint8_t)i;
    }
    for (unsigned i = 255; i > 0; i--) {
        unsigned other = (unsigned)(prf_for(cipher, PRF_OCTETS, 0, i) % (i + 1));
        uint8_t octet = cipher->octets[i];
        cipher->octets[i] = cipher->octets[other];
        cipher->octets[other] = octet;
    }
}

static uint32_t round_value(const struct stag_cipher *cipher, uint32_t round, uint32_t half)
{
    return (uint32_t)prf_for(cipher, PRF_ROUND, round, half) & HALF_MASK;
}

// A Feistel network over two halves of 12 bits.
static uint32_t name_encode(const struct stag_cipher *cipher, uint32_t plain)
{
    uint32_t left = plain >> HALF_BITS;
    uint32_t right = plain & HALF_MASK;
    for (uint32_t round = 0; round < STAG_ROUND_COUNT; round++) {
        uint32_t next = left ^ round_value(cipher, round, right);
        left = right;
        right = next;
    }
    return left << HALF_BITS | right;
}

static uint32_t name_decode(const struct stag_cipher *cipher, uint32_t name)
{
    uint32_t left = name >> HALF_BITS;
    uint32_t right = name & HALF_MASK;
    for (uint32_t round = STAG_ROUND_COUNT; round-- > 0;) {
        uint32_t before = right ^ round_value(cipher, round, left);
        right = left;
        left = before;
    }
    return left << HALF_BITS | right;
}

// The octet that the upper bits of the generation give a name.
static uint32_t key_octet(const struct stag_cipher *cipher, uint32_t name, uint32_t generation)
{
    uint32_t start = (uint32_t)prf_for(cipher, PRF_TWEAK, 0, name);
    return cipher->octets[(start + (generation >> LOW_GENERATION_BITS)) & STAG_KEY_MASK];
}

bool stag_encode(const struct stag_cipher *cipher, uint32_t index, uint32_t generation,
                 uint32_t *ret_stag)
{
    CHECK(index < STAG_INDEX_COUNT);
    CHECK(generation < STAG_GENERATION_COUNT);
    uint32_t low = generation & LOW_GENERATION_MASK;
    uint32_t name = name_encode(cipher, index << LOW_GENERATION_BITS | low);
    if (name < NAME_MIN || name == NAME_ALL_ONES) {
        return false;
    }
    *ret_stag = name << 8 | key_octet(cipher, name, generation);
    return true;
}

uint32_t stag_renew(const struct stag_cipher *cipher, uint32_t index, uint32_t stag,
                    uint16_t *generation)
{
    uint32_t next = *generation + (1U << LOW_GENERATION_BITS);
    if (next < STAG_GENERATION_COUNT) {
        *generation = (uint16_t)next;
        return (stag & ~STAG_KEY_MASK) | key_octet(cipher, stag >> 8, next);
    }
    uint32_t low = next & LOW_GENERATION_MASK;
    do {
        low = (low + 1) & LOW_GENERATION_MASK;
    } while (!stag_encode(cipher, index, low, &stag));
    *generation = (uint16_t)low;
    return stag;
}

uint32_t stag_index(const struct stag_cipher *cipher, uint32_t stag)
{
    return name_decode(cipher, stag >> 8) >> LOW_GENERATION_BITS;
}

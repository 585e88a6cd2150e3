#include "base/siphash.h"

#include <string.h>

#include "base/bytes.h"

struct sip_state {
    uint64_t a, b, c, d;
};

static uint64_t rotate_left(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

static void sip_round(struct sip_state *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = rotate_left(s->b, 13) ^ s->a;
    s->d = rotate_left(s->d, 16) ^ s->c;
    s->a = rotate_left(s->a, 32) + s->d;
    s->c += s->b;
    s->d = rotate_left(s->d, 21) ^ s->a;
    s->b = rotate_left(s->b, 17) ^ s->c;
    s->c = rotate_left(s->c, 32);
}

static void sip_word(struct sip_state *s, uint64_t word)
{
    s->d ^= word;
    sip_round(s);
    sip_round(s);
    s->a ^= word;
}

uint64_t siphash(const uint8_t key[SIPHASH_KEY_LEN], struct span octets)
{
    uint64_t k0 = get_le64(key), k1 = get_le64(key + 8);
    struct sip_state s = {k0 ^ 0x736f6d6570736575ULL, k1 ^ 0x646f72616e646f6dULL,
                          k0 ^ 0x6c7967656e657261ULL, k1 ^ 0x7465646279746573ULL};
    uint8_t last[8] = {0};
    size_t whole = octets.len & ~(size_t)7;
    for (size_t at = 0; at < whole; at += 8) {
        sip_word(&s, get_le64(octets.ptr + at));
    }
    memcpy(last, octets.ptr + whole, octets.len - whole);
    last[7] = (uint8_t)octets.len;
    sip_word(&s, get_le64(last));
    s.c ^= 0xff;
    for (int i = 0; i < 4; i++) {
        sip_round(&s);
    }
    return s.a ^ s.b ^ s.c ^ s.d;
}

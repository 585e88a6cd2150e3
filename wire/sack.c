#include "wire/sack.h"

#include <stdio.h>
#include <string.h>

enum { WORD_BITS = 32 };

static uint8_t mask_of(uint32_t i)
{
    return (uint8_t)(0x80 >> i % 8);
}

bool sack_has(const struct sack *s, uint32_t i)
{
    return i < s->bit_count && (s->bits[i / 8] & mask_of(i)) != 0;
}

void sack_set(struct sack *s, uint32_t i)
{
    CHECK(i < SACK_BITS_MAX);
    while (s->bit_count <= i) {
        memset(s->bits + s->bit_count / 8, 0, WORD_BITS / 8);
        s->bit_count += WORD_BITS;
    }
    s->bits[i / 8] |= mask_of(i);
}

enum sack_verdict sack_parse(struct span payload, struct sack *ret)
{
    if (payload.len < SACK_OFF_BITS) {
        return SACK_TOO_SHORT;
    }
    if (payload.ptr[SACK_OFF_VERSION] != SACK_VERSION) {
        return SACK_VERSION_OTHER;
    }
    uint32_t words = payload.ptr[SACK_OFF_WORDS];
    size_t len = payload.len - SACK_OFF_BITS;
    if (words == 0 || words > SACK_WORDS_MAX || len != words * WORD_BITS / 8) {
        return SACK_BAD_WORDS;
    }
    ret->bit_count = words * WORD_BITS;
    memcpy(ret->bits, payload.ptr + SACK_OFF_BITS, len);
    return SACK_OK;
}

size_t sack_emit(const struct sack *s, uint8_t *buf)
{
    CHECK(s->bit_count > 0 && s->bit_count <= SACK_BITS_MAX && s->bit_count % WORD_BITS == 0);
    memset(buf, 0, SACK_OFF_BITS);
    buf[SACK_OFF_VERSION] = SACK_VERSION;
    buf[SACK_OFF_WORDS] = (uint8_t)(s->bit_count / WORD_BITS);
    memcpy(buf + SACK_OFF_BITS, s->bits, s->bit_count / 8);
    return SACK_OFF_BITS + s->bit_count / 8;
}

const char *sack_format(const struct sack *s, char *buf, size_t len)
{
    size_t at = (size_t)snprintf(buf, len, "here");
    for (uint32_t i = 0; i < s->bit_count && at < len; i++) {
        uint32_t first = i;
        while (sack_has(s, i)) {
            i++;
        }
        if (i > first) {
            at += (size_t)(i == first + 1 ? snprintf(buf + at, len - at, " +%u", first + 1)
                                          : snprintf(buf + at, len - at, " +%u..%u", first + 1, i));
        }
    }
    return buf;
}

const char *sack_verdict_name(enum sack_verdict verdict)
{
    static const char *const names[SACK_VERDICT_COUNT] = {
        [SACK_OK] = "ok",
        [SACK_TOO_SHORT] = "ends inside what it begins with",
        [SACK_VERSION_OTHER] = "another version",
        [SACK_BAD_WORDS] = "another number of words than it is long",
    };
    return names[verdict];
}

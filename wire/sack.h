// Which packets have arrived beyond the one that is missing: between weft ends (wire/greeting.h)
// the payload of a NAK for a PSN, whose own PSN is the one that is missing. InfiniBand has no such
// thing; the name is TCP's (RFC 2018).
//
//   OFFSET SIZE FIELD
//    0      1   version: 1
//    1      1   words that follow, 1..32
//    2      2   reserved, 0
//    4     4·n  a bit per packet, the uppermost of the first octet for the one behind the missing
//               one: 1, it is here. Of a Read it stands for the request.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    SACK_OFF_VERSION = 0,
    SACK_OFF_WORDS = 1,
    SACK_OFF_RESERVED = 2,
    SACK_OFF_BITS = 4,
    SACK_WORDS_MAX = 32,
    SACK_BITS_MAX = 32 * SACK_WORDS_MAX,
    SACK_LEN_MAX = SACK_OFF_BITS + 4 * SACK_WORDS_MAX,
};
STATIC_CHECK(SACK_OFF_RESERVED + 2 == SACK_OFF_BITS);

enum { SACK_VERSION = 1 };

struct sack {
    uint32_t bit_count; // a multiple of 32
    uint8_t bits[SACK_BITS_MAX / 8];
};

enum sack_verdict {
    SACK_OK,
    SACK_TOO_SHORT, // ends inside what it begins with
    SACK_VERSION_OTHER,
    SACK_BAD_WORDS, // none, or more than 32, or others than it is long
    SACK_VERDICT_COUNT,
};

// The packet `i` behind the missing one, from 0. What is beyond the bits is not here.
bool sack_has(const struct sack *s, uint32_t i);
// It is here; `i` < SACK_BITS_MAX. Bits are added as they are needed.
void sack_set(struct sack *s, uint32_t i);

// `*ret` holds with SACK_OK only.
enum sack_verdict sack_parse(struct span payload, struct sack *ret);
// Writes at most SACK_LEN_MAX octets and returns their number. At least one bit has been set.
size_t sack_emit(const struct sack *s, uint8_t *buf);
// One trace line: runs of what is here, "+1..3 +7". Returns `buf`.
const char *sack_format(const struct sack *s, char *buf, size_t len);

const char *sack_verdict_name(enum sack_verdict verdict);

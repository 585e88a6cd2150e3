// Any octets as a SACK: what parses is emitted as it was, but for reserved octets; its text ends.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/sack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sack s;
    uint8_t out[SACK_LEN_MAX];
    char line[200];
    enum sack_verdict verdict = sack_parse(span_of(data, size), &s);
    CHECK(sack_verdict_name(verdict) != NULL);
    if (verdict != SACK_OK) {
        return 0;
    }
    CHECK(s.bit_count <= SACK_BITS_MAX && !sack_has(&s, s.bit_count));
    CHECK(sack_emit(&s, out) == size);
    CHECK(memcmp(out, data, SACK_OFF_RESERVED) == 0);
    CHECK(memcmp(out + SACK_OFF_BITS, data + SACK_OFF_BITS, size - SACK_OFF_BITS) == 0);
    for (size_t room = 1; room <= sizeof line; room += 33) {
        CHECK(strlen(sack_format(&s, line, room)) < room);
    }
    return 0;
}

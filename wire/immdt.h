// The two extension headers of one word: immediate data (ImmDt) and the key to invalidate (IETH)
// (InfiniBand Architecture volume 1, chapter 9).
//
//   OFFSET SIZE FIELD of ImmDt                       OFFSET SIZE FIELD of IETH
//    0      4   octets as the application gave them   0      4   R_Key
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/roce_verdict.h"

enum { IMMDT_LEN = 4, IETH_LEN = 4 };

struct immdt {
    uint32_t imm_data; // in network order, as in a work request: passed on, never computed with
};

struct ieth {
    uint32_t rkey;
};

// Read the header at the start of `octets`. Answer OK or TOO_SHORT.
enum roce_parse_verdict immdt_parse(struct span octets, struct immdt *ret);
enum roce_parse_verdict ieth_parse(struct span octets, struct ieth *ret);
// Write IMMDT_LEN or IETH_LEN octets and return that number.
size_t immdt_emit(const struct immdt *h, uint8_t *buf);
size_t ieth_emit(const struct ieth *h, uint8_t *buf);
const char *immdt_format(const struct immdt *h, char *buf, size_t len);
const char *ieth_format(const struct ieth *h, char *buf, size_t len);

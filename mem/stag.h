// STags that cannot be guessed (RFC 5042 section 6.1.1). The table counts: an index into its slots
// and a generation, one higher each time the slot is used again. A permutation keyed with 128
// random bits turns the count into the 32 bits that travel, and back.
//
//     bits 31..8  permutation of index (18 bits) and the lower 6 bits of the generation
//     bits  7..0  permutation of the upper 8 bits of the generation, started elsewhere for each
//                 value above; for memory windows the consumer's own key (ibv_inc_rkey)
//
// So a slot goes through 16,384 different STags before one comes back. The upper 24 bits name the
// slot; the table compares all 32 with the STag it gave out.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    STAG_KEY_LEN = 16,
    STAG_INDEX_BITS = 18,
    STAG_GENERATION_BITS = 14,
    STAG_ROUND_COUNT = 8,
    STAG_INDEX_COUNT = 1 << STAG_INDEX_BITS,
    STAG_GENERATION_COUNT = 1 << STAG_GENERATION_BITS,
};

#define STAG_KEY_MASK 0xffU // the octet of an STag that a window's consumer chooses

struct stag_cipher {
    uint64_t key[2];
    uint8_t octets[256]; // all values of the key octet, shuffled
};

// `key`: random octets, fresh for every table.
void stag_cipher_init(struct stag_cipher *cipher, const uint8_t key[STAG_KEY_LEN]);

// Writes the STag of this index and generation. False when the permutation ends in a value that
// is never given out (below 65,536 or with the upper 24 bits all ones): take the next generation.
bool stag_encode(const struct stag_cipher *cipher, uint32_t index, uint32_t generation,
                 uint32_t *ret_stag);

// The next STag of something that only one peer may use and that changes with every use: as a rule
// another key octet, which costs an eighth of stag_encode. That the peer knows the rest of it does
// not matter: it will be told the whole. Passes through every generation before one comes back.
uint32_t stag_renew(const struct stag_cipher *cipher, uint32_t index, uint32_t stag,
                    uint16_t *generation);

// The slot index that an STag would name; its key octet plays no part. Any 32 bits give some index.
uint32_t stag_index(const struct stag_cipher *cipher, uint32_t stag);

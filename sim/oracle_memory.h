// The oracle of memory: what every registered octet ought to hold. A block is a piece of memory
// that a device has registered; beside it lies its shadow, and before and behind it a fence. The
// program claims a range of a block for each work request, so that no two have the same octets:
// outside of claimed targets the block equals its shadow at every instant; inside, the octets that
// were placed are a prefix of what the work request brings, and the rest is what was there before
// (where octets are placed beyond holes: each octet is either).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/prng.h"

// What is written into a block that is registered so may be placed beyond holes: the value of
// MEM_ACCESS_RELAXED_ORDERING.
enum { SIM_ACCESS_RELAXED = 1 << 7 };

struct sim_block {
    uint8_t *octets; // fenced on both sides
    uint8_t *shadow;
    uint32_t len;
    struct list_link claims;
    // What it is registered as.
    uint32_t pd, access, stag;
    uint64_t iova; // the number of the first octet
};

enum sim_claim_kind {
    SIM_CLAIM_SOURCE, // read by a device: equals the shadow
    SIM_CLAIM_TARGET, // may be written by a device
};

// A range of a block. Not claimed: block NULL.
struct sim_claim {
    struct list_link link;
    struct sim_block *block;
    uint32_t at, len;
    enum sim_claim_kind kind;
};

// Drawn content. False: no memory.
bool sim_block_init(struct sim_block *block, uint32_t len, struct prng *rng);
void sim_block_fini(struct sim_block *block);
// Moves the content to other memory and frees what it was in. False: no memory.
bool sim_block_move(struct sim_block *block);

// Claims a place of `len` octets, aligned to `align`, that nobody has claimed. False: none found.
bool sim_claim_take(struct sim_claim *claim, struct sim_block *block, enum sim_claim_kind kind,
                    uint32_t len, uint32_t align, struct prng *rng);
// Nothing happens if it is not claimed.
void sim_claim_release(struct sim_claim *claim);
uint64_t sim_claim_addr(const struct sim_claim *claim);

// The program writes what is claimed: drawn octets.
void sim_claim_scribble(const struct sim_claim *claim, struct prng *rng);
// ... these, piece behind piece.
void sim_claims_write(const struct sim_claim *claims, unsigned count, const uint8_t *octets);
// Copies what is claimed, piece behind piece, to `into`.
void sim_claims_read(const struct sim_claim *claims, unsigned count, uint8_t *into);

// How much of `content` has been placed in the targets, as a prefix; false if the octets are
// neither that nor what was there before. Behind the prefix some may have been placed as well, if
// what arrives beyond holes is (`has_holes`).
bool sim_claims_placed(const struct sim_claim *claims, unsigned count, const uint8_t *content,
                       size_t len, bool has_holes, size_t *ret_placed);
// Nothing of the targets has changed.
bool sim_claims_are_untouched(const struct sim_claim *claims, unsigned count);
// What the targets hold is right from now on; the claims end.
void sim_claims_settle(struct sim_claim *claims, unsigned count);

enum { SIM_BLOCK_FAULT_TEXT_LEN = 120 };
// Outside of claimed targets everything is as it ought to be. False: `ret_text` says where not.
bool sim_block_check(const struct sim_block *block, char ret_text[SIM_BLOCK_FAULT_TEXT_LEN]);

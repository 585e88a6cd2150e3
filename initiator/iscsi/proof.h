// CHAP (RFC 7143 section 12.1) from the initiator's side: it proves that it knows its secret, to a
// target that wants that, and may ask the target for a proof likewise.
//
//     initiator                        target
//     AuthMethod=CHAP,None ──────────▶
//                          ◀────────── AuthMethod=CHAP                          CHOSEN
//     CHAP_A=8,7,5         ──────────▶                                          OFFERED
//                          ◀────────── CHAP_A=7, CHAP_I, CHAP_C                 CHALLENGED
//     CHAP_N, CHAP_R       ──────────▶                                          GIVEN
//    (CHAP_I, CHAP_C)      ──────────▶
//                          ◀────────── (CHAP_N, CHAP_R)                         (PROVEN)
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/why.h"
#include "chap/chap.h"
#include "format/iscsi_text.h"

enum {
    PROOF_NAME_MAX = 256, // with the terminator, both
    PROOF_SECRET_MAX = 256,
    PROOF_CHALLENGE_LEN = 32,
};

enum proof_phase {
    PROOF_NONE,
    PROOF_CHOSEN,
    PROOF_OFFERED,
    PROOF_CHALLENGED,
    PROOF_GIVEN,
    PROOF_PROVEN, // by the target
};

// All zeroes but for the texts and what is asked, at the beginning of a login.
struct proof {
    char name[PROOF_NAME_MAX]; // empty: there is nothing to prove
    char secret[PROOF_SECRET_MAX];
    char target_name[PROOF_NAME_MAX]; // empty: the target is asked for no proof
    char target_secret[PROOF_SECRET_MAX];
    uint8_t asked_identifier;
    uint8_t asked[PROOF_CHALLENGE_LEN]; // octets that nobody foresees
    enum proof_phase phase;
    const struct chap_algorithm *algorithm; // NULL: not told yet, as the others
    bool has_identifier;
    uint8_t identifier;
    size_t challenge_len;
    uint8_t challenge[CHAP_CHALLENGE_MAX + CHAP_BINARY_SPARE];
    bool has_target_name; // and it is the one that was expected
    size_t response_len;
    uint8_t response[CHAP_DIGEST_MAX + CHAP_BINARY_SPARE]; // the target's
};

// For a login that begins.
void proof_begin(struct proof *proof);
// What is said next, if anything.
void proof_put(struct proof *proof, struct iscsi_text_out *out);
// Is there something to be said before the target can go on?
bool proof_is_owed(const struct proof *proof);
// A pair that the target has said; any that is none of this is left alone. False, with the reason:
// it makes no sense, or cannot be answered.
bool proof_take(struct proof *proof, const struct iscsi_pair *pair, struct why *ret_why);
// What of AuthMethod is offered.
const char *proof_methods(const struct proof *proof);
// Is there nothing that either has still to prove?
bool proof_is_complete(const struct proof *proof);
// All pairs of a response have been taken. False, with the reason: some are missing, or prove
// nothing.
bool proof_step(struct proof *proof, struct why *ret_why);

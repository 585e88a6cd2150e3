// CHAP (RFC 7143 section 12.1): who logs in proves that it knows its secret, and may ask the target
// to prove that it is the target.
//
//     initiator                        target
//     AuthMethod=CHAP,None ──────────▶
//                          ◀────────── AuthMethod=CHAP                          AGREED
//     CHAP_A=7,5           ──────────▶
//                          ◀────────── CHAP_A=7, CHAP_I, CHAP_C                 CHALLENGED
//     CHAP_N, CHAP_R       ──────────▶
//     and perhaps CHAP_I, CHAP_C
//                          ◀────────── nothing, or CHAP_N, CHAP_R               PROVEN
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "chap/chap.h"
#include "format/iscsi_pdu.h"
#include "format/iscsi_text.h"
#include "node/iscsi/accounts.h"

enum { CHAP_CHALLENGE_LEN = 32 }; // octets of ours

enum chap_phase { CHAP_UNASKED, CHAP_AGREED, CHAP_CHALLENGED, CHAP_PROVEN };

struct chap {
    enum chap_phase phase;
    const struct chap_algorithm *algorithm;
    uint8_t identifier, challenge[CHAP_CHALLENGE_LEN];
    const char *values[CHAP_KEY_COUNT]; // of the request that is being taken; NULL: not said
};

// What a step needs beside what was said.
struct chap_parts {
    const struct iscsi_accounts *accounts;
    const char *initiator;     // its name, as it says
    const char *target;        // where it logs in; empty: to discover
    const uint8_t *unforeseen; // CHAP_CHALLENGE_LEN + 1 octets, for a challenge
};

// AuthMethod, where a proof is wanted: the answer. False: it offers none.
bool chap_begin(struct chap *chap, const char *methods, struct iscsi_text_out *out);
// A key of this, which is kept until the step. False: it is none, or was said twice.
bool chap_take(struct chap *chap, const struct iscsi_pair *pair);
// All keys of a request are there. Else than ISCSI_LOGIN_OK: the login is refused, for a reason.
enum iscsi_login_status chap_step(struct chap *chap, const struct chap_parts *parts,
                                  struct iscsi_text_out *out, const char **ret_why);
